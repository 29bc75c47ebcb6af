//! Owns `plimsoll bucket`: what is asked about a bucket directory, and how it ends. What is seen and judged is `bucket_store::inspect`'s.

mod adopt;
mod explain;
mod fsck;
mod json;
mod ls;
mod picture;
mod trouble;

use std::path::{Path, PathBuf};

use bucket_store::inspect::{Look, look};
use bucket_store::vfs::{Access, DiskDir};
use clap::{Args, Subcommand};
use indicatif::HumanBytes;
use serde_json::{Map, Value, json};

pub(super) use self::trouble::Trouble;
use super::exit::Exit;

/// The version of every JSON object printed here; fields are added under the same one.
const SCHEMA: u32 = 1;

/// Said below `plimsoll bucket --help`.
pub(super) const HELP: &str = "\
A bucket directory holds the objects of one storage: <id>.bucket files with records, and beside each a
table <id>.meta that says where they lie and which ones are deleted. Deleted bytes stay until garbage
collection (GC) copies what is alive elsewhere and removes the rest.

  ls       what is in it: live and dead space of each bucket as a picture, or its objects
  fsck     what is wrong with it: every file, every checksum, and what joins them
  explain  what the next open would do after a crash, and why GC takes a bucket or leaves it
  adopt    take over a directory of Mooncake's, for good

All but `adopt` and `fsck --repair` change nothing. None works on a directory in use: the process that
has it is named. The files are described byte by byte in docs/formats/bucket-files.md, the JSON in
docs/formats/bucket-reports.md.

Examples:
  plimsoll bucket ls /mnt/ssd0/buckets
  plimsoll bucket fsck /mnt/ssd0/buckets --json | jq .faults.by_kind
  plimsoll bucket explain /mnt/ssd0/buckets --capacity 1TiB";

#[derive(Debug, Subcommand)]
pub(super) enum BucketCommand {
    /// Show what is in a bucket directory; changes nothing
    #[command(after_help = ls::HELP)]
    Ls(ls::LsArgs),
    /// Check every file and every record of a bucket directory; changes nothing unless told to
    #[command(after_help = fsck::HELP)]
    Fsck(fsck::FsckArgs),
    /// Say what the next open and GC would do with a bucket directory, and why; changes nothing
    #[command(after_help = explain::HELP)]
    Explain(explain::ExplainArgs),
    /// Take over a directory of Mooncake's for good; there is no way back
    #[command(after_help = adopt::HELP)]
    Adopt(adopt::AdoptArgs),
}

/// What every one of them is asked.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// The directory that holds the buckets
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: BucketCommand) -> Exit {
    match command {
        BucketCommand::Ls(args) => ls::run(&args),
        BucketCommand::Fsck(args) => fsck::run(&args),
        BucketCommand::Explain(args) => explain::run(&args),
        BucketCommand::Adopt(args) => adopt::run(args),
    }
}

impl Place {
    /// Takes the directory.
    fn open(&self, access: Access) -> Result<DiskDir, Exit> {
        DiskDir::open(&self.dir, access).map_err(|error| self.unread(error))
    }

    /// Takes the directory, looks at it and lets go of it: whoever reads slowly what is printed keeps no store from opening it.
    fn look(&self) -> Result<Look, Exit> {
        let dir = self.open(Access::Inspect)?;
        look(&dir).map_err(|error| self.unread(error))
    }

    /// Nothing could be read or judged.
    fn unread(&self, why: impl Into<Trouble>) -> Exit {
        self.ended("unread", why, Exit::Usage)
    }

    /// What was typed is wrong, and nothing was tried.
    fn usage(&self, why: impl Into<Trouble>) -> Exit {
        self.ended("usage", why, Exit::Usage)
    }

    /// One of the buckets that were asked for is not there.
    fn has_no_bucket(&self, id: u64) -> Exit {
        let dir = self.dir.display();
        let what = format!("there is no bucket {id} in {dir}");
        self.usage(Trouble::new(
            "NO_SUCH_BUCKET",
            format!("bucket {id}"),
            what,
            "name one that plimsoll bucket ls lists",
        ))
    }

    fn ended(&self, verdict: &str, why: impl Into<Trouble>, exit: Exit) -> Exit {
        self.ended_with(verdict, &why.into(), Map::new(), exit)
    }

    /// As [`Self::ended`], with more for programs.
    fn ended_with(&self, verdict: &str, why: &Trouble, more: Map<String, Value>, exit: Exit) -> Exit {
        if self.json {
            print_trouble(verdict, why, more);
        }
        errln!("plimsoll: {why}");
        exit
    }

    fn path(&self) -> &Path {
        &self.dir
    }

    /// For programs.
    fn path_json(&self) -> Value {
        self.dir.to_string_lossy().into()
    }
}

/// The one object of a command that did not do what it was asked.
pub(super) fn print_trouble(verdict: &str, why: &Trouble, more: Map<String, Value>) {
    let mut report = Map::from_iter([("schema".to_owned(), json!(SCHEMA)), ("verdict".to_owned(), json!(verdict))]);
    report.extend(why.json());
    report.extend(more);
    outln!("{}", Value::Object(report));
}

/// Bytes for people.
fn bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// `one` or `several`, with their number.
fn count(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// A share for people.
fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 })
}
