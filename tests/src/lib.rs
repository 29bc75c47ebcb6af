//! What the end-to-end tests share: real servers, a byte proxy, processes that can be stopped and killed. It tests nothing itself.

mod bytes_proxy;
mod discovery;
mod etcd_cluster;
mod etcd_server;
mod free_port;
mod process_guard;
mod skip;
mod tls_files;
mod wait;

pub use bytes_proxy::{BytesProxy, Direction, Flow, ProxyConnection};
pub use discovery::{EtcdProgram, etcd, etcds};
pub use etcd_cluster::EtcdCluster;
pub use etcd_server::{EtcdServer, EtcdServerOptions};
pub use process_guard::ProcessGuard;
pub use skip::missing;
pub use tls_files::TlsFiles;
pub use wait::{eventually, eventually_within};
