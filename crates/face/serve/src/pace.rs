//! Time of requests: bodies make progress, and answers begin soon after them.
//!
//! A client that sends next to nothing holds a connection and places for bodies, so that a body has a least rate and a longest pause.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use crate::connections::{Connection, Work};
use crate::pages;
use crate::problem::Problem;

/// Value of `connection` in an answer to an unread body.
const CLOSE: HeaderValue = HeaderValue::from_static("close");
/// Time between two looks at a body.
const LOOK: Duration = Duration::from_secs(1);

/// Limits of a request in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Time to the beginning of the answer, from the end of the body. It is that of a body without its bytes, too.
    answer: Duration,
    /// Longest pause of a body that is waited for.
    pause: Duration,
    /// Least rate of a body in bytes a second: each byte adds to its time.
    rate: u32,
}

impl Pace {
    pub(crate) const USUAL: Pace =
        Pace { answer: Duration::from_secs(60), pause: Duration::from_secs(30), rate: 16 << 10 };

    /// Returns the problem of a request that is late.
    fn problem(self, late: Late) -> Problem {
        let Pace { answer, pause, rate } = self;
        let detail = match late {
            Late::Body => format!(
                "the body came too slowly: expected {rate} bytes a second after the first {} s, without a pause of {} s",
                answer.as_secs(),
                pause.as_secs()
            ),
            Late::Answer => format!(
                "no answer within {} s: expected a smaller request, or one when fewer wait",
                answer.as_secs()
            ),
        };
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
    }
}

/// Part of a request that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    Body,
    Answer,
}

/// Progress of a body.
#[derive(Debug)]
struct Progress {
    start: Instant,
    bytes: u64,
    /// Time since which more of it is waited for.
    waits: Option<Instant>,
    /// Time of its end, or at which its reader lost interest.
    end: Option<Instant>,
    /// Connection that the request came by.
    connection: Option<Connection>,
    /// Work on the request, from the end of its body on.
    work: Option<Work>,
    /// Set if the connection had to make room before the request had arrived in full.
    is_gone: bool,
    /// Set if the body was given up before its end.
    is_cut: bool,
}

impl Progress {
    /// Returns `true` if work on the request may begin. The end of its body is noted.
    ///
    /// It may not if the connection had to make room.
    fn arrive(&mut self, now: Instant) -> bool {
        if self.end.is_none() {
            self.end = Some(now);
            self.work = self.connection.as_ref().and_then(Connection::work);
            self.is_gone = self.connection.is_some() && self.work.is_none();
        }
        !self.is_gone
    }

    /// Returns the part that is late, if one is.
    fn late(&self, pace: Pace, now: Instant) -> Option<Late> {
        if let Some(end) = self.end {
            return (now >= end + pace.answer).then_some(Late::Answer);
        }
        let earned = Duration::from_secs_f64(self.bytes as f64 / f64::from(pace.rate));
        let is_late = now >= self.start + pace.answer + earned
            || self.waits.is_some_and(|since| now >= since + pace.pause);
        is_late.then_some(if self.waits.is_some() { Late::Body } else { Late::Answer })
    }
}

/// Passes a request on, and answers 408 if it or its answer is late. Answers that have begun have their own limits.
pub(crate) async fn in_time(request: Request, next: Next, pace: Pace) -> Response {
    let start = Instant::now();
    let connection = request.extensions().get::<Connection>().cloned();
    let mut progress = Progress {
        start,
        bytes: 0,
        waits: None,
        end: None,
        connection,
        work: None,
        is_gone: false,
        is_cut: false,
    };
    if request.body().is_end_stream() && !progress.arrive(start) {
        return refused(request.uri(), &gone());
    }
    let progress = Arc::new(Mutex::new(progress));
    let (watched, seen, uri) = (Arc::clone(&progress), Arc::clone(&progress), request.uri().clone());
    let request = request.map(|body| Body::new(Watched { body, progress: watched }));
    let late = async {
        loop {
            sleep_until(Instant::now() + LOOK.min(pace.pause / 2)).await;
            if let Some(late) = lock(&progress).late(pace, Instant::now()) {
                return late;
            }
        }
    };
    tokio::select! {
        mut response = next.run(request) => {
            if lock(&seen).is_cut {
                response.headers_mut().insert(header::CONNECTION, CLOSE);
            }
            response
        }
        late = late => refused(&uri, &pace.problem(late)),
    }
}

