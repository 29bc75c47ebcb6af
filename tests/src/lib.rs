//! What the end-to-end tests share: real servers, a byte proxy, processes that can be stopped and killed. It tests nothing itself.

mod audit_case;
pub mod bucket_kit;
mod bytes_proxy;
mod discovery;
mod etcd_cluster;
mod etcd_server;
mod free_port;
pub mod log_kit;
mod process_guard;
mod program;
mod redis_server;
mod skip;
mod tls_files;
mod wait;

pub use audit_case::audit_a_sound_and_a_damaged_log;
pub use bytes_proxy::{BytesProxy, Direction, Flow, ProxyConnection};
pub use discovery::{EtcdProgram, RedisProgram, etcd, etcds, redis};
pub use etcd_cluster::EtcdCluster;
pub use etcd_server::{EtcdServer, EtcdServerOptions};
pub use process_guard::ProcessGuard;
pub use program::{Plimsoll, Ran, plimsoll};
pub use redis_server::{REDIS_DURABLE, RedisServer, RedisServerOptions};
pub use skip::missing;
pub use tls_files::TlsFiles;
pub use wait::{eventually, eventually_within};
