//! Owns the seeds as files: `corpus/{target}/{seed}`, written from the seeds in the code and compared with them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::{TARGETS, Target};

type Files = BTreeMap<String, Vec<u8>>;

fn expected(target: &Target) -> Files {
    (target.seeds)().into_iter().map(|seed| (seed.name.to_owned(), seed.bytes)).collect()
}

/// The seeds of `target` below `corpus`, by name; none if there is no such folder.
///
/// # Errors
/// If they cannot be read.
pub fn committed_in(corpus: &Path, target: &Target) -> io::Result<Files> {
    let folder = corpus.join(target.name);
    if !folder.exists() {
        return Ok(Files::new());
    }
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?);
    }
    Ok(files)
}

/// What below `corpus` is not what the code says, one line each.
///
/// # Errors
/// If it cannot be read.
pub fn drift(corpus: &Path) -> io::Result<Vec<String>> {
    let mut drift = Vec::new();
    for target in TARGETS {
        let (expected, found) = (expected(target), committed_in(corpus, target)?);
        for name in expected.keys().chain(found.keys()).collect::<std::collections::BTreeSet<_>>() {
            let place = format!("{}/{name}", target.name);
            match (expected.get(name), found.get(name)) {
                (Some(seed), Some(file)) if seed == file => {}
                (Some(_), Some(_)) => drift.push(format!("{place} has other bytes than the seed")),
                (Some(_), None) => drift.push(format!("{place} is missing")),
                _ => drift.push(format!("{place} is no seed")),
            }
        }
    }
    Ok(drift)
}

/// Writes all seeds below `corpus`.
///
/// # Errors
/// If they cannot be written.
pub fn write(corpus: &Path) -> io::Result<()> {
    for target in TARGETS {
        let folder = corpus.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (name, bytes) in expected(target) {
            std::fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
