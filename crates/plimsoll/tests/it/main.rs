//! The program as its users meet it: real processes on real SQLite files. Owns no test itself.

mod admin_http;
mod audit;
mod bad_calls;
mod bucket;
mod bucket_adopt;
mod bucket_places;
mod bucket_trouble;
mod buckets;
mod closed_pipe;
mod commands;
mod cutover;
mod damage;
mod demo;
mod handover;
mod kit;
mod loss;
mod mooncake;
mod names;
mod old_primary;
mod progress;
mod security;
mod start;
mod terminal;
mod upgrade;
