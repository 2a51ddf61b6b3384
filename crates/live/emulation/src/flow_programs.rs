//! Real programs in the place of flows between real hosts, and of roles there.
//!
//! They are iperf3, ping, voice packets of `bentpipe rtp`, calls of `bentpipe call` and `bentpipe answer`, and nodes of bundles with their loads.
//!
//! What a scenario says of a flow becomes the program's arguments, and what the program measured becomes the flow's
//! measures, by the names that a simulation of it has.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bentpipe_emu::SetupError;
use bentpipe_lab::video::Finish;
use bentpipe_record::Measure;
use bentpipe_scenario::{Application, Copies, Document, Flow, Ip, RealTraffic, Scenario, copies};
use bentpipe_units::{Bytes, Rate, Span};

use crate::Error;
use crate::hosts::Hosts;
use crate::programs::{CHECK_INTERVAL, Started, require};

mod calls;
mod figures;
mod nodes;
mod voice;

use nodes::{RolePlan, RoleRuns};

/// Folder of the programs' output in that of the results.
pub(crate) const FOLDER: &str = "programs";
/// Most flows: each is two processes.
const MAX_FLOWS: u64 = 64;
/// Most streams of one iperf3.
const MAX_STREAMS: u32 = 128;
/// First port of iperf3's servers. Each flow has its own.
const FIRST_PORT: u16 = 5201;
/// First port of voice packets. Each copy has its own, and the next one is of RTCP.
const FIRST_VOICE_PORT: u16 = 16384;
/// Time that a server has to listen.
const TIME_TO_LISTEN: Duration = Duration::from_secs(3);
/// Time that programs have to end after the scenario's duration, without round trips.
///
/// Long queues have to drain.
const PATIENCE: Span = Span::from_secs(60);
/// Round trips that iperf3 takes to connect and to exchange results, with some to spare.
const ROUND_TRIPS: u64 = 20;
/// Time that a program has to end once it was interrupted.
const TIME_TO_END: Duration = Duration::from_secs(1);
/// Time for which voice packets may wait in queues after the last was sent.
const TIME_TO_DRAIN: Duration = Duration::from_secs(1);
/// Shortest time between bundles of `dtn perf`.
const LEAST_INTERVAL: Span = Span::from_nanos(100);
/// First service number of the senders of bundles. Each flow has its own.
const FIRST_SERVICE: usize = 100;
/// Service of a node that drops bundles.
const DISCARD: u16 = 9;
/// Shortest payload of iperf3's datagrams: its own header.
const MIN_DATAGRAM: u64 = 16;

/// Programs of the flows, not yet started.
pub(crate) struct FlowPrograms {
    roles: Vec<RolePlan>,
    all: Vec<FlowProgram>,
    /// Time at which those that still run are ended.
    limit: Duration,
    /// Time that the run lasts at least.
    duration: Duration,
    /// Time for packets in flight at the end.
    linger: Duration,
    /// Flows without a program, and why.
    pub(crate) notices: Vec<String>,
}

/// Program of a flow.
struct FlowProgram {
    flow: String,
    start: Duration,
    /// Server, at the flow's end.
    server: Option<Command>,
    client: Command,
    kind: Kind,
    /// UDP port that the server has last, if it does not say that it listens.
    port: u16,
}

/// Kind of a program: how its output is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
    Ping,
    Bundles,
    Voice,
    Calls,
}

impl Kind {
    /// Returns `true` if the server has figures, and writes them when it is interrupted.
    fn is_counted_at_server(self) -> bool {
        matches!(self, Kind::Voice | Kind::Calls)
    }

    /// Returns an error with the Debian package of a program that is not there.
    fn require(self) -> Result<(), SetupError> {
        match self {
            Kind::Tcp | Kind::Udp => require("iperf3", "iperf3"),
            Kind::Ping => require("ping", "iputils-ping"),
            Kind::Bundles | Kind::Voice | Kind::Calls => Ok(()),
        }
    }
}

/// Program of a flow without its hosts.
struct Plan {
    kind: Kind,
    arguments: Vec<String>,
    /// Arguments of a server that has its own.
    at_server: Vec<String>,
}

