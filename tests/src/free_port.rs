//! Owns the search for free ports on loopback. Another process may take one before it is used, so users try again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context as _, Result};

/// Addresses that nobody listened on a moment ago, all different.
pub(crate) fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    // All are held until all are found: a port given back at once might be found twice.
    let mut held = Vec::with_capacity(N);
    for _ in 0..N {
        held.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?);
    }
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for (address, listener) in addresses.iter_mut().zip(&held) {
        *address = listener.local_addr().context("a bound socket has no address")?;
    }
    Ok(addresses)
}
