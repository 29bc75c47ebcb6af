//! Owns postcard's variable-length numbers on the writing side: seven bits a byte, low first, the top bit meaning "more".

pub(super) const fn len(mut value: u64) -> usize {
    let mut bytes = 1;
    while value >= 0x80 {
        value >>= 7;
        bytes += 1;
    }
    bytes
}

#[inline]
pub(super) fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes `value` to the start of `room` and gives what is left of it, or `None` if it is too small.
pub(super) fn write(mut room: &mut [u8], mut value: u64) -> Option<&mut [u8]> {
    loop {
        let (place, rest) = room.split_first_mut()?;
        room = rest;
        if value < 0x80 {
            *place = value as u8;
            return Some(room);
        }
        *place = (value as u8) | 0x80;
        value >>= 7;
    }
}
