//! Owns the command line: what can be typed, and which exit code says what became of it.

mod admin_commands;
mod args;
mod audit;
mod bar;
mod bucket;
mod check;
mod client_args;
mod cutover;
mod exit;
mod logging;
mod objects;
mod output;
mod segments;
mod serve_args;
mod size;
mod usage;

use args::{Cli, Command, ConfigCommand, OplogCommand};
use clap::Parser;

pub(crate) use exit::Exit;

/// Runs what was typed.
pub(crate) fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::end(&error, std::env::args_os()),
    };
    if let Err(error) = logging::init(cli.log_format, cli.log.as_deref(), matches!(cli.command, Command::Serve(_))) {
        errln!("plimsoll: {error}");
        return Exit::Refused.into();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            errln!("plimsoll: the runtime did not start: {error}");
            return Exit::Refused.into();
        }
    };
    let exit = runtime.block_on(run(cli.command));
    // A blocked file or lookup of the runtime does not hold the process.
    runtime.shutdown_background();
    crate::out::ended(exit).into()
}

async fn run(command: Command) -> Exit {
    match command {
        Command::Demo(args) => exit::verdict(crate::demo::run(args).await),
        Command::DemoClient(args) => exit::report(crate::demo::run_load(args).await),
        Command::Serve(args) => serve(*args).await,
        Command::Put(args) => objects::put(args).await,
        Command::Get(args) => objects::get(args).await,
        Command::Remove(args) => objects::remove(args).await,
        Command::Ls(args) => objects::ls(args).await,
        Command::Segment(command) => segments::run(command).await,
        Command::Oplog(OplogCommand::Inspect(args)) => exit::report(crate::inspect::run(*args).await),
        Command::Oplog(OplogCommand::Audit(args)) => audit::run(*args).await,
        Command::Oplog(OplogCommand::Cutover(args)) => cutover::run(*args).await,
        Command::Bucket(command) => bucket::run(command),
        Command::StepDown(args) => admin_commands::step_down(args).await,
        Command::Status(args) => admin_commands::status(args).await,
        Command::Policy(args) => admin_commands::policy(args).await,
        Command::Config(ConfigCommand::Check(args)) => check::run(&args),
    }
}

async fn serve(args: serve_args::ServeArgs) -> Exit {
    if let Some(Err(error)) = args.die_with_parent.map(crate::demo::die_with) {
        return exit::report(Err(error));
    }
    match args.config() {
        Err(error) => exit::usage(&error),
        Ok(config) => exit::report(crate::node::serve(config).await),
    }
}
