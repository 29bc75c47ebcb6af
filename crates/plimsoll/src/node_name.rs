//! Owns the name of one node: what is allowed in one.

use std::fmt;
use std::str::FromStr;

/// 1 to 64 of `[A-Za-z0-9_.-]`. It becomes the end of a key and a label of metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeName(String);

impl NodeName {
    const MAX_BYTES: usize = 64;

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        match name.len() {
            0 => Err("the node name is empty; give 1 to 64 letters, digits, '_', '.' or '-'".into()),
            len if len > Self::MAX_BYTES => {
                Err(format!("the node name has {len} bytes; at most {} are allowed", Self::MAX_BYTES))
            }
            _ => match name.chars().find(|c| !allowed(*c)) {
                Some(c) => {
                    Err(format!("the node name {name:?} has {c:?}; letters, digits, '_', '.' and '-' are allowed"))
                }
                None => Ok(Self(name.to_owned())),
            },
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
