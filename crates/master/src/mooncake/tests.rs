//! Owns the tests of Mooncake's payloads: vectors of the original, and every way in which they can be wrong.

mod vectors;
mod wrong;

/// Bytes from hex, white space aside.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// What is the same in all vectors of MetadataPayload: client, size, one memory replica but for its status.
const BODY: &str = "8877665544332211 00ffeeddccbbaa99 0010000000000000 01 0700000000000000 00 0010000000000000 \
                    00100000007f0000 03746370 0e31302e302e302e313a3132333435";
const STATUS: &str = "03000000";
const GROUP_AND_KIND: &str = "01026731 0101";
const PINNED: &str = "0101";

fn five() -> Vec<u8> {
    hex(&format!("c33847c0 01 5800 {BODY} {STATUS} {GROUP_AND_KIND} {PINNED}"))
}

/// 61 bytes: begins as the original's, has zeros inside where compatible fields are described, ends in 0xff 00.
fn literal() -> Vec<u8> {
    let mut literal = hex("fdfd04048989ff 04 80 fd 04 86 fd 04 04 80 80 ff 01 ff 00 80 00 06 00 0b");
    literal.resize(58, 0x2a);
    literal.extend([0xff, 0xff, 0]);
    literal
}
