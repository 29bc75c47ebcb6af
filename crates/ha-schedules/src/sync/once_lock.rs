//! Owns the cell that is set once, each call of it one step.

use super::switch;

/// A cell that is set once; a look at it and setting it are one step each.
#[derive(Debug)]
pub struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> OnceLock<T> {
    /// A cell that is not set.
    #[expect(clippy::new_without_default, reason = "the names that production uses, and no more")]
    pub fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    /// What it was set to.
    pub fn get(&self) -> Option<&T> {
        switch();
        self.0.get()
    }

    /// Sets it.
    ///
    /// # Errors
    /// `value`, if it was set before.
    pub fn set(&self, value: T) -> Result<(), T> {
        switch();
        self.0.set(value)
    }
}
