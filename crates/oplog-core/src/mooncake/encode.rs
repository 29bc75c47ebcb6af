//! Owns an encoder of Mooncake's bytes, for tests only: nothing of ours ever writes them. It shares no code with the decoders,
//! so that one mistake cannot be made on both sides; even base64 and the checksum are its own.

/// An entry: op type, tenant, key, payload.
pub type Entry<'a> = (u8, &'a str, &'a str, &'a [u8]);

/// A batch record with its checksum.
#[must_use]
pub fn batch(batch_id: u64, first_seq: u64, entries: &[Entry<'_>]) -> Vec<u8> {
    let last_seq = first_seq + entries.len() as u64 - 1;
    let entries: Vec<String> = entries
        .iter()
        .map(|(op, tenant, key, payload)| format!("[{op},{},{},\"{}\"]", string(tenant), string(key), base64(payload)))
        .collect();
    sealed(&format!("[1,{batch_id},{first_seq},{last_seq},[{}]", entries.join(",")))
}

/// `head`, an array that is not closed yet, with the checksum of what is there.
#[must_use]
pub fn sealed(head: &str) -> Vec<u8> {
    let sum = xxh32(format!("{head}]").as_bytes());
    format!("{head},{sum}]").into_bytes()
}

/// A durable prefix, with the field that was written for a week where `view` is given.
#[must_use]
pub fn prefix(batch_id: u64, last_seq: u64, view: Option<u64>) -> Vec<u8> {
    let view = view.map_or_else(String::new, |view| format!("\"producer_view_version\":{view},"));
    format!("{{\"batch_id\":{batch_id},\"last_seq\":{last_seq},{view}\"schema_version\":1}}").into_bytes()
}

/// A JSON string as Mooncake writes it: non-ASCII as lower-case `\uXXXX`, `/` and 0x7f as they are.
#[must_use]
pub fn string(text: &str) -> String {
    let mut out = String::from("\"");
    let mut units = [0; 2];
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' '..='\u{7f}' => out.push(c),
            _ => c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out + "\""
}

/// Padded standard base64.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    let digit = |value: u32| match (value & 63) as u8 {
        v @ 0..=25 => char::from(b'A' + v),
        v @ 26..=51 => char::from(b'a' + v - 26),
        v @ 52..=61 => char::from(b'0' + v - 52),
        62 => '+',
        _ => '/',
    };
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let value = three.iter().chain([&0, &0]).take(3).fold(0_u32, |value, byte| (value << 8) | u32::from(*byte));
        out.extend([digit(value >> 18), digit(value >> 12)]);
        out.push(if three.len() > 1 { digit(value >> 6) } else { '=' });
        out.push(if three.len() > 2 { digit(value) } else { '=' });
    }
    out
}

/// XXH32 with seed 0, by its specification.
#[must_use]
pub fn xxh32(bytes: &[u8]) -> u32 {
    const P: [u32; 5] = [2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393];
    let [p1, p2, p3, p4, p5] = P;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
    let stripes = bytes.chunks_exact(16);
    let rest = stripes.remainder();
    let mut sum = if bytes.len() < 16 {
        p5
    } else {
        let mut lanes = [p1.wrapping_add(p2), p2, 0, 0_u32.wrapping_sub(p1)];
        for stripe in stripes {
            for (lane, part) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
                *lane = lane.wrapping_add(word(part).wrapping_mul(p2)).rotate_left(13).wrapping_mul(p1);
            }
        }
        lanes.iter().zip([1, 7, 12, 18]).fold(0_u32, |sum, (lane, turn)| sum.wrapping_add(lane.rotate_left(turn)))
    };
    sum = sum.wrapping_add(bytes.len() as u32);
    let words = rest.chunks_exact(4);
    let tail = words.remainder();
    for part in words {
        sum = sum.wrapping_add(word(part).wrapping_mul(p3)).rotate_left(17).wrapping_mul(p4);
    }
    for byte in tail {
        sum = sum.wrapping_add(u32::from(*byte).wrapping_mul(p5)).rotate_left(11).wrapping_mul(p1);
    }
    sum = (sum ^ (sum >> 15)).wrapping_mul(p2);
    sum = (sum ^ (sum >> 13)).wrapping_mul(p3);
    sum ^ (sum >> 16)
}
