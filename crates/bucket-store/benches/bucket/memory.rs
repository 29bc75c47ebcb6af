//! Owns the reading of this process's peak of resident memory.

/// Forgets the peak so far. `false` where the system does not allow it.
pub(crate) fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The peak since, in bytes.
pub(crate) fn peak() -> u64 {
    field("VmHWM:")
}

/// What is resident now, in bytes.
pub(crate) fn resident() -> u64 {
    field("VmRSS:")
}

fn field(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system tells of this process");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of it");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
}
