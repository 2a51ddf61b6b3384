//! Studies whose runs are jobs of a test controller.
//!
//! It is `bentpipe serve`, driven through its interface.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bentpipe_lab::run::{Failure, Monitor};
use bentpipe_study::{Controller, Order};
use bentpipe_units::Span;
use serde_json::{Value, json};

/// Name of the server's administrator.
const ADMINISTRATOR: &str = "study";
/// Time between two looks at jobs.
const TURN: Duration = Duration::from_millis(200);
/// Most looks at a server that ends its jobs, until it is killed.
const LAST_TURNS: u32 = 100;
/// Most bytes of an answer.
const MAX_ANSWER: u64 = 256 << 20;
/// Name of the fetched curves in a folder of results.
const CURVES: &str = "curves.csv";

/// Controller in a temporary folder, for the time of a study.
pub(super) struct OwnController {
    /// Number of jobs at a time.
    pub(super) jobs: usize,
}

impl Controller for OwnController {
    fn run(&self, orders: &[Order], monitor: &dyn Monitor) -> Result<(), Failure> {
        let mut server = Server::start(self.jobs).map_err(Failure::Build)?;
        let launched: Result<Vec<u64>, String> = orders.iter().map(|order| server.launch(order)).collect();
        let jobs = launched.map_err(Failure::Build)?;
        server.wait(&jobs, orders, monitor)?;
        let fetched = jobs.iter().zip(orders).try_for_each(|(job, order)| server.fetch(*job, order));
        fetched.map_err(Failure::Build)
    }

    fn kernel_controllers(&self) -> Vec<String> {
        let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        known.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }
}

/// Server that runs, and a token for it.
struct Server {
    child: Child,
    folder: PathBuf,
    url: String,
    token: String,
    agent: ureq::Agent,
    /// Jobs that may run.
    open: Vec<u64>,
}

impl Server {
    fn start(jobs: usize) -> Result<Server, String> {
        let folder = std::env::temp_dir().join(format!("bentpipe-controller-{}", std::process::id()));
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
        // The server removes it, also when this process is killed.
        DirBuilder::new().mode(0o700).create(&folder).map_err(|error| wrong(&error))?;
        let password = bentpipe_serve::init(&folder, ADMINISTRATOR, None).map_err(|error| wrong(&error))?;
        let password = password.ok_or("no password was made")?;
        let own = std::env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
        let log = File::create(folder.join("log.txt")).map_err(|error| wrong(&error))?;
        let mut command = Command::new(own);
        command.args([
            "serve",
            "--temporary",
            "--listen",
            "127.0.0.1:0",
            "--jobs",
            &jobs.to_string(),
            "--data",
        ]);
        command.arg(&folder);
        // Ctrl-C is for this process, which cancels the jobs first. The server ends with the pipe, so with this process.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| wrong(&error))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let url = line.trim().strip_prefix("bentpipe serve: ").unwrap_or_default().to_owned();
        let mut server =
            Server { child, folder: folder.clone(), url, token: String::new(), agent, open: Vec::new() };
        if read.is_none_or(|read| read.is_err()) || server.url.is_empty() {
            let log = fs::read_to_string(folder.join("log.txt")).unwrap_or_default();
            return Err(format!("the test controller did not start: {}", log.trim()));
        }
        server.log_in(&password)?;
        Ok(server)
    }

    /// Logs in, and makes a token for launches and results.
    fn log_in(&mut self, password: &str) -> Result<(), String> {
        let body = json!({ "name": ADMINISTRATOR, "password": password });
        let answer = self.send("POST", "/session", Some(&body), None)?;
        let cookie = answer.cookie.ok_or("the test controller gave no session")?;
        let body = json!({ "name": "study", "scope": "run", "days": 1 });
        let made = self.send("POST", "/me/tokens", Some(&body), Some(&cookie))?.json()?;
        made["secret"].as_str().unwrap_or_default().clone_into(&mut self.token);
        Ok(())
    }

