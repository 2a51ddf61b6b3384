//! Memory that answers take until they are sent.
//!
//! Requests are counted, but each may have an answer that its client does not read. What all of them hold is bounded here, by user, or by
//! address without one, and in all. A request waits for a time before its answer is made, while its user has a whole share. An answer that
//! takes more is not sent: words take its place, and connections end whose clients take their answers too slowly. Small answers are always sent, so that a full server explains itself, and users log in.

use std::collections::{BTreeMap, HashMap};
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

use crate::connections::Connection;
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
/// Bytes a second at which an answer is to be taken, after a grace.
///
/// One that is slower ends when others have no room.
const RATE: usize = 64 << 10;
const GRACE: Duration = Duration::from_secs(30);
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
    held: Mutex<Held>,
    is_less: Notify,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    by_reader: HashMap<Reader, usize>,
    large: BTreeMap<u64, Large>,
}

/// Answer that is not small, until it is sent.
#[derive(Debug)]
struct Large {
    bytes: usize,
    /// Time at which it is to be taken.
    due: Instant,
    connection: Option<Connection>,
}

impl Held {
    fn sum(&self) -> usize {
        self.by_reader.values().sum()
    }

    fn of(&self, reader: &Reader) -> usize {
        self.by_reader.get(reader).copied().unwrap_or(0)
    }

    /// Ends connections whose answers were to be taken before now, until there would be room.
    fn end_slow(&mut self, now: Instant, bytes: usize) {
        let mut late: Vec<(Instant, u64)> = self
            .large
            .iter()
            .filter(|(_, large)| large.due <= now)
            .map(|(n, large)| (large.due, *n))
            .collect();
        late.sort_unstable();
        let mut over = (self.sum() + bytes).saturating_sub(ALL);
        for (_, number) in late {
            if over == 0 {
                return;
            }
            let Some(Large { bytes, connection: Some(connection), .. }) = self.large.remove(&number) else {
                continue;
            };
            connection.end();
            over = over.saturating_sub(bytes);
        }
    }
}

/// Bytes of an answer, until it is sent or its connection ends.
#[derive(Debug)]
pub(crate) struct Charge {
    answers: Arc<Answers>,
    reader: Reader,
    bytes: usize,
    number: u64,
}