impl Plan {
    fn new(kind: Kind, arguments: Vec<String>) -> Plan {
        Plan { kind, arguments, at_server: Vec::new() }
    }
}

impl FlowPrograms {
    /// Plans programs for the flows between real hosts of a scenario as written.
    ///
    /// Roles of real hosts have programs too.
    ///
    /// # Errors
    /// Returns an error if there are too many flows, if the kernel lacks a controller, or if no program follows a role.
    pub(crate) fn plan(
        (document, scenario): (&Document, &Scenario),
        hosts: &Hosts,
        address: &dyn Fn(&str) -> Option<IpAddr>,
        round_trip: Span,
    ) -> Result<FlowPrograms, Error> {
        let scenario = copies::spread(scenario);
        let roles = nodes::plan((document, &scenario), hosts, address)?;
        let (mut all, mut notices) = (Vec::new(), Vec::new());
        let is_real = |name: &str| hosts.host(name).is_some();
        let flows = scenario.flow.iter().filter(|(_, flow)| is_real(&flow.from) && is_real(&flow.to));
        let mut sent = Vec::new();
        for (name, flow) in flows {
            match flow.traffic.kind().real(flow.ip) {
                Ok(_) => sent.push((name, flow)),
                Err(why) => notices.push(left_out(name, &format!("{why} (\"{}\")", flow.traffic.word()))),
            }
        }
        let number: u64 = sent.iter().map(|(_, flow)| programs_of(flow)).sum();
        if number > MAX_FLOWS {
            return Err(Error::other(format!(
                "--real-flows: {number} flows between real hosts: expected at most {MAX_FLOWS}"
            )));
        }
        let flows = sent.into_iter().flat_map(|(name, flow)| each(&scenario, name, flow));
        let mut voice_port = FIRST_VOICE_PORT;
        for (number, (name, start, flow)) in flows.enumerate() {
            let time = time_of(start, flow, scenario.duration);
            match planned(&name, flow, time)? {
                Ok(plan) => {
                    let program = match plan.kind {
                        Kind::Bundles => {
                            bundles((&name, start), (flow, number), plan, &scenario, (hosts, &roles))
                        }
                        Kind::Voice | Kind::Calls => {
                            let port = voice_port;
                            let are_calls = plan.kind == Kind::Calls;
                            let taken = if are_calls { calls::ports(flow) } else { 2 * voice::ports(flow) };
                            voice_port = voice_port.saturating_add(u16::try_from(taken).unwrap_or(u16::MAX));
                            let make = if are_calls { calls::program } else { voice::program };
                            make((&name, start), flow, plan, hosts, port)
                        }
                        _ => program((&name, start), flow, plan, hosts, FIRST_PORT + number as u16),
                    };
                    let mut program = program.map_err(Error::Other)?;
                    if program.kind == Kind::Bundles {
                        program.client.args(["--wait", &report_time(round_trip).to_string()]);
                    }
                    all.push(program);
                }
                Err(why) => notices.push(left_out(&name, &why)),
            }
        }
        all.iter().try_for_each(|program| program.kind.require())?;
        let lasting = |span: Span| Duration::from_nanos(span.as_nanos());
        Ok(FlowPrograms {
            roles,
            all,
            limit: lasting(scenario.duration + round_trip * ROUND_TRIPS + PATIENCE),
            duration: lasting(scenario.duration),
            linger: lasting(round_trip),
            notices,
        })
    }

    /// Starts the servers. Output goes to `folder`.
    ///
    /// It takes some time, so that it comes before the clock starts.
    ///
    /// # Errors
    /// Returns an error if a server does not listen, or a file cannot be written.
    pub(crate) fn serve(self, folder: &Path, hosts: &Hosts) -> Result<Served, String> {
        let folder = folder.join(FOLDER);
        if !self.all.is_empty() || !self.roles.is_empty() {
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let roles = self.roles.into_iter().map(|role| role.start(&folder, hosts));
        let roles = roles.collect::<Result<Vec<_>, _>>()?;
        let all = self.all.into_iter().map(|program| program.serve(&folder));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let running =
            Running { all, limit: self.limit, duration: self.duration, linger: self.linger, _roles: roles };
        Ok(Served { running, measures: Arc::default() })
    }
}

/// Programs whose servers listen.
pub(crate) struct Served {
    running: Running,
    measures: Arc<Mutex<Vec<Measure>>>,
}

impl Served {
    /// Returns the step after the run that adds what the programs measured.
    pub(crate) fn finish(&self, other: Option<Finish>) -> Finish {
        let measures = Arc::clone(&self.measures);
        Box::new(move |folder: &Path| {
            let mut all = other.map_or(Ok(Vec::new()), |other| other(folder))?;
            all.extend(std::mem::take(&mut *measures.lock().unwrap_or_else(PoisonError::into_inner)));
            Ok(all)
        })
    }

