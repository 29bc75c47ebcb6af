//! Owns the project's chores as one command line: `cargo xtask ci|fix|tidy|servers|bench|proof`. It must not be needed to build
//! or run anything of the product.

mod bench;
mod cargo;
mod ci;
mod fix;
mod proof;
mod servers;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The project's chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that must hold before a change lands; changes nothing in the tree
    Ci(ci::Args),
    /// Formats and applies what clippy can repair by itself
    Fix,
    /// Checks the rules of the house that no other tool knows
    Tidy,
    /// Installs and pins the servers that the tests need, and says what is there
    Servers,
    /// Measures; the figures of docs/performance.md come from here
    Bench(bench::Args),
    /// Proves what can be proven by looking at every case; docs/proofs.md says what
    Proof(proof::Args),
}

fn main() -> ExitCode {
    let result = workspace::root().and_then(|root| match Cli::parse().chore {
        Chore::Ci(args) => ci::run(&root, &args),
        Chore::Fix => fix::run(&root),
        Chore::Tidy => tidy::run(&root),
        Chore::Servers => servers::run(&root),
        Chore::Bench(args) => bench::run(&root, &args),
        Chore::Proof(args) => proof::run(&root, &args),
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
