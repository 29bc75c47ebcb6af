//! Owns the binary of one target.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_fuzz::run("bucket_graves", data));
