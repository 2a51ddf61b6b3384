//! Operation of a site: thread of its gateway, control socket, and statistics.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bentpipe_emu::exporter::{self, Pages};
use bentpipe_emu::signals::{Waker, end_requested, take_reload_request, watch};
use bentpipe_emu::{end_realtime_priority, lend_realtime_priority, plain, request_realtime_priority};
use bentpipe_units::Span;
use serde_json::{Value, json};

use crate::administrator::Administrator;
use crate::file::{Site, Text};
use crate::journal::Journal;
use crate::place::OpenError;
use crate::privileges::{Privileges, Restraint};
use crate::settings::{self, SiteError};
use crate::{Config, Error, Gateway, Handle, Statistics, control, metrics, view};

/// Streams that an operation writes to.
pub struct Console {
    /// Statistics of a site file with `statistics.json = "-"`.
    pub output: Box<dyn Write>,
    /// Messages, and the journal of a site file without `statistics.log`.
    pub messages: Box<dyn Write>,
    /// Enables tables on `messages` each second, each over the one before.
    pub draws: bool,
}

impl Console {
    fn note(&mut self, text: &str) {
        // A reader may have gone.
        let _ = writeln!(self.messages, "note: {}", plain::line(text));
    }
}

/// Error returned when a site cannot be operated.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The site file is wrong.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The gateway cannot be opened, or refuses settings.
    #[error(transparent)]
    Gateway(#[from] Error),
    /// A signal handler, or the event that it raises, cannot be installed.
    #[error(transparent)]
    Signals(io::Error),
    /// A gateway is running for this site file.
    #[error("a gateway runs for {} already", .0.display())]
    Running(PathBuf),
    /// The statistics cannot be offered at this address.
    #[error(transparent)]
    Exporter(OpenError),
    /// A file of the statistics cannot be opened.
    #[error("{key}: {}: {error}", path.display())]
    File {
        /// The site file's key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Privileges cannot be given up.
    #[error(
        "cannot give up privileges: {0}; help: --user NAME, or --keep-privileges to run with all of them"
    )]
    Privileges(io::Error),
    /// A capture could not be written, as on a full disk.
    #[error("a capture could not be written: {0}; its files have the packets before that")]
    Capture(io::Error),
    /// The gateway's thread panicked.
    #[error("the gateway failed")]
    Failed,
}

/// Runs a site until SIGINT or SIGTERM. SIGHUP reloads the site file. The process gives up its other privileges once all is
/// open, so it must have no other threads.
///
/// # Errors
/// Returns an error if the site file is wrong, something cannot be opened, or the gateway fails.
pub fn run(path: &Path, privileges: &Privileges, console: Console) -> Result<(), OperationError> {
    let site = settings::read(path)?;
    let restraint = Restraint::prepare(path, &site, privileges).map_err(OperationError::Privileges)?;
    let waker: &'static Waker = Box::leak(Box::new(Waker::new().map_err(OperationError::Signals)?));
    watch(waker).map_err(OperationError::Signals)?;
    let mut operation = Operation::start(path, site, restraint, console)?;
    operation.observe_until_signal(waker);
    operation.finish()
}

/// Site in operation.
pub struct Operation {
    source: Source,
    handle: Handle,
    thread: JoinHandle<Gateway>,
    server: Option<control::Server>,
    observer: Observer,
}

