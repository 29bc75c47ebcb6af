//! Owns what the tests share: nodes that die with their test, commands that are run to their end, and a bounded wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Generous: a machine under load is slow, and a failure says what it waited for.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A folder with one store, and how nodes on it are started.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) ttl_ms: u64,
}

impl Place {
    pub(crate) fn new(ttl_ms: u64) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), ttl_ms }
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.dir.path().join("log.db")
    }

    pub(crate) fn store(&self) -> String {
        format!("sqlite://{}", self.db().display())
    }

    /// The command that starts a node on ports of its own.
    pub(crate) fn serve(&self, node: &str) -> Command {
        let mut command = plimsoll();
        command.args(["serve", "--node", node]).env("PLIMSOLL_STORE", self.store());
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command.args(["--ttl-ms", &self.ttl_ms.to_string(), "--set"]);
        command.arg(format!("leadership.margin_ms={}", self.ttl_ms / 5));
        command
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        self.node_with(name, &[])
    }

    pub(crate) fn node_with(&self, name: &str, more: &[&str]) -> Node {
        let mut command = self.serve(name);
        command.args(more);
        Node::start(command, &self.dir.path().join(format!("{name}.log")))
    }

    /// A leader `a` and a standby `b` that has caught up.
    pub(crate) fn pair(&self) -> (Node, Node) {
        let a = self.node("a");
        a.wait_for_role("leader");
        let b = self.node("b");
        b.wait_for_role("standby");
        (a, b)
    }
}

/// The program, with nothing of the tester's environment that it would read.
pub(crate) fn plimsoll() -> Command {
    plimsoll_at(env!("CARGO_BIN_EXE_plimsoll").as_ref())
}

/// The same for a copy of the program.
pub(crate) fn plimsoll_at(program: &std::path::Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLIMSOLL_") {
            command.env_remove(name);
        }
    }
    command
}

/// A node, killed when it is dropped.
pub(crate) struct Node {
    child: Child,
    pub(crate) grpc: String,
    pub(crate) admin: String,
    log: PathBuf,
}

impl Node {
    fn start(mut command: Command, log: &Path) -> Self {
        let stderr = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            let _ = sender.send(read.map(|_| line));
        });
        let line = receiver.recv_timeout(SOON);
        let log = log.to_owned();
        let mut node = Self { child, grpc: String::new(), admin: String::new(), log };
        let line = match line {
            Ok(Ok(line)) if !line.is_empty() => line,
            other => panic!("the node did not say where it listens ({other:?}):\n{}", node.log()),
        };
        let said: Value = serde_json::from_str(&line).unwrap();
        node.grpc = said["grpc"].as_str().unwrap().to_owned();
        node.admin = said["admin"].as_str().unwrap().to_owned();
        node
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the signal `name`, as `kill` spells it.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    pub(crate) fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the process to end by itself, and gives its exit code.
    pub(crate) fn ended(mut self) -> Option<i32> {
        let status = eventually("the node to end", || self.child.try_wait().unwrap());
        status.code()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn role(&self) -> Value {
        http(&self.admin, "/role").1
    }

    pub(crate) fn wait_for_role(&self, role: &str) -> Value {
        let mut last = Value::Null;
        let until = Instant::now() + SOON;
        while Instant::now() < until {
            last = self.role();
            // A standby counts once it has looked at the log to its end.
            if last["role"] == role && (role != "standby" || http(&self.admin, "/ready").0 == 200) {
                return last;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the node did not become {role}; it is {last}:\n{}", self.log());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.log());
        }
    }
}

/// Asks until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + SOON;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < until, "waited {SOON:?} for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// One GET: the status code, and the body as JSON or as a JSON text.
pub(crate) fn http(address: &str, path: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: test\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())))
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// Runs a command to its end.
pub(crate) fn run(args: &[&str]) -> Ran {
    let mut command = plimsoll();
    command.args(args);
    finish(command)
}

pub(crate) fn finish(mut command: Command) -> Ran {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
}

/// Runs a command against these nodes, printing JSON.
pub(crate) fn ask(nodes: &[&Node], args: &[&str]) -> Ran {
    let endpoints: Vec<_> = nodes.iter().map(|n| n.grpc.as_str()).collect();
    let mut all = args.to_vec();
    let endpoints = endpoints.join(",");
    all.extend(["--json", "--timeout-ms", "30000", "--endpoints", &endpoints]);
    run(&all)
}

/// As [`ask`], and it must succeed.
pub(crate) fn must(nodes: &[&Node], args: &[&str]) -> Value {
    let ran = ask(nodes, args);
    assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
    ran.json()
}

pub(crate) fn mount(nodes: &[&Node], id: &str) {
    let endpoint = format!("{id}.host:9000");
    must(nodes, &["segment", "mount", id, "--size", "1048576", "--endpoint", &endpoint]);
}

/// One sentence: one line, which names the thing and the remedy.
pub(crate) fn refused(ran: &Ran, code: i32, thing: &str, remedy: &str) {
    assert_eq!(ran.code, code, "{ran:?}");
    let lines: Vec<_> = ran.err.lines().filter(|l| l.starts_with("plimsoll: ")).collect();
    assert_eq!(lines.len(), 1, "one sentence: {}", ran.err);
    assert!(lines[0].contains(thing), "{thing:?} is named: {}", lines[0]);
    assert!(lines[0].contains(remedy), "{remedy:?} is the remedy: {}", lines[0]);
}

/// Runs async calls of a test.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A raw client of one node: nothing is followed.
pub(crate) async fn raw(
    node: &Node,
) -> ha_rpc::v1::metadata_service_client::MetadataServiceClient<tonic::transport::Channel> {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", node.grpc)).unwrap();
    ha_rpc::metadata_client(ha_rpc::endpoint(endpoint, SOON).connect().await.unwrap())
}
