//! Admission between producers: first come first served, and nobody starves. By counts, on one thread, so by no schedule's grace.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ha_kv::faulty::{Fault, OpKind};
use oplog_core::WriterConfig;
use tokio::task::LocalSet;

use crate::support::{Log, entry};

const PRODUCERS: usize = 12;
const ROUNDS: usize = 200;

/// Producers that come back at once, over fewer slots than there are producers: each is served once before any is served twice,
/// although one of them asks for all it can get without waiting.
#[tokio::test(start_paused = true)]
async fn ready_serves_every_producer_in_turn_whatever_a_greedy_one_does() {
    for slots in [1, 2, 5] {
        let log = Log::new().await;
        let node = log.node(WriterConfig { oplog_batch_max_entries: slots, ..WriterConfig::default() }).await;
        node.kv.always(OpKind::Txn, Some(Fault::Delay(Duration::from_millis(1))));
        // Nothing is free until everybody stands in line, and somebody waits from then to the last rounds.
        let held = node.writer.reserve_many(slots).expect("all slots");
        let order = Rc::new(RefCell::new(Vec::new()));
        let greedy = Rc::new(RefCell::new((0_u32, 0_u32)));
        let local = LocalSet::new();
        for producer in 0..PRODUCERS {
            let (writer, order) = (node.writer.clone(), Rc::clone(&order));
            local.spawn_local(async move {
                for _ in 0..ROUNDS {
                    let slot = writer.ready().await.expect("a slot");
                    order.borrow_mut().push(producer);
                    drop(slot.commit(entry(&[producer as u8])).expect("committed"));
                }
            });
        }
        let watched = Rc::clone(&order);
        let (writer, taken) = (node.writer.clone(), Rc::clone(&greedy));
        local
            .run_until(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(held);
                while watched.borrow().len() < PRODUCERS * (ROUNDS - 1) {
                    {
                        let (tried, got) = &mut *taken.borrow_mut();
                        *tried += 1;
                        *got += u32::from(writer.reserve().is_ok());
                    }
                    tokio::task::yield_now().await;
                    tokio::time::sleep(Duration::from_micros(100)).await;
                }
            })
            .await;
        local.await;
        let order = order.borrow();
        assert_eq!(order.len(), PRODUCERS * ROUNDS);
        let mut served = [0_usize; PRODUCERS];
        for producer in &*order {
            served[*producer] += 1;
            let (least, most) = (served.iter().min().expect("some"), served.iter().max().expect("some"));
            assert!(most - least <= 1, "{slots} slots: {served:?}");
        }
        let (tried, got) = *greedy.borrow();
        assert!(tried > 100 && got == 0, "{slots} slots: the greedy one overtook {got} times in {tried}");
    }
}
