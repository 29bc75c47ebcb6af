//! What goes first after a completion: the next batch, or those who are woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use ha_kv::test_kit::Detour;
use ha_kv::{KvError, MemoryKv, Txn, TxnKv, TxnOutcome};
use ha_types::{AlwaysLeads, SeededEntropy, SystemClock};
use oplog_core::{BatchStorage, OpenOptions, OrderedWriter, Replica, WriterConfig, WriterEnv, claim_and_verify};
use tokio::sync::{mpsc, oneshot};

use crate::support::{Log, Payloads, entry};

type Request = (Txn, oneshot::Sender<Result<TxnOutcome, KvError>>);

/// A memory store behind a task that has its connection, as a client of a server has it.
#[derive(Debug)]
struct Connected {
    memory: Arc<MemoryKv>,
    connection: mpsc::Sender<Request>,
}

#[async_trait]
impl Detour for Connected {
    fn store(&self) -> &dyn TxnKv {
        &*self.memory
    }

    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        let (answer, answered) = oneshot::channel();
        self.connection.send((txn.clone(), answer)).await.expect("the connection");
        answered.await.expect("an answer")
    }
}

/// Producers that wait for a slot fill the queue as soon as they are woken. The connection's task has the batch before that: no
/// entry of theirs was committed when it comes to send it, so that the store works while they do.
///
/// On the one worker of a runtime of many: what a task woke last runs next there.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_full_batch_is_on_its_way_before_the_producers_in_line_fill_the_next() {
    const SLOTS: usize = 64;
    const BATCHES: usize = 50;
    let memory = Arc::new(MemoryKv::new());
    let (connection, mut requests) = mpsc::channel::<Request>(1);
    let kv = Arc::new(Connected { memory: Arc::clone(&memory), connection });
    // Until there is a writer, what is asked is answered.
    let (told, mut writer_known) = oneshot::channel::<OrderedWriter>();
    let stop = Arc::new(AtomicBool::new(false));
    let connection = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            let mut writer = None;
            let mut committed_before_sent = Vec::new();
            while let Some((txn, answer)) = requests.recv().await {
                writer = writer.or_else(|| writer_known.try_recv().ok());
                if let Some(writer) = writer.as_ref().filter(|_| !stop.load(Ordering::SeqCst)) {
                    committed_before_sent.push(writer.metrics().waiting_entries);
                    while writer.metrics().waiting_entries < SLOTS as u64 {
                        tokio::task::yield_now().await;
                    }
                    if committed_before_sent.len() == BATCHES {
                        stop.store(true, Ordering::SeqCst);
                    }
                }
                if stop.load(Ordering::SeqCst) {
                    writer = None;
                }
                let _ = answer.send(memory.txn(&txn).await);
            }
            committed_before_sent
        }
    });
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let storage = BatchStorage::open(kv, Log::keys(), options).await.expect("the log opens");
    storage.create_first_prefix().await.expect("a fresh log");
    let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SeededEntropy::new(1)));
    let replica = Replica::empty(Payloads::default());
    let pause = std::time::Duration::from_millis(1);
    let claim = claim_and_verify(storage, replica, &AlwaysLeads, &*clock, &*entropy, pause).await;
    let claimed = claim.expect("the claim").into_parts().1;
    let config = WriterConfig { oplog_batch_max_entries: SLOTS, ..WriterConfig::default() };
    let writer = OrderedWriter::start(claimed, config, WriterEnv { clock, entropy }).expect("the writer starts");
    told.send(writer.clone()).expect("the connection");
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let (writer, stop) = (writer.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    drop(writer.ready().await.expect("a slot").commit(entry(b"bulk")).expect("committed"));
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("a producer");
    }
    drop(writer);
    let committed_before_sent = connection.await.expect("the connection ends with its clients");
    assert_eq!(committed_before_sent.len(), BATCHES);
    // The first ones find producers that have not come to the line yet.
    let steady = &committed_before_sent[2..];
    assert!(steady.iter().all(|committed| *committed == 0), "committed before the batch was sent: {steady:?}");
}