    /// Sends a request; with a cookie as a browser does, else with the token.
    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        cookie: Option<&str>,
    ) -> Result<Answer, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{method} {path}: {error}");
        for _ in 0..20 {
            let request =
                ureq::http::Request::builder().method(method).uri(format!("{}/api/v1{path}", self.url));
            let request = request.header("content-type", "application/json").header("sec-fetch-site", "none");
            let request = match cookie {
                Some(cookie) => request.header("cookie", cookie),
                None if self.token.is_empty() => request,
                None => request.header("authorization", format!("Bearer {}", self.token)),
            };
            let text = body.map(Value::to_string).unwrap_or_default();
            let answer = self.agent.run(request.body(text).map_err(|error| wrong(&error))?);
            let mut answer = answer.map_err(|error| wrong(&error))?;
            let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
            let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            if let (429, Some(seconds)) = (status, text("retry-after")) {
                pause(Duration::from_secs(seconds.parse().unwrap_or(1)));
                continue;
            }
            let cookie = crate::remote::cookies(&headers);
            let mut bytes = Vec::new();
            let read = answer.body_mut().as_reader().take(MAX_ANSWER).read_to_end(&mut bytes);
            read.map_err(|error| wrong(&error))?;
            if status >= 300 {
                return Err(wrong(&crate::remote::refusal(status, &String::from_utf8_lossy(&bytes))));
            }
            return Ok(Answer { bytes, cookie });
        }
        Err(wrong(&"too many requests"))
    }

    fn get(&self, path: &str) -> Result<Answer, String> {
        self.send("GET", path, None, None)
    }

    /// Configures a scenario as the forms do, and launches it.
    fn launch(&mut self, order: &Order) -> Result<u64, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", order.scenario.display());
        let text = fs::read_to_string(&order.scenario).map_err(|error| wrong(&error))?;
        let mut text = Value::from(text);
        for set in &order.sets {
            let (key, value) =
                set.split_once('=').ok_or_else(|| wrong(&format!("{set}: expected KEY=VALUE")))?;
            let edit = json!({ "text": text, "key": edited_key(key), "value": edited_value(value) });
            let edited =
                self.send("POST", "/edit", Some(&edit), None).map_err(|error| wrong(&error))?.json()?;
            text = edited["text"].clone();
        }
        if order.alone.is_some() {
            let edit = json!({ "text": text, "key": "sweep", "value": null });
            let edited =
                self.send("POST", "/edit", Some(&edit), None).map_err(|error| wrong(&error))?.json()?;
            text = edited["text"].clone();
        }
        let new = json!({ "name": order.name, "text": text });
        let scenario =
            self.send("POST", "/scenarios", Some(&new), None).map_err(|error| wrong(&error))?.json()?;
        let job = json!({
            "scenario": scenario["id"],
            "seeds": order.seeds,
            "emulate": order.is_emulated,
            "duration": order.alone.map(|duration| duration.to_string()),
        });
        let job = self.send("POST", "/jobs", Some(&job), None).map_err(|error| wrong(&error))?.json()?;
        let job = job["id"].as_u64().ok_or_else(|| wrong(&"the job has no number"))?;
        self.open.push(job);
        Ok(job)
    }

    /// Waits until all jobs are done.
    fn wait(&mut self, jobs: &[u64], orders: &[Order], monitor: &dyn Monitor) -> Result<(), Failure> {
        let mut progress = Progress::begin(orders, monitor);
        loop {
            if monitor.wants_stop() {
                return Err(Failure::Interrupted { finished: 0, runs: jobs.len() });
            }
            let all = self.get("/jobs?limit=200").and_then(|answer| answer.json()).map_err(Failure::Build)?;
            for (n, (job, order)) in jobs.iter().zip(orders).enumerate() {
                let found =
                    all.as_array().into_iter().flatten().find(|found| found["id"].as_u64() == Some(*job));
                let state = found.and_then(|found| found["state"].as_str()).unwrap_or("lost");
                progress.note(n, state, found.and_then(|found| found["share"].as_f64()));
                match state {
                    "done" => self.open.retain(|open| open != job),
                    "queued" | "waiting" | "running" => {}
                    _ => {
                        let message = found.and_then(|found| found["message"].as_str()).unwrap_or_default();
                        return Err(Failure::Build(format!(
                            "run {}: its job is {state}: {message}",
                            order.name
                        )));
                    }
                }
            }
            if self.open.is_empty() {
                return Ok(());
            }
            pause(TURN);
        }
    }

    /// Unpacks the results of a job in the folder of its order. The curves that the study draws follow.
    fn fetch(&self, job: u64, order: &Order) -> Result<(), String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", order.folder.display());
        let archive = self.folder.join(format!("{job}.zip"));
        let bytes = self.get(&format!("/jobs/{job}/archive"))?.bytes;
        fs::write(&archive, bytes).map_err(|error| wrong(&error))?;
        let parent = order.folder.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|error| wrong(&error))?;
        // Next to its place: another folder may be on another disk.
        let unpacked = parent.join(format!(".{}-{}.part", order.name, std::process::id()));
        let mut file = File::open(&archive).map_err(|error| wrong(&error))?;
        let placed = bentpipe_serve::unpack_archive(&mut file, &unpacked).and_then(|()| {
            if order.folder.exists() {
                fs::remove_dir_all(&order.folder).map_err(|error| wrong(&error))?;
            }
            fs::rename(&unpacked, &order.folder).map_err(|error| wrong(&error))
        });
        if placed.is_err() {
            let _ = fs::remove_dir_all(&unpacked);
        }
        placed?;
        if order.curves.is_empty() {
            return Ok(());
        }
        let curves = self.get(&format!("/jobs/{job}/series?select={}", order.curves.join("+")))?;
        fs::write(order.folder.join(CURVES), curves.bytes).map_err(|error| wrong(&error))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends its jobs first.
        drop(self.child.stdin.take());
        for _ in 0..LAST_TURNS {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            pause(TURN);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits between two requests.
#[expect(clippy::disallowed_methods, reason = "it waits for another process")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Jobs as a monitor sees them.
struct Progress<'a> {
    orders: &'a [Order],
    monitor: &'a dyn Monitor,
    jobs: Vec<Seen>,
}

