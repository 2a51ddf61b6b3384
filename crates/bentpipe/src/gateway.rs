//! `bentpipe gateway`: one site of a satellite mesh on real packets.
#![allow(clippy::disallowed_methods, reason = "real time is what this is for")]

mod control;
mod exporter;
mod file;
mod forecast;
mod journal;
mod metrics;
mod settings;
mod view;

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bentpipe_emu::gateway::{
    Config, Gateway, Handle, Statistics, Waker, asked_to_end, asked_to_reload, watch,
};
use bentpipe_emu::put_first;
use bentpipe_units::Span;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::show;
use journal::Journal;

/// `bentpipe gateway`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Site file
    #[arg(required = true)]
    site: Option<PathBuf>,
    /// Show no tables each second; they are shown on a terminal only
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what a site would make, and what its carrier carries; change nothing
    #[command(after_help = "\
Examples:
  bentpipe gateway check site-a.toml")]
    Check {
        /// Site file
        site: PathBuf,
    },
    /// Let the gateway that runs for a site file read it again; remote sites that stay keep their ROHC contexts
    #[command(after_help = "\
Examples:
  bentpipe gateway reload site-a.toml
  kill -HUP PID                          the same")]
    Reload {
        /// Site file
        site: PathBuf,
    },
    /// Print the statistics of the gateway that runs for a site file, as JSON
    #[command(after_help = "\
Examples:
  bentpipe gateway statistics site-a.toml")]
    Statistics {
        /// Site file
        site: PathBuf,
    },
}

/// Runs it; the exit code.
///
/// # Errors
/// In words: what is wrong with the site file, cannot be opened, or is not allowed.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    match (&arguments.command, &arguments.site) {
        (Some(Command::Check { site }), _) => {
            let (settings, config) = settings::read(site)?;
            show::out(&forecast::forecast(&settings.value().title, &config));
        }
        (Some(Command::Reload { site }), _) => {
            let answer = control::ask(site, "reload")?;
            let changes: Vec<&str> =
                answer["changes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            show::out(&said_changes(&changes));
        }
        (Some(Command::Statistics { site }), _) => {
            let answer = control::ask(site, "statistics")?;
            show::out(&format!("{answer:#}\n"));
        }
        (None, Some(site)) => operate(site, arguments.quiet)?,
        (None, None) => return Err("expected a site file".to_owned()),
    }
    Ok(0)
}

fn said_changes(changes: &[&str]) -> String {
    if changes.is_empty() { "nothing changed\n".to_owned() } else { format!("{}\n", changes.join("\n")) }
}

/// Runs a site until it is asked to end.
fn operate(path: &Path, quiet: bool) -> Result<(), String> {
    let (settings, config) = settings::read(path)?;
    let site = settings.value().clone();
    let waker: &'static Waker = Box::leak(Box::new(Waker::new().map_err(|error| error.to_string())?));
    watch(waker).map_err(|error| error.to_string())?;
    let mut gateway = Gateway::open(&config, identity()).map_err(|error| error.to_string())?;
    let handle = gateway.handle();
    let server = serve(path, &site.title, &handle)?;
    let page = exporter::Page::default();
    if let Some(file::Text(address)) = site.statistics.prometheus {
        exporter::start(address, page.clone())
            .map_err(|error| format!("statistics.prometheus: {address}: {error}"))?;
    }
    let mut observer = Observer::new(&site, settings.folder(), page, quiet)?;
    let thread = std::thread::spawn(move || {
        // Without it a busy machine makes datagrams late; the figures say how late.
        let _ = put_first();
        gateway.run();
        gateway
    });
    show::note(&format!("{} runs on {}; end it: Ctrl-C", site.title, config.lan.device));
    observe(path, waker, &handle, &thread, &mut observer);
    handle.end();
    let gateway = thread.join().map_err(|_| "the gateway failed".to_owned())?;
    drop(server);
    finish(gateway, &site.title);
    Ok(())
}

/// Prints the totals; the device goes with the gateway.
fn finish(mut gateway: Gateway, title: &str) {
    let statistics = gateway.statistics();
    drop(gateway);
    let _ = std::io::stderr().lock().write_all(view::totals(title, &statistics).as_bytes());
}

/// Looks at the gateway each second, and does what signals ask, until one asks to end.
fn observe(
    path: &Path,
    waker: &Waker,
    handle: &Handle,
    thread: &JoinHandle<Gateway>,
    observer: &mut Observer,
) {
    let second = Span::from_secs(1);
    let mut next = Instant::now() + std::time::Duration::from_secs(1);
    while !asked_to_end() && !thread.is_finished() {
        let left = next.saturating_duration_since(Instant::now());
        waker.wait(Span::from_nanos(left.as_nanos() as u64).min(second));
        if asked_to_reload() {
            observer.say(&reloaded(path, handle));
        }
        if Instant::now() < next {
            continue;
        }
        next += std::time::Duration::from_secs(1);
        if let Some(statistics) = handle.statistics() {
            observer.look(statistics);
        }
    }
    if let Some(statistics) = handle.statistics() {
        observer.look(statistics);
    }
}

