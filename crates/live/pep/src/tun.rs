//! Proxy on the project's own TCP: packets come and go by a TUN device.
//!
//! The element is that of a simulation (`transport::tcp::pep`), with the content of the streams. Policy routes lead TCP packets of
//! both sides to the device; the kernel forwards what the proxy sends like any other packet that arrives at an interface.
//!
//! Failures leave traffic as it is without a proxy: the device ends with the process, and a rule to a table without routes does
//! nothing (ip-rule(8)).

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use bentpipe_emu::exporter::Shared;
use bentpipe_emu::interface::{TX_QUEUE_PACKETS, ip, ip_output, keep_neighbour, suppress_autoconfiguration};
use bentpipe_emu::{Control, Driver, Monotonic, Tun, random_bits};
use bentpipe_net::{ExternalPort, Port};
use bentpipe_sim::{Builder, ElementId};
use bentpipe_transport::tcp::{GaveWay, HalfOpen, Leads, Pep, PepConfig, PepState, Prefixes};
use bentpipe_units::{Bytes, Span, Time};

use crate::config::Config;
use crate::figures::{Figures, Notice, gave_way_text, unsplit_text};
use crate::roster::Roster;
use crate::rules::{self, Guard, has_interface};
use crate::run::{publish, serve};

/// Time between samples of metrics.
const INTERVAL: Span = Span::from_secs(1);

/// Longest time of a run, so that a request to stop is seen.
const RUN: Span = Span::from_millis(100);

/// Time between looks at the routes.
const ROUTES_INTERVAL: Duration = Duration::from_secs(5);

/// MTU of the device: no forwarded packet is too long.
const MTU: &str = "65520";

/// Time between lines about connections that were not split.
const UNSPLIT_INTERVAL: Span = Span::from_secs(60);

/// Bounds of half-open connections. At 5,000 SYNs a second an entry of the cache has 13 s for its ACK.
const HALF_OPEN: HalfOpen = HalfOpen { connections: 256, cached: 1 << 16 };

/// TCP-splitting proxy on a TUN device.
pub(crate) struct TunProxy {
    config: Config,
    driver: Driver<Monotonic>,
    pep: ElementId,
    pages: Option<Shared>,
    looked_at: Time,
    /// Connections forwarded because of half-open ones, at the last line about them.
    unsplit: u64,
    /// Time of the next such line.
    unsplit_at: Time,
    /// Connections that the guard resets after a crash.
    roster: Roster,
    /// Removes the rules at the end of the process.
    guard: Option<Guard>,
    /// End of the thread that looks at the routes.
    _watch: mpsc::Sender<()>,
}

impl TunProxy {
    /// Opens a proxy. TCP packets are diverted to it from here on, if it sets up the rules.
    ///
    /// # Errors
    /// Returns an error that says which option or right is wrong, or which command failed.
    pub(crate) fn open(config: Config) -> Result<TunProxy, String> {
        for name in config.ground.iter().chain(&config.satellite) {
            has_interface(name)?;
        }
        let mut pep = Pep::new(pep_config(&config)?).map_err(|error| error.to_string())?;
        pep.keep_changes();
        // Peers cannot guess initial sequence numbers (RFC 6528).
        let seed = random_bits().map_err(|error| format!("random numbers: {error}"))?;
        let mut builder = Builder::new(seed);
        let gate = builder.add("device", ExternalPort::default());
        let pep = builder.add("pep", pep);
        builder.connect((gate, ExternalPort::NETWORK), (pep, Port(0)));
        builder.connect((pep, Port(0)), (gate, ExternalPort::NETWORK));
        let network = builder.build().map_err(|error| error.to_string())?;
        let mut driver = Driver::new(network, Monotonic::start());
        driver.open(gate, device(&rules::device(&config))?);
        let pages = config.prometheus.map(serve).transpose()?;
        let roster = Roster::new(config.port).map_err(|error| format!("table of connections: {error}"))?;
        let guard = config.sets_rules.then(|| Guard::set_up(&config, Some(&roster))).transpose()?;
        let watch = watch_routes(&config, driver.control(), pep);
        Ok(TunProxy {
            config,
            driver,
            pep,
            pages,
            looked_at: Time::ZERO,
            unsplit: 0,
            unsplit_at: Time::ZERO,
            roster,
            guard,
            _watch: watch,
        })
    }

    /// Splits connections until `stop` is set, and returns the figures. Those that give way are passed to `notice`.
    pub(crate) fn run(mut self, stop: &AtomicBool, notice: Notice<'_>) -> Figures {
        while !stop.load(Ordering::Relaxed) {
            self.turn(stop);
            self.report(notice);
        }
        self.drain();
        // The connections left are reset, and what they hold is lost.
        self.set_state(PepState::Down);
        self.turn(&AtomicBool::new(false));
        drop(self.guard.take());
        self.figures()
    }

