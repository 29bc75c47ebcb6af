//! Owns which answers of the system say that a disk does not give back what is on it. It must not decide what becomes of the file.
//!
//! The list is about one file: its medium or its structure is broken, asking again helps nobody, and the files beside it may be whole. What
//! says that the *way* to the disk is gone is not in it: then nothing at all can be read, and an open that set every bucket aside one
//! by one would serve an empty store where it had better be tried again.

use std::io;

use rustix::io::Errno;

/// Each number, and why it is in the list.
const BROKEN: &[(Errno, &str)] = &[
    (Errno::IO, "the block layer's answer to everything that it has no better one for"),
    (Errno::UCLEAN, "a structure of ext4 or XFS is not what it should be (EFSCORRUPTED)"),
    (Errno::BADMSG, "a checksum of ext4 or XFS does not match (EFSBADCRC)"),
    (Errno::NODATA, "the medium has lost the sector, as some drivers say it"),
    (Errno::REMOTEIO, "the drive itself reports a failure that it could not mend"),
    (Errno::ILSEQ, "the integrity data that the disk keeps beside a sector does not match it"),
    (Errno::STALE, "the name is there and the file that it leads to is not: a file system that has lost an inode"),
];

/// Whether the disk could not give back what is on it.
pub(crate) fn is_broken_disk(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| BROKEN.iter().any(|(errno, _)| errno.raw_os_error() == code))
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::is_broken_disk;

    /// By the numbers that Linux gives them, so that what the list holds is said twice.
    const BROKEN: [i32; 7] = [5, 61, 74, 84, 116, 117, 121];

    /// Numbers that look alike and are not in the list, and why not.
    const NOT_BROKEN: &[(Errno, &str)] = &[
        (Errno::NXIO, "the device is gone, with every file on it; of a name, that it is a socket or a pipe"),
        (Errno::NODEV, "the device is off line"),
        (Errno::NOLINK, "the link to the device is down"),
        (Errno::TIMEDOUT, "the device does not answer now"),
        (Errno::NOENT, "there is no such file, which is said in words of its own"),
        (Errno::ACCESS, "somebody took the permission away, and can give it back"),
        (Errno::PERM, "likewise"),
        (Errno::MFILE, "a limit of this process"),
        (Errno::NFILE, "a limit of the system"),
        (Errno::NOMEM, "no memory now"),
        (Errno::NOSPC, "a full disk"),
        (Errno::ROFS, "mounted for reading only"),
    ];

    #[test]
    fn a_broken_file_is_told_from_a_disk_that_is_away_and_from_limits() {
        let broken: Vec<_> = (1..200).filter(|code| is_broken_disk(&io::Error::from_raw_os_error(*code))).collect();
        assert_eq!(broken, BROKEN);
        for (errno, why) in NOT_BROKEN {
            assert!(!is_broken_disk(&io::Error::from(*errno)), "{errno:?}: {why}");
        }
        assert!(!is_broken_disk(&io::Error::other("the power is off")));
    }
}
