//! Owns compact JSON in pure ASCII: every other character is written as `\uXXXX`, in surrogate pairs where it needs two.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// `value` as compact JSON in ASCII: hexadecimal digits in lower case, `/` and 0x7f as they are.
///
/// # Errors
/// What `value` itself says of not being serializable; writing to memory does not fail.
pub(crate) fn to_ascii_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Ascii(CompactFormatter)))?;
    Ok(text)
}

struct Ascii(CompactFormatter);

impl Formatter for Ascii {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for piece in fragment.split_inclusive(|c: char| !c.is_ascii()) {
            let last = piece.chars().next_back().filter(|c| !c.is_ascii());
            let ascii = last.map_or(piece, |c| piece.strip_suffix(c).unwrap_or(piece));
            self.0.write_string_fragment(writer, ascii)?;
            for unit in last.iter().flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec()) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::to_ascii_vec;

    fn ascii(text: &str) -> String {
        String::from_utf8(to_ascii_vec(text).unwrap()).unwrap()
    }

    #[test]
    fn only_what_has_to_be_is_escaped_and_in_lower_case() {
        for (text, json) in [
            ("plain/path", r#""plain/path""#),
            ("\u{e9}\u{EF}", r#""\u00e9\u00ef""#),
            ("a\u{1F600}b", r#""a\ud83d\ude00b""#),
            ("\u{fffd}", r#""\ufffd""#),
            ("\u{1}\n\"\\", r#""\u0001\n\"\\""#),
            ("\u{7f}", "\"\u{7f}\""),
            ("", r#""""#),
        ] {
            assert_eq!(ascii(text), json);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_ascii_and_reads_back(text: String) {
            let json = ascii(&text);
            prop_assert!(json.is_ascii());
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
