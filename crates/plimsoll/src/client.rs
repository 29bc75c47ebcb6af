//! Owns the client: it finds the leader, follows it, waits where it is told to, and never repeats a change whose fate is open.
//!
//! What is followed: NOT_LEADER, and connections that were never made. What is waited for: RETRY_AFTER, up to the timeout. A
//! change that was cut short is reported as unknown; only the caller can look.

mod calls;
mod error;
mod follow;
mod options;

use std::collections::HashMap;

use parking_lot::Mutex;
use tonic::transport::Channel;

pub(crate) use error::CallError;
pub(crate) use options::{ClientOptions, ClientTls};

/// A client of one cluster. Calls may run at the same time.
#[derive(Debug)]
pub(crate) struct Client {
    options: ClientOptions,
    transport: options::Transport,
    channels: Mutex<HashMap<String, Channel>>,
    leader: Mutex<Option<String>>,
}

impl Client {
    /// Reads the files that the options name; connects to nothing yet.
    ///
    /// # Errors
    /// A sentence about the option that is wrong.
    pub(crate) fn new(options: ClientOptions) -> Result<Self, String> {
        let transport = options.transport()?;
        Ok(Self { options, transport, channels: Mutex::default(), leader: Mutex::default() })
    }
}
