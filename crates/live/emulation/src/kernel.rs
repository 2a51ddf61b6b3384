//! The kernel's TCP over a study's paths: iperf3 in real time.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_assemble::Emulated;
use bentpipe_emu::{Driver, Monotonic, Namespace};
use bentpipe_lab::plan::Plan;
use bentpipe_lab::run::{self, Request, Results};
use bentpipe_record::Series;
use bentpipe_scenario::{Flow, Ip};
use bentpipe_study::{Kernel, Streams, Transfer};
use bentpipe_units::Span;

use crate::hosts::{Hosts, Inside};
use crate::live::RealTimeRun;
use crate::session::FOREVER;
use crate::view::View;
use crate::{Console, Display};

/// Lateness above which a transfer's figures are doubtful.
const MAX_LATENESS: Span = Span::from_millis(1);

/// Lateness of a single packet that reveals a pause, in seconds. It is some segments of the fastest path.
const PAUSE_S: f64 = 2e-3;

/// Maximum size of a socket buffer, so that only the offered window limits a transfer.
const SOCKET_BYTES: u64 = 200_000_000;

/// Place of a study's transfers by the kernel's TCP: this machine.
pub struct ThisMachine<'a> {
    /// Ends a transfer early.
    pub stop: Arc<AtomicBool>,
    /// Receiver of messages.
    pub console: &'a dyn Console,
    /// Display of the live view of each transfer. It also enables a remark at its start. Default: none.
    pub display: Option<fn() -> Display>,
    /// Identity of the program.
    pub build: &'a str,
    /// Commit that the program was built from, if it is known.
    pub commit: Option<&'a str>,
    /// Command line for the manifest.
    pub command: &'a [String],
}

impl Kernel for ThisMachine<'_> {
    fn transfer(&self, transfer: &Transfer<'_>) -> Result<String, String> {
        if self.display.is_some() {
            self.console
                .note(&format!("{}: the kernel's TCP, {} in real time", transfer.name, transfer.duration));
        }
        // On a thread of its own, which alone gets real-time priority.
        std::thread::scope(|scope| {
            let emulation = scope.spawn(|| Emulation { machine: self, transfer }.run());
            emulation.join().map_err(|_| "the emulation panicked".to_owned())?
        })
    }

    fn streams(&self, streams: &Streams<'_>) -> Result<serde_json::Value, String> {
        if self.display.is_some() {
            let (name, count) = (streams.name, streams.live.streams);
            self.console.note(&format!("{name}: {count} voice streams, {} in real time", streams.duration));
        }
        crate::streams::carry(streams, &self.stop)
    }
}

struct Emulation<'a> {
    machine: &'a ThisMachine<'a>,
    transfer: &'a Transfer<'a>,
}

impl Emulation<'_> {
    fn run(&self) -> Result<String, String> {
        crate::programs::require("iperf3", "iperf3").map_err(|error| error.to_string())?;
        let transfer = self.transfer;
        let (plan, emulated, flow) = self.emulated()?;
        let (mut hosts, _) =
            Hosts::create(&emulated.hosts, &[], emulated.max_bdp).map_err(|error| error.to_string())?;
        let links = emulated.built.links;
        let mut driver = Driver::new(emulated.built.network, Monotonic::start());
        hosts.open(&mut driver);
        let folder = transfer.folder.path();
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let output = folder.join("iperf3.json");
        let mut iperf3 = Iperf3::ready(&hosts, &flow, transfer, &output)?;
        let view = View::start(links, self.machine.display.map(|display| display()));
        let mut live = RealTimeRun::new(driver, Arc::clone(&self.machine.stop), MAX_LATENESS);
        let look = |live: &mut RealTimeRun, _: &Series| {
            view.show(live);
            // Only now do packets move.
            if iperf3.runs() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let results = self.follow(&plan, &mut live, look);
        view.end();
        iperf3.end()?;
        self.judge(&results?)?;
        std::fs::read_to_string(&output).map_err(|error| format!("{}: {error}", output.display()))
    }

    /// The scenario with real hosts in place of the flow's ends, and without an end.
    fn emulated(&self) -> Result<(Plan, Emulated, Flow), String> {
        let mut plan = self.transfer.plan.clone();
        let point = &mut plan.points[0];
        let flow = point.scenario.flow.get(self.transfer.flow).ok_or("no such flow")?.clone();
        for end in [&flow.from, &flow.to] {
            point.scenario.node.get_mut(end).ok_or("no such node")?.real = true;
        }
        let emulated = Emulated::new(&point.scenario, point.seeds[0], &plan.access);
        let emulated = emulated.map_err(|problem| problem.to_string())?;
        point.scenario = emulated.scenario.clone();
        point.scenario.duration = FOREVER;
        Ok((plan, emulated, flow))
    }

    fn follow(
        &self,
        plan: &Plan,
        live: &mut RealTimeRun,
        look: impl FnMut(&mut RealTimeRun, &Series) -> ControlFlow<()>,
    ) -> Result<Results, String> {
        let request = Request {
            document: self.transfer.document,
            plan,
            folder: self.transfer.folder.clone(),
            jobs: 1,
            force: true,
            captures: 0.into(),
            build: self.machine.build,
            commit: self.machine.commit,
            command: self.machine.command,
        };
        let results =
            run::follow(&request, live, (Vec::new(), Vec::new(), None), look, RealTimeRun::conclude);
        results.map_err(|error| error.to_string())
    }

    /// Refuses an interrupted run, and reports one that was late or paused. Packets that wait in a pause leave in a
    /// burst.
    fn judge(&self, results: &Results) -> Result<(), String> {
        if self.machine.stop.load(Ordering::SeqCst) {
            return Err("interrupted".to_owned());
        }
        let real_time = results.runs.first().and_then(|run| run.timing.real_time.as_ref());
        if let Some(real_time) =
            real_time.filter(|real_time| real_time.was_late() || real_time.late_max_s > PAUSE_S)
        {
            self.machine.console.note(&format!("{}: {real_time}", self.transfer.name));
        }
        Ok(())
    }
}

