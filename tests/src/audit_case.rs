//! Owns the walk of `plimsoll oplog audit` over one log, sound and then damaged, on whatever store it lies in.

use std::sync::Arc;

use ha_kv::{Kv, TxnKv};
use ha_types::BatchId;
use oplog_core::LogKeys;
use serde_json::json;

use crate::log_kit::{Ledger, cluster, durable, lead};
use crate::{Plimsoll, Ran};

/// Writes a log over `kv` and audits it at `url`: sound, with a changed byte and a key of nobody's, with a batch that is gone.
///
/// # Panics
/// If the exit, the verdict or a named fault is not what it must be.
pub async fn audit_a_sound_and_a_damaged_log(program: &Plimsoll, kv: Arc<dyn TxnKv>, url: &str) {
    let (cluster, keys) = (cluster(), LogKeys::of(&cluster()));
    let audit = async |more: &[&str]| {
        program.run(&[&["oplog", "audit", "--store", url, "--cluster", cluster.as_str()], more].concat()).await
    };
    let absent = audit(&[]).await;
    assert!(absent.code == 2 && absent.err.contains("there is no log below /oplog/rows/"), "{absent:?}");

    let (_, writer) = lead(kv.clone()).await;
    let ledger = Ledger::default();
    for n in 1..=3 {
        ledger.commit(&writer, "text").await;
        assert_eq!(ledger.wait_for(n).await.len(), n);
    }
    assert_eq!(ledger.seen(), durable(1..=3));
    drop(writer);

    let sound = audit(&["--json"]).await;
    let report = sound.json();
    assert_eq!(
        (sound.code, &report["verdict"], &report["faults"]["count"]),
        (0, &json!("sound"), &json!(0)),
        "{report}"
    );
    assert_eq!((&report["batches"]["plb1"], &report["batches"]["entries"]), (&json!(3), &json!(3)), "{report}");
    assert_eq!((&report["prefix"]["epoch"], &report["prefix"]["last_seq"]), (&json!(1), &json!(3)), "{report}");
    let told = audit(&[]).await;
    assert!(told.code == 0 && told.out.lines().last().is_some_and(|l| l.starts_with("sound: 4 keys")), "{told:?}");

    let (second, stray) = (keys.batch(BatchId::new(2)), b"/oplog/rows/readme");
    let good = kv.get(&second).await.expect("a read").expect("batch 2");
    let mut bad = good.to_vec();
    *bad.last_mut().expect("a record has bytes") ^= 1;
    put(&*kv, &second, bad).await;
    put(&*kv, stray, b"?".to_vec()).await;
    let key = second.escape_ascii().to_string();
    faults(&audit(&["--json"]).await, &json!({ "batch_undecodable": 1, "stray_key": 1 }), &key);
    let told = audit(&[]).await;
    assert_eq!(told.code, 1, "{told:?}");
    for words in [&format!("FAULT batch_undecodable: {key}: expected "), "FAULT stray_key: /oplog/rows/readme"] {
        assert!(told.out.contains(words), "{words}: {told:?}");
    }

    kv.delete(stray).await.expect("a delete");
    kv.delete(&second).await.expect("a delete");
    faults(&audit(&["--json"]).await, &json!({ "batch_missing": 1 }), &key);
    put(&*kv, &second, good.to_vec()).await;
    assert_eq!(audit(&["--json"]).await.code, 0, "and sound again, so nothing else was touched");
}

fn faults(ran: &Ran, by_kind: &serde_json::Value, first_key: &str) {
    let report = ran.json();
    assert_eq!(
        (ran.code, &report["verdict"], &report["faults"]["by_kind"]),
        (1, &json!("faults"), by_kind),
        "{report}"
    );
    assert_eq!(report["faults"]["listed"][0]["key"], first_key, "{report}");
}

async fn put(kv: &dyn TxnKv, key: &[u8], value: Vec<u8>) {
    Kv::put(kv, key, value.into()).await.expect("a put");
}
