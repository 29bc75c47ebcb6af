//! The disks: that the real one and the simulated one keep the same promises, and that the simulated one keeps no stronger ones.

mod admission;
mod conformance;
mod crash_states;
mod crashsafe;
mod faults;
mod real_files;
