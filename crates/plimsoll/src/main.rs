//! The `plimsoll` program: a node of the cluster, and the commands to use and to look at one.
//!
//! Owns wiring only: which store, which ports, in which order things start and end. What the log, the election, the standby and
//! the master do is theirs.

mod admin;
mod cli;
mod client;
mod config;
mod demo;
mod inspect;
mod log_args;
mod node;
mod node_name;
mod rpc;
mod store;
mod store_url;
mod suggest;

fn main() -> std::process::ExitCode {
    cli::main()
}
