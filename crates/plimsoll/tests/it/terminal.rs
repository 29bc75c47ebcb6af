//! Owns a terminal that a command writes its standard error to, and what was drawn on it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::kit::Ran;

/// Runs a command to its end with a terminal of 120 columns as its standard error; `err` is all that was drawn on it.
pub(crate) fn finish_on_a_terminal(command: Command) -> Ran {
    on_a_terminal(command, None)
}

/// As [`finish_on_a_terminal`], with the terminal as its standard input too, on which `line` is typed.
pub(crate) fn answer_on_a_terminal(command: Command, line: &str) -> Ran {
    on_a_terminal(command, Some(line))
}

fn on_a_terminal(mut command: Command, typed: Option<&str>) -> Ran {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&ours, size).unwrap();
    let path = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(path.to_str().unwrap()).unwrap();
    let stdin = match typed {
        Some(line) => {
            // The terminal keeps it until somebody reads.
            rustix::io::write(&ours, format!("{line}\n").as_bytes()).unwrap();
            theirs.try_clone().unwrap().into()
        }
        None => Stdio::null(),
    };
    command.env("TERM", "xterm").stdin(stdin).stdout(Stdio::piped()).stderr(OwnedFd::from(theirs));
    let child = command.spawn().unwrap();
    // Our copy of its end goes with the command, so that reading ends when the child does.
    drop(command);
    let reading = std::thread::spawn(move || {
        let mut drawn = Vec::new();
        let mut terminal = File::from(ours);
        let mut some = [0; 4096];
        // The end of a terminal is an error, once nobody has its other end open.
        while let Ok(read @ 1..) = terminal.read(&mut some) {
            drawn.extend_from_slice(&some[..read]);
        }
        String::from_utf8(drawn).unwrap()
    });
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), out, err: reading.join().unwrap() }
}