    /// Starts a thread that starts each client in its time.
    ///
    /// The thread sets `stop` when all have ended and the duration is over. Once `stop` is set it ends them.
    pub(crate) fn start(self, stop: Arc<AtomicBool>) -> Started {
        Started(std::thread::spawn(move || self.running.follow(&stop, &self.measures)))
    }
}

fn left_out(flow: &str, why: &str) -> String {
    format!("flow \"{flow}\" is left out: {why}")
}

/// Returns the number of a flow's programs. Copies that are measured together have one.
fn programs_of(flow: &Flow) -> u64 {
    let are_together = flow.traffic.kind().takes().copies == Copies::Together;
    if are_together { 1 } else { u64::from(flow.count) }
}

/// Returns the copies of a flow with their starts.
///
/// Those that are measured together are one.
fn each<'a>(
    scenario: &'a Scenario,
    name: &'a str,
    flow: &'a Flow,
) -> impl Iterator<Item = (String, Span, &'a Flow)> {
    let count = programs_of(flow);
    (0..count).map(move |n| {
        let copy = if count > 1 { format!("{name}.{}", n + 1) } else { name.to_owned() };
        (copy, copies::start(scenario, (name, flow), n, scenario.seed), flow)
    })
}

/// Returns how long a flow sends.
fn time_of(start: Span, flow: &Flow, duration: Span) -> Span {
    flow.stop.unwrap_or(duration).min(duration).saturating_sub(start)
}

/// Returns the program of a flow, or why none is like it.
///
/// # Errors
/// Returns an error if the kernel lacks the controller.
fn planned(name: &str, flow: &Flow, time: Span) -> Result<Result<Plan, String>, Error> {
    if time.is_zero() {
        return Ok(Err("it would start after the end".to_owned()));
    }
    if !flow.active {
        return Ok(Err("it is not active".to_owned()));
    }
    Ok(match flow.traffic.kind().real(flow.ip) {
        Ok(RealTraffic::Connection { controller }) => {
            let known = kernel_name(controller).filter(|name| bentpipe_emu::has_congestion_control(name));
            let Some(known) = known else {
                let kernel = bentpipe_emu::congestion_controls().join(", ");
                return Err(Error::other(format!(
                    "flow.{name}.traffic.controller: the kernel has no {controller}: expected one of {kernel}, or hosts \
                     that are not `real`"
                )));
            };
            connection(flow.application, time).map(|mut arguments| {
                arguments.extend(["--congestion".to_owned(), known.to_owned()]);
                Plan::new(Kind::Tcp, arguments)
            })
        }
        Ok(RealTraffic::Datagrams { payload, rate, packets, dscp }) => {
            datagrams(flow, (payload, rate), packets, time).map(|mut arguments| {
                if dscp != 0 {
                    arguments.extend(["--dscp".to_owned(), dscp.to_string()]);
                }
                Plan::new(Kind::Udp, arguments)
            })
        }
        Ok(traffic @ RealTraffic::Voice { .. }) => voice::planned(flow, traffic, time),
        Ok(traffic @ RealTraffic::Calls { .. }) => calls::planned(traffic, time),
        Ok(RealTraffic::Requests { payload, interval, packets, dscp }) => {
            let arguments = requests((payload, interval), packets, dscp, time);
            Ok(Plan::new(Kind::Ping, arguments))
        }
        Ok(RealTraffic::Bundles { interval, .. }) if interval < LEAST_INTERVAL => {
            Err(format!("bundles of `dtn perf` are {LEAST_INTERVAL} apart or more"))
        }
        Ok(RealTraffic::Bundles { payload, interval, lifetime, bundles }) => {
            let number = bundles.map_or_else(
                || ["--duration".to_owned(), time.to_string()],
                |bundles| ["--count".to_owned(), bundles.to_string()],
            );
            let rate = format!("{:.6}", 1.0 / seconds(interval));
            let words =
                ["--payload", &payload.to_string(), "--rate", &rate, "--lifetime", &lifetime.to_string()];
            let arguments = words.map(str::to_owned).into_iter().chain(number).collect();
            Ok(Plan::new(Kind::Bundles, arguments))
        }
        Err(why) => Err(why.to_owned()),
    })
}

