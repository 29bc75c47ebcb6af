//! Links RocksDB as the system has it.

fn main() {
    println!("cargo:rustc-link-lib=rocksdb");
}
