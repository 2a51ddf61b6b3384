//! Threads of one kind of work, which no other work takes.
//!
//! A turn is a thread's, and the request's until it has its answer. So a request that is given up leaves no more work behind than there are
//! threads, and no more answers wait to be sent on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, oneshot};

use crate::problem::{Problem, Result};

type Work = Box<dyn FnOnce() + Send>;

/// Threads that end when it is dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    turns: Arc<Semaphore>,
    work: Sender<Work>,
}

impl Threads {
    /// Starts threads.
    ///
    /// # Panics
    /// Panics if the system has no thread left: the server has just started.
    pub(crate) fn new(name: &str, count: usize) -> Threads {
        let (work, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..count {
            let receiver = Arc::clone(&receiver);
            let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || attend(&receiver));
            started.expect("a thread starts");
        }
        Threads { turns: Arc::new(Semaphore::new(count)), work }
    }

    /// Waits for a thread, and for its answer.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn =
            Arc::clone(&self.turns).acquire_owned().await.map_err(|error| Problem::internal(&error))?;
        let own = Arc::new(turn);
        let kept = Arc::clone(&own);
        let answer = Arc::new(Mutex::new(None));
        let place = Arc::clone(&answer);
        let (done, is_done) = oneshot::channel::<()>();
        let work: Work = Box::new(move || {
            let found = work();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            drop(place);
            drop(kept);
            let _ = done.send(());
        });
        self.work.send(work).map_err(|error| Problem::internal(&error))?;
        is_done.await.map_err(|error| Problem::internal(&error))?;
        let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(own);
        answer.expect("work that did not panic has an answer")
    }
}

fn attend(work: &Mutex<Receiver<Work>>) {
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(next) = next else { return };
        // Its request is answered, and the thread is there for the next.
        let _ = catch_unwind(AssertUnwindSafe(next));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_that_was_given_up_keeps_its_thread_and_its_turn() {
        let threads = Threads::new("test", 1);
        let (release, released) = channel::<()>();
        let first = threads.run(move || {
            let _ = released.recv();
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), first).await.is_err());
        let second = tokio::time::timeout(Duration::from_millis(50), threads.run(|| Ok(2)));
        assert!(second.await.is_err(), "it is at work");
        drop(release);
        assert_eq!(threads.run(|| Ok(3)).await.expect("an answer"), 3);
    }

    #[tokio::test]
    async fn work_that_panics_takes_no_thread_along() {
        let threads = Threads::new("test", 1);
        assert!(threads.run::<()>(|| panic!("a fault")).await.is_err());
        assert_eq!(threads.run(|| Ok(3)).await.expect("an answer"), 3);
    }
}