/// Returns the kernel's name of a controller.
fn kernel_name(name: &str) -> Option<&str> {
    match name {
        "newreno" => Some("reno"),
        "westwood+" => Some("westwood"),
        "hybla" | "cubic" | "vegas" | "bbr" => Some(name),
        _ => None,
    }
}

fn seconds(span: Span) -> f64 {
    span.as_secs_f64()
}

/// Returns iperf3's time, in whole seconds as it takes it.
fn whole_seconds(span: Span) -> [String; 2] {
    ["--time".to_owned(), format!("{}", seconds(span).ceil().max(1.0) as u64)]
}

/// Returns iperf3's arguments for what an application writes.
fn connection(application: Application, time: Span) -> Result<Vec<String>, String> {
    match application {
        Application::Bulk(bulk) => Ok(match bulk.size {
            Some(size) if bulk.duration.is_none() => vec!["--bytes".to_owned(), size.get().to_string()],
            _ => whole_seconds(bulk.duration.unwrap_or(time).min(time)).into(),
        }),
        Application::Paced(paced) => {
            let lasts = whole_seconds(paced.duration.unwrap_or(time).min(time));
            let rate = ["--bitrate".to_owned(), paced.rate.as_bps().to_string()];
            let write = ["--length".to_owned(), paced.write.get().to_string()];
            Ok(lasts.into_iter().chain(rate).chain(write).collect())
        }
        Application::OnOff(_) => Err("iperf3 makes no pauses".to_owned()),
        Application::Nothing => Err("it has no data".to_owned()),
    }
}

/// Returns iperf3's arguments for datagrams of a payload and rate, the codepoint apart.
fn datagrams(
    flow: &Flow,
    (payload, rate): (Bytes, Rate),
    packets: Option<u64>,
    time: Span,
) -> Result<Vec<String>, String> {
    if payload.get() < MIN_DATAGRAM {
        return Err(format!("datagrams of iperf3 have a payload of {MIN_DATAGRAM} B or more"));
    }
    if flow.count > MAX_STREAMS {
        return Err(format!("iperf3 has at most {MAX_STREAMS} streams of datagrams"));
    }
    if flow.count > 1 && !flow.starts_together() {
        return Err("iperf3 starts all streams of datagrams at once".to_owned());
    }
    let rate_bps = rate.as_bps().max(1).to_string();
    let mut arguments = vec!["--udp".to_owned(), "--bitrate".to_owned(), rate_bps];
    arguments.extend(["--length".to_owned(), payload.get().to_string()]);
    match packets {
        Some(packets) => arguments.extend(["--blockcount".to_owned(), packets.to_string()]),
        None => arguments.extend(whole_seconds(time)),
    }
    if flow.count > 1 {
        arguments.extend(["--parallel".to_owned(), flow.count.to_string()]);
    }
    Ok(arguments)
}

/// Returns ping's arguments.
fn requests((payload, interval): (Bytes, Span), packets: Option<u64>, dscp: u8, time: Span) -> Vec<String> {
    let fitting = (seconds(time) / seconds(interval)).floor() as u64;
    let number = packets.unwrap_or(u64::MAX).min(fitting.max(1)).to_string();
    let (tos, payload) = ((u32::from(dscp) << 2).to_string(), payload.get().to_string());
    let interval = format!("{:.3}", seconds(interval).max(0.001));
    let words = ["-n", "-q", "-i", &interval, "-s", &payload, "-Q", &tos, "-c", &number];
    words.map(str::to_owned).into()
}