/// Returns the problem of a request whose connection had to make room. It has no reader.
fn gone() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the connection had to make room for others: try again")
}

/// Returns the answer to a late request: problem details, or a page.
fn refused(uri: &Uri, problem: &Problem) -> Response {
    let is_page = !["/api/", "/site/"].iter().any(|start| uri.path().starts_with(start));
    let mut response = if is_page { pages::problem(problem) } else { problem.clone().into_response() };
    // The rest of the body may never come.
    response.headers_mut().insert(header::CONNECTION, CLOSE);
    response
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Body whose progress is noted.
struct Watched {
    body: Body,
    progress: Arc<Mutex<Progress>>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let mut progress = lock(&self.progress);
        match &polled {
            Poll::Pending => drop(progress.waits.get_or_insert_with(Instant::now)),
            Poll::Ready(Some(Ok(frame))) => {
                progress.waits = None;
                progress.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
            }
            Poll::Ready(_) => {
                if !progress.arrive(Instant::now()) {
                    return Poll::Ready(Some(Err(axum::Error::new(gone().detail))));
                }
            }
        }
        drop(progress);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut progress = lock(&self.progress);
        progress.is_cut = progress.end.is_none() && !self.body.is_end_stream();
        progress.arrive(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::post;
    use axum::{Router, middleware};
    use tower::ServiceExt;

    use super::*;

    const PACE: Pace =
        Pace { answer: Duration::from_millis(600), pause: Duration::from_millis(400), rate: 1000 };

    /// Body that sends 250 bytes every so often.
    struct Slow {
        left: u32,
        interval: Duration,
        sleep: Pin<Box<tokio::time::Sleep>>,
    }

    impl HttpBody for Slow {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            std::task::ready!(std::future::Future::poll(self.sleep.as_mut(), context));
            self.left -= 1;
            let interval = self.interval;
            self.sleep.as_mut().reset(Instant::now() + interval);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[1; 250])))))
        }
    }

    fn answer(path: &str, pieces: u32, interval_ms: u64) -> (StatusCode, String) {
        let read = async |body: Body| {
            axum::body::to_bytes(body, usize::MAX)
                .await
                .map(|bytes| bytes.len().to_string())
                .unwrap_or_default()
        };
        let router = Router::new()
            .route("/api/read", post(read))
            .route("/page", post(read))
            .route("/api/never", post(async || std::future::pending::<String>().await))
            .layer(middleware::from_fn(|request: Request, next: Next| in_time(request, next, PACE)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("starts");
        runtime.block_on(async {
            let interval = Duration::from_millis(interval_ms);
            let body = Slow { left: pieces, interval, sleep: Box::pin(tokio::time::sleep(interval)) };
            let request = Request::post(path).body(Body::new(body)).expect("a request");
            let response = router.oneshot(request).await.expect("an answer");
            let status = response.status();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("read");
            (status, String::from_utf8_lossy(&body).into_owned())
        })
    }

    #[test]
    fn a_body_that_makes_progress_has_time_and_one_that_stalls_is_refused_in_words() {
        // 1.5 s at 2500 bytes a second.
        assert_eq!(answer("/api/read", 15, 100), (StatusCode::OK, "3750".to_owned()));
        let (status, body) = answer("/api/read", 2, 5000);
        assert!(status == StatusCode::REQUEST_TIMEOUT && body.contains("without a pause"), "{body}");
        // At 833 bytes a second it pauses for less, and is below the rate.
        let (status, body) = answer("/api/read", 1000, 300);
        assert!(status == StatusCode::REQUEST_TIMEOUT && body.contains("1000 bytes a second"), "{body}");
        let (status, body) = answer("/page", 2, 5000);
        assert!(status == StatusCode::REQUEST_TIMEOUT && body.contains("<html"), "{body}");
        let (status, body) = answer("/api/never", 0, 0);
        assert!(status == StatusCode::REQUEST_TIMEOUT && body.contains("no answer"), "{body}");
    }
}
