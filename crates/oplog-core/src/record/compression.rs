//! Owns whether and how a body is compressed when its batch is sealed. What is not smaller afterwards stays as it is.

use std::fmt;
use std::str::FromStr;

/// How bodies of batch records are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BatchCompression {
    /// As they are. Every reader reads them.
    #[default]
    Off,
    /// As a zstd frame where that is smaller. A reader needs the feature `zstd`.
    Zstd,
}

impl BatchCompression {
    /// The word in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Zstd => "zstd",
        }
    }

    /// Whether this build reads and writes it.
    #[must_use]
    pub const fn is_built_in(self) -> bool {
        match self {
            Self::Off => true,
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }
}

impl fmt::Display for BatchCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no compression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no compression of batches; use \"off\" or \"zstd\"")]
pub struct UnknownCompression(pub String);

impl FromStr for BatchCompression {
    type Err = UnknownCompression;

    fn from_str(word: &str) -> Result<Self, UnknownCompression> {
        let all = [Self::Off, Self::Zstd];
        all.into_iter().find(|one| one.name() == word).ok_or_else(|| UnknownCompression(word.into()))
    }
}

/// This build has no zstd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("batches cannot be compressed with zstd: this build of oplog-core is without the feature `zstd`")]
pub struct NoZstd;

/// Compresses bodies one after the other, with buffers of its own. One per writer is enough.
#[derive(Default)]
pub struct BatchCompressor {
    #[cfg(feature = "zstd")]
    zstd: Option<Zstd>,
}

impl fmt::Debug for BatchCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchCompressor").finish_non_exhaustive()
    }
}

#[cfg(feature = "zstd")]
struct Zstd {
    min_bytes: usize,
    context: zstd::bulk::Compressor<'static>,
    frame: Vec<u8>,
}

/// The level of zstd: the fastest of its usual ones, as it is the writer's time; the next ones save a few per cent more.
#[cfg(feature = "zstd")]
const LEVEL: i32 = 1;

impl BatchCompressor {
    /// One that compresses nothing.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// One that compresses bodies of at least `min_bytes`.
    ///
    /// # Errors
    /// [`NoZstd`] in a build without it.
    pub fn new(compression: BatchCompression, min_bytes: usize) -> Result<Self, NoZstd> {
        match compression {
            BatchCompression::Off => Ok(Self::off()),
            BatchCompression::Zstd => Self::with_zstd(min_bytes),
        }
    }

    #[cfg(feature = "zstd")]
    fn with_zstd(min_bytes: usize) -> Result<Self, NoZstd> {
        let context = zstd::bulk::Compressor::new(LEVEL).expect("the level is one of zstd's");
        Ok(Self { zstd: Some(Zstd { min_bytes, context, frame: Vec::new() }) })
    }

    #[cfg(not(feature = "zstd"))]
    fn with_zstd(_: usize) -> Result<Self, NoZstd> {
        Err(NoZstd)
    }

    /// Whether a body of `bytes` bytes is worth a try.
    pub(super) fn tries(&self, bytes: usize) -> bool {
        #[cfg(feature = "zstd")]
        return self.zstd.as_ref().is_some_and(|zstd| bytes >= zstd.min_bytes);
        #[cfg(not(feature = "zstd"))]
        {
            let _ = bytes;
            false
        }
    }

    /// `body` as a frame, if that is smaller.
    pub(super) fn compress(&mut self, body: &[u8]) -> Option<&[u8]> {
        #[cfg(feature = "zstd")]
        {
            let zstd = self.zstd.as_mut()?;
            zstd.frame.clear();
            // Room for less than the body, so that it gives up as soon as nothing is gained.
            zstd.frame.reserve_exact(body.len().saturating_sub(1));
            zstd.context.compress_to_buffer(body, &mut zstd.frame).ok()?;
            (zstd.frame.len() < body.len()).then_some(&*zstd.frame)
        }
        #[cfg(not(feature = "zstd"))]
        {
            let _ = body;
            None
        }
    }
}