/// State of a job that the monitor knows.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Instant at which the job was first found running.
    started_s: Option<f64>,
    share: f64,
    is_done: bool,
}

impl Progress<'_> {
    fn begin<'a>(orders: &'a [Order], monitor: &'a dyn Monitor) -> Progress<'a> {
        monitor.begin(orders.len(), 0);
        Progress { orders, monitor, jobs: vec![Seen::default(); orders.len()] }
    }

    /// Notes the state of a job, with the share of it that is finished.
    fn note(&mut self, n: usize, state: &str, share: Option<f64>) {
        let (order, is_done) = (&self.orders[n], state == "done");
        if self.jobs[n].is_done || !(is_done || state == "running") {
            return;
        }
        if self.jobs[n].started_s.is_none() {
            self.jobs[n].started_s = Some(self.monitor.clock_s());
            if order.is_emulated && !is_done {
                self.monitor.started(&order.label, self.left());
            }
        }
        let job = &mut self.jobs[n];
        let share = if is_done { 1.0 } else { share.unwrap_or_default().clamp(job.share, 1.0) };
        self.monitor.advance(share - job.share);
        (job.share, job.is_done) = (share, is_done);
        if is_done {
            self.monitor.done(&order.label);
        }
    }

    /// Returns the time that emulations still take, one after the other.
    fn left(&self) -> Span {
        let now_s = self.monitor.clock_s();
        let of = |(order, job): (&Order, &Seen)| {
            let gone_s = job.started_s.map_or(0.0, |started_s| now_s - started_s);
            (order.alone.map_or(0.0, Span::as_secs_f64) - gone_s).max(0.0)
        };
        let jobs = self.orders.iter().zip(&self.jobs).filter(|(_, job)| !job.is_done);
        Span::from_secs(jobs.map(of).sum::<f64>().ceil() as u64)
    }
}

