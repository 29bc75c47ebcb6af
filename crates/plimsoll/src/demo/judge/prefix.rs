//! Owns the judge's own reading of the durable prefix (`docs/formats/durable-prefix.md`).

use super::crc::crc32c;

/// The line up to which everything is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) epoch: u64,
    pub(super) batch_id: u64,
    pub(super) last_seq: u64,
}

impl Prefix {
    /// Reads the one line of text.
    pub(super) fn parse(value: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(value).map_err(|_| "it is not text".to_owned())?;
        let (head, checksum) = text.rsplit_once(" checksum=").ok_or("it has no checksum")?;
        let computed = format!("{:08x}", crc32c(&[head.as_bytes()]));
        if checksum != computed {
            return Err(format!("its checksum is {checksum}, computed {computed}"));
        }
        let mut fields = head.split(' ');
        let mut field = |name: &str| {
            let found = fields.next().and_then(|part| part.split_once('='));
            found.filter(|(n, _)| *n == name).map(|(_, value)| value).ok_or(format!("it has no {name} in its place"))
        };
        let schema = field("schema_version")?;
        if schema != "1" {
            return Err(format!("its schema version is {schema}, known is 1"));
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number"));
        let epoch = number(field("epoch")?)?;
        let _owner = field("owner")?;
        let batch_id = number(field("batch_id")?)?;
        let last_seq = number(field("last_seq")?)?;
        match fields.next() {
            None => Ok(Self { epoch, batch_id, last_seq }),
            Some(more) => Err(format!("it has {more:?} after its last field")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Prefix;

    #[test]
    fn the_line_of_the_specification_and_what_is_none() {
        let head = "schema_version=1 epoch=7 owner=9f3c5a1e0b7d4c22 batch_id=42 last_seq=30511";
        let line = format!("{head} checksum={:08x}", super::crc32c(&[head.as_bytes()]));
        assert_eq!(Prefix::parse(line.as_bytes()), Ok(Prefix { epoch: 7, batch_id: 42, last_seq: 30511 }));
        for bad in [line.replace("42", "43"), head.into(), line.replace("epoch", "epocl"), String::new()] {
            assert!(Prefix::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