impl Operation {
    /// Opens the gateway of a site file, restrains the process, and starts its threads.
    fn start(
        path: &Path,
        (settings, config): (settings::SiteSettings, Config),
        restraint: Restraint,
        mut console: Console,
    ) -> Result<Operation, OperationError> {
        let site = settings.value();
        let mut gateway = Gateway::open(&config, identity(), restraint.user())?;
        let handle = gateway.handle();
        let socket = open_socket(path, &mut console)?;
        let exporter = site.statistics.prometheus.map(|Text(address)| listen(address)).transpose()?;
        let page = exporter::Shared::default();
        let mut observer = Observer::new(site, settings.folder(), page.clone(), console)?;
        // Without it a busy machine makes datagrams late; the figures say how late.
        let _ = lend_realtime_priority();
        let (administrator, kept) = restraint.apply().map_err(OperationError::Privileges)?;
        observer.console.note(&kept);
        gateway.delegate(administrator.clone());
        let source = Source { path: path.to_owned(), administrator };
        let thread = std::thread::spawn(move || {
            let _ = request_realtime_priority();
            gateway.run();
            gateway
        });
        end_realtime_priority();
        exporter.into_iter().for_each(|listener| exporter::serve_at(listener, page.clone()));
        let server = socket.map(|socket| {
            let (source, title) = (source.clone(), site.title.clone());
            let handle = handle.clone();
            socket.serve(source.administrator.clone(), move |what| answer(what, &source, &title, &handle))
        });
        observer.console.note(&format!("{} runs on {}; end it: Ctrl-C", site.title, config.lan.device));
        Ok(Operation { source, handle, thread, server, observer })
    }

    /// Returns `true` if the gateway's thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Reads the statistics and writes them as the site file says, once a second.
    pub fn observe(&mut self) {
        if let Some(statistics) = self.handle.statistics() {
            self.observer.look(statistics);
        }
    }

    /// Reads the site file again, and writes the result to the journal.
    pub fn reload(&mut self) {
        let text = match reload(&self.source, &self.handle) {
            Ok(changes) => {
                format!("reload: {}", changes_text(&changes).trim_end().replace('\n', "; "))
            }
            Err(problem) => format!("reload refused, all stays as it was: {problem}"),
        };
        self.observer.say(&text);
    }

    /// Observes the gateway each second, and serves signals, until one asks to end.
    fn observe_until_signal(&mut self, waker: &Waker) {
        let second = Duration::from_secs(1);
        let mut next = Instant::now() + second;
        while !end_requested() && !self.is_finished() {
            let left = next.saturating_duration_since(Instant::now());
            waker.wait(Span::from_nanos(left.as_nanos() as u64).min(Span::from_secs(1)));
            if take_reload_request() {
                self.reload();
            }
            if Instant::now() < next {
                continue;
            }
            next += second;
            self.observe();
        }
        self.observe();
    }

    /// Ends the gateway, removes its device, and writes the totals.
    ///
    /// # Errors
    /// Returns an error if the gateway's thread panicked.
    pub fn finish(self) -> Result<(), OperationError> {
        let Operation { handle, thread, server, mut observer, .. } = self;
        handle.end();
        let mut gateway = thread.join().map_err(|_| OperationError::Failed)?;
        drop(server);
        let statistics = gateway.statistics();
        let captured = gateway.end_captures();
        drop(gateway);
        let totals = view::totals(&observer.title, &statistics);
        let _ = observer.console.messages.write_all(plain::text(&totals).as_bytes());
        captured.map_err(OperationError::Capture)
    }
}

/// Lists what a reload changed, one change a line.
pub fn changes_text(changes: &[impl AsRef<str>]) -> String {
    if changes.is_empty() {
        return "nothing changed\n".to_owned();
    }
    changes.iter().map(|change| format!("{}\n", change.as_ref())).collect()
}

/// Site file that can be read again.
#[derive(Clone)]
struct Source {
    path: PathBuf,
    administrator: Administrator,
}

fn reload(site: &Source, handle: &Handle) -> Result<Vec<String>, OperationError> {
    let unreadable =
        |source| SiteError::File(bentpipe_scenario::Error::Unreadable { path: site.path.clone(), source });
    let bytes = site.administrator.read_site(&site.path).map_err(unreadable)?;
    let (_, config) = settings::parse(&site.path, &bytes)?;
    Ok(handle.reload(config)?)
}

fn listen(address: SocketAddr) -> Result<TcpListener, OperationError> {
    let of_key = |error| OpenError::new("statistics.prometheus".to_owned(), address.to_string(), error);
    exporter::listen(address).map_err(|error| OperationError::Exporter(of_key(error)))
}

