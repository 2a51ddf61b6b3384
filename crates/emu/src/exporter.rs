//! Statistics for Prometheus and for a browser, by HTTP/1.1 on loopback.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::streams;

/// Maximum length of a request.
const MAX_REQUEST_BYTES: u64 = 8192;

/// Maximum time of a client for its request, and for each part of the answer.
const PATIENCE: Duration = Duration::from_millis(500);

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
pub type Shared = Arc<Mutex<Pages>>;

/// Replaces the pages.
pub fn publish(shared: &Shared, pages: Pages) {
    *shared.lock().unwrap_or_else(PoisonError::into_inner) = pages;
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
pub fn serve_at(listener: TcpListener, page: Shared) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = serve(&stream, &page);
        }
    });
}

/// Reads the request of a client until a time.
struct Until<'a>(&'a TcpStream, Instant);

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.0.set_read_timeout(Some(left))?;
        self.0.read(bytes)
    }
}

fn serve(stream: &TcpStream, pages: &Shared) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(Until(stream, Instant::now() + PATIENCE).take(MAX_REQUEST_BYTES));
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    // The rest of the request's head; a client that is cut off before its answer complains.
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let words: Vec<&str> = request.split(' ').collect();
    let read =
        |part: fn(&Pages) -> &String| part(&pages.lock().unwrap_or_else(PoisonError::into_inner)).clone();
    const TEXT: &str = "text/plain; version=0.0.4";
    let (status, kind, body) = match words[..] {
        ["GET", "/metrics", ..] => ("200 OK", TEXT, read(|pages| &pages.metrics)),
        ["GET", "/", ..] => ("200 OK", "text/html; charset=utf-8", read(|pages| &pages.page)),
        ["GET", ..] => ("404 Not Found", TEXT, "there are / and /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", TEXT, String::new()),
    };
    let length = body.len();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
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
        // Somebody who says nothing holds it up for half a second only.
        let silent = TcpStream::connect(free).expect("it listens");
        assert!(ask(free, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n"));
        drop(silent);
        // And so for somebody who says a byte now and then.
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
}
