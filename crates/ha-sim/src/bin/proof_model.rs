//! Owns the program behind `cargo xtask proof model`: runs everything and says what it came to.

use std::process::ExitCode;

use ha_sim::run;

fn main() -> ExitCode {
    let json = std::env::args_os().any(|arg| arg == "--json");
    let report = run::everything(|finished| eprintln!("{finished}"));
    if json {
        println!("{}", serde_json::to_string(&report).expect("a report is plain data"));
    } else {
        print!("{report}");
    }
    if report.held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
