//! Owns `cargo xtask bench`: which suite lives where and what it needs. It must not measure anything itself.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};

use crate::cargo;
use crate::ci::target;
use crate::servers::{Found, PrivateServer, Server};

#[derive(Parser)]
pub(crate) struct Args {
    /// What to measure; everything if none is named
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// Fewer rounds of the same inputs: at most a minute a suite
    #[arg(long)]
    quick: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// One part of the suite `writer` (memory, sqlite, etcd, redis, waiting) or `bucket` (write, read, tombstones, gc, foreground)
    #[arg(long, value_name = "PART", value_parser = PARTS)]
    only: Option<String>,
}

/// The parts of the suites `writer` and `bucket`.
const PARTS: [&str; 10] =
    ["memory", "sqlite", "etcd", "redis", "waiting", "write", "read", "tombstones", "gc", "foreground"];
/// How many of them are the suite `writer`'s.
const WRITER_PARTS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The bucket store against plain files on the same disk
    Bucket,
    /// Batch records against a memcpy, and against Mooncake's JSON
    Codec,
    /// Batch records raw and compressed: bytes, time, and the writer with both
    Compression,
    /// Batch records against the per-entry layout, in throughput and space
    Layout,
    /// The ordered writer against a bare loop of transactions
    Writer,
    /// Replay of a million puts, and bytes an object
    Replay,
    /// From caught up to serving
    Promote,
    /// Real processes: kill to leadership, leadership to first durable reply
    Demo,
}

/// Runs the suites one after the other. `Ok(false)` if one of them failed.
pub(crate) fn run(root: &Path, args: &Args) -> Result<bool> {
    let found = Found::look(root);
    let suites: &[Suite] = if args.suites.is_empty() { Suite::value_variants() } else { &args.suites };
    if let Some(part) = args.only.as_deref() {
        let of_writer = PARTS[..WRITER_PARTS].contains(&part);
        let suite = if of_writer { Suite::Writer } else { Suite::Bucket };
        ensure!(
            suites == [suite],
            "--only {part} picks a part of the suite `{suite:?}`; name that suite, and no other"
        );
    }
    let mut held = true;
    for suite in suites {
        held &= match suite {
            Suite::Bucket => {
                let mut command = cargo_bench(root, "bucket-store", "bucket");
                command.arg("--").args(args.only.iter().flat_map(|part| ["--only", part]));
                let status = command.args(flags(args)).status().context("cargo bench does not start")?;
                status.success()
            }
            Suite::Codec => {
                let mut command = cargo_bench(root, "oplog-core", "codec");
                command.args(["--features", "legacy,mooncake,test-kit"]);
                measure(command, args)?
            }
            Suite::Compression => on_servers(root, args, &found, "compression", "test-kit,zstd", &[Server::Etcd])?,
            Suite::Layout => {
                on_servers(root, args, &found, "layout", "legacy,test-kit", &[Server::Etcd, Server::Redis])?
            }
            Suite::Writer => on_servers(root, args, &found, "writer", "", servers_of(args.only.as_deref()))?,
            Suite::Replay => measure(cargo_bench(root, "master", "replay"), args)?,
            Suite::Promote => measure(cargo_bench(root, "master", "promote"), args)?,
            Suite::Demo => demo(root, args, &found)?,
        };
    }
    Ok(held)
}

/// The servers of the suite `writer`, or of one part of it.
fn servers_of(part: Option<&str>) -> &'static [Server] {
    match part {
        None => &[Server::Etcd, Server::Redis],
        Some("etcd") => &[Server::Etcd],
        Some("redis") => &[Server::Redis],
        Some(_) => &[],
    }
}

fn flags(args: &Args) -> impl Iterator<Item = &'static str> {
    [(args.quick, "--quick"), (args.json, "--json")].into_iter().filter_map(|(on, flag)| on.then_some(flag))
}

fn cargo_bench(root: &Path, package: &str, bench: &str) -> Command {
    let mut command = cargo::command(root, "bench");
    command.args(["--quiet", "--package", package, "--bench", bench]);
    command
}

fn measure(mut command: Command, args: &Args) -> Result<bool> {
    let status = command.arg("--").args(flags(args)).status().context("cargo bench does not start")?;
    Ok(status.success())
}

/// A bench of `oplog-core` beside private servers of those that are wanted and installed.
fn on_servers(root: &Path, args: &Args, found: &Found, bench: &str, features: &str, wanted: &[Server]) -> Result<bool> {
    let mut command = cargo_bench(root, "oplog-core", bench);
    let etcd = if wanted.contains(&Server::Etcd) { etcd_or_word(root, found)? } else { None };
    let redis = if wanted.contains(&Server::Redis) { redis_or_word(root, found)? } else { None };
    if !features.is_empty() {
        command.args(["--features", features]);
    }
    if let Some(redis) = &redis {
        command.args(["--features", "bench-redis"]).env("PLIMSOLL_REDIS_ENDPOINT", redis.endpoint());
    }
    if let Some(etcd) = &etcd {
        command.args(["--features", "bench-etcd"]).envs(found.environment());
        command.env("PLIMSOLL_ETCD_ENDPOINT", format!("http://{}", etcd.endpoint()));
    }
    let only = args.only.iter().flat_map(|part| ["--only", part]);
    let status = command.arg("--").args(flags(args)).args(only).status().context("cargo bench does not start")?;
    Ok(status.success())
}

fn demo(root: &Path, args: &Args, found: &Found) -> Result<bool> {
    let (etcd, redis) = (etcd_or_word(root, found)?, redis_or_word(root, found)?);
    let mut build = cargo::command(root, "build");
    build.args(["--quiet", "--release", "--package", "plimsoll"]).envs(found.environment());
    if redis.is_some() {
        build.args(["--features", "redis"]);
    }
    if etcd.is_some() {
        build.args(["--features", "etcd"]);
    }
    ensure!(build.status().context("cargo build does not start")?.success(), "the program does not build");
    let program = target(root).join("release/plimsoll");
    let rounds = if args.quick { "1" } else { "5" };
    let run = |more: &[&str]| -> Result<bool> {
        let mut demo = Command::new(&program);
        demo.args(["demo", "--rounds", rounds]).args(more);
        if args.json {
            demo.arg("--json");
        }
        Ok(demo.status().context("the demo does not start")?.success())
    };
    let mut held = run(&[])? & run(&["--graceful"])?;
    let etcd = etcd.as_ref().map(|etcd| format!("etcd://{}", etcd.endpoint()));
    let redis = redis.as_ref().map(|redis| format!("redis://{}", redis.endpoint()));
    for backend in etcd.iter().chain(&redis) {
        held &= run(&["--backend", backend])? & run(&["--backend", backend, "--graceful"])?;
    }
    Ok(held)
}

/// A private server, or a word on stderr that its rows will be missing.
fn or_word(
    found: &Found,
    needs: &[Server],
    start: impl FnOnce() -> Result<PrivateServer>,
) -> Result<Option<PrivateServer>> {
    if let Some(missing) = needs.iter().find(|server| found.path(**server).is_none()) {
        eprintln!("SKIPPED {}: run `cargo xtask servers` to have its rows measured", missing.name());
        return Ok(None);
    }
    start().map(Some)
}

fn etcd_or_word(root: &Path, found: &Found) -> Result<Option<PrivateServer>> {
    or_word(found, &[Server::Etcd, Server::Protoc], || PrivateServer::etcd(root, found))
}

fn redis_or_word(root: &Path, found: &Found) -> Result<Option<PrivateServer>> {
    or_word(found, &[Server::Redis], || PrivateServer::redis(root, found))
}
