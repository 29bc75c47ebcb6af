//! GC as a whole, on a simulated disk: each scenario by the name of its row.

mod beside;
mod covered;
mod crashes;
mod evictions;
mod fixture;
mod meanwhile;
mod quarantine;
mod real_disk;
mod rounds;
mod rows;
