//! Owns the value under the election key: one address, one text, short enough for a header.

use leadership::LeaderAddress;

use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "leader_address", run, seeds };

fn run(data: &[u8]) -> Verdict {
    match bound::within(data.len(), 8, || LeaderAddress::decode(data)) {
        Ok(address) => {
            assert_eq!(address.as_str().as_bytes(), data, "one address, one text");
            assert!(data.len() <= LeaderAddress::MAX_BYTES && data.iter().all(u8::is_ascii_graphic));
            let (host, port) = address.as_str().rsplit_once(':').expect("a port");
            assert!(!host.is_empty() && port.parse::<u16>().is_ok_and(|p| p.to_string() == port && p != 0));
            assert_eq!(address.to_string().parse(), Ok(address));
            Verdict::Accepted
        }
        Err(e) => Verdict::refused_at(&e, data, (e.field, e.offset), (e.expected, &e.found)),
    }
}

fn seeds() -> Vec<Seed> {
    vec![
        Seed::good("ipv4", "10.0.0.1:7400"),
        Seed::good("ipv6", "[fe80::1%eth0]:65535"),
        Seed::good("name", "node-a.example:1"),
        Seed::bad("no_port", "10.0.0.1"),
        Seed::bad("bare_ipv6", "::1:7400"),
        Seed::bad("url", "http://10.0.0.1:7400"),
        Seed::bad("header_break", "h\r\nx: y:1"),
        Seed::bad("padded_port", "h:07400"),
        Seed::bad("port_beyond", "h:65536"),
        Seed::bad("too_long", format!("{}:1", "h".repeat(LeaderAddress::MAX_BYTES))),
    ]
}
