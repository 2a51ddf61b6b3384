//! Voice streams of a study, sent and received by real programs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bentpipe_emu::Namespace;
use bentpipe_emu::interface::ip;
use bentpipe_study::Streams;
use bentpipe_units::Span;
use serde_json::{Value, json};

/// Port of the receiver. Its RTP is known to the header compressors of the study's gateways.
const PORT: u16 = 6000;
/// Time in which a program starts.
const START: Duration = Duration::from_millis(500);
/// Time in which IPv6 becomes usable, and gateways learn of each other's stations.
const SETTLE: Duration = Duration::from_secs(2);
/// Interval at which programs are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Time beyond their duration after which streams are given up.
const GRACE: Duration = Duration::from_secs(30);

/// Both ends of the streams, joined by a veth pair.
struct Place {
    ends: [Namespace; 2],
    program: PathBuf,
    gateways: Vec<(Running, PathBuf)>,
}

/// Child that ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Carries the streams and returns the figures of all programs.
pub(crate) fn carry(streams: &Streams<'_>, stop: &AtomicBool) -> Result<Value, String> {
    let mut place = Place::new(streams.live.gateways.is_empty())?;
    place.start_gateways(streams)?;
    let [sent, received] = ["sent", "received"].map(|part| {
        let path = std::path::absolute(streams.folder.join(format!("live-{}-{part}.json", streams.name)));
        path.map_err(|error| error.to_string())
    });
    let (sent, received) = (sent?, received?);
    let address =
        if streams.live.ip == 6 { format!("[fd50::2]:{PORT}") } else { format!("10.50.0.2:{PORT}") };
    let mut receiver = place.rtp(1, &["receive", &address, "--idle", "2 s", "--json"], &received)?;
    std::thread::sleep(START);
    let (count, length) = (streams.live.streams.to_string(), streams.duration.to_string());
    let words = ["send", &address, "--streams", &count, "--duration", &length, "--codec", "gsm", "--json"];
    let mut sender = place.rtp(0, &words, &sent)?;
    let limit = as_duration(streams.duration) + GRACE;
    finish(&mut sender, limit, stop)?;
    finish(&mut receiver, GRACE, stop)?;
    let gateways = place.statistics()?;
    Ok(json!({ "sent": read(&sent)?, "received": read(&received)?, "gateways": gateways }))
}

impl Place {
    /// Creates both ends. The veth pair has the addresses of the streams, or those of gateways.
    fn new(is_direct: bool) -> Result<Place, String> {
        let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let create = |host: &str| Namespace::create(host).map_err(|error| error.to_string());
        let ends = [create("voice-a")?, create("voice-b")?];
        let run = |words: &[&str]| ip(words).map_err(|error| error.to_string());
        let [a, b] = ends.each_ref().map(Namespace::name);
        run(&["-n", a, "link", "add", "voice0", "type", "veth", "peer", "name", "voice0", "netns", b])?;
        for (n, end) in [(1, a), (2, b)] {
            let addresses = match is_direct {
                true => vec![format!("10.50.0.{n}/24"), format!("fd50::{n}/64")],
                false => vec![format!("192.0.2.{n}/24")],
            };
            for address in addresses {
                let is_v6 = address.contains(':');
                let words = ["-n", end, "address", "add", &address, "dev", "voice0", "nodad"];
                run(&words[..if is_v6 { 8 } else { 7 }])?;
            }
            run(&["-n", end, "link", "set", "voice0", "up"])?;
            run(&["-n", end, "link", "set", "lo", "up"])?;
        }
        Ok(Place { ends, program, gateways: Vec::new() })
    }

    /// Starts the gateways, and waits until they run.
    fn start_gateways(&mut self, streams: &Streams<'_>) -> Result<(), String> {
        for (end, file) in self.ends.iter().zip(&streams.live.gateways) {
            let path = streams.study.join(file);
            let mut command = self.command(end);
            command.arg("gateway").arg(&path).stdout(Stdio::null()).stderr(Stdio::piped());
            let mut child = command.spawn().map(Running).map_err(|error| format!("gateway: {error}"))?;
            let output = child.0.stderr.take().ok_or("gateway: no output")?;
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            let mut said = Vec::new();
            let runs = lines.by_ref().any(|line| {
                said.push(line);
                said.last().is_some_and(|line| line.contains(" runs on "))
            });
            if !runs {
                return Err(format!("{}: {}", path.display(), said.join(" ")));
            }
            // What it says later is read, or it would wait for that.
            std::thread::spawn(move || lines.for_each(drop));
            self.gateways.push((child, path));
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }

    fn command(&self, end: &Namespace) -> Command {
        let mut command = end.command(&self.program.to_string_lossy());
        command.stdin(Stdio::null());
        command
    }

    /// Starts the generator or its receiver at an end, with a file for its figures.
    fn rtp(&self, end: usize, words: &[&str], file: &Path) -> Result<Running, String> {
        // Figures of an earlier run would be taken for those of this one.
        let _ = std::fs::remove_file(file);
        let mut command = self.command(&self.ends[end]);
        command.arg("rtp").args(words).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Running).map_err(|error| format!("rtp: {error}"))
    }

    /// Returns the statistics of the gateways.
    fn statistics(&self) -> Result<Vec<Value>, String> {
        let ask = |(_, path): &(Running, PathBuf)| {
            let mut command = Command::new(&self.program);
            let output = command.args(["gateway", "statistics"]).arg(path).output();
            let output = output.map_err(|error| format!("gateway: {error}"))?;
            serde_json::from_slice(&output.stdout).map_err(|error| format!("{}: {error}", path.display()))
        };
        self.gateways.iter().map(ask).collect()
    }
}

fn as_duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// Waits for the end of a program. Its exit code is not looked at: lost packets are figures.
fn finish(program: &mut Running, limit: Duration, stop: &AtomicBool) -> Result<(), String> {
    let end = Instant::now() + limit;
    loop {
        if program.0.try_wait().map_err(|error| error.to_string())?.is_some() {
            return Ok(());
        }
        if stop.load(Ordering::SeqCst) {
            return Err("interrupted".to_owned());
        }
        if Instant::now() > end {
            return Err("the streams did not end".to_owned());
        }
        std::thread::sleep(LOOK);
    }
}

fn read(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}
