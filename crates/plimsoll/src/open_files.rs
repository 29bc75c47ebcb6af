//! Owns this process's limit of open files: a bucket store holds one for each bucket. It must not decide how many are needed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as the system lets this process do it by itself. Where it does not, whoever needs more says so.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