/// Returns the commands of a planned program at its hosts.
fn program(
    (name, start): (&str, Span),
    flow: &Flow,
    plan: Plan,
    hosts: &Hosts,
    port: u16,
) -> Result<FlowProgram, String> {
    let [from, to] = hosts.ends(flow)?;
    let version = match flow.ip {
        Ip::V4 => "-4",
        Ip::V6 => "-6",
    };
    let address = to.address(flow.ip).to_string();
    let quiet = |mut command: Command, words: &[&str]| {
        command.args(words).stdin(Stdio::null()).stderr(Stdio::null());
        command
    };
    let port = port.to_string();
    let (server, client) = match plan.kind {
        Kind::Ping | Kind::Bundles | Kind::Voice | Kind::Calls => {
            let mut client = quiet(from.namespace.command("ping"), &[version]);
            client.args(&plan.arguments).arg(&address);
            (None, client)
        }
        Kind::Tcp | Kind::Udp => {
            for host in [&from, &to] {
                // What one transfer learnt of the path is not for the next. A default of BBR would leave pacing on.
                for (key, value) in
                    [("net/ipv4/tcp_no_metrics_save", "1"), ("net/ipv4/tcp_congestion_control", "reno")]
                {
                    host.namespace.sysctl(key, value).map_err(|error| error.to_string())?;
                }
            }
            let words = ["--server", "--one-off", "--forceflush", version, "--port", &port];
            let server = quiet(to.namespace.command("iperf3"), &words);
            let words = ["--json", version, "--port", &port, "--client", &address];
            let mut client = quiet(from.namespace.command("iperf3"), &words);
            client.args(&plan.arguments);
            (Some(server), client)
        }
    };
    let start = Duration::from_nanos(start.as_nanos());
    Ok(FlowProgram { flow: name.to_owned(), start, server, client, kind: plan.kind, port: 0 })
}

/// Returns the sender of a flow of bundles: `bentpipe dtn perf` at its node.
fn bundles(
    (name, start): (&str, Span),
    (flow, number): (&Flow, usize),
    plan: Plan,
    scenario: &Scenario,
    (hosts, roles): (&Hosts, &[RolePlan]),
) -> Result<FlowProgram, String> {
    let own = roles.iter().find_map(|role| role.port_at(&flow.from));
    let port = own.ok_or_else(|| format!("node \"{}\" has no bundles", flow.from))?;
    let node = |name: &str| {
        let place = scenario.node.get_index_of(name).ok_or_else(|| format!("no node \"{name}\""))?;
        Ok::<_, String>(place + 1)
    };
    let [from, _] = hosts.ends(flow)?;
    let [source, sink] = [node(&flow.from)?, node(&flow.to)?];
    let mut client = nodes::this_program(from.namespace).map_err(|error| error.to_string())?;
    client.args(["dtn", "perf", &format!("127.0.0.1:{port}"), &format!("ipn:{sink}.{DISCARD}")]);
    client.args(["--from", &format!("ipn:{source}.{}", FIRST_SERVICE + number)]).args(&plan.arguments);
    client.stdin(Stdio::null());
    let start = Duration::from_nanos(start.as_nanos());
    Ok(FlowProgram { flow: name.to_owned(), start, server: None, client, kind: Kind::Bundles, port: 0 })
}

/// Returns the time that reports of bundles may take.
///
/// Bundles are sent again where they are lost.
fn report_time(round_trip: Span) -> Span {
    round_trip * (ROUND_TRIPS / 2) + Span::from_secs(10)
}

/// Returns a name as one of a file.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

/// Returns the file of a flow's output.
fn output(folder: &Path, flow: &str, extension: &str) -> std::path::PathBuf {
    folder.join(format!("{}.{extension}", file_name(flow)))
}

impl FlowProgram {
    /// Starts the server and waits until it listens.
    fn serve(mut self, folder: &Path) -> Result<RunningFlow, String> {
        let extension = if self.kind == Kind::Ping { "txt" } else { "json" };
        let written = output(folder, &self.flow, extension);
        let create = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        match self.kind {
            Kind::Bundles | Kind::Voice | Kind::Calls => {
                let log = create(&output(folder, &self.flow, "log.txt"))?;
                self.client.arg("--json").arg(&written).stdout(Stdio::null()).stderr(log)
            }
            _ => self.client.stdout(create(&written)?),
        };
        let received = output(folder, &self.flow, "received.json");
        let server = match self.server.take() {
            None => None,
            Some(mut server) => {
                let log = output(folder, &self.flow, "server.txt");
                let written = create(&log)?;
                match self.kind.is_counted_at_server() {
                    true => server.arg("--json").arg(&received).stderr(written),
                    false => server.stdout(written),
                };
                let mut child = Process(spawn(&mut server)?);
                self.await_server(&mut child, &log)?;
                Some(child)
            }
        };
        Ok(RunningFlow { program: self, outputs: [written, received], server, client: Client::Waiting })
    }

