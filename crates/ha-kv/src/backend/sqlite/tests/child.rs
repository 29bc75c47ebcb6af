//! Owns the test's other processes: this same test program, told by a variable which role to play.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};

use super::{errors, files, processes};

const ROLE: &str = "HA_KV_TEST_ROLE";
const PATH: &str = "HA_KV_TEST_PATH";
const ENTRY: &str = "backend::sqlite::tests::child::entry";

/// The entry of the other processes. Without a role it only sees to it that they would find it.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test's other process is told its role by its environment")]
async fn entry() {
    let (Ok(role), Ok(path)) = (std::env::var(ROLE), std::env::var(PATH)) else {
        // The harness names the thread after the test, unless it runs one test at a time.
        let thread = std::thread::current();
        let name = thread.name().expect("the harness names its threads");
        assert!([ENTRY, "main"].contains(&name), "the other processes would look for {ENTRY} instead of {name}");
        return;
    };
    // Past what the test harness prints without a line's end.
    println!();
    match role.as_str() {
        "hold-lock" => hold_lock(&path).await,
        "count-up" => processes::count_up(&path).await,
        "fill" => errors::fill_until_the_system_refuses(&path).await,
        "fill-disk" => errors::fill_the_disk_and_make_room(&path).await,
        "read-only" => files::read_only_as_a_user(&path).await,
        other => panic!("no role {other}"),
    }
}

/// A leader that stops in the middle of a transaction.
async fn hold_lock(path: &str) {
    use crate::{LeaseKv, PutIfAbsent, SqliteOptions};

    let kv = super::open(SqliteOptions::new(path)).await.expect("opens");
    let (lease, _) = kv.grant(std::time::Duration::from_secs(2)).await.expect("granted");
    let put = kv.put_if_absent(b"leader", bytes::Bytes::from("holder"), lease).await.expect("put");
    assert_eq!(put, PutIfAbsent::Put);
    let _: () = kv
        .write(|connection| {
            super::super::rows::put(connection, b"half", b"done", None)?;
            println!("locked");
            loop {
                std::thread::park();
            }
        })
        .await
        .expect("never comes here");
}

fn command(role: &str, path: &str) -> Command {
    command_of(std::env::current_exe().expect("this program"), role, path)
}

fn command_of(program: PathBuf, role: &str, path: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", ENTRY, "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(PATH, path).stdout(Stdio::piped()).stdin(Stdio::null());
    command
}

/// A running process. Dropping it kills it.
pub(super) struct Child {
    process: std::process::Child,
    lines: BufReader<ChildStdout>,
}

impl Child {
    pub(super) fn start(role: &str, path: &str) -> Self {
        let mut process = command(role, path).spawn().expect("the process starts");
        let lines = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, lines }
    }

    /// Its next line that is not the test harness's.
    pub(super) fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).expect("readable") > 0, "the process ended");
            let line = line.trim();
            if !line.is_empty() && !line.starts_with("running ") && !line.starts_with("test ") {
                return line.to_owned();
            }
        }
    }

    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("reaped");
    }

    /// Everything it had still said.
    pub(super) fn rest(mut self) -> String {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("readable");
        rest
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a role to its end as a user whom file permissions bind, and gives what it said.
pub(super) fn run_unprivileged(role: &str, path: &str) -> String {
    const NOBODY: u32 = 65534;
    // This program may lie where nobody else may look. Copied by another process, as a program that is open for writing here,
    // or in a child just forked, could not be started.
    let program = std::path::Path::new(path).join("program");
    let copied = Command::new("cp").arg(std::env::current_exe().expect("this program")).arg(&program).status();
    assert!(copied.expect("cp runs").success());
    let mut command = command_of(program, role, path);
    if std::fs::metadata(path).expect("there").uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.stderr(Stdio::piped()).output().expect("the process runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Runs a role to its end where no file may grow beyond `blocks` of 512 bytes, and gives what it said.
pub(super) fn run_limited(role: &str, path: &str, blocks: u32) -> String {
    let inner = command(role, path);
    // The signal that comes with the limit would end the process before SQLite sees the error.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(inner.get_program()).args(inner.get_args());
    command.env(ROLE, role).env(PATH, path).stdin(Stdio::null());
    let output = command.output().expect("the process runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Runs a role to its end with a disk of `kib` at `path`, that is gone with it, and gives what it said. `None` where this user may not
/// have one, which `test` has then announced.
#[expect(clippy::disallowed_methods, reason = "where a missing disk is a failure is said by the environment")]
pub(super) fn run_on_a_small_disk(role: &str, path: &str, kib: u32, test: &str) -> Option<String> {
    // As root a mount namespace is enough; others become root of a user namespace of their own.
    for namespaces in [&["--mount"][..], &["--user", "--map-root-user", "--mount"]] {
        let inner = command(role, path);
        let script = format!(
            "mount -t tmpfs -o size={kib}k tmpfs \"$HA_KV_TEST_PATH\" || exit 1; echo mounted; exec \"$0\" \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", &script]).arg(inner.get_program()).args(inner.get_args());
        command.env(ROLE, role).env(PATH, path).stdin(Stdio::null());
        let Ok(output) = command.output() else { continue };
        if output.stdout.starts_with(b"mounted") {
            return Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned());
        }
    }
    let required = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(
        !required,
        "{test} needs a small disk, and with CI=true a missing one is a failure: let `unshare` mount a tmpfs"
    );
    // Past the capture of the test harness.
    let said = std::io::Write::write_all(&mut std::io::stdout(), format!("\nSKIPPED tmpfs: {test}\n").as_bytes());
    said.expect("standard output takes a line");
    None
}