    /// Waits for connections to end. New ones are forwarded as they are.
    fn drain(&mut self) {
        self.set_state(PepState::Draining);
        let end = self.driver.network().now() + self.config.drain;
        while self.driver.network().now() < end && self.figures().present > 0 {
            self.turn(&AtomicBool::new(false));
        }
    }

    fn turn(&mut self, stop: &AtomicBool) {
        let end = self.driver.network().now() + RUN;
        self.driver.run(end, stop);
        self.note_changes();
        let now = self.driver.network().now();
        if now < self.looked_at + INTERVAL {
            return;
        }
        self.looked_at = now;
        if let Some(pages) = self.pages.clone() {
            publish(&pages, "tun", &self.figures());
        }
    }

    /// Enters connections that opened or ended into the roster.
    fn note_changes(&mut self) {
        let pep = self.pep;
        let changes = self.driver.network().element::<Pep>(pep).map(Pep::take_changes).unwrap_or_default();
        changes.into_iter().for_each(|(ends, is_present)| self.roster.change(ends, is_present));
    }

    /// Reports the connections that gave way.
    fn report(&mut self, notice: Notice<'_>) {
        let pep = self.pep;
        let gave_way = self.driver.network().element::<Pep>(pep).map(Pep::take_gave_way).unwrap_or_default();
        for GaveWay { client, server, bytes, stalled } in gave_way {
            notice(&gave_way_text((client, server), bytes as u64, stalled));
        }
        self.report_unsplit(notice);
    }

    /// Reports that connections are forwarded because others are half open, once a minute.
    fn report_unsplit(&mut self, notice: Notice<'_>) {
        let now = self.driver.network().now();
        if now < self.unsplit_at || !self.config.own.answers_after_server {
            return;
        }
        let Figures { unsplit: Some(unsplit), half_open: Some(half_open), .. } = self.figures() else {
            return;
        };
        if unsplit > self.unsplit {
            notice(&unsplit_text(unsplit - self.unsplit, half_open));
            self.unsplit_at = now + UNSPLIT_INTERVAL;
        }
        self.unsplit = unsplit;
    }

    fn set_state(&mut self, state: PepState) {
        let pep = self.pep;
        if let Some(element) = self.driver.network().element::<Pep>(pep) {
            element.set_state(state);
        }
        self.driver.network().poke(pep);
    }

    /// Returns the figures of this moment.
    fn figures(&mut self) -> Figures {
        let pep = self.pep;
        self.driver.network().element::<Pep>(pep).map_or_else(Figures::default, |pep| pep.totals().into())
    }
}

fn pep_config(config: &Config) -> Result<PepConfig, String> {
    Ok(PepConfig {
        satellite: config.satellite_tcp()?,
        ground: config.ground_tcp(),
        answers_at_once: !config.own.answers_after_server,
        satellite_mtu: mtu(&config.satellite)?,
        ground_mtu: mtu(&config.ground)?,
        connections: config.connections,
        half_open: Some(HALF_OPEN),
        idle: Some(config.idle),
        memory: Some(config.memory()),
        behind_satellite: routes(config)?.into(),
        own: Vec::new(),
        state: PepState::On,
    })
}

/// Creates the device and sets it up.
fn device(name: &str) -> Result<Tun, String> {
    let mut tun = Tun::create(name).map_err(|error| {
        let help = match error.kind() {
            // The process that holds it may be in another network namespace.
            std::io::ErrorKind::ResourceBusy => "another process has it. Choose another --port",
            _ => bentpipe_emu::tun_help(&error),
        };
        format!("the TUN device {name} cannot be made: {error}; help: {help}")
    })?;
    // ACK decimation is counted before this: it leaves out what a train of the kernel would not have had either.
    tun.merge_connections();
    suppress_autoconfiguration(name);
    // Its packets have source addresses that are routed elsewhere: a strict filter (1) would drop them (RFC 3704). The larger of
    // this value and that of all interfaces counts.
    let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "2");
    let queue = TX_QUEUE_PACKETS.to_string();
    ip(&["link", "set", "dev", name, "mtu", MTU, "txqueuelen", &queue, "up"])
        .and_then(|()| keep_neighbour(name))
        .map_err(|error| error.to_string())?;
    Ok(tun)
}

