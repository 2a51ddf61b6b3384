//! Emulation of a scenario file, from its hosts to its report.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bentpipe_assemble::{Changer, Emulated, checked};
use bentpipe_emu::{Driver, Monotonic, Pace};
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_lab::run::{self, CapturePoint, Folder, Request, Results};
use bentpipe_lab::video;
use bentpipe_record::{CaptureLimits, RealTime, Series};
use bentpipe_report::results_page;
use bentpipe_scenario::{Difference, Document, Event, Moment, Scenario};
use bentpipe_units::Span;

use crate::attachment::Attachment;
use crate::connections::Connections;
use crate::control::Made;
use crate::export::Exporter;
use crate::flow_programs::FlowPrograms;
use crate::hosts::Hosts;
use crate::join::{Join, Joined};
use crate::live::RealTimeRun;
use crate::programs::{ProgramSettings, Programs, Started};
use crate::view::View;
use crate::{Console, Display, Error, control};

/// Duration that no emulation reaches: a century.
pub(crate) const FOREVER: Span = Span::from_secs(100 * 365 * 86_400);

/// Emulation of a scenario file.
pub struct Emulation<'a> {
    /// Scenario file, with overrides.
    pub document: &'a Document,
    /// Seed. Default: the scenario's.
    pub seed: Option<u64>,
    /// Attachments in the places of hosts.
    pub attachments: &'a [Attachment],
    /// Programs at real hosts.
    pub programs: ProgramSettings,
    /// Enables iperf3 and ping in the place of the flows between real hosts. The emulation lasts the scenario's duration, and
    /// until they have ended. It excludes `programs`.
    pub runs_flows: bool,
    /// Waiting strategy.
    pub pace: Pace,
    /// Enables the end after the scenario's duration.
    pub is_timed: bool,
    /// Lateness above which a packet counts as late.
    pub max_lateness: Span,
    /// Folder for the folder of results.
    pub out: &'a Path,
    /// Name in the folder of results.
    pub name: &'a str,
    /// Limits of captures.
    pub captures: CaptureLimits,
    /// Identity of the program.
    pub build: &'a str,
    /// Commit that the program was built from, if it is known.
    pub commit: Option<&'a str>,
    /// Command line for the manifest.
    pub command: &'a [String],
    /// Ends the emulation early.
    pub stop: Arc<AtomicBool>,
    /// Receiver of messages.
    pub console: &'a dyn Console,
    /// Address on loopback for Prometheus and a browser. Default: none.
    pub prometheus: Option<SocketAddr>,
    /// Display of the live view. Default: none.
    pub display: Option<Display>,
    /// Part of the scenario that is emulated here, and the other machine. Default: all of it.
    pub join: Option<Join>,
    /// Receiver of samples. Default: none.
    pub samples: Option<Samples>,
}

/// Receiver of samples while they are taken.
///
/// It is called after each with all up to then, and with the share of the scenario's duration that is over.
pub type Samples = Box<dyn FnMut(&Series, f64)>;

/// Result of an emulation.
pub struct Report {
    /// Page with the report.
    pub page: PathBuf,
    /// Effects of real time.
    pub real_time: Option<RealTime>,
    /// Exit code of the programs that ran in it.
    pub exit_code: Option<u8>,
}

/// Removes the namespaces and sockets of emulations whose process is gone.
pub fn clean_up(console: &dyn Console) {
    for name in bentpipe_emu::clean_up_after_crash() {
        console.note(&format!("removed {name}, which an emulation that crashed left behind"));
    }
    control::remove_orphans();
}

