//! Owns the tests of the bucket store on real directories: processes that are killed, a file system that is full, and places that
//! only a mount makes.

mod full_disk;
mod killed;
mod leaks;
mod places;
mod small_mount;
