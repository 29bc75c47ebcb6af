//! Owns the tests of the bucket store on real directories: processes that are killed, and a file system that is full.

mod full_disk;
mod killed;
mod leaks;
mod small_mount;
