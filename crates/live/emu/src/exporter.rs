//! Statistics for Prometheus and for a browser, by HTTP/1.1 on loopback.
//!
//! A thread serves all clients side by side. One that is idle or slow holds up none of the others: its time is bounded, and of more
//! clients than there are places for the oldest one without a request goes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::streams;

/// Maximum length of a request's head.
const MAX_REQUEST_BYTES: usize = 8192;

/// Maximum number of clients at a time.
const MAX_CLIENTS: usize = 64;

/// Maximum number of clients that are accepted before the others have their turn.
const MAX_ACCEPTED: usize = 16;

/// Maximum time of a client for its request, and for each part of the answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Maximum time of a client for its whole answer.
const MAX_ANSWER: Duration = Duration::from_secs(10);

/// Pause after the system could not accept a client.
const PAUSE: Duration = Duration::from_millis(50);

/// Bytes of the kernel's buffers of a connection.
const BUFFER_BYTES: usize = 64 << 10;

/// Maximum time for which the kernel keeps an answer that its client does not take.
const KEPT: Duration = Duration::from_secs(10);

/// Served pages: `/metrics` for Prometheus, and `/` for a browser.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// Metrics in Prometheus' text format.
    pub metrics: String,
    /// Page of HTML.
    pub page: String,
}

/// Pages that change while they are served.
///
/// Clients that still read former ones share them.
pub type Shared = Arc<Mutex<Arc<Pages>>>;

/// Replaces the pages.
pub fn publish(shared: &Shared, pages: Pages) {
    *shared.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(pages);
}

/// Returns a page of text that a browser loads again every second.
pub fn page(title: &str, text: &str) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let (title, text) = (escaped(title), escaped(text));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"1\">\n\
         <title>{title}</title>\n<style>:root{{color-scheme:light dark}}body{{font-family:sans-serif;margin:2em}}\
         pre{{font-size:110%;overflow-x:auto}}</style></head>\n\
         <body><h1>{title}</h1>\n<pre>{text}</pre>\n<p><a href=\"/metrics\">Metrics</a></p></body></html>\n"
    )
}

/// Serves pages at `address`.
///
/// # Errors
/// Returns an error if the address is not one of loopback, or the port is taken.
pub fn start(address: SocketAddr, page: Shared) -> io::Result<()> {
    serve_at(listen(address)?, page);
    Ok(())
}

/// Opens the socket that pages are served at.
///
/// # Errors
/// As [`start`].
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "expected an address on loopback, such as 127.0.0.1",
        ));
    }
    let listener = TcpListener::bind(address)?;
    streams::bound(&listener, BUFFER_BYTES, KEPT)?;
    Ok(listener)
}

/// Serves pages at a socket, in a thread that ends with the program.
pub fn serve_at(listener: TcpListener, pages: Shared) {
    std::thread::spawn(move || {
        if listener.set_nonblocking(true).is_ok() {
            let mut server = Server { listener, pages, clients: Vec::new() };
            loop {
                server.turn();
            }
        }
    });
}

/// Server of pages: its clients, the oldest one first.
struct Server {
    listener: TcpListener,
    pages: Shared,
    clients: Vec<Client>,
}

impl Server {
    /// Waits until a client can go on or is late, and serves those that can.
    fn turn(&mut self) {
        let now = Instant::now();
        self.clients.retain(|client| now < client.end);
        let Ok(ready) = self.wait(now) else { return };
        let pages = &self.pages;
        let mut ready = ready.into_iter();
        let is_new = ready.next().unwrap_or(false);
        self.clients.retain_mut(|client| !ready.next().unwrap_or(false) || client.advance(pages));
        if is_new {
            self.accept();
        }
    }