/// Both ends of the transfer. They end with the value.
struct Iperf3 {
    server: Child,
    client: Command,
    started: Option<io::Result<Child>>,
}

impl Iperf3 {
    /// A server that waits, and a client not yet started.
    fn ready(hosts: &Hosts, flow: &Flow, transfer: &Transfer<'_>, output: &Path) -> Result<Iperf3, String> {
        let [sender, receiver] = hosts.ends(flow)?;
        prepare(&sender, transfer)?;
        prepare(&receiver, transfer)?;
        let client = send(sender.namespace, receiver.address(Ip::V4), transfer, output)?;
        Ok(Iperf3 { server: serve(receiver.namespace)?, client, started: None })
    }

    /// Returns `true` while the client runs, which it starts first.
    fn runs(&mut self) -> bool {
        let child = self.started.get_or_insert_with(|| self.client.spawn()).as_mut();
        matches!(child.map(Child::try_wait), Ok(Ok(None)))
    }

    /// Ends the client, and returns an error if it could not be started.
    fn end(mut self) -> Result<(), String> {
        match self.started.take() {
            Some(Err(error)) => Err(format!("iperf3: {error}")),
            other => {
                self.started = other;
                Ok(())
            }
        }
    }
}

impl Drop for Iperf3 {
    fn drop(&mut self) {
        let client = self.started.as_mut().and_then(|child| child.as_mut().ok());
        for child in [Some(&mut self.server), client].into_iter().flatten() {
            // Both have ended by themselves but after Ctrl-C.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Configures a host's TCP by the scenario alone, not by the machine's settings.
fn prepare(host: &Inside<'_>, transfer: &Transfer<'_>) -> Result<(), String> {
    let Inside { namespace, device, .. } = host;
    let buffers = format!("4096 {SOCKET_BYTES} {SOCKET_BYTES}");
    let settings = [
        ("net/ipv4/tcp_rmem", &buffers[..]),
        ("net/ipv4/tcp_wmem", &buffers[..]),
        // What one transfer learnt of the path is not for the next.
        ("net/ipv4/tcp_no_metrics_save", "1"),
        // iperf3 chooses its controller when it is connected. A machine whose default is BBR would leave pacing on.
        ("net/ipv4/tcp_congestion_control", "reno"),
    ];
    let set = settings.iter().try_for_each(|(key, value)| namespace.sysctl(key, value));
    let mss =
        transfer.plan.points[0].scenario.link.values().filter_map(|link| link.mtu).map(|mtu| mtu.get()).min();
    let window =
        || namespace.offer_window(device, transfer.window.get(), mss.unwrap_or(1500).saturating_sub(52));
    set.and_then(|()| window()).map_err(|error| error.to_string())
}

fn serve(namespace: &Namespace) -> Result<Child, String> {
    let mut server = namespace.command("iperf3");
    server
        .args(["--server", "--one-off", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    server.spawn().map_err(|error| format!("iperf3: {error}"))
}

/// Prepares an iperf3 that sends. Its output goes to the file `output`.
fn send(
    namespace: &Namespace,
    to: std::net::IpAddr,
    transfer: &Transfer<'_>,
    output: &Path,
) -> Result<Command, String> {
    let file = File::create(output).map_err(|error| format!("{}: {error}", output.display()))?;
    let mut client = namespace.command("iperf3");
    let seconds = transfer.duration.as_secs_f64().ceil().to_string();
    let (to, interval) = (to.to_string(), "0.5");
    client.args([
        "--client",
        &to,
        "--time",
        &seconds,
        "--interval",
        interval,
        "--congestion",
        transfer.controller,
    ]);
    client.args(["--json", "--get-server-output"]);
    client.stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
    Ok(client)
}
