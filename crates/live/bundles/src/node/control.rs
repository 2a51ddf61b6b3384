//! Control socket of a running node.
//!
//! It is `control` in the folder of the store, for the user of the node alone (0600).
//! A client sends a [`Request`] as a line of JSON and gets a line of JSON: the answer, or `{"error": "..."}`. Requests have at most
//! 64 KiB, and clients are served without the node waiting for them.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bentpipe_units::{Span, Time};
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Name of the socket in the folder of the store.
const NAME: &str = "control";
/// Maximum length of a request in bytes.
const MAX_REQUEST: usize = 64 << 10;
/// Maximum number of clients at a time.
const MAX_CLIENTS: usize = 16;
/// Time within which a client sends its request and takes the answer.
const PATIENCE: Span = Span::from_secs(10);
/// Time within which a client has its answer.
const WAIT: Duration = Duration::from_secs(10);

/// Request to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Node, counters and neighbours.
    Status,
    /// Stored bundles from a number on.
    List {
        /// First number.
        first: u64,
        /// Maximum number of bundles.
        most: usize,
        /// Set for those that wait for applications.
        local: bool,
    },
    /// Deletion of stored bundles.
    Delete {
        /// Names in the list.
        ids: Vec<String>,
    },
    /// Contacts of the plan.
    Contacts,
    /// Addition of lines to the plan, in ION's form.
    AddContacts {
        /// Lines.
        lines: String,
    },
    /// Removal of contacts.
    RemoveContacts {
        /// Node that sends.
        from: u64,
        /// Node that receives.
        to: u64,
        /// Seconds from the plan's start at which the contact is there. Default: all contacts of the pair.
        at: Option<f64>,
    },
    /// Static routes.
    Routes,
    /// Addition of a static route, or its replacement.
    AddRoute {
        /// Destination node, or "default".
        to: String,
        /// Neighbour.
        via: String,
    },
    /// Removal of a static route.
    RemoveRoute {
        /// Destination node, or "default".
        to: String,
    },
    /// Addition of a neighbour.
    AddNeighbour {
        /// Text of its table in the node file.
        table: String,
    },
    /// Removal of a neighbour.
    RemoveNeighbour {
        /// Node.
        node: String,
    },
}

/// Asks the node whose store is in a folder.
///
/// # Errors
/// Returns an error if none runs, it does not answer, or it cannot do what is asked.
pub fn ask(store: &Path, request: &Request) -> Result<Value, String> {
    let stream = reach(store, |path| UnixStream::connect(path)).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            format!("no node runs with the store {}", store.display())
        }
        _ => format!("the node with the store {} cannot be asked: {error}", store.display()),
    })?;
    let failed = |error: io::Error| format!("the node did not answer: {error}");
    stream.set_read_timeout(Some(WAIT)).map_err(failed)?;
    stream.set_write_timeout(Some(WAIT)).map_err(failed)?;
    let request = serde_json::to_string(request).expect("plain values");
    writeln!(&stream, "{request}").map_err(failed)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(failed)?;
    let answer: Value = serde_json::from_str(&line).map_err(|error| format!("the node's answer: {error}"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(problem) => Err(problem.to_owned()),
        None => Ok(answer),
    }
}

/// Calls with a path of the socket that is short enough for an address.
fn reach<T>(store: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let folder = std::fs::File::open(store)?;
    call(&PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd())))
}

/// Client that is served.
struct Served {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Set once the request is answered.
    is_answered: bool,
    until: Time,
}

/// Control socket.
pub(super) struct Control {
    path: PathBuf,
    listener: UnixListener,
    clients: Vec<Served>,
}

impl Control {
    /// Opens the socket in the folder of a store, which this program has locked.
    pub(super) fn open(store: &Path) -> io::Result<Control> {
        let path = store.join(NAME);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = reach(store, |path| UnixListener::bind(path))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Control { path, listener, clients: Vec::new() })
    }

    /// Returns the descriptors and the events to wait for.
    pub(super) fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let of = |client: &Served| if client.is_answered { PollFlags::OUT } else { PollFlags::IN };
        let clients = self.clients.iter().map(move |client| (client.stream.as_fd(), of(client)));
        let more = (self.clients.len() < MAX_CLIENTS).then(|| (self.listener.as_fd(), PollFlags::IN));
        more.into_iter().chain(clients)
    }

    /// Accepts clients and returns the requests that are whole, with the places of their clients.
    pub(super) fn receive(&mut self, now: Time) -> Vec<(usize, Result<Request, String>)> {
        while self.clients.len() < MAX_CLIENTS
            && let Ok((stream, _)) = self.listener.accept()
        {
            if stream.set_nonblocking(true).is_ok() {
                let until = now + PATIENCE;
                let (input, output) = (Vec::new(), Vec::new());
                self.clients.push(Served { stream, input, output, is_answered: false, until });
            }
        }
        self.clients.retain_mut(|client| client.until > now && client.is_open());
        let requests = self.clients.iter_mut().enumerate();
        requests.filter_map(|(n, client)| client.request().map(|request| (n, request))).collect()
    }

    /// Answers a client.
    pub(super) fn answer(&mut self, n: usize, answer: Result<Value, String>) {
        let answer = answer.unwrap_or_else(|problem| json!({ "error": problem }));
        if let Some(client) = self.clients.get_mut(n) {
            client.output = format!("{answer}\n").into_bytes();
            client.is_answered = true;
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A socket that is left is removed at the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Served {
    /// Returns `true` if the client goes on, after reading or writing.
    fn is_open(&mut self) -> bool {
        let ended = if self.is_answered { self.write() } else { self.read() };
        match ended {
            Ok(is_over) => !is_over,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        while self.input.len() <= MAX_REQUEST {
            match self.stream.read(&mut buffer)? {
                0 => return Ok(!self.input.contains(&b'\n')),
                len => self.input.extend(&buffer[..len]),
            }
        }
        Ok(false)
    }

    fn write(&mut self) -> io::Result<bool> {
        while !self.output.is_empty() {
            let len = self.stream.write(&self.output)?;
            self.output.drain(..len);
        }
        Ok(true)
    }

    fn request(&mut self) -> Option<Result<Request, String>> {
        if self.is_answered {
            return None;
        }
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
            let is_long = self.input.len() > MAX_REQUEST;
            return is_long.then(|| Err(format!("expected a request of at most {MAX_REQUEST} B")));
        };
        Some(serde_json::from_slice(&self.input[..end]).map_err(|error| format!("request: {error}")))
    }
}