/// Opens the control socket. Where there may be no socket, the gateway runs without one.
fn open_socket(path: &Path, console: &mut Console) -> Result<Option<control::Socket>, OperationError> {
    match control::Socket::open(path) {
        Ok(socket) => Ok(Some(socket)),
        Err(control::NoServer::Running) => Err(OperationError::Running(path.to_owned())),
        Err(control::NoServer::Refused(path, error)) => {
            console.note(&format!("`bentpipe gateway reload` will not work: {}: {error}", path.display()));
            Ok(None)
        }
    }
}

fn answer(what: &str, site: &Source, title: &str, handle: &Handle) -> Value {
    match what {
        "reload" => match reload(site, handle) {
            Ok(changes) => json!({ "changes": changes }),
            Err(problem) => json!({ "error": problem.to_string() }),
        },
        "statistics" => match handle.statistics() {
            Some(statistics) => metrics::json(title, unix_time_s(), &metrics::samples(&statistics)),
            None => json!({ "error": "the gateway has ended" }),
        },
        _ => json!({ "error": "expected \"reload\" or \"statistics\"" }),
    }
}

/// Destinations of statistics and journal, in a thread of their own. No slow terminal or disk delays packets.
struct Observer {
    title: String,
    console: Console,
    writes_output: bool,
    json: Option<File>,
    page: exporter::Shared,
    journal: Journal,
    last: Statistics,
    shown_lines: usize,
}

impl Observer {
    fn new(
        site: &Site,
        folder: &Path,
        page: exporter::Shared,
        console: Console,
    ) -> Result<Observer, OperationError> {
        let named = |path: &PathBuf| path != Path::new("-");
        let open = |key, path: &PathBuf| append(key, folder.join(path));
        let json = site.statistics.json.as_ref();
        let log = site.statistics.log.as_ref().map(|path| open("statistics.log", path));
        Ok(Observer {
            title: site.title.clone(),
            console,
            writes_output: json.is_some_and(|path| !named(path)),
            json: json.filter(|path| named(path)).map(|path| open("statistics.json", path)).transpose()?,
            page,
            journal: Journal::new(log.transpose()?),
            last: Statistics::default(),
            shown_lines: 0,
        })
    }

    fn look(&mut self, statistics: Statistics) {
        let samples = metrics::samples(&statistics);
        self.write_json(&samples);
        let second = view::second(&self.title, &self.last, &statistics);
        let page = exporter::page(&self.title, &second);
        exporter::publish(&self.page, Pages { metrics: metrics::prometheus(&self.title, &samples), page });
        self.journal.look(unix_time_s(), &statistics, &samples, &mut self.console.messages);
        if self.console.draws {
            self.draw(&second);
        }
        self.last = statistics;
    }

    /// Writes a line of JSON. A reader may have gone.
    fn write_json(&mut self, samples: &[metrics::Sample]) {
        let destination: &mut dyn Write = match &mut self.json {
            Some(file) => file,
            None if self.writes_output => &mut self.console.output,
            None => return,
        };
        let _ = writeln!(destination, "{}", metrics::json(&self.title, unix_time_s(), samples));
        let _ = destination.flush();
    }

    /// Draws the tables over those of the second before.
    fn draw(&mut self, text: &str) {
        let is_above = self.shown_lines > 0 && !self.journal.take_spoken();
        let up = if is_above { format!("\u{1b}[{}A\u{1b}[J", self.shown_lines) } else { String::new() };
        self.shown_lines = text.lines().count();
        let _ = self.console.messages.write_all(format!("{up}{}", plain::text(text)).as_bytes());
    }

    fn say(&mut self, text: &str) {
        self.journal.say(unix_time_s(), text, &mut self.console.messages);
    }
}

fn append(key: &'static str, path: PathBuf) -> Result<File, OperationError> {
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.map_err(|error| OperationError::File { key, path, error })
}

fn unix_time_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Returns a synchronisation source that differs from those of other runs.
fn identity() -> u32 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    (nanos as u32).rotate_left(11) ^ std::process::id().wrapping_mul(0x9e37_79b9)
}
