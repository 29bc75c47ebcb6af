//! Owns the question who holds a lock, answered from `/proc/locks`. The answer is for people: nothing is decided by it.

use std::fmt;
use std::fs::File;
use std::io::Read as _;

use rustix::fs::{Stat, major, minor};

/// How often the system's list is read for a lock that must be in it.
const READS: usize = 3;

/// Who holds a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This very process has it open a second time.
    ThisProcess,
    /// The process of this number.
    Process(u32),
    /// The system does not say: it has no `/proc`, or the process is in another container.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str("this very process"),
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Unknown => f.write_str("a process that the system does not name"),
        }
    }
}

impl Holder {
    /// Who holds a lock of the file, as far as the system says.
    pub(super) fn of(stat: &Stat) -> Self {
        let device = format!("{:02x}:{:02x}", major(stat.st_dev), minor(stat.st_dev));
        match (0..READS).find_map(|_| pid(&locks(), &device, stat.st_ino)) {
            Some(pid) if pid == std::process::id() => Self::ThisProcess,
            Some(pid) => Self::Process(pid),
            None => Self::Unknown,
        }
    }
}

/// What the system says of all locks. One read is one consistent look; where more than one is needed, lines may be missed between them.
fn locks() -> String {
    let mut text = Vec::new();
    if let Ok(mut file) = File::open("/proc/locks") {
        let mut look = vec![0; 1 << 16];
        while let Ok(read @ 1..) = file.read(&mut look) {
            text.extend_from_slice(&look[..read]);
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The process with an `flock` of the inode. The device decides where it is there; some file systems show another one in `/proc/locks`
/// than in a file's status, and there the inode does if only one lock has it.
fn pid(locks: &str, device: &str, inode: u64) -> Option<u32> {
    let mut elsewhere = Vec::new();
    for line in locks.lines() {
        // `5: FLOCK  ADVISORY  WRITE 4321 fe:00:1234 0 EOF`; a waiter has `->` after the colon.
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = fields[..] else { continue };
        let (Some((found, number)), Ok(pid)) = (place.rsplit_once(':'), pid.parse()) else { continue };
        if pid == 0 || number.parse() != Ok(inode) {
            continue;
        }
        if found == device {
            return Some(pid);
        }
        elsewhere.push(pid);
    }
    match elsewhere[..] {
        [pid] => Some(pid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::pid;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 11 fe:00:7 0 EOF
2: FLOCK  ADVISORY  WRITE 22 fe:00:7 0 EOF
2: -> FLOCK  ADVISORY  WRITE 23 fe:00:7 0 EOF
3: FLOCK  ADVISORY  WRITE 33 fd:01:7 0 EOF
4: FLOCK  ADVISORY  READ 0 fe:00:8 0 EOF
5: FLOCK  ADVISORY  READ 55 00:2a:9 0 EOF
nonsense
6: FLOCK  ADVISORY  READ x fe:00:10 0 EOF";

    #[test]
    fn the_lock_of_the_inode_on_the_device_names_the_process() {
        assert_eq!(pid(LOCKS, "fe:00", 7), Some(22));
        assert_eq!(pid(LOCKS, "fd:01", 7), Some(33));
    }

    #[test]
    fn a_device_shown_otherwise_does_no_harm_unless_two_share_the_inode() {
        assert_eq!(pid(LOCKS, "fe:00", 9), Some(55));
        assert_eq!(pid(LOCKS, "aa:00", 7), None);
    }

    #[test]
    fn what_the_system_does_not_name_is_unknown() {
        assert_eq!(pid(LOCKS, "fe:00", 8), None, "a process of another container is shown as 0");
        assert_eq!(pid(LOCKS, "fe:00", 10), None);
        assert_eq!(pid("", "fe:00", 7), None);
    }
}
