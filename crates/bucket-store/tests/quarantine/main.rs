//! Owns histories of a store whose buckets cannot be read at some opens and can be again at later ones, judged by a model of the
//! specification after every step.

mod disk;
mod draw;
mod model;
mod regressions;
mod step;
mod storm;
mod world;