/// Answer of the server.
struct Answer {
    bytes: Vec<u8>,
    cookie: Option<String>,
}

impl Answer {
    fn json(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.bytes)
            .map_err(|error: serde_json::Error| io::Error::from(error).to_string())
    }
}

/// Returns a key as the text has it: that of a sweep is quoted.
fn edited_key(key: &str) -> String {
    match key.trim().strip_prefix("sweep.") {
        Some(swept) => format!("sweep.\"{}\"", swept.replace('"', "")),
        None => key.trim().to_owned(),
    }
}

/// Returns a value as TOML: words and quantities without quotes get them.
fn edited_value(value: &str) -> String {
    let value = value.trim();
    let is_value = value.starts_with(['"', '\'', '[', '{']) || value.parse::<f64>().is_ok();
    match is_value || matches!(value, "true" | "false") {
        true => value.to_owned(),
        false => Value::from(value).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Monitor that keeps its calls, on a clock of its own.
    #[derive(Default)]
    struct Kept(Mutex<(Vec<String>, f64, f64)>);

    impl Monitor for Kept {
        fn begin(&self, runs: usize, _: usize) {
            self.0.lock().expect("free").0.push(format!("{runs} runs"));
        }

        fn advance(&self, share: f64) {
            self.0.lock().expect("free").1 += share;
        }

        fn started(&self, label: &str, left: Span) {
            self.0.lock().expect("free").0.push(format!("{label}: {left}"));
        }

        fn done(&self, label: &str) {
            self.0.lock().expect("free").0.push(label.to_owned());
        }

        fn clock_s(&self) -> f64 {
            self.0.lock().expect("free").2
        }
    }

    #[test]
    fn emulations_are_shown_with_the_time_that_is_left() {
        let order = |label: &str, is_emulated: bool| Order {
            name: label.to_owned(),
            label: label.to_owned(),
            scenario: PathBuf::new(),
            sets: Vec::new(),
            seeds: None,
            folder: PathBuf::new(),
            curves: Vec::new(),
            is_emulated,
            alone: Some(Span::from_secs(30)),
        };
        let (orders, kept) = ([order("a", true), order("b", true), order("c", false)], Kept::default());
        let mut progress = Progress::begin(&orders, &kept);
        let steps = [
            (0.0, 0, "queued", None),
            (1.0, 0, "running", Some(0.0)),
            (11.0, 0, "running", Some(0.4)),
            (12.0, 1, "running", None),
            (31.0, 0, "done", Some(1.0)),
            (31.0, 0, "done", Some(1.0)),
            // A simulation has no time in which it must end.
            (32.0, 2, "running", Some(0.5)),
            (33.0, 2, "done", None),
        ];
        for (now_s, n, state, share) in steps {
            kept.0.lock().expect("free").2 = now_s;
            progress.note(n, state, share);
        }
        let (lines, shares, _) = kept.0.into_inner().expect("free");
        assert_eq!(lines, ["3 runs", "a: 90 s", "b: 79 s", "a", "c"]);
        assert!((shares - 2.0).abs() < 1e-9, "{shares}");
    }

    #[test]
    fn settings_of_studies_are_edits() {
        for (value, edited) in [
            ("newreno", "\"newreno\""),
            ("1 MB", "\"1 MB\""),
            ("0", "0"),
            ("true", "true"),
            ("{ kind = \"drop-tail\" }", "{ kind = \"drop-tail\" }"),
            ("[\"newreno\"]", "[\"newreno\"]"),
        ] {
            assert_eq!(edited_value(value), edited);
        }
        assert_eq!(edited_key("sweep.flow.a.traffic"), "sweep.\"flow.a.traffic\"");
        assert_eq!(edited_key("duration"), "duration");
    }
}
