//! Turns of work on requests: of children, and of archives that are made.
//!
//! They are bounded in all and for each user. The next one is for the user whose turns took the least time lately, and of those for one
//! with the fewest: users share the time, however many requests one of them has.
//!
//! The last places may be for short work: a turn there ends after a second of processor time, and its work begins again in another
//! place. So work that takes long, of any number of users, leaves a place to others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::limits::Places;
use crate::problem::{Problem, Result};

/// Time in which what a user's turns took counts half.
const HALF_LIFE: Duration = Duration::from_secs(30);

/// Turns of one kind.
#[derive(Debug)]
pub(crate) struct Pool {
    places: Places,
    /// Places for short work alone.
    short: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of turns in places for any work, and in those for short work.
    running: usize,
    running_short: usize,
    /// Number of turns that were given, and the last one of each user.
    given: u64,
    last: HashMap<i64, u64>,
    /// Time that the turns of each user took lately, without those that go on.
    used: HashMap<i64, Used>,
    /// Starts of the turns that go on, by user.
    starts: HashMap<i64, Vec<Instant>>,
    /// Requests that wait, in the order in which they came.
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    user: i64,
    /// Set for work that no place for short work can do.
    is_long: bool,
    sender: oneshot::Sender<Turn>,
}

/// Time that counts less as it passes.
#[derive(Clone, Copy, Debug)]
struct Used {
    seconds: f64,
    at: Instant,
}

impl Used {
    fn seconds(self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at);
        self.seconds * (-passed.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
    }
}

impl State {
    /// Returns the time in seconds that turns of a user took lately.
    ///
    /// Those that go on count too.
    fn used(&self, user: i64, now: Instant) -> f64 {
        let going = self.starts.get(&user).into_iter().flatten();
        let going: Duration = going.map(|start| now.saturating_duration_since(*start)).sum();
        self.used.get(&user).map_or(0.0, |used| used.seconds(now)) + going.as_secs_f64()
    }

    /// Returns the number of turns of a user.
    fn turns(&self, user: i64) -> usize {
        self.starts.get(&user).map_or(0, Vec::len)
    }

    /// Notes the end of a turn, and its time.
    fn end(&mut self, user: i64, start: Instant, now: Instant) {
        if let Some(starts) = self.starts.get_mut(&user) {
            let place = starts.iter().position(|other| *other == start);
            place.map(|place| starts.swap_remove(place));
            if starts.is_empty() {
                self.starts.remove(&user);
            }
        }
        self.charge(user, now.saturating_duration_since(start), now);
    }

    /// Adds the time of a turn to that of a user.
    fn charge(&mut self, user: i64, time: Duration, now: Instant) {
        // Users whose turns are long ago are forgotten.
        self.used.retain(|_, used| used.seconds(now) > 0.01);
        let before = self.used.get(&user).map_or(0.0, |used| used.seconds(now));
        let seconds = before + time.as_secs_f64();
        self.used.insert(user, Used { seconds, at: now });
    }
}

/// Turn of a user. It is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    pool: Arc<Pool>,
    user: i64,
    start: Instant,
    /// Set in a place for short work.
    is_short: bool,
}

impl Turn {
    /// Returns `true` if the turn is for short work alone.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Returns a place for short work, and waits for one for any work.
    ///
    /// # Errors
    /// Returns an error if the pool has gone.
    pub(crate) async fn lengthen(self) -> Result<Turn> {
        let (pool, user) = (Arc::clone(&self.pool), self.user);
        // Enters the queue before its place is given to another.
        let waiting = pool.enter(user, true);
        drop(self);
        waiting.await.map_err(|error| Problem::internal(&error))
    }
}

impl Pool {
    pub(crate) fn new(places: Places) -> Pool {
        Pool { places, short: 0, state: Mutex::default() }
    }

