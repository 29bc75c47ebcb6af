//! Owns how results are printed: tables and escaped keys for people, one JSON value for programs.

use comfy_table::{Table, presets};
use ha_rpc::v1::{Durability, ErrorDetail, ReplicaRange};
use serde_json::{Value, json};

use super::exit::{self, Exit};
use crate::client::CallError;

/// A table with a heading.
pub(super) fn table<const N: usize>(heading: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(heading);
    table
}

/// A key for people.
pub(super) fn key_text(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => key.escape_ascii().to_string(),
    }
}

/// A key for programs: its text if it is one, and always its bytes.
pub(super) fn key_json(key: &[u8]) -> Value {
    json!({ "text": std::str::from_utf8(key).ok(), "hex": hex(key) })
}

/// Hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of hexadecimal digits.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::try_from(pair.iter().fold(0, |acc, d| acc * 16 + d)).ok()).collect()
}

/// What a reply promises, in a word.
pub(super) fn durability(promised: i32) -> &'static str {
    match Durability::try_from(promised) {
        Ok(Durability::Durable) => "durable",
        Ok(Durability::Accepted) => "accepted",
        Ok(Durability::Unspecified) | Err(_) => "unspecified",
    }
}

/// Ranges, one a line.
pub(super) fn ranges(replicas: &[ReplicaRange]) -> Table {
    let mut table = table(["segment", "endpoint", "address", "length"]);
    for r in replicas {
        table.add_row([r.segment_id.clone(), r.endpoint.clone(), r.address.to_string(), r.length.to_string()]);
    }
    table
}

/// Ranges for programs.
pub(super) fn ranges_json(replicas: &[ReplicaRange]) -> Value {
    replicas
        .iter()
        .map(|r| json!({ "segment": r.segment_id, "endpoint": r.endpoint, "address": r.address, "length": r.length }))
        .collect()
}

/// A failure for programs.
pub(super) fn error_json(detail: &ErrorDetail) -> Value {
    let code = detail.code().as_str_name().trim_start_matches("ERROR_CODE_").to_owned();
    let retry = Some(detail.retry_after_ms).filter(|ms| *ms > 0);
    json!({ "code": code, "message": detail.message, "retry_after_ms": retry })
}

/// Says what is wrong with what was typed, to programs too.
pub(super) fn usage(error: &impl std::fmt::Display, as_json: bool) -> Exit {
    if as_json {
        outln!("{}", json!({ "error": { "code": "USAGE", "message": error.to_string() } }));
    }
    exit::usage(error)
}

/// Prints a failed call.
pub(super) fn failed(error: &CallError, as_json: bool) -> Exit {
    if as_json {
        let value = match error {
            CallError::Refused(detail) => error_json(detail),
            CallError::Unknown(_) => json!({ "code": "UNKNOWN", "message": error.to_string() }),
            CallError::NotDone(_) => json!({ "code": "NOT_DONE", "message": error.to_string() }),
        };
        outln!("{}", json!({ "error": value }));
    } else {
        errln!("plimsoll: {error}");
    }
    Exit::of(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_bytes_survive_the_command_line() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&all)), Some(all));
        for bad in ["0", "0g", "xyz1", "é0"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
        assert_eq!(key_text(b"a\xff\n"), "a\\xff\\n");
        assert_eq!(key_text("ключ".as_bytes()), "ключ");
        assert_eq!(key_text(b"a\nb"), "a\\nb");
    }
}
