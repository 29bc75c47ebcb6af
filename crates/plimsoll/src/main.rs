//! The `plimsoll` program: a node of the cluster, and the commands to use and to look at one.
//!
//! Owns wiring only: which store, which ports, in which order things start and end. What the log, the election, the standby and
//! the master do is theirs.

// They panic where nobody reads; `out` does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod out;

mod admin;
mod cli;
mod client;
mod config;
mod demo;
mod inspect;
mod log_args;
mod node;
mod node_name;
mod open_files;
mod rpc;
mod store;
mod store_url;
mod suggest;

fn main() -> std::process::ExitCode {
    open_files::raise_limit();
    cli::main()
}
