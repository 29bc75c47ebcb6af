//! Owns what is said where the command line cannot be understood: clap's own words for people, and one object for programs that asked for JSON.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Error;
use clap::error::{ContextKind, ContextValue};
use serde_json::{Map, json};

use super::bucket::{Trouble, print_trouble};

/// Options before the command that have a value of their own.
const WITH_VALUE: [&str; 2] = ["--log", "--log-format"];

/// Says it. Help and version come here too, and are no failure.
pub(super) fn end(error: &Error, typed: impl IntoIterator<Item = OsString>) -> ExitCode {
    let typed: Vec<_> = typed.into_iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if error.use_stderr() && wants_json(&typed) {
        let why = trouble(error);
        if command(&typed) == Some("bucket") {
            print_trouble("usage", &why, Map::new());
        } else {
            outln!("{}", json!({ "error": { "code": "USAGE", "message": why.to_string() } }));
        }
    }
    // Where nobody reads it there is nobody to tell.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX))
}

fn wants_json(typed: &[String]) -> bool {
    typed.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

fn command(typed: &[String]) -> Option<&str> {
    let mut words = typed.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            return Some(word);
        }
        if WITH_VALUE.contains(&word) {
            words.next();
        }
    }
    None
}

fn trouble(error: &Error) -> Trouble {
    let text = error.to_string();
    let first = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
    let what = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let place = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(arg)) => arg.clone(),
        Some(ContextValue::Strings(args)) => args.join(", "),
        _ => "the command line".to_owned(),
    };
    Trouble::new("USAGE", place, what, "read --help, and type it again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_is_the_first_word_that_is_no_option_and_no_value_of_one() {
        assert_eq!(command(&words("bucket ls /x --json")), Some("bucket"));
        assert_eq!(command(&words("--log debug --log-format=json bucket ls")), Some("bucket"));
        assert_eq!(command(&words("put bucket --json")), Some("put"));
        assert_eq!(command(&words("--json")), None);
    }

    #[test]
    fn json_after_two_dashes_is_a_name() {
        assert!(wants_json(&words("bucket ls x --json")));
        assert!(!wants_json(&words("bucket ls -- --json")));
    }
}