impl Emulation<'_> {
    /// Runs until the scenario's duration is over, the programs end, or it is stopped.
    ///
    /// # Errors
    /// Returns an error if the scenario cannot be emulated, hosts or programs cannot be started, or files cannot be written.
    pub fn run(mut self) -> Result<Report, Error> {
        let mut plan = Plan::new(self.document, Seeds { first: self.seed, count: Some(1) })?;
        if plan.points.len() > 1 {
            return Err(Error::other("a sweep cannot be emulated: set each of its keys with --set"));
        }
        let point = &plan.points[0];
        // Flows of real hosts are not in the emulated network, and are checked all the same.
        checked(self.document)?;
        let joined = match &self.join {
            Some(join) => Some(join.meet(self.document, &plan, &self.stop, self.console)?),
            None => None,
        };
        let part = joined.as_ref().map(|joined| &joined.part);
        let emulated = Emulated::of_part(&point.scenario, point.seeds[0], &plan.access, part);
        let mut emulated =
            emulated.map_err(|problem| self.document.refusal(&problem.key, problem.problem))?;
        let asked = std::mem::replace(&mut plan.points[0].scenario, emulated.scenario.clone());
        if !self.is_timed {
            // Programs end it, or Ctrl-C.
            plan.points[0].scenario.duration = FOREVER;
        }
        clean_up(self.console);
        let (hosts, buffers) = Hosts::create(&emulated.hosts, self.attachments, emulated.max_bdp)?;
        let mut notices = std::mem::take(&mut emulated.notices);
        notices.push(buffers);
        notices.extend(hosts.notices());
        let round_trip = emulated.max_round_trip;
        let address = |name: &str| {
            let node = emulated.scenario.node.get_index_of(name)?;
            emulated.built.nodes.get(node).map(|node| node.addresses[0])
        };
        let flows = self
            .runs_flows
            .then(|| FlowPrograms::plan((self.document, &asked), &hosts, &address, round_trip));
        let flows = flows.transpose()?;
        if let Some(flows) = &flows {
            notices.extend(flows.notices.iter().cloned());
        }
        if !self.programs.is_empty() || flows.is_some() {
            notices.drain(..).for_each(|notice| self.console.note(&notice));
        }
        self.programs.linger.get_or_insert(emulated.max_round_trip);
        let changer = Changer::new(&emulated, &asked);
        let duration = asked.duration;
        let ends = Ends { changer, joined, flows, duration };
        let (results, exit_code, made) = self.follow(&plan, emulated, hosts, ends, &notices)?;
        mark(&mut plan.points[0].scenario, made);
        self.report(plan, &results).map(|page| Report {
            page,
            real_time: results.runs.first().and_then(|run| run.timing.real_time.clone()),
            exit_code: exit_code
                .filter(|code| *code > 0 || !results.has_lost_packets)
                .or(results.has_lost_packets.then_some(1)),
        })
    }

    fn follow(
        &mut self,
        plan: &Plan,
        mut emulated: Emulated,
        mut hosts: Hosts,
        Ends { changer, joined, flows, duration }: Ends,
        notices: &[String],
    ) -> Result<(Results, Option<u8>, Vec<Made>), Error> {
        let captures = CapturePoint::of(std::mem::take(&mut emulated.built.captures));
        let folder = Folder::new(self.out, &format!("{}-emulated-{}", self.name, stamp()), plan);
        let flows =
            flows.map(|flows| flows.serve(folder.path(), &hosts)).transpose().map_err(Error::Other)?;
        let growing = run::growing(&emulated.built.judges);
        let finish = video::finish(std::mem::take(&mut emulated.built.judges), true);
        let (finish, has_flows) = match &flows {
            Some(flows) => (Some(flows.finish(finish)), true),
            None => (finish, false),
        };
        let links = emulated.built.links;
        let (clock, joint) = match joined {
            Some(joined) => joined.start()?,
            None => (Monotonic::start(), None),
        };
        let mut network = emulated.built.network;
        network.set_date(clock.date());
        let mut driver = Driver::new(network, clock);
        driver.set_pace(self.pace);
        if let Some((joint, cut)) = joint.zip(emulated.cut) {
            driver.join(cut.element, joint);
        }
        let connections = Connections::start(hosts.tcp_connections(), plan.points[0].scenario.probe.interval);
        hosts.open(&mut driver);
        let timeline = plan.points[0].scenario.timeline.to_vec();
        let control = control::Server::start(self.document, timeline, changer, driver.control());
        let control =
            control.map_err(|error| Error::other(format!("no socket for `bentpipe set`: {error}")))?;
        let programs = Some(Programs::new(&self.programs, &hosts)?).filter(|_| !self.programs.is_empty());
        if programs.is_none() && !has_flows {
            self.console.print(&hosts.usage(control.path(), notices));
        }
        let mut started = None;
        let mut exporter = match self.prometheus {
            None => None,
            Some(address) => {
                let title = &plan.points[0].scenario.title;
                let started = Exporter::start(address, title);
                Some(started.map_err(|error| Error::other(format!("--prometheus {address}: {error}")))?)
            }
        };
        let page = View::start(links.clone(), None);
        let view = View::start(links, self.display.take());
        let mut live = RealTimeRun::new(driver, Arc::clone(&self.stop), self.max_lateness).with(connections);
        let mut start: Option<Start> = match (programs, flows) {
            (Some(programs), _) => Some(Box::new(|stop| programs.start(stop))),
            (None, Some(flows)) => Some(Box::new(move |stop| Ok(flows.start(stop)))),
            (None, None) => None,
        };
        let mut samples = self.samples.take();
        let request = self.request(plan, folder);
        let look = |live: &mut RealTimeRun, series: &Series| {
            if let Some(samples) = &mut samples {
                let over = series.times.last().map_or(0.0, |time| time.as_secs_f64());
                samples(series, (over / duration.as_secs_f64()).min(1.0));
            }
            view.show(live);
            exporter.iter_mut().for_each(|exporter| exporter.look(live, |live| page.text(live)));
            // Packets move from here on. One sent earlier would wait for the loop, and count as late.
            if let Some(start) = start.take() {
                started = Some(start(Arc::clone(&self.stop)));
            }
            match started {
                Some(Err(_)) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        let results =
            run::follow(&request, &mut live, (captures, growing, finish), look, RealTimeRun::conclude);
        self.stop.store(true, Ordering::SeqCst);
        view.end();
        let exit_code = started.transpose().map_err(Error::Other)?.and_then(Started::code);
        Ok((results?, exit_code, control.made()))
    }

    fn request<'b>(&'b self, plan: &'b Plan, folder: Folder) -> Request<'b> {
        let (document, captures, build, command) = (self.document, self.captures, self.build, self.command);
        let commit = self.commit;
        Request { document, plan, folder, jobs: 1, force: true, captures, build, commit, command }
    }

    /// Writes the report, and returns its page.
    fn report(&self, mut plan: Plan, results: &Results) -> Result<PathBuf, Error> {
        plan.points[0].scenario.duration = results.duration();
        let request = self.request(&plan, results.folder.clone());
        let page = results.folder.path().join("report.html");
        results_page(&results.with_texts(&request)).write(&page).map_err(Error::other)?;
        Ok(page)
    }
}

/// Start of the programs, which set the flag at their end.
type Start = Box<dyn FnOnce(Arc<AtomicBool>) -> Result<Started, String>>;

/// Parts of an emulation beyond its network.
struct Ends {
    changer: Changer,
    joined: Option<Joined>,
    flows: Option<FlowPrograms>,
    /// Duration of the scenario.
    duration: Span,
}

/// Adds the changes made at the socket to the events of a scenario.
fn mark(scenario: &mut Scenario, made: Vec<Made>) {
    let (number, mut timeline) = (scenario.event.len(), scenario.timeline.to_vec());
    for (n, Made { at, key, value }) in made.into_iter().enumerate() {
        let set = [(key.clone(), value.clone().into())].into_iter().collect();
        scenario.event.push(Event { at, set, ..Event::default() });
        // The run is over: nothing takes on the difference.
        let (changes, difference) = (vec![(key, Some(value))], Difference::default());
        timeline.push(Moment { at, event: number + n, changes, difference });
    }
    timeline.sort_by_key(|moment| moment.at);
    scenario.timeline = timeline.into();
}

/// Returns the seconds since 1970, so that each emulation has a folder of its own.
fn stamp() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