    /// Returns `true` for the listener and each client that can go on.
    fn wait(&self, now: Instant) -> io::Result<Vec<bool>> {
        let first = self.clients.iter().map(|client| client.end).min();
        let timeout = first.map(|end| {
            let left = end.saturating_duration_since(now) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        let clients = self
            .clients
            .iter()
            .map(|client| PollFd::from_borrowed_fd(client.stream.as_fd(), client.awaits()));
        let listener = PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN);
        let mut all: Vec<PollFd<'_>> = std::iter::once(listener).chain(clients).collect();
        poll(&mut all, timeout.as_ref())?;
        Ok(all.iter().map(|fd| !fd.revents().is_empty()).collect())
    }

    fn accept(&mut self) {
        for _ in 0..MAX_ACCEPTED {
            match self.listener.accept() {
                Ok((stream, _)) => self.take(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Such as no descriptor left, which the next turn would find again at once.
                Err(_) => return std::thread::sleep(PAUSE),
            }
        }
    }

    fn take(&mut self, stream: TcpStream) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        if self.clients.len() >= MAX_CLIENTS {
            let without_request = self.clients.iter().position(|client| client.answer.is_none());
            self.clients.remove(without_request.unwrap_or(0));
        }
        self.clients.push(Client::new(stream));
    }
}

/// Client that sends its request, and then takes its answer.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Option<Answer>,
    /// Time at which it is late.
    end: Instant,
    /// Time at which it is late however much of the answer it takes.
    last: Instant,
}

impl Client {
    fn new(stream: TcpStream) -> Client {
        let now = Instant::now();
        Client { stream, request: Vec::new(), answer: None, end: now + PATIENCE, last: now + MAX_ANSWER }
    }

