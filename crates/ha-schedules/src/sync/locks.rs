//! Owns the locks: `shuttle`'s, which no panic poisons here, as `parking_lot`'s are.

use std::sync::{PoisonError, TryLockError};

use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A lock that no panic poisons, as `parking_lot` has it.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Around `value`, held by nobody.
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if nobody holds it now.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A lock for many readers that no panic poisons.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Around `value`, held by nobody.
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    /// Waits until nobody writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody has it.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock for writing, if nobody has it now.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        match self.0.try_write() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value of a lock that nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
