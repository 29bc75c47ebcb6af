//! Owns the proof that the bucket store survives every power loss: the product's own store on a simulated disk, every state that
//! the disk may be left in, and an oracle that knows only what was promised.

pub mod explore;
pub mod promise;
pub mod report;
pub mod rules;
pub mod run;
pub mod situation;
pub mod view;
pub mod weakened;
pub mod workloads;
pub mod world;