    /// Returns a pool that keeps places for short work.
    ///
    /// They are a quarter, and one at least. A single place is for any work.
    pub(crate) fn with_short_work(places: Places) -> Pool {
        let short = (places.at_once / 4).max(1).min(places.at_once.saturating_sub(1));
        Pool { short, ..Pool::new(places) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of a user.
    ///
    /// # Errors
    /// Returns an error if too many requests of the user wait already.
    pub(crate) async fn turn(self: &Arc<Pool>, user: i64) -> Result<Turn> {
        self.turn_of(user, false).await
    }

    /// Waits for a turn as [`Pool::turn`], for work that cannot begin again.
    ///
    /// # Errors
    /// Returns an error if too many requests of the user wait already.
    pub(crate) async fn long_turn(self: &Arc<Pool>, user: i64) -> Result<Turn> {
        self.turn_of(user, true).await
    }

    async fn turn_of(self: &Arc<Pool>, user: i64, is_long: bool) -> Result<Turn> {
        self.check_room(user)?;
        let receiver = self.enter(user, is_long);
        self.give();
        receiver.await.map_err(|error| Problem::internal(&error))
    }

    /// Refuses a user of whom as many requests wait as may.
    fn check_room(&self, user: i64) -> Result<()> {
        let mut state = self.state();
        // Those whose clients left wait no more.
        state.waiting.retain(|waiting| !waiting.sender.is_closed());
        if state.waiting.iter().filter(|waiting| waiting.user == user).count() < self.places.waiting {
            return Ok(());
        }
        let detail = format!(
            "{} of your requests are worked on and {} wait: try again when they are done",
            self.places.per_user, self.places.waiting
        );
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
        Err(Problem { retry_after_s: Some(5), ..problem })
    }

    fn enter(&self, user: i64, is_long: bool) -> oneshot::Receiver<Turn> {
        let (sender, receiver) = oneshot::channel();
        self.state().waiting.push(Waiting { user, is_long, sender });
        receiver
    }

    /// Returns `true` if all turns are taken.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state();
        state.running + state.running_short >= self.places.at_once
    }

    /// Sends the free turns to those that wait.
    fn give(self: &Arc<Pool>) {
        while let Some((Waiting { user, sender, .. }, start, is_short)) = self.next() {
            // One whose request has gone comes back at once, and is given to the next.
            drop(sender.send(Turn { pool: Arc::clone(self), user, start, is_short }));
        }
    }

    /// Removes the next in line from the queue. Returns it with its start, and `true` if its place is for short work.
    ///
    /// Of the users whose turns took as many seconds lately it is one with the fewest, and then the one whose last turn is the longest
    /// ago.
    fn next(&self) -> Option<(Waiting, Instant, bool)> {
        let (mut state, now) = (self.state(), Instant::now());
        let is_any = state.running < self.places.at_once - self.short;
        if !is_any && state.running_short >= self.short {
            return None;
        }
        let of = |(place, waiting): (usize, &Waiting)| {
            let user = waiting.user;
            let turns = state.turns(user);
            let is_able = turns < self.places.per_user && (is_any || !waiting.is_long);
            // Whole seconds: those of usual pages do not count.
            let used = state.used(user, now) as u64;
            is_able.then(|| (used, turns, state.last.get(&user).copied().unwrap_or(0), place))
        };
        let (.., place) = state.waiting.iter().enumerate().filter_map(of).min()?;
        let waiting = state.waiting.remove(place);
        match is_any {
            true => state.running += 1,
            false => state.running_short += 1,
        }
        state.given += 1;
        let given = state.given;
        state.last.insert(waiting.user, given);
        state.starts.entry(waiting.user).or_default().push(now);
        Some((waiting, now, !is_any))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let (mut state, now) = (self.pool.state(), Instant::now());
            match self.is_short {
                true => state.running_short -= 1,
                false => state.running -= 1,
            }
            state.end(self.user, self.start, now);
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

    #[test]
    fn who_used_little_time_lately_is_next() {
        let pool = pool(1, 1, 9);
        let held = poll(Box::pin(pool.turn(1)).as_mut()).expect("a turn").expect("a turn");
        let now = Instant::now();
        pool.state().charge(2, Duration::from_secs(40), now);
        let (mut of_two, mut of_one) = (Box::pin(pool.turn(2)), Box::pin(pool.turn(1)));
        assert!(poll(of_two.as_mut()).is_none() && poll(of_one.as_mut()).is_none());
        drop(held);
        let held = poll(of_one.as_mut()).expect("though its turn was the last").expect("a turn");
        drop(held);
        assert!(poll(of_two.as_mut()).is_some());
        // A turn that goes on counts.
        let going = poll(Box::pin(pool.turn(4)).as_mut()).expect("a turn").expect("a turn");
        let later = going.start + Duration::from_secs(9);
        assert!((pool.state().used(4, later) - 9.0).abs() < 0.1);
        drop(going);
        // Time counts half after a while, and is forgotten.
        let mut state = pool.state();
        let later = |times: u32| now + times * HALF_LIFE;
        assert!((state.used(2, later(1)) - 20.0).abs() < 0.1);
        state.charge(3, Duration::ZERO, later(20));
        assert!(!state.used.contains_key(&2));
    }

    /// Any number of users have work that takes long, and one more has some that does not.
    #[test]
    fn a_place_is_left_to_short_work() {
        let pool = Arc::new(Pool::with_short_work(Places { at_once: 4, per_user: 2, waiting: 8 }));
        let turn = |user| Box::pin(pool.turn(user));
        let mut asked: Vec<_> = (0..40).map(|n| turn(n / 4)).collect();
        let mut held: Vec<Turn> = Vec::new();
        for asked in &mut asked {
            held.extend(poll(asked.as_mut()).and_then(Result::ok));
        }
        assert_eq!(held.iter().map(Turn::is_short).collect::<Vec<_>>(), [false, false, false, true]);
        (0..10).for_each(|user| pool.state().charge(user, Duration::from_secs(2), Instant::now()));
        let (mut newcomer, mut next) = (turn(99), turn(98));
        assert!(poll(newcomer.as_mut()).is_none() && poll(next.as_mut()).is_none());
        // What turns out to be long waits for another place.
        let mut longer = Box::pin(held.pop().expect("four").lengthen());
        assert!(poll(longer.as_mut()).is_none());
        let given = poll(newcomer.as_mut()).expect("its turn, before 36 others").expect("a turn");
        assert!(given.is_short());
        drop(given);
        assert!(poll(next.as_mut()).is_some_and(|next| next.is_ok()));
        assert!(poll(longer.as_mut()).is_none(), "no place for short work");
        drop((asked, held));
        assert!(poll(longer.as_mut()).is_some_and(|turn| turn.is_ok_and(|turn| !turn.is_short())));
    }

    #[test]
    fn a_single_place_is_for_any_work() {
        let pool = Arc::new(Pool::with_short_work(Places { at_once: 1, per_user: 1, waiting: 1 }));
        let turn = poll(Box::pin(pool.turn(1)).as_mut()).expect("a turn").expect("a turn");
        assert!(!turn.is_short() && pool.is_full());
    }
}
