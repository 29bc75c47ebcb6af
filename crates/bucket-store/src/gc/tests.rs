//! GC as a whole, on a simulated disk: each scenario by the name of its row.

mod beside;
mod crashes;
mod evictions;
mod fixture;
mod real_disk;
mod rounds;
mod rows;
