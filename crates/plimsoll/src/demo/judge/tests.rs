//! Owns the proof that the judge can fail: a sound run is acquitted, and each kind of loss is found when it is made.

mod any_bytes;

use std::collections::BTreeMap;

use ha_kv::{Kv as _, MemoryKv};

use super::crc::crc32c;
use super::log::{Log, LogError};
use super::{Fold, Kind, Promises, Verdict, judge, read};
use crate::demo::ledger::{Answer, Call, Event, Incarnation, Ledger, Line, Promise};

/// One entry as the test writes it: op type, key, payload.
type Entry = (u8, &'static str, Vec<u8>);

fn number(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn piece(bytes: &[u8], to: &mut Vec<u8>) {
    number(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

fn incarnation(n: u128) -> Incarnation {
    Incarnation::from((1 << 96) | n)
}

fn put(key: &'static str, n: u128, address: u64) -> Entry {
    let mut payload = vec![1];
    payload.extend(incarnation(n).to_bytes());
    payload.extend([9; 16]);
    number(100, &mut payload);
    number(1, &mut payload);
    piece(b"seg", &mut payload);
    number(address, &mut payload);
    (1, key, payload)
}

fn removal(key: &'static str, n: u128) -> Entry {
    (3, key, [&[1][..], &incarnation(n).to_bytes()].concat())
}

fn mount() -> Entry {
    let mut payload = vec![1];
    piece(b"h:1", &mut payload);
    number(0, &mut payload);
    number(10_000, &mut payload);
    (5, "seg", payload)
}

fn record(id: u64, first: u64, epoch: u64, prev: u32, entries: &[Entry]) -> Vec<u8> {
    let mut body = Vec::new();
    for value in [id, first, epoch, u64::from(prev), 1_700_000_000_000, 1] {
        number(value, &mut body);
    }
    piece(b"default", &mut body);
    number(entries.len() as u64, &mut body);
    for (op, key, payload) in entries {
        body.push(*op);
        number(0, &mut body);
        piece(key.as_bytes(), &mut body);
        piece(payload, &mut body);
    }
    let crc = crc32c(&[&[1, 0], &body]);
    [b"PLB1", &[1, 0][..], &crc.to_le_bytes(), &body].concat()
}

/// Writes batches of epochs 1, 2, ... and the prefix behind them.
async fn store(batches: &[Vec<Entry>]) -> MemoryKv {
    let kv = MemoryKv::new();
    let (mut first, mut prev) = (1, 0);
    for (id, entries) in (1..).zip(batches) {
        let bytes = record(id, first, id, prev, entries);
        prev = u32::from_le_bytes(bytes[6..10].try_into().unwrap());
        first += entries.len() as u64;
        kv.put(format!("/oplog/c/batches/{id:020}").as_bytes(), bytes.into()).await.unwrap();
    }
    let head = format!(
        "schema_version=1 epoch={} owner=00000000000000aa batch_id={} last_seq={}",
        batches.len(),
        batches.len(),
        first - 1
    );
    let line = format!("{head} checksum={:08x}", crc32c(&[head.as_bytes()]));
    kv.put(b"/oplog/c/durable_prefix", line.into()).await.unwrap();
    kv
}

async fn log(batches: &[Vec<Entry>]) -> Result<Log, LogError> {
    read(&store(batches).await, "/oplog", "c").await
}

fn ledger(calls: &[(Call, Option<Answer>)]) -> Ledger {
    let mut lines = Vec::new();
    for (op, (call, answer)) in (1..).zip(calls) {
        lines.push(Line { op, at_ns: op, event: Event::Sent(call.clone()) });
        let answer = answer.clone().map(|answer| Line { op, at_ns: op, event: Event::Answered(answer) });
        lines.extend(answer);
    }
    Ledger { lines }
}

fn end(key: &str, n: u128, promise: Promise) -> Call {
    Call::PutEnd { key: key.into(), incarnation: incarnation(n), promise }
}

fn remove(key: &str, n: u128) -> Call {
    Call::Remove { key: key.into(), incarnation: incarnation(n), promise: Promise::Durable }
}

/// a: put and kept. b: put and removed. c: accepted only. d: cut short. e: refused.
fn sound_ledger() -> Ledger {
    ledger(&[
        (end("a", 1, Promise::Durable), Some(Answer::Durable)),
        (end("b", 2, Promise::Durable), Some(Answer::Durable)),
        (remove("b", 2), Some(Answer::Durable)),
        (end("c", 3, Promise::Accepted), Some(Answer::Accepted)),
        (end("d", 4, Promise::Durable), None),
        (end("e", 5, Promise::Durable), Some(Answer::Refused("no".into()))),
    ])
}

fn sound_log() -> Vec<Vec<Entry>> {
    vec![vec![mount(), put("a", 1, 0), put("b", 2, 100)], vec![removal("b", 2), put("d", 4, 100)]]
}

fn answers(of: &Fold) -> BTreeMap<Vec<u8>, Option<Incarnation>> {
    let keys = ["a", "b", "c", "d", "e"].map(|key| key.as_bytes().to_vec());
    keys.into_iter().map(|key| (key.clone(), of.live.get(&key).map(|o| o.incarnation))).collect()
}

async fn verdict(ledger: &Ledger, batches: &[Vec<Entry>]) -> Verdict {
    let fold = Fold::of(&log(batches).await.unwrap());
    judge(&Promises::of(std::slice::from_ref(ledger)), &fold, &answers(&fold))
}

fn kinds(verdict: &Verdict) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = verdict.findings.iter().map(|finding| finding.kind).collect();
    kinds.dedup();
    kinds
}

#[tokio::test]
async fn a_sound_run_is_acquitted_whichever_way_the_open_calls_went() {
    let verdict = verdict(&sound_ledger(), &sound_log()).await;
    assert_eq!(verdict.findings, []);
    assert_eq!((verdict.either_applied, verdict.either_lost), (1, 1), "d is in the log, c is not");
    let promises = Promises::of(&[sound_ledger()]);
    assert_eq!((promises.acknowledged, promises.accepted, promises.cut, promises.refused), (3, 1, 1, 1));
}

#[tokio::test]
async fn an_acknowledged_put_that_is_not_in_the_log_is_missing() {
    let mut batches = sound_log();
    batches[0].remove(1);
    assert_eq!(kinds(&verdict(&sound_ledger(), &batches).await), [Kind::Missing]);
}

#[tokio::test]
async fn an_acknowledged_removal_that_is_not_in_the_log_is_a_resurrection() {
    let mut batches = sound_log();
    batches[1] = vec![put("d", 4, 200)];
    assert_eq!(kinds(&verdict(&sound_ledger(), &batches).await), [Kind::Resurrected]);
}

#[tokio::test]
async fn an_entry_that_is_there_twice_is_doubled() {
    let mut batches = sound_log();
    batches.push(vec![put("a", 1, 300)]);
    assert_eq!(kinds(&verdict(&sound_ledger(), &batches).await), [Kind::Doubled]);
    let mut batches = sound_log();
    batches.push(vec![removal("b", 2)]);
    assert_eq!(kinds(&verdict(&sound_ledger(), &batches).await), [Kind::Doubled]);
}

#[tokio::test]
async fn a_range_with_two_owners_is_doubled() {
    for address in [0, 50, 9_950] {
        let mut batches = sound_log();
        batches[1][1] = put("d", 4, address);
        assert_eq!(kinds(&verdict(&sound_ledger(), &batches).await), [Kind::Doubled], "{address}");
    }
}

#[tokio::test]
async fn what_was_refused_or_never_asked_for_is_resurrected() {
    for entry in [put("e", 5, 500), put("x", 77, 500)] {
        let mut batches = sound_log();
        batches.push(vec![entry]);
        assert!(kinds(&verdict(&sound_ledger(), &batches).await).contains(&Kind::Resurrected));
    }
}

#[tokio::test]
async fn a_removal_that_nobody_asked_for_is_a_loss() {
    let mut batches = sound_log();
    batches.push(vec![removal("a", 1)]);
    assert_eq!(kinds(&verdict(&sound_ledger(), &batches).await), [Kind::Missing]);
}

#[tokio::test]
async fn a_primary_that_differs_from_the_log_is_found() {
    let fold = Fold::of(&log(&sound_log()).await.unwrap());
    let promises = Promises::of(&[sound_ledger()]);
    let mut primary = answers(&fold);
    primary.insert(b"a".to_vec(), None);
    assert_eq!(kinds(&judge(&promises, &fold, &primary)), [Kind::Missing]);
    let mut primary = answers(&fold);
    primary.insert(b"b".to_vec(), Some(incarnation(2)));
    assert_eq!(kinds(&judge(&promises, &fold, &primary)), [Kind::Resurrected]);
    let mut primary = answers(&fold);
    primary.remove(&b"a"[..]);
    assert_eq!(kinds(&judge(&promises, &fold, &primary)), [Kind::Missing], "a key that nobody asked for");
}

#[tokio::test]
async fn a_read_that_contradicts_a_promise_is_found() {
    let get = |key: &str| Call::Get { key: key.into() };
    for (read, answer, kind) in [
        (get("a"), Answer::Absent, Kind::Missing),
        (get("b"), Answer::Found(incarnation(2)), Kind::Resurrected),
        (remove("a", 1), Answer::Absent, Kind::Missing),
    ] {
        let mut ledger = sound_ledger();
        for (op, event) in [(90, Event::Sent(read)), (90, Event::Answered(answer))] {
            ledger.lines.push(Line { op, at_ns: 90, event });
        }
        assert_eq!(kinds(&verdict(&ledger, &sound_log()).await), [kind]);
    }
}

#[tokio::test]
async fn a_broken_log_is_no_log() {
    let flip = |id: u64, at: usize| async move {
        let kv = store(&sound_log()).await;
        let key = format!("/oplog/c/batches/{id:020}");
        let mut bytes = kv.get(key.as_bytes()).await.unwrap().unwrap().to_vec();
        bytes[at] ^= 1;
        kv.put(key.as_bytes(), bytes.into()).await.unwrap();
        read(&kv, "/oplog", "c").await
    };
    let length = record(1, 1, 1, 0, &sound_log()[0]).len();
    for at in 0..length {
        assert!(matches!(flip(1, at).await, Err(LogError::Broken { .. })), "byte {at}");
    }
}

#[tokio::test]
async fn a_gap_an_excess_and_a_missing_prefix_are_no_log() {
    let kv = store(&sound_log()).await;
    kv.delete(format!("/oplog/c/batches/{:020}", 1).as_bytes()).await.unwrap();
    assert!(read(&kv, "/oplog", "c").await.is_err(), "a gap");
    let kv = store(&sound_log()).await;
    let third = record(3, 6, 2, 0, &[put("x", 9, 0)]);
    kv.put(format!("/oplog/c/batches/{:020}", 3).as_bytes(), third.into()).await.unwrap();
    assert!(read(&kv, "/oplog", "c").await.is_err(), "a batch above the prefix");
    let kv = store(&sound_log()).await;
    kv.delete(b"/oplog/c/durable_prefix").await.unwrap();
    assert!(read(&kv, "/oplog", "c").await.is_err(), "no prefix");
}

/// The server's encoder and the judge's decoder know only the published format of each other.
#[tokio::test]
async fn the_servers_encoder_and_the_judges_decoder_agree() {
    use ha_types::{BatchId, Epoch, Seq};
    use oplog_core::record::{BatchHeader, OpenBatch};
    let mut open = OpenBatch::new();
    let (_, key, payload) = put("a", 1, 0);
    open.push(&oplog_core::NewEntry { op_type: 1, tenant: "default", key: key.as_bytes(), payload: &payload }).unwrap();
    let header = BatchHeader {
        batch_id: BatchId::new(1),
        first_seq: Seq::new(1),
        epoch: Epoch::new(1),
        prev_crc: 0,
        timestamp_ms: 1_700_000_000_000,
    };
    let sealed = open.seal(header).unwrap();
    let mut room = Vec::new();
    let read = super::record::Record::parse(&sealed.bytes, &mut room).unwrap();
    assert_eq!((read.batch_id, read.first_seq, read.epoch, read.crc), (1, 1, 1, sealed.crc));
    assert_eq!((read.entries[0].op, read.entries[0].tenant), (1, "default"));
    assert_eq!((read.entries[0].key, read.entries[0].payload), (key.as_bytes(), &payload[..]));
}