    /// Waits until the server listens.
    fn await_server(&self, child: &mut Process, log: &Path) -> Result<(), String> {
        let listens = |child: &Process| match self.kind.is_counted_at_server() {
            true => child.has_port(self.port),
            false => fs::read_to_string(log).is_ok_and(|text| text.contains("listening")),
        };
        let end = Instant::now() + TIME_TO_LISTEN;
        while !listens(child) {
            if child.has_ended() || Instant::now() > end {
                let said = fs::read_to_string(log).unwrap_or_default();
                let (log, said) = (log.display(), said.trim());
                return Err(format!("flow {}: its server does not listen: {log}: {said}", self.flow));
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        Ok(())
    }
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    // What is run in a namespace has the program's name among the arguments of `ip`.
    let named = command
        .get_args()
        .map(OsStr::to_string_lossy)
        .find(|word| ["iperf3", "ping", "dtn", "rtp", "call", "answer"].contains(&&**word));
    let name = named.map_or(program, |word| word.into_owned());
    command.spawn().map_err(|error| format!("{name}: {error}"))
}

/// Process that ends with the value.
struct Process(Child);

impl Process {
    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// Returns `true` if a UDP socket in the network of the process has a port.
    fn has_port(&self, port: u16) -> bool {
        let wanted = format!(":{port:04X}");
        let is_in = |table: &str| {
            let text = fs::read_to_string(format!("/proc/{}/net/{table}", self.0.id())).unwrap_or_default();
            // Number, local address, remote address and so on (proc_net_udp in the kernel's documentation).
            let mut locals = text.lines().filter_map(|line| line.split_whitespace().nth(1));
            locals.any(|local| local.ends_with(&wanted))
        };
        is_in("udp") || is_in("udp6")
    }
}

impl Process {
    /// Ends it at once.
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Client of a flow.
enum Client {
    Waiting,
    Runs(Process),
    /// The client has ended, and its last packets may be on their way.
    ///
    /// The server still counts them.
    Drains {
        since: Instant,
        /// Set if the server was interrupted.
        is_asked: bool,
    },
    Ended,
}

impl Client {
    /// Returns `true` if it has started and its figures are not yet read.
    fn is_active(&self) -> bool {
        matches!(self, Client::Runs(_) | Client::Drains { .. })
    }
}

/// Flow whose server listens.
struct RunningFlow {
    program: FlowProgram,
    /// Output of the client, and figures of a server that has some.
    outputs: [std::path::PathBuf; 2],
    /// Ends with the value.
    server: Option<Process>,
    client: Client,
}

impl RunningFlow {
    /// Returns `true` if the client has not failed.
    ///
    /// It is started in its time, and its output read at the end.
    fn look(&mut self, since: Duration, linger: Duration, measures: &Mutex<Vec<Measure>>) -> bool {
        match &mut self.client {
            Client::Waiting if since >= self.program.start => match spawn(&mut self.program.client) {
                Ok(child) => self.client = Client::Runs(Process(child)),
                Err(_) => {
                    self.client = Client::Ended;
                    return false;
                }
            },
            Client::Runs(process) => {
                if process.has_ended() {
                    self.client = Client::Drains { since: Instant::now(), is_asked: false };
                    if !self.program.kind.is_counted_at_server() {
                        return self.conclude(measures);
                    }
                }
            }
            Client::Drains { since, is_asked } if since.elapsed() >= linger => {
                let runs = self.server.as_mut().is_some_and(|server| !server.has_ended());
                if !runs {
                    return self.conclude(measures);
                }
                // Another signal would end it at once, without its figures.
                if let Some(server) = self.server.as_ref().filter(|_| !std::mem::replace(is_asked, true)) {
                    bentpipe_emu::interrupt(&server.0);
                }
            }
            Client::Drains { .. } => {}
            Client::Waiting | Client::Ended => {}
        }
        true
    }
}

impl RunningFlow {
    /// Returns `true` if there are figures, which it reads.
    fn conclude(&mut self, measures: &Mutex<Vec<Measure>>) -> bool {
        self.client = Client::Ended;
        self.server = None;
        let found = figures::read(&self.program, &self.outputs);
        let is_complete = !found.is_empty();
        measures.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        is_complete
    }
}

/// Flows whose programs run.
struct Running {
    all: Vec<RunningFlow>,
    limit: Duration,
    duration: Duration,
    linger: Duration,
    /// End with the value.
    _roles: Vec<RoleRuns>,
}

impl Running {
    /// Returns the exit code: 1 if a program failed or was ended.
    fn follow(mut self, stop: &AtomicBool, measures: &Mutex<Vec<Measure>>) -> u8 {
        let (began, mut has_failed) = (Instant::now(), false);
        loop {
            let since = began.elapsed();
            for flow in &mut self.all {
                has_failed |= !flow.look(since, self.linger + TIME_TO_DRAIN, measures);
            }
            let is_over = self.all.iter().all(|flow| matches!(flow.client, Client::Ended));
            if stop.load(Ordering::SeqCst) {
                break;
            }
            if is_over && since >= self.duration {
                std::thread::sleep(self.linger);
                break;
            }
            if since >= self.limit {
                has_failed = true;
                break;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        self.interrupt(measures);
        stop.store(true, Ordering::SeqCst);
        u8::from(has_failed)
    }

    /// Interrupts what still runs, so that it writes what it has.
    fn interrupt(&mut self, measures: &Mutex<Vec<Measure>>) {
        let mut runs = false;
        for flow in &mut self.all {
            if let Client::Runs(process) = &mut flow.client {
                bentpipe_emu::interrupt(&process.0);
            }
            runs |= flow.client.is_active();
        }
        let end = Instant::now() + TIME_TO_END;
        while runs && Instant::now() < end {
            std::thread::sleep(CHECK_INTERVAL);
            runs = false;
            for flow in &mut self.all {
                if flow.client.is_active() {
                    flow.look(Duration::MAX, Duration::ZERO, measures);
                    runs |= flow.client.is_active();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_scenario::Document;

    use super::{Kind, each, planned, time_of};

    /// Returns what is planned for the flow of a scenario with its `lines`: the words, or why there is none.
    fn words(lines: &str) -> Result<(Kind, String), String> {
        let text = format!(
            "title = \"t\"\nduration = \"10 s\"\n[node.a]\nkind = \"host\"\n[node.b]\nkind = \"host\"\n[link.l]\n\
             between = [\"a\", \"b\"]\nrate = \"5 Mbit/s\"\n[flow.f]\nfrom = \"a\"\nto = \"b\"\n{lines}\n"
        );
        let document = Document::parse("t.toml", text.as_bytes()).expect("a document");
        let scenario = document.scenario().expect("a scenario");
        let flow = &scenario.flow["f"];
        let (name, start, flow) = each(&scenario, "f", flow).last().expect("a copy");
        let plan = planned(&name, flow, time_of(start, flow, scenario.duration))
            .map_err(|error| error.to_string())?;
        plan.map(|plan| (plan.kind, plan.arguments.join(" ")))
    }

    #[test]
    fn flows_become_arguments() {
        let of = |lines: &str| words(lines).map(|(_, words)| words);
        let tcp =
            |rest: &str| of(&format!("traffic = {{ kind = \"tcp\", controller = \"newreno\" }}\n{rest}"));
        assert_eq!(tcp("start = \"2 s\""), Ok("--time 8 --congestion reno".into()));
        assert_eq!(tcp("start = \"1 s\"\nstop = \"4 s\""), Ok("--time 3 --congestion reno".into()));
        let sized = tcp("application = { kind = \"bulk\", size = \"3 MB\" }");
        assert_eq!(sized, Ok("--bytes 3000000 --congestion reno".into()));
        let paced = tcp("application = { kind = \"paced\", rate = \"64 kbit/s\", write = \"800 B\" }");
        assert_eq!(paced, Ok("--time 10 --bitrate 64000 --length 800 --congestion reno".into()));
        // The rate of a scenario counts headers, that of iperf3 does not.
        let udp = of(
            "traffic = { kind = \"udp\", pattern = { kind = \"constant-rate\", rate = \"2280 bit/s\" }, payload = \"200 B\", dscp = 46 }",
        );
        assert_eq!(udp, Ok("--udp --bitrate 2000 --length 200 --time 10 --dscp 46".into()));
        let spaced = of(
            "traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"20 ms\" }, payload = \"20 B\", packets = 7 }",
        );
        assert_eq!(spaced, Ok("--udp --bitrate 8000 --length 20 --blockcount 7".into()));
        let voice = "traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"20 ms\" }, payload = \"16 B\", \
            header = \"rtp\", refresh = { payload = \"52 B\", every = 30 }, spread = false }\ncount = 3";
        let expected = "--streams 3 --payload 4 B --interval 20 ms --clock 8000 --by port --phases aligned --refresh 40 B,30 \
            --packets 500";
        assert_eq!(words(voice), Ok((Kind::Voice, expected.into())));
        let calls = "traffic = { kind = \"sip\", interval = \"5 s\", hold = \"20 s\", calls = 3, media = { codec = \"gsm\", lines = 4 } }";
        let (kind, caller) = words(calls).expect("a program");
        assert_eq!(kind, Kind::Calls);
        assert!(
            caller.starts_with("--random --rate 0.200000000 --calls 3 --hold 20 s --ring-limit 60 s"),
            "{caller}"
        );
        assert!(caller.contains("--duration 10 s --t1 500 ms --t2 4 s --dscp 24 --voice {"), "{caller}");
        assert!(caller.contains("codec = \"gsm\"") && caller.contains("lines = 4"), "{caller}");
        let ping = of("traffic = { kind = \"ping\", interval = \"500 ms\", dscp = 8 }\nstart = \"4 s\"");
        assert_eq!(ping, Ok("-n -q -i 0.500 -s 56 -Q 32 -c 12".into()));
        // Copies start one after another.
        let copies = tcp("count = 4\nstagger = \"2 s\"");
        assert_eq!(copies, Ok("--time 4 --congestion reno".into()));
    }

    #[test]
    fn what_no_program_does_is_said() {
        let why = |lines: &str| words(lines).expect_err("no program");
        assert!(
            why("traffic = { kind = \"voice\", codec = \"g729\" }")
                .contains("no program stands for this traffic")
        );
        let poisson = "traffic = { kind = \"udp\", pattern = { kind = \"poisson\", mean_interval = \"1 s\" }, payload = \"200 B\" }";
        assert!(why(poisson).contains("at random intervals"));
        let voice = "traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"20 ms\" }, payload = \"16 B\"";
        assert!(
            why(&format!("{voice}, refresh = {{ payload = \"52 B\", every = 30 }} }}"))
                .contains("of one length")
        );
        let numbered =
            "traffic = { kind = \"sip\", pabx = { at = \"a\", number = \"201\", dial = \"301\" } }";
        assert!(why(numbered).contains("exchange"), "{}", why(numbered));
        let short = voice.replace("16 B", "11 B");
        assert!(why(&format!("{short}, header = \"rtp\" }}")).contains("12 B"));
        let apart = format!("{voice}, header = \"rtp\" }}\ncount = 2\nstagger = \"1 s\"");
        assert!(why(&apart).contains("starts all its streams at once"));
        assert!(why(&format!("{voice}, header = \"rtp\" }}\ncount = 5000")).contains("4096 ports"));
        assert!(why("traffic = { kind = \"tcp\" }\ncount = 6\nstagger = \"2 s\"").contains("after the end"));
        assert!(why("traffic = { kind = \"tcp\" }\nactive = false").contains("not active"));
        let fixed =
            why("traffic = { kind = \"tcp\", controller = { name = \"fixed\", rate = \"1 Mbit/s\" } }");
        assert!(
            fixed.starts_with("flow.f.traffic.controller: the kernel has no fixed: expected one of "),
            "{fixed}"
        );
    }
}
