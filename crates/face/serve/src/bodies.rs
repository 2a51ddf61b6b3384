//! Memory that bodies of requests take while they arrive.
//!
//! Connections and requests are counted, but each may hold a body for as long as it may take. What all of them hold is bounded here: 64
//! KiB of a request without a user, and places of 64 KiB each, by user and in all, of others.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::StatusCode;
use hyper::body::{Frame, SizeHint};

use crate::places::{Place, Places};
use crate::problem::Problem;

/// Most bytes of a body that is held in memory: of JSON.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Bytes that a place stands for. A body's first ones need none.
const PIECE: usize = 64 << 10;
/// Most places of a body. Longer ones are written to the disk as they arrive.
const MOST: usize = MAX_BYTES / PIECE;
/// Most places of a user, and of all.
pub(crate) const BODIES: (usize, usize) = (128, 512);

/// Places of a request's body, until the request is answered.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    places: Mutex<Vec<Place>>,
    is_refused: AtomicBool,
}

impl Taken {
    /// Returns the problem of a body that was refused. `is_known` is set for a request of a user.
    pub(crate) fn problem(&self, is_known: bool) -> Option<Problem> {
        let problem = match is_known {
            true => Problem {
                detail: format!(
                    "bodies on their way are {} MiB of a user or {} MiB of all, the most at once: wait until one has arrived",
                    (BODIES.0 * PIECE) >> 20,
                    (BODIES.1 * PIECE) >> 20
                ),
                ..Problem::later(1)
            },
            false => Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body has over {PIECE} bytes, the most without a session or a token"),
            ),
        };
        self.is_refused.load(Ordering::Relaxed).then_some(problem)
    }

    /// Returns `true` if there are places for the bytes that have arrived, and takes them.
    fn take(&self, bytes: usize, places: &Arc<Places>, user: i64) -> bool {
        let mut taken = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        while taken.len() < (bytes / PIECE).min(MOST) {
            let Ok(place) = places.take(user) else { return false };
            taken.push(place);
        }
        true
    }
}

/// Bounds the body of a request: of this user, or one without session and token.
pub(crate) fn bound(request: Request, user: Option<(Arc<Places>, i64)>, taken: &Arc<Taken>) -> Request {
    request.map(|body| Body::new(Bounded { body, user, bytes: 0, taken: Arc::clone(taken) }))
}

/// Body that takes places as it arrives.
struct Bounded {
    body: Body,
    user: Option<(Arc<Places>, i64)>,
    bytes: usize,
    taken: Arc<Taken>,
}

impl Bounded {
    /// Returns `true` if the bytes that have arrived may be held.
    fn count(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        match &self.user {
            Some((places, user)) => self.taken.take(self.bytes, places, *user),
            None => self.bytes <= PIECE,
        }
    }
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
        if self.count(frame.data_ref().map_or(0, Bytes::len)) {
            return Poll::Ready(Some(Ok(frame)));
        }
        self.taken.is_refused.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(axum::Error::new("the body is too long"))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: usize, user: Option<(Arc<Places>, i64)>) -> (bool, Arc<Taken>) {
        let taken = Arc::default();
        let request = bound(Request::new(Body::from(vec![0; bytes])), user, &taken);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("starts");
        let read = runtime.block_on(axum::body::to_bytes(request.into_body(), usize::MAX));
        (read.is_ok(), taken)
    }

    #[test]
    fn who_is_not_known_sends_little() {
        assert!(read(PIECE, None).0);
        let (is_read, taken) = read(PIECE + 1, None);
        assert!(!is_read && taken.problem(false).is_some());
    }

    #[test]
    fn users_hold_their_share_until_the_answer() {
        let places = Places::new(MOST, MOST + 1);
        let of = |user| Some((Arc::clone(&places), user));
        let (is_read, held) = read(MAX_BYTES + PIECE, of(1));
        assert!(is_read && held.problem(true).is_none(), "what is longer goes to the disk");
        assert!(!read(PIECE, of(1)).0 && read(PIECE - 1, of(1)).0 && read(PIECE, of(2)).0);
        assert!(!read(2 * PIECE, of(2)).0, "all places");
        drop(held);
        assert!(read(2 * PIECE, of(2)).0);
    }
}
