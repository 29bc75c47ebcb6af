//! Compiles the protos without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FILES: [&str; 3] = ["plimsoll/v1/types.proto", "plimsoll/v1/metadata.proto", "plimsoll/v1/admin.proto"];
    let descriptors = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure().bytes(".plimsoll.v1").compile_fds(descriptors)?;
    println!("cargo::rerun-if-changed=proto");
    Ok(())
}