    fn awaits(&self) -> PollFlags {
        match &self.answer {
            Some(answer) if !answer.rest().is_empty() => PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Returns `true` if something is left after as much as was possible.
    fn advance(&mut self, pages: &Shared) -> bool {
        let is_over = match &mut self.answer {
            None => self.read(pages),
            Some(answer) if !answer.rest().is_empty() => self.write(),
            Some(_) => self.drain(),
        };
        matches!(is_over, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Reads the head of the request, and begins the answer.
    fn read(&mut self, pages: &Shared) -> io::Result<()> {
        let mut bytes = [0; 1024];
        loop {
            let read = self.stream.read(&mut bytes)?;
            self.request.extend_from_slice(&bytes[..read]);
            let is_whole = |end: &[u8]| self.request.windows(end.len()).any(|part| part == end);
            // A client may close its direction behind the first line.
            if is_whole(b"\r\n\r\n") || is_whole(b"\n\n") || read == 0 {
                let pages = Arc::clone(&pages.lock().unwrap_or_else(PoisonError::into_inner));
                self.answer = Some(Answer::to(&self.request, pages));
                return self.write();
            }
            if self.request.len() > MAX_REQUEST_BYTES {
                return Ok(());
            }
        }
    }

    /// Writes the answer. A client that takes some of it has more time.
    fn write(&mut self) -> io::Result<()> {
        while let Some(answer) = self.answer.as_mut().filter(|answer| !answer.rest().is_empty()) {
            answer.sent += self.stream.write(answer.rest())?;
            self.end = self.last.min(Instant::now() + PATIENCE);
        }
        self.stream.shutdown(Shutdown::Write)?;
        self.drain()
    }

    /// Reads until the client ends. An end before it would reset the connection, and what is on its way were lost.
    fn drain(&mut self) -> io::Result<()> {
        let mut bytes = [0; 1024];
        for _ in 0..MAX_ACCEPTED {
            if self.stream.read(&mut bytes)? == 0 {
                return Ok(());
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Answer to a request.
struct Answer {
    head: Vec<u8>,
    body: Body,
    pages: Arc<Pages>,
    /// Bytes that are written.
    sent: usize,
}

/// Body of an answer.
#[derive(Clone, Copy)]
enum Body {
    Metrics,
    Page,
    Text(&'static str),
}

impl Answer {
    fn to(request: &[u8], pages: Arc<Pages>) -> Answer {
        const TEXT: &str = "text/plain; version=0.0.4";
        let first = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let words: Vec<&[u8]> = first.split(|byte| *byte == b' ').collect();
        let (status, kind, body) = match words[..] {
            [b"GET", b"/metrics", ..] => ("200 OK", TEXT, Body::Metrics),
            [b"GET", b"/", ..] => ("200 OK", "text/html; charset=utf-8", Body::Page),
            [b"GET", ..] => ("404 Not Found", TEXT, Body::Text("there are / and /metrics\n")),
            _ => ("405 Method Not Allowed", TEXT, Body::Text("")),
        };
        let mut answer = Answer { head: Vec::new(), body, pages, sent: 0 };
        let length = answer.body().len();
        answer.head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
        .into_bytes();
        answer
    }

    fn body(&self) -> &[u8] {
        match self.body {
            Body::Metrics => self.pages.metrics.as_bytes(),
            Body::Page => self.pages.page.as_bytes(),
            Body::Text(text) => text.as_bytes(),
        }
    }

    /// Returns the part that is not written, of the head or of the body.
    fn rest(&self) -> &[u8] {
        match self.head.get(self.sent..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => self.body().get(self.sent.saturating_sub(self.head.len())..).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_testkit::Watch;

    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }

    #[test]
    fn it_answers_what_it_has_and_survives_rubbish() {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
        let pages = Shared::default();
        start(free, Arc::clone(&pages)).expect("the port is free");
        let text = page("a & b", "1 < 2\n");
        publish(&pages, Pages { metrics: "a 1\n".to_owned(), page: text });
        let shown = ask(free, "GET / HTTP/1.1\r\n\r\n");
        assert!(
            shown.contains("<h1>a &amp; b</h1>\n<pre>1 &lt; 2\n</pre>") && shown.contains("text/html"),
            "{shown}"
        );
        assert!(
            ask(free, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                .ends_with("Content-Length: 4\r\nConnection: close\r\n\r\na 1\n")
        );
        assert!(ask(free, "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(free, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        // A client that sends a byte now and then is cut off.
        let mut slow = TcpStream::connect(free).expect("it listens");
        let slow = std::thread::spawn(move || {
            let sent = (0..200).take_while(|_| {
                std::thread::sleep(Duration::from_millis(50));
                slow.write_all(b"x").is_ok()
            });
            sent.count()
        });
        assert!(ask(free, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n"));
        assert!(start("192.0.2.1:9".parse().expect("an address"), Shared::default()).is_err());
        assert!(slow.join().expect("it ends") < 200, "cut off");
    }

    fn served(metrics: &str) -> SocketAddr {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
        let pages = Shared::default();
        start(free, Arc::clone(&pages)).expect("the port is free");
        publish(&pages, Pages { metrics: metrics.to_owned(), page: String::new() });
        free
    }

    /// Each of them used to hold up the next client for half a second.
    #[test]
    fn idle_clients_hold_up_nobody() {
        // Clients here, and those of them that the exporter has accepted, next to other tests.
        if !bentpipe_testkit::may_open(16 * MAX_CLIENTS as u64 + 500) {
            return;
        }
        let free = served("a 1\n");
        let mut idle = Vec::new();
        for _ in 0..4 {
            let more = (0..2 * MAX_CLIENTS).map(|_| {
                let mut one = TcpStream::connect(free).expect("it listens");
                // A client that had to make room may be closed already.
                let _ = one.write_all(b"G");
                one
            });
            idle.extend(more);
            let (watch, start) = (Watch::start(), Instant::now());
            assert!(ask(free, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n"));
            let (took, late) = (start.elapsed(), watch.end().worst());
            assert!(took < PATIENCE / 2 + 10 * late, "{took:?} with wake-ups {late:?} late");
        }
    }

    #[test]
    fn a_long_answer_is_whole_for_a_slow_reader_and_held_for_nobody_else() {
        let long = "x 1\n".repeat(1 << 20);
        let free = served(&long);
        // Clients that take nothing.
        let silent: Vec<_> = (0..8)
            .map(|_| {
                let mut one = TcpStream::connect(free).expect("it listens");
                one.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
                one
            })
            .collect();
        let mut slow = TcpStream::connect(free).expect("it listens");
        slow.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
        std::thread::sleep(PATIENCE / 4);
        assert!(ask(free, "GET /metrics HTTP/1.1\r\n\r\n").ends_with(&long));
        let mut answer = String::new();
        slow.read_to_string(&mut answer).expect("answered");
        assert!(answer.ends_with(&long), "{} B", answer.len());
        // Half a request whose client ends its direction is answered.
        let mut half = TcpStream::connect(free).expect("it listens");
        half.write_all(b"GET /other HTTP/1.0\r\n").expect("sent");
        half.shutdown(Shutdown::Write).expect("its direction");
        let mut answer = String::new();
        half.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        drop(silent);
    }
}
