//! Control socket of a running gateway in `/run/bentpipe/gateway`. It takes one request and answers, as lines of JSON.
//!
//! `{"do": "reload"}` is answered by `{"changes": [...]}`, `{"do": "statistics"}` by the statistics, both by
//! `{"error": "..."}` if something is wrong.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::administrator::Administrator;

const FOLDER: &str = "/run/bentpipe/gateway";

/// Maximum length of a request.
const MAX_LINE_BYTES: u64 = 4096;

/// Returns the path of the control socket of a site file.
///
/// It derives from the whole path of the file, so it is found from any namespace.
pub(crate) fn socket_of(site: &Path) -> PathBuf {
    let whole = site.canonicalize().unwrap_or_else(|_| site.to_owned());
    let digest = Sha256::digest(whole.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Path::new(FOLDER).join(format!("{name}.sock"))
}

/// Socket for requests that is open, and not served.
pub(crate) struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

/// Answers requests; the socket goes with the value.
pub(crate) struct Server {
    path: PathBuf,
    administrator: Administrator,
}

/// Reason for the lack of a server.
pub(crate) enum NoServer {
    /// A gateway of this site is running.
    Running,
    /// The system reports an error.
    Refused(PathBuf, io::Error),
}

impl Socket {
    /// Opens the socket of a site file.
    pub(crate) fn open(site: &Path) -> Result<Socket, NoServer> {
        let path = socket_of(site);
        if UnixStream::connect(&path).is_ok() {
            return Err(NoServer::Running);
        }
        match listen(&path) {
            Ok(listener) => Ok(Socket { path, listener }),
            Err(error) => Err(NoServer::Refused(path, error)),
        }
    }

    /// Starts answering requests. `answer` gets them, and `administrator` removes the socket at the end.
    pub(crate) fn serve(
        self,
        administrator: Administrator,
        answer: impl Fn(&str) -> Value + Send + 'static,
    ) -> Server {
        let Socket { path, listener } = self;
        // It ends with the program; one client is served at a time.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(&stream, &answer);
            }
        });
        Server { path, administrator }
    }
}

/// Creates the folder of control sockets.
pub(crate) fn make_folder() -> io::Result<()> {
    std::fs::create_dir_all(FOLDER)
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    make_folder()?;
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.administrator.remove_socket(&self.path);
    }
}

fn serve(stream: &UnixStream, answer: &impl Fn(&str) -> Value) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE_BYTES)).read_line(&mut line)?;
    let request: Option<Value> = serde_json::from_str(&line).ok();
    let answer = match request.as_ref().and_then(|request| request.get("do")).and_then(Value::as_str) {
        Some(what) => answer(what),
        None => json!({ "error": "expected {\"do\": \"reload\"} or {\"do\": \"statistics\"}" }),
    };
    let mut stream = stream;
    writeln!(stream, "{answer}")
}

/// Asks the gateway of a site file.
///
/// # Errors
/// If none runs, or what it complains of.
pub fn ask(site: &Path, what: &str) -> Result<Value, String> {
    let stream = UnixStream::connect(socket_of(site)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no gateway runs for {}", site.display())
        }
        _ => format!("the gateway of {} cannot be asked: {error}", site.display()),
    })?;
    let failed = |error: io::Error| format!("the gateway did not answer: {error}");
    stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(failed)?;
    writeln!(&stream, "{}", json!({ "do": what })).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(failed)?;
    let answer: Value =
        serde_json::from_str(&line).map_err(|error| format!("the gateway's answer: {error}"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(problem) => Err(problem.to_owned()),
        None => Ok(answer),
    }
}
