//! Owns the gRPC side: requests become calls of the master, its answers become replies. It decides nothing about the data.

mod admin;
mod auth;
mod convert;
mod metadata;
mod server;

pub(crate) use server::{GrpcServer, bind};
