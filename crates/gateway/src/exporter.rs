//! Statistics for Prometheus, by HTTP/1.1 on loopback.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum length of a request.
const MAX_REQUEST_BYTES: u64 = 8192;

/// Maximum time of a client for its request, and for each part of the answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Page of text.
pub(crate) type Page = Arc<Mutex<String>>;

/// Serves the text of `page` at `address`.
///
/// # Errors
/// Returns an error if the port is taken.
pub(crate) fn start(address: SocketAddr, page: Page) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    // It ends with the program.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = serve(&stream, &page);
        }
    });
    Ok(())
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

fn serve(stream: &TcpStream, page: &Page) -> io::Result<()> {
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
    let (status, body) = match words[..] {
        ["GET", "/metrics" | "/", ..] => {
            ("200 OK", page.lock().unwrap_or_else(PoisonError::into_inner).clone())
        }
        ["GET", ..] => ("404 Not Found", "there is /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let length = body.len();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
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
        let page = Page::default();
        start(free, Arc::clone(&page)).expect("the port is free");
        *page.lock().expect("nobody panicked") = "a 1\n".to_owned();
        assert!(
            ask(free, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                .ends_with("Content-Length: 4\r\nConnection: close\r\n\r\na 1\n")
        );
        assert!(ask(free, "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(free, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        // Somebody who says nothing holds it up for half a second only.
        let silent = TcpStream::connect(free).expect("it listens");
        assert!(ask(free, "GET / HTTP/1.1\r\n\r\n").ends_with("a 1\n"));
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
        assert!(ask(free, "GET / HTTP/1.1\r\n\r\n").ends_with("a 1\n"));
        assert!(slow.join().expect("it ends") < 200, "cut off");
    }
}
