//! The program as its users meet it: real processes on real SQLite files. Owns no test itself.

mod admin_http;
mod bad_calls;
mod commands;
mod damage;
mod demo;
mod handover;
mod kit;
mod loss;
mod names;
mod security;
mod start;
