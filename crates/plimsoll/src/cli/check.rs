//! Owns `config check`: it reads the layers, checks them as `serve` would, and starts nothing.

use super::args::CheckArgs;
use super::exit::{self, Exit};
use super::output;
use crate::config::SETTINGS;

pub(super) fn run(args: &CheckArgs) -> Exit {
    if args.list {
        let mut table = output::table(["key", "variable", "default", "meaning"]);
        for setting in SETTINGS {
            table.add_row([setting.key, &setting.env(), setting.default.unwrap_or("-"), setting.help]);
        }
        outln!("{table}");
        return Exit::Done;
    }
    let layers = match args.serve.layers() {
        Ok(layers) => layers,
        Err(error) => return output::usage(&error, args.json),
    };
    let checked = layers.build();
    let values = layers.report();
    if args.json {
        let settings: serde_json::Map<_, _> = values
            .into_iter()
            .map(|(key, value, from)| (key.to_owned(), serde_json::json!({ "value": value, "from": from })))
            .collect();
        let error = checked.as_ref().err().map(ToString::to_string);
        outln!("{}", serde_json::json!({ "valid": checked.is_ok(), "error": error, "settings": settings }));
    } else {
        let mut table = output::table(["key", "value", "from"]);
        for (key, value, from) in values {
            table.add_row([key, &value, &from]);
        }
        outln!("{table}");
    }
    match checked {
        Ok(_) => Exit::Done,
        Err(error) => exit::usage(&error),
    }
}
