//! Owns sizes on the command line: bytes, or a number with a binary unit.

const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

/// The bytes that `text` means.
///
/// # Errors
/// One sentence that says how sizes are written.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let (digits, shift) =
        UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?.trim_end(), *shift))).unwrap_or((text, 0));
    let number: Option<u64> = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
    number.and_then(|n| n.checked_mul(1 << shift)).ok_or_else(|| {
        format!("{text:?} is no size; write bytes, or a whole number with KiB, MiB, GiB or TiB, such as 64MiB")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        for (text, bytes) in [("0", 0), ("4096", 4096), ("64KiB", 65_536), ("4 MiB", 4 << 20), ("1TiB", 1 << 40)] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse(&u64::MAX.to_string()), Ok(u64::MAX));
        for text in ["", "KiB", "-1", "+1", "1.5MiB", "1MB", "1 kib", "99999999TiB", "18446744073709551616"] {
            assert!(parse(text).unwrap_err().contains("64MiB"), "{text}");
        }
    }
}
