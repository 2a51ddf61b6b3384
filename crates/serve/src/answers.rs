//! Memory that answers take until they are sent.
//!
//! Requests are counted, but each may have an answer that its client does not read. What all of them hold is bounded here, by user, or by
//! address without one, and in all. A request waits for a time before its answer is made, while its user has a whole share. An answer that
//! takes more is not sent: words take its place. Small answers are always sent, so that a full server explains itself, and users log in.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use hyper::body::{Buf, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::problem::{Problem, Result};

/// Most bytes of the answers of a user, or of an address.
const SHARE: usize = 16 << 20;
/// Most bytes of the answers of all. One that is alone may be as large.
const ALL: usize = 48 << 20;
/// Bytes of an answer that is always sent: the description of the interface is one.
pub(crate) const SMALL: usize = 88 << 10;
/// Bytes that an answer of unknown size counts: it is made while it is sent.
const STREAM: usize = 96 << 10;
/// Bytes of an answer that are handed on at a time.
///
/// A connection holds a few of them, however much is left of the answer.
const PIECE: usize = 16 << 10;
/// Time in which a request waits for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reader of answers: a user, or an address without one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reader {
    User(i64),
    Address(String),
}

/// Answers that were made, until they are sent.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    held: Mutex<HashMap<Reader, usize>>,
    is_less: Notify,
}

/// Bytes of an answer, until it is sent or its connection ends.
#[derive(Debug)]
pub(crate) struct Charge {
    answers: Arc<Answers>,
    reader: Reader,
    bytes: usize,
}

impl Answers {
    fn held(&self) -> MutexGuard<'_, HashMap<Reader, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a reader has room for an answer.
    ///
    /// # Errors
    /// Returns "too many requests" or "service unavailable" if it has to wait for too long.
    pub(crate) async fn room(&self, reader: &Reader) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            // Before the look, so that no end of an answer falls between.
            let mut less = std::pin::pin!(self.is_less.notified());
            less.as_mut().enable();
            let Err(problem) = self.look(reader) else { return Ok(()) };
            if timeout_at(end, less).await.is_err() {
                return Err(problem);
            }
        }
    }

    /// Refuses a reader who has a whole share.
    ///
    /// While all together have too much it refuses any that has some.
    fn look(&self, reader: &Reader) -> Result<()> {
        let held = self.held();
        let own = held.get(reader).copied().unwrap_or(0);
        match held.values().sum::<usize>() {
            _ if own >= SHARE => Err(of_reader()),
            all if all >= ALL && own > SMALL => Err(of_all()),
            _ => Ok(()),
        }
    }

    /// Counts an answer.
    ///
    /// # Errors
    /// Returns "too many requests" or "service unavailable" if it is too much.
    fn admit(self: &Arc<Self>, reader: &Reader, bytes: usize) -> Result<Charge> {
        let mut held = self.held();
        let (own, all) = (held.get(reader).copied().unwrap_or(0), held.values().sum::<usize>());
        if bytes > SMALL {
            // The first one of a reader may be larger than a share.
            if own > SMALL && own + bytes > SHARE {
                return Err(of_reader());
            }
            if all + bytes > ALL && all > 0 {
                return Err(of_all());
            }
        }
        *held.entry(reader.clone()).or_default() += bytes;
        Ok(Charge { answers: Arc::clone(self), reader: reader.clone(), bytes })
    }

    /// Counts an answer until it is sent.
    ///
    /// # Errors
    /// Returns the problem that takes its place if it is too much.
    pub(crate) fn bound(
        self: &Arc<Self>,
        reader: &Reader,
        method: &Method,
        response: Response,
    ) -> Result<Response> {
        let exact = response.body().size_hint().exact();
        let bytes = exact.map_or(STREAM, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if bytes == 0 {
            return Ok(response);
        }
        let charge = self.admit(reader, bytes).map_err(|problem| match method.is_safe() {
            true => problem,
            false => Problem { detail: format!("it is done, but {}", problem.detail), ..problem },
        })?;
        Ok(response.map(|body| {
            Body::new(Counted { body, rest: Bytes::new(), is_whole: exact.is_some(), _charge: charge })
        }))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut held = self.answers.held();
        let left = held.get(&self.reader).map_or(0, |own| own.saturating_sub(self.bytes));
        match left {
            0 => drop(held.remove(&self.reader)),
            left => drop(held.insert(self.reader.clone(), left)),
        }
        drop(held);
        self.answers.is_less.notify_waiters();
    }
}

