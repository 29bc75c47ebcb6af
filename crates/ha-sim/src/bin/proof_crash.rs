//! Owns the program behind `cargo xtask proof crash`: runs everything and says what it came to.

use std::process::ExitCode;

use ha_sim::bucket::run;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    let json = arguments.iter().any(|arg| arg == "--json");
    let only = arguments.iter().position(|arg| arg == "--only").and_then(|at| arguments.get(at + 1));
    if let Some(unknown) = only.filter(|only| !run::parts().any(|part| part == **only)) {
        eprintln!("there is no workload and no rule {unknown:?}; give one of these to --only:");
        run::parts().for_each(|part| eprintln!("  {part}"));
        return ExitCode::from(2);
    }
    let report = run::everything(only.map(String::as_str), |finished| eprintln!("{finished}"));
    if json {
        println!("{}", serde_json::to_string(&report).expect("a report is plain data"));
    } else {
        print!("{report}");
    }
    if report.held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