/// Reads the site file again; what came of it, in words.
fn reloaded(path: &Path, handle: &Handle) -> String {
    match reload(path, handle) {
        Ok(changes) => {
            let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
            format!("reload: {}", said_changes(&changes).trim_end().replace('\n', "; "))
        }
        Err(problem) => format!("reload refused, all stays as it was: {problem}"),
    }
}

fn reload(path: &Path, handle: &Handle) -> Result<Vec<String>, String> {
    let (_, config): (_, Config) = settings::read(path)?;
    handle.reload(config).map_err(|error| error.to_string())
}

/// Answers `bentpipe gateway reload` and `statistics`. Where there may be no socket, the gateway runs without.
fn serve(path: &Path, title: &str, handle: &Handle) -> Result<Option<control::Server>, String> {
    let (site, title, handle) = (path.to_owned(), title.to_owned(), handle.clone());
    let server = control::Server::start(path, move |what| match what {
        "reload" => match reload(&site, &handle) {
            Ok(changes) => json!({ "changes": changes }),
            Err(problem) => json!({ "error": problem }),
        },
        "statistics" => match handle.statistics() {
            Some(statistics) => metrics::json(&title, unix_time_s(), &metrics::metrics(&statistics)),
            None => json!({ "error": "the gateway has ended" }),
        },
        _ => json!({ "error": "expected \"reload\" or \"statistics\"" }),
    });
    match server {
        Ok(server) => Ok(Some(server)),
        Err(control::NoServer::Running) => Err(format!("a gateway runs for {} already", path.display())),
        Err(control::NoServer::Refused(path, error)) => {
            show::note(&format!("`bentpipe gateway reload` will not work: {}: {error}", path.display()));
            Ok(None)
        }
    }
}

/// Where statistics and troubles go. It has a thread's time of its own: however slow a terminal or a disk is, packets are
/// not late for it.
struct Observer {
    title: String,
    json: Option<Box<dyn Write>>,
    page: exporter::Page,
    journal: Journal,
    on_terminal: bool,
    last: Statistics,
    shown_lines: usize,
}

impl Observer {
    fn new(site: &file::Site, folder: &Path, page: exporter::Page, quiet: bool) -> Result<Observer, String> {
        let json: Option<Box<dyn Write>> = match &site.statistics.json {
            Some(path) if path == Path::new("-") => Some(Box::new(std::io::stdout())),
            Some(path) => Some(Box::new(append("statistics.json", &folder.join(path))?)),
            None => None,
        };
        let log = site
            .statistics
            .log
            .as_ref()
            .map(|path| append("statistics.log", &folder.join(path)))
            .transpose()?;
        Ok(Observer {
            title: site.title.clone(),
            json,
            page,
            journal: Journal::new(log),
            on_terminal: !quiet && std::io::stderr().is_terminal(),
            last: Statistics::default(),
            shown_lines: 0,
        })
    }

    fn look(&mut self, statistics: Statistics) {
        let metrics = metrics::metrics(&statistics);
        if let Some(json) = &mut self.json {
            // Whoever reads it may have gone.
            let _ = writeln!(json, "{}", metrics::json(&self.title, unix_time_s(), &metrics));
            let _ = json.flush();
        }
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) =
            metrics::prometheus(&self.title, &metrics);
        self.journal.look(unix_time_s(), &statistics, &metrics);
        if self.on_terminal {
            self.draw(&statistics);
        }
        self.last = statistics;
    }

    /// Tables in place of those of the second before.
    fn draw(&mut self, statistics: &Statistics) {
        let text = view::second(&self.title, &self.last, statistics);
        let is_above = self.shown_lines > 0 && !self.journal.has_spoken();
        let up = if is_above { format!("\u{1b}[{}A\u{1b}[J", self.shown_lines) } else { String::new() };
        self.shown_lines = text.lines().count();
        let _ = std::io::stderr().lock().write_all(format!("{up}{text}").as_bytes());
    }

    fn say(&mut self, text: &str) {
        self.journal.say(unix_time_s(), text);
    }
}

fn append(key: &str, path: &Path) -> Result<File, String> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|error| format!("{key}: {}: {error}", path.display()))
}

fn unix_time_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Tells this run's RTP stream from others.
fn identity() -> u32 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    (nanos as u32).rotate_left(11) ^ std::process::id().wrapping_mul(0x9e37_79b9)
}
