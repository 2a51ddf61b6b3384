//! Turns of work on requests: of children, and of archives that are made.
//!
//! They are bounded in all and for each user. The next one is for a user with the fewest, and of those for the one whose last turn is
//! the longest ago: users take turns, however many requests one of them has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use tokio::sync::oneshot;

use super::limits::Places;
use crate::problem::{Problem, Result};

/// Turns of one kind.
#[derive(Debug)]
pub(crate) struct Pool {
    places: Places,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of turns in all, and of each user that has some.
    running: usize,
    of_user: HashMap<i64, usize>,
    /// Number of turns that were given, and the last one of each user.
    given: u64,
    last: HashMap<i64, u64>,
    /// Users that wait, in the order in which they came.
    waiting: Vec<(i64, oneshot::Sender<Turn>)>,
}

/// Turn of a user. It is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    pool: Arc<Pool>,
    user: i64,
}

impl Pool {
    pub(crate) fn new(places: Places) -> Pool {
        Pool { places, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of a user.
    ///
    /// # Errors
    /// Returns an error if too many requests of the user wait already.
    pub(crate) async fn turn(self: &Arc<Pool>, user: i64) -> Result<Turn> {
        let receiver = {
            let mut state = self.state();
            // Those whose clients left wait no more.
            state.waiting.retain(|(_, sender)| !sender.is_closed());
            if state.waiting.iter().filter(|(other, _)| *other == user).count() >= self.places.waiting {
                let detail = format!(
                    "{} of your requests are worked on and {} wait: try again when they are done",
                    self.places.per_user, self.places.waiting
                );
                let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
                return Err(Problem { retry_after_s: Some(5), ..problem });
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push((user, sender));
            receiver
        };
        self.give();
        receiver.await.map_err(|error| Problem::internal(&error))
    }

    /// Returns `true` if all turns are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.state().running >= self.places.at_once
    }

    /// Sends the free turns to those that wait.
    fn give(self: &Arc<Pool>) {
        while let Some((user, sender)) = self.next() {
            // One whose request has gone comes back at once, and is given to the next.
            drop(sender.send(Turn { pool: Arc::clone(self), user }));
        }
    }

    /// Removes the next in line from the queue.
    ///
    /// Of the users with the fewest turns it is the one whose last turn is the longest ago.
    fn next(&self) -> Option<(i64, oneshot::Sender<Turn>)> {
        let mut state = self.state();
        if state.running >= self.places.at_once {
            return None;
        }
        let turns = |user: &i64| state.of_user.get(user).copied().unwrap_or(0);
        let last = |user: &i64| state.last.get(user).copied().unwrap_or(0);
        let of = |(place, (user, _)): (usize, &(i64, _))| (turns(user), last(user), place);
        let free = state.waiting.iter().enumerate().map(of);
        let (.., place) = free.filter(|(turns, ..)| *turns < self.places.per_user).min()?;
        let (user, sender) = state.waiting.remove(place);
        state.running += 1;
        state.given += 1;
        let given = state.given;
        state.last.insert(user, given);
        *state.of_user.entry(user).or_default() += 1;
        Some((user, sender))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut state = self.pool.state();
            state.running -= 1;
            let left = state.of_user.get(&self.user).copied().unwrap_or(1) - 1;
            match left {
                0 => drop(state.of_user.remove(&self.user)),
                left => drop(state.of_user.insert(self.user, left)),
            }
        }
        self.pool.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(at_once: usize, per_user: usize, waiting: usize) -> Arc<Pool> {
        Arc::new(Pool::new(Places { at_once, per_user, waiting }))
    }

    /// Polls a future once.
    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn a_user_that_asks_for_much_leaves_room_for_others() {
        let pool = pool(3, 2, 9);
        let turn = |user| Box::pin(pool.turn(user));
        let mut of_ann: Vec<_> = (0..5).map(|_| turn(1)).collect();
        let mut held: Vec<Turn> = Vec::new();
        held.extend(of_ann.iter_mut().filter_map(|asked| poll(asked.as_mut())?.ok()));
        assert_eq!(held.len(), 2, "two of a user");
        let (mut bob, mut cid) = (turn(2), turn(3));
        let of_bob = poll(bob.as_mut()).expect("a turn").expect("a turn");
        assert!(poll(cid.as_mut()).is_none(), "three in all");
        // Of those that wait, the one with the fewest turns is next, though others came before.
        drop(held.pop());
        let of_cid = poll(cid.as_mut()).expect("a turn").expect("a turn");
        assert!(of_ann[2..].iter_mut().all(|asked| poll(asked.as_mut()).is_none()));
        drop(of_bob);
        let more: Vec<_> = of_ann[2..].iter_mut().filter_map(|asked| poll(asked.as_mut())).collect();
        assert_eq!(more.len(), 1);
        drop((of_cid, held));
    }

    #[test]
    fn users_take_turns_however_many_requests_one_of_them_has() {
        let pool = pool(1, 1, 9);
        let turn = |user| Box::pin(pool.turn(user));
        let mut asked: Vec<_> = [1, 1, 1, 1, 2, 2].map(|user| (user, Some(turn(user)))).into();
        let (mut held, mut order) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            held.clear();
            for (user, open) in &mut asked {
                let ready = open.as_mut().and_then(|asked| poll(asked.as_mut()));
                if let Some(turn) = ready {
                    (*open, order) = (None, [order, vec![*user]].concat());
                    held.push(turn);
                }
            }
        }
        assert_eq!(order, [1, 2, 1, 2, 1]);
    }

    #[test]
    fn requests_that_went_away_hold_no_turn_and_the_queue_is_bounded() {
        let pool = pool(1, 1, 2);
        let held = poll(Box::pin(pool.turn(1)).as_mut()).expect("a turn").expect("a turn");
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(pool.turn(1))).collect();
        assert!(waiting.iter_mut().all(|asked| poll(asked.as_mut()).is_none()));
        let refused = poll(Box::pin(pool.turn(1)).as_mut()).expect("at once").expect_err("refused");
        assert_eq!((refused.status, refused.retry_after_s), (429, Some(5)));
        waiting.clear();
        drop(held);
        assert!(poll(Box::pin(pool.turn(1)).as_mut()).is_some_and(|turn| turn.is_ok()));
        assert_eq!(pool.state().running, 0);
    }
}
