//! Memory that bodies of requests take while they arrive.
//!
//! Connections and requests are counted, but each may hold a body for as long as it may take. What all of them hold is bounded here: 64
//! KiB of a request without a user, and places of 64 KiB each, by user and in all, of others.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::StatusCode;
use hyper::body::{Frame, SizeHint};

use crate::places::{Full, Place, Places};
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
    refused: Mutex<Option<Refused>>,
}

/// Reason for which a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// No place is free for the bodies of users.
    Full(Full),
    /// Body that is too long for a request without a user.
    Long,
}

impl Taken {
    /// Returns the problem of a body that was refused.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let refused = *self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mib = |places| (places * PIECE) >> 20;
        let later = |detail| Problem { detail, ..Problem::later(1) };
        Some(match refused? {
            Refused::Full(Full::OfUser(most)) => later(format!(
                "your uploads have {} MiB in flight, of which each counts up to {} MiB, and a user has as many at once: wait until one has arrived",
                mib(most),
                mib(MOST)
            )),
            Refused::Full(Full::OfAll) => later(format!(
                "uploads of all users have {} MiB in flight, of which each counts up to {} MiB, the most at once: wait until some have arrived",
                mib(BODIES.1),
                mib(MOST)
            )),
            Refused::Long => Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body has over {PIECE} bytes, the most without a session or a token"),
            ),
        })
    }

    fn refuse(&self, refused: Refused) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
    }

    /// Reserves places for the bytes that have arrived.
    fn take(&self, bytes: usize, places: &Arc<Places>, user: i64) -> Result<(), Full> {
        let mut taken = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        while taken.len() < (bytes / PIECE).min(MOST) {
            taken.push(places.take(user)?);
        }
        Ok(())
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
    /// Counts bytes that have arrived.
    fn count(&mut self, bytes: usize) -> Result<(), Refused> {
        self.bytes = self.bytes.saturating_add(bytes);
        match &self.user {
            Some((places, user)) => self.taken.take(self.bytes, places, *user).map_err(Refused::Full),
            None => (self.bytes <= PIECE).then_some(()).ok_or(Refused::Long),
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
        Poll::Ready(Some(match self.count(frame.data_ref().map_or(0, Bytes::len)) {
            Ok(()) => Ok(frame),
            Err(refused) => {
                self.taken.refuse(refused);
                Err(axum::Error::new("the body is too long"))
            }
        }))
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
        assert!(!is_read && taken.problem().is_some_and(|problem| problem.status == 413));
    }

    #[test]
    fn users_hold_their_share_until_the_answer() {
        let places = Places::new(MOST, MOST + 1);
        let of = |user| Some((Arc::clone(&places), user));
        let (is_read, held) = read(MAX_BYTES + PIECE, of(1));
        assert!(is_read && held.problem().is_none(), "what is longer goes to the disk");
        let refused = |bytes, user| {
            let (is_read, taken) = read(bytes, of(user));
            assert!(!is_read);
            let problem = taken.problem().expect("refused");
            assert_eq!((problem.status, problem.retry_after_s), (429, Some(1)));
            problem.detail
        };
        assert!(refused(PIECE, 1).starts_with("your uploads have 1 MiB in flight"));
        assert!(read(PIECE - 1, of(1)).0 && read(PIECE, of(2)).0);
        assert!(refused(2 * PIECE, 2).starts_with("uploads of all users"), "all places");
        drop(held);
        assert!(read(2 * PIECE, of(2)).0);
    }
}
