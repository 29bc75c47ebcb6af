//! Owns the content of a whole disk at rest, as a value.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

use super::content::Content;

/// What a disk holds after a power loss: names and bytes. Equal images are equal byte for byte. A clone is cheap: bytes are shared.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Image {
    files: BTreeMap<Arc<str>, Content>,
}

impl Image {
    pub(super) fn new(files: BTreeMap<Arc<str>, Content>) -> Self {
        Self { files }
    }

    pub(super) fn contents(&self) -> impl Iterator<Item = (&Arc<str>, &Content)> {
        self.files.iter()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(|name| &**name)
    }

    /// The bytes of a file; `None` if there is none of that name.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.files.get(name).map(Content::bytes)
    }

    /// The image with this file in it, in place of whatever had the name.
    #[must_use]
    pub fn with(mut self, name: &str, bytes: &[u8]) -> Self {
        self.files.insert(name.into(), Content::of(bytes));
        self
    }

    /// The image without this file.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.files.remove(name);
        self
    }

    /// The image with one bit of a file turned over.
    ///
    /// # Panics
    /// If there is no such bit.
    #[must_use]
    pub fn with_bit_flipped(self, name: &str, offset: usize, bit: u8) -> Self {
        let mut bytes = self.bytes(name).unwrap_or_else(|| panic!("no file {name}"));
        bytes[offset] ^= 1 << bit;
        self.with(name, &bytes)
    }

    /// A number for counting distinct images: equal images have the same, on every run.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, content) in &self.files {
            map.entry(name, &format_args!("{} bytes", content.len()));
        }
        map.finish()
    }
}
