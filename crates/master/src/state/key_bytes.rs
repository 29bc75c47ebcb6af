//! Owns the key inside a record: short ones lie in the record itself and cost no allocation.

use std::ops::Deref;

/// The longest key that lies in the record.
const SHORT: usize = 38;

/// The bytes of an object key.
#[derive(Clone, Debug)]
pub(crate) enum KeyBytes {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

impl From<&[u8]> for KeyBytes {
    fn from(key: &[u8]) -> Self {
        if key.len() > SHORT {
            return Self::Long(key.into());
        }
        let mut bytes = [0; SHORT];
        bytes[..key.len()].copy_from_slice(key);
        Self::Short { len: key.len() as u8, bytes }
    }
}

impl Deref for KeyBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_come_back() {
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, 4096] {
            let key: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(&*KeyBytes::from(&key[..]), &key[..]);
        }
    }
}