impl Answers {
    fn held(&self) -> MutexGuard<'_, Held> {
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
        let own = held.of(reader);
        match held.sum() {
            _ if own >= SHARE => Err(of_reader()),
            all if all >= ALL && own > SMALL => Err(of_all()),
            _ => Ok(()),
        }
    }

    /// Counts an answer.
    ///
    /// # Errors
    /// Returns "too many requests" or "service unavailable" if it is too much.
    fn admit(
        self: &Arc<Self>,
        reader: &Reader,
        connection: Option<Connection>,
        bytes: usize,
    ) -> Result<Charge> {
        let mut held = self.held();
        let (own, all, now) = (held.of(reader), held.sum(), Instant::now());
        if bytes > SMALL {
            // The first one of a reader may be larger than a share. Further ones leave as much to others as the reader has.
            let share = SHARE.min(ALL.saturating_sub(all));
            if own > SMALL && own + bytes > share {
                held.end_slow(now, bytes);
                return Err(of_reader());
            }
            if all + bytes > ALL && all > 0 {
                held.end_slow(now, bytes);
                return Err(of_all());
            }
        }
        held.next += 1;
        let number = held.next;
        if bytes > SMALL {
            let due = now + GRACE + Duration::from_secs((bytes / RATE) as u64);
            held.large.insert(number, Large { bytes, due, connection });
        }
        *held.by_reader.entry(reader.clone()).or_default() += bytes;
        Ok(Charge { answers: Arc::clone(self), reader: reader.clone(), bytes, number })
    }

    /// Counts an answer until it is sent.
    ///
    /// # Errors
    /// Returns the problem that takes its place if it is too much.
    pub(crate) fn bound(
        self: &Arc<Self>,
        (reader, connection): (&Reader, Option<Connection>),
        method: &Method,
        response: Response,
    ) -> Result<Response> {
        let exact = response.body().size_hint().exact();
        let bytes = exact.map_or(STREAM, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if bytes == 0 {
            return Ok(response);
        }
        let charge = self.admit(reader, connection, bytes).map_err(|problem| match method.is_safe() {
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
        held.large.remove(&self.number);
        match held.of(&self.reader).saturating_sub(self.bytes) {
            0 => drop(held.by_reader.remove(&self.reader)),
            left => drop(held.by_reader.insert(self.reader.clone(), left)),
        }
        drop(held);
        self.answers.is_less.notify_waiters();
    }
}

fn of_reader() -> Problem {
    let detail = format!(
        "answers to you that were not read yet take the most that there is for them, {} MiB or as much as is left to others: \
         read them, and try again",
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
        answers.held().sum()
    }

    #[test]
    fn a_reader_has_a_share_and_all_together_a_bound() {
        let (answers, [ann, bob]) = answers();
        let large = 5 << 20;
        let held: Vec<_> = (0..150).map_while(|_| answers.admit(&ann, None, large).ok()).collect();
        assert_eq!((held.len(), sum(&answers)), (3, 3 * large));
        let refused = answers.admit(&ann, None, large).expect_err("a share");
        assert_eq!((refused.status, refused.retry_after_s), (429, Some(5)));
        assert!(answers.admit(&ann, None, SMALL).is_ok(), "words are sent");
        let others: Vec<_> =
            (3..99).map_while(|n| answers.admit(&Reader::User(n), None, large).ok()).collect();
        assert_eq!(others.len(), ALL / large - 3);
        assert_eq!(answers.admit(&bob, None, large).expect_err("all").status, 503);
        assert!(answers.admit(&bob, None, SMALL).is_ok());
        drop((held, others));
        assert_eq!(sum(&answers), 0);
        assert!(answers.held().by_reader.is_empty() && answers.held().large.is_empty());
        assert!(answers.admit(&bob, None, 2 * SHARE).is_ok(), "one that is large, alone");
    }

    /// Readers ask for more whenever they are let, and another one comes.
    #[test]
    fn many_answers_of_few_readers_leave_room_for_others() {
        let (answers, [_, bob]) = answers();
        let mut held = Vec::new();
        for _ in 0..100 {
            held.extend((5..8).filter_map(|n| answers.admit(&Reader::User(n), None, 1 << 19).ok()));
        }
        assert!(sum(&answers) <= ALL * 3 / 4, "{} B", sum(&answers));
        held.push(answers.admit(&bob, None, 10 << 20).expect("a part of what is left"));
    }

    /// Three readers hold all of the memory, and take their answers slowly.
    #[tokio::test]
    async fn slow_readers_end_when_others_have_no_room() {
        let (answers, [_, bob]) = answers();
        let all = crate::connections::Connections::default();
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let connections: Vec<Connection> =
            (0..3).map(|_| all.enter(address, false).expect("room").0).collect();
        let hold = |n: usize| answers.admit(&Reader::User(n as i64 + 5), Some(connections[n].clone()), SHARE);
        let charges: Vec<Charge> = (0..3).map(|n| hold(n).expect("a share")).collect();
        assert_eq!(answers.admit(&bob, None, 1 << 20).expect_err("all").status, 503);
        let ended = || async {
            let mut count = 0;
            for connection in &connections {
                let wait = tokio::time::timeout(Duration::from_millis(10), connection.ended());
                count += usize::from(wait.await.is_ok());
            }
            count
        };
        assert_eq!(ended().await, 0, "they have time");
        let due = Instant::now() + GRACE + Duration::from_secs((SHARE / RATE) as u64);
        answers.held().end_slow(due - Duration::from_secs(10), 1 << 20);
        assert_eq!(ended().await, 0);
        answers.held().end_slow(due, 1 << 20);
        assert_eq!(ended().await, 1, "one makes room enough");
        drop(charges);
        assert!(answers.admit(&bob, None, 1 << 20).is_ok());
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
        let held = answers.admit(&ann, None, SHARE).expect("a share");
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
        let mut body = answers.bound((&ann, None), &Method::GET, response).expect("sent").into_body();
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
