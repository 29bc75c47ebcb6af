//! Owns the high-water file of a bucket directory: what decodes encodes to the same bytes.

use bucket_store::format::high_water::HighWater;

use super::{refused_file, with_last_crc};
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "bucket_high_water", run, seeds };

fn run(data: &[u8]) -> Verdict {
    if let Some(repaired) = with_last_crc(data) {
        one(&repaired);
    }
    one(data)
}

fn one(data: &[u8]) -> Verdict {
    match bound::within(data.len(), 1, || HighWater::decode(data)) {
        Ok(high) => {
            assert_eq!(high.encode().as_deref(), Ok(data), "one bound, one file");
            assert!(high.next_bucket > 0);
            Verdict::Accepted
        }
        Err(e) => refused_file(&e, data),
    }
}

fn seeds() -> Vec<Seed> {
    let file =
        |next_bucket| HighWater { next_bucket, next_write_number: 65_537 }.encode().expect("a bound that may be");
    let mut zero = file(65);
    zero[6..14].fill(0);
    let mut all_writes = file(65);
    all_writes[14..22].copy_from_slice(&(1_u64 << 63).to_le_bytes());
    let mut past_the_end = file(65);
    past_the_end[14..22].fill(0xff);
    let mut version = file(65);
    version[4] = 2;
    vec![
        Seed::good("first_block", file(65)),
        Seed::good("all_used", file(1 << 63)),
        Seed::good("all_writes_used", with_last_crc(&all_writes).expect("long enough")),
        Seed::bad("past_the_end", with_last_crc(&past_the_end).expect("long enough")),
        Seed::bad("zero", with_last_crc(&zero).expect("long enough")),
        Seed::bad("unknown_version", version),
        Seed::bad("longer", [&file(65)[..], &[0]].concat()),
    ]
}
