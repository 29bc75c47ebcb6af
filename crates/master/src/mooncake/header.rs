//! Owns what stands before the fields: type hash, metainfo, total length, and the type literal of debug builds.

use super::error::StructPackError;
use super::reader::Reader;

/// The low bit of the hash: a metainfo byte follows.
const HAS_METAINFO: u32 = 1;

/// Bits 0 and 1 of the metainfo: how wide the total length is. Bits 3 and 4: how wide the length of a container is.
const WIDTH: u8 = 0b11;
const LITERAL: u8 = 0b100;
const KNOWN_BITS: u8 = 0b1_1111;

/// Ends the description of a class inside a type literal, and stands in every literal.
const CLASS_END: u8 = 0xff;

/// The most zero bytes that are tried as the end of a type literal, which has a few dozen bytes: without a bound, the work would grow
/// with the square of the payload.
const MOST_ENDS: usize = 64;

/// What the header says of what follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// The type, its low bit cleared.
    pub(super) hash: u32,
    /// Whether compatible fields may follow the plain ones: then the total length is written, and only then.
    pub(super) has_length: bool,
    has_literal: bool,
}

impl Header {
    /// Reads it, and checks the hash against the `known` ones and the total length against the input.
    pub(super) fn read(reader: &mut Reader<'_>, known: &[u32]) -> Result<Self, StructPackError> {
        let whole = reader.rest.len();
        let hash = reader.u32("type hash")?;
        if !known.contains(&(hash & !HAS_METAINFO)) {
            let expected: Vec<String> = known.iter().map(|hash| format!("{hash:#010x}")).collect();
            let found = format_args!("{:#010x}", hash & !HAS_METAINFO);
            return Err(reader.fault("type hash", 0, expected.join(" or "), found));
        }
        if hash & HAS_METAINFO == 0 {
            return Ok(Self { hash, has_length: false, has_literal: false });
        }
        let at = reader.at;
        let metainfo = reader.u8("metainfo")?;
        if metainfo & !KNOWN_BITS != 0 {
            let found = format_args!("{metainfo:#04x}");
            return Err(reader.fault("metainfo", at, "bits 0 to 4 alone", found));
        }
        let has_length = metainfo & WIDTH != 0;
        if has_length {
            let at = reader.at;
            let length = reader.wide("total length", 1 << (metainfo & WIDTH))?;
            if usize::try_from(length).ok() != Some(whole) {
                let expected = format_args!("{whole}, the length of the payload");
                return Err(reader.fault("total length", at, expected, length));
            }
        }
        reader.length_width = 1 << ((metainfo >> 3) & WIDTH);
        Ok(Self { hash: hash & !HAS_METAINFO, has_length, has_literal: metainfo & LITERAL != 0 })
    }

    /// Reads the fields with `read`, behind the type literal if there is one.
    ///
    /// A literal ends in a zero byte, and may have others inside: where compatible fields are described. Its length is written
    /// nowhere, but the fields must end exactly where the payload ends. So its end is the first one behind which they do: an
    /// earlier end leaves bytes of the literal over, and a later one has eaten bytes of the fields.
    pub(super) fn fields<'a, T>(
        &self,
        reader: Reader<'a>,
        read: impl Fn(&mut Reader<'a>) -> Result<T, StructPackError>,
    ) -> Result<T, StructPackError> {
        let whole = |mut reader: Reader<'a>| {
            let value = read(&mut reader)?;
            reader.end().map(|()| value)
        };
        if !self.has_literal {
            return whole(reader);
        }
        let class_ended = reader.rest.iter().position(|byte| *byte == CLASS_END).unwrap_or(reader.rest.len());
        let ends = reader.rest.iter().enumerate().skip(class_ended).filter(|(_, byte)| **byte == 0);
        for (end, _) in ends.take(MOST_ENDS) {
            let rest = reader.rest.get(end + 1..).unwrap_or_default();
            if let Ok(value) = whole(Reader { rest, at: reader.at + end + 1, ..reader }) {
                return Ok(value);
            }
        }
        let expected = "a type literal that ends in 0xff .. 00, and fields behind it up to the end";
        Err(reader.fault("type literal", reader.at, expected, "none that fits"))
    }
}