/// Returns the least MTU of interfaces.
fn mtu(interfaces: &[String]) -> Result<Option<Bytes>, String> {
    let mut least = None;
    for name in interfaces {
        let text = ip_output(&["-o", "link", "show", "dev", name]).map_err(|error| error.to_string())?;
        let value = text.split_whitespace().skip_while(|word| *word != "mtu").nth(1);
        let value = value.and_then(|value| value.parse().ok());
        least = value.into_iter().chain(least).min();
    }
    Ok(least.map(Bytes::new))
}

/// Starts the thread that reads the routes until the channel is dropped.
fn watch_routes(config: &Config, control: Control, pep: ElementId) -> mpsc::Sender<()> {
    let (end, ended) = mpsc::channel();
    let config = config.clone();
    std::thread::spawn(move || {
        let mut known = None;
        while ended.recv_timeout(ROUTES_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            // Without `ip` for a moment the last routes stay.
            let Ok(prefixes) = routes(&config) else { continue };
            if known.replace(prefixes.clone()) == Some(prefixes.clone()) {
                continue;
            }
            let is_running = control.apply(move |network| {
                if let Some(element) = network.element::<Pep>(pep) {
                    element.set_behind_satellite(prefixes.into());
                }
            });
            if !is_running {
                return;
            }
        }
    });
    end
}

/// Returns the routes of the main table, and the side to which each leads.
fn routes(config: &Config) -> Result<Prefixes, String> {
    let mut prefixes = Prefixes::default();
    for family in ["-4", "-6"] {
        let text = ip_output(&[family, "-o", "route", "show", "table", "main"])
            .map_err(|error| error.to_string())?;
        text.lines().for_each(|line| add_route(&mut prefixes, line, family == "-6", config));
    }
    Ok(prefixes)
}

/// Types of routes that `ip` writes in front of the prefix. Those without a device lead nowhere.
const TYPES: [&str; 9] = [
    "unicast",
    "local",
    "broadcast",
    "multicast",
    "anycast",
    "throw",
    "unreachable",
    "prohibit",
    "blackhole",
];

fn add_route(prefixes: &mut Prefixes, line: &str, is_v6: bool, config: &Config) {
    let mut words = line.split_whitespace().peekable();
    let _ = words.next_if(|word| TYPES.contains(word));
    let prefix = match words.next() {
        Some("default") => Some((if is_v6 { IpAddr::from([0; 16]) } else { IpAddr::from([0; 4]) }, 0)),
        word => word.and_then(read_prefix),
    };
    let device = words.skip_while(|word| *word != "dev").nth(1);
    let is_of = |names: &[String]| device.is_some_and(|device| names.iter().any(|name| name == device));
    let leads = match (is_of(&config.satellite), is_of(&config.ground)) {
        (true, _) => Leads::Satellite,
        (_, true) => Leads::Ground,
        _ => Leads::Elsewhere,
    };
    if let Some((address, len)) = prefix {
        prefixes.add(address, len, leads);
    }
}

fn read_prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let address: IpAddr = address.parse().ok()?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let len = len.map_or(Some(whole), |len| len.parse().ok())?;
    (len <= whole).then_some((address, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_lead_to_sides() {
        let config = Config {
            ground: vec!["lan0".to_owned()],
            satellite: vec!["sat0".to_owned()],
            ..Config::default()
        };
        let mut read = Prefixes::default();
        for line in [
            "default via 10.2.0.254 dev sat0 proto static",
            "10.1.0.0/24 dev lan0 proto kernel scope link src 10.1.0.1",
            "unreachable 10.9.0.0/16 metric 5",
            "10.8.0.7 proto static metric 20 \\ nexthop via 10.1.0.9 dev lan0 weight 1 \\ nexthop via 10.1.0.8 dev lan0",
            "192.0.2.0/24 dev mgmt0",
            "10.7.0.0/33 dev lan0",
            "",
        ] {
            add_route(&mut read, line, false, &config);
        }
        add_route(&mut read, "fd01::/64 dev lan0 metric 256 pref medium", true, &config);
        add_route(&mut read, "default via fe80::1 dev sat0 metric 1024", true, &config);
        let mut wanted = Prefixes::default();
        let entries = [
            ("0.0.0.0", 0, Leads::Satellite),
            ("10.1.0.0", 24, Leads::Ground),
            ("10.9.0.0", 16, Leads::Elsewhere),
            ("10.8.0.7", 32, Leads::Ground),
            ("192.0.2.0", 24, Leads::Elsewhere),
            ("fd01::", 64, Leads::Ground),
            ("::", 0, Leads::Satellite),
        ];
        for (address, len, leads) in entries {
            wanted.add(address.parse().expect("an address"), len, leads);
        }
        assert_eq!(read, wanted);
    }
}
