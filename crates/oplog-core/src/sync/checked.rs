//! Owns the same names on `shuttle`: every lock, atomic access, wake-up and wait is a point where another task may run. Tokio's
//! `Notify` and `watch` are the real ones, each call of theirs one step: they are checked where they are made.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) use shuttle::future::yield_now;
pub(crate) use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::atomic::AtomicU64;
pub(crate) use shuttle::thread::{Thread, current as current_thread, park, yield_now as yield_thread};

/// Lets another task run, if the schedule says so.
fn switch() {
    shuttle::thread::sleep(Duration::ZERO);
}

/// Nothing to wait for: others run at the looks around it.
pub(crate) fn spin_loop() {}

/// A lock that no panic poisons, as `parking_lot` has it.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A cell that is set once; a look at it and setting it are one step each.
#[derive(Debug)]
pub(crate) struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        switch();
        self.0.get()
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        switch();
        self.0.set(value)
    }
}

/// Tokio's `Notify`, each call one step.
#[derive(Debug)]
pub(crate) struct Notify(tokio::sync::Notify);

impl Notify {
    pub(crate) fn new() -> Self {
        Self(tokio::sync::Notify::new())
    }

    pub(crate) fn notify_one(&self) {
        switch();
        self.0.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        switch();
        self.0.notify_waiters();
    }

    pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        switch();
        self.0.notified()
    }
}

/// Tokio's `watch`, each send one step.
pub(crate) mod watch {
    pub(crate) use tokio::sync::watch::Receiver;

    #[derive(Debug)]
    pub(crate) struct Sender<T>(tokio::sync::watch::Sender<T>);

    impl<T> Sender<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(tokio::sync::watch::Sender::new(value))
        }

        pub(crate) fn subscribe(&self) -> Receiver<T> {
            self.0.subscribe()
        }

        pub(crate) fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
            super::switch();
            self.0.send_if_modified(modify)
        }
    }
}

/// What spawns.
#[derive(Debug)]
pub(crate) struct Runtime;

impl Runtime {
    pub(crate) fn current() -> Self {
        Self
    }

    pub(crate) fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) {
        drop(shuttle::future::spawn(task));
    }

    pub(crate) fn spawn_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) {
        drop(shuttle::thread::spawn(work));
    }
}

/// A timer that may fire at any time after its first look: how long it takes is the schedule's to say.
pub(crate) async fn sleep(_: Duration) {
    yield_now().await;
}

/// The time of [`timeout`] was up.
#[derive(Debug)]
pub(crate) struct Elapsed;

/// Awaits `future` until a timer fires.
pub(crate) async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    OrElapsed { future: pin!(future), timer: pin!(sleep(limit)) }.await
}

struct OrElapsed<'a, F, T> {
    future: Pin<&'a mut F>,
    timer: Pin<&'a mut T>,
}

impl<F: Future, T: Future<Output = ()>> Future for OrElapsed<'_, F, T> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        self.timer.as_mut().poll(cx).map(|()| Err(Elapsed))
    }
}
