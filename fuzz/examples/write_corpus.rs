//! Owns the command that writes the committed seeds anew: `cargo run -p plimsoll-fuzz --example write_corpus`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    plimsoll_fuzz::write(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"))
}