fn of_reader() -> Problem {
    let detail = format!(
        "answers to you that were not read yet take {} MiB, the most that there is for them: read them, and try again",
        SHARE >> 20
    );
    Problem { detail, ..Problem::later(5) }
}

fn of_all() -> Problem {
    let detail = "answers that were not read yet take all the memory that there is for them: try again";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
    Problem { retry_after_s: Some(5), ..problem }
}

/// Body that is counted until it was sent.
struct Counted {
    body: Body,
    /// Bytes of the body that are not handed on yet.
    rest: Bytes,
    is_whole: bool,
    _charge: Charge,
}

impl Counted {
    /// Returns a copy of the next piece.
    ///
    /// So the last one does not keep the whole in memory.
    fn piece(&mut self) -> Bytes {
        let piece = Bytes::copy_from_slice(&self.rest[..self.rest.len().min(PIECE)]);
        self.rest.advance(piece.len());
        if self.rest.is_empty() {
            self.rest = Bytes::new();
        }
        piece
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let polled = Pin::new(&mut self.body).poll_frame(context);
            let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
            match frame.into_data() {
                Ok(data) if self.is_whole && data.len() > PIECE => self.rest = data,
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(bytes) => SizeHint::with_exact(bytes + self.rest.len() as u64),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> (Arc<Answers>, [Reader; 2]) {
        (Arc::default(), [Reader::User(1), Reader::User(2)])
    }

    fn sum(answers: &Answers) -> usize {
        answers.held().values().sum()
    }

    #[test]
    fn a_reader_has_a_share_and_all_together_a_bound() {
        let (answers, [ann, bob]) = answers();
        let large = 5 << 20;
        let held: Vec<_> = (0..150).map_while(|_| answers.admit(&ann, large).ok()).collect();
        assert_eq!((held.len(), sum(&answers)), (3, 3 * large));
        let refused = answers.admit(&ann, large).expect_err("a share");
        assert_eq!((refused.status, refused.retry_after_s), (429, Some(5)));
        assert!(answers.admit(&ann, SMALL).is_ok(), "words are sent");
        let others: Vec<_> = (3..99).map_while(|n| answers.admit(&Reader::User(n), large).ok()).collect();
        assert_eq!(others.len(), ALL / large - 3);
        assert_eq!(answers.admit(&bob, large).expect_err("all").status, 503);
        assert!(answers.admit(&bob, SMALL).is_ok());
        drop((held, others));
        assert_eq!(sum(&answers), 0);
        assert!(answers.held().is_empty());
        assert!(answers.admit(&bob, 2 * SHARE).is_ok(), "one that is large, alone");
    }

    #[test]
    fn what_every_connection_may_have_fits() {
        const { assert!(crate::connections::MAX * SMALL <= ALL) };
        let description = serde_json::to_vec(&crate::api::document()).expect("JSON");
        // With room for some more operations.
        assert!(description.len() <= SMALL * 9 / 10, "{} B", description.len());
    }

    #[tokio::test]
    async fn a_request_waits_for_room() {
        let (answers, [ann, bob]) = answers();
        let held = answers.admit(&ann, SHARE).expect("a share");
        let mut waits = Box::pin(answers.room(&ann));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut waits).await.is_err());
        assert!(answers.room(&bob).await.is_ok());
        assert_eq!(answers.look(&ann).expect_err("none").status, 429);
        drop(held);
        assert!(waits.await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_is_handed_on_in_pieces_that_do_not_keep_the_whole() {
        let (answers, [ann, _]) = answers();
        let all: Vec<u8> = (0..100_000).map(|n| n as u8).collect();
        let whole = Bytes::from(all.clone());
        let response = Response::new(Body::from(whole.clone()));
        let mut body = answers.bound(&ann, &Method::GET, response).expect("sent").into_body();
        assert_eq!((body.size_hint().exact(), sum(&answers)), (Some(100_000), 100_000));
        let mut pieces = Vec::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            assert_eq!(sum(&answers), 100_000, "until all is sent");
            pieces.push(frame.expect("read").into_data().expect("data"));
        }
        assert!(whole.is_unique(), "the pieces are copies");
        assert_eq!((pieces.concat(), pieces.iter().all(|piece| piece.len() <= PIECE)), (all, true));
        assert!(body.is_end_stream() && body.size_hint().exact() == Some(0));
        drop(body);
        assert_eq!(sum(&answers), 0);
    }
}
