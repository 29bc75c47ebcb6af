//! Owns the bound on what a decoder allocates: so many bytes for each byte of input, whatever lengths the input claims.

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// What every call may allocate beside its share: errors in words, fixed tables.
const ALWAYS: usize = 16 << 10;

/// Runs `decode`, which may allocate `per_byte` bytes for each byte of an input of `len`, all its allocations taken together.
pub(crate) fn within<T>(len: usize, per_byte: usize, decode: impl FnOnce() -> T) -> T {
    let most = len.saturating_mul(per_byte).saturating_add(ALWAYS);
    let before = ALLOCATOR.total_allocated();
    let result = decode();
    let took = ALLOCATOR.total_allocated().saturating_sub(before);
    assert!(took <= most, "{took} bytes were allocated for an input of {len}; at most {most} may be");
    result
}
