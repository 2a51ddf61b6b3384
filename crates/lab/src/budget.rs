//! What to expect of a scenario before running it: `bentpipe check`.
//!
//! Arithmetic only: capacities after framing, round trips without queueing, and what windows and buffers they call for.
//! Formulas are beside the fields that hold their results. Not considered: what flows do to each other beyond sharing
//! evenly, loss, and what random traffic needs beyond its mean.

mod medium;
mod path;
mod show;
mod terminals;

use bentpipe_net::tcp::ReceiveBuffer;
use bentpipe_net::tfrc::Transport;
use bentpipe_net::{tcp, wifi};
use bentpipe_units::{Bytes, Rate, Span};
use serde::Serialize;

use crate::build::{self, Problem, Way, direction, mtu};
use crate::scenario::{Flow, Ip, Link, Queue, Scenario};
use medium::Medium;
use path::Path;
pub use terminals::TerminalBudget;

/// What to expect of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// Both directions of each link.
    pub links: Vec<LinkBudget>,
    /// Terminals of shared carriers.
    pub terminals: Vec<TerminalBudget>,
    /// Each flow, towards each of its receivers.
    pub flows: Vec<FlowBudget>,
}

/// One direction of a link, and what a full-sized packet costs on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkBudget {
    /// The link.
    pub name: String,
    /// `forward` or `return`.
    pub direction: &'static str,
    /// Line rate.
    pub rate: Rate,
    /// What of it frames or cells get.
    pub usable: Rate,
    /// Propagation delay.
    pub delay: Span,
    /// Longest IP packet.
    pub mtu: Bytes,
    /// The longest IP packet that a flow sends here; the MTU if none does.
    pub packet: Bytes,
    /// The bytes that it takes on the line.
    pub on_line: Bytes,
    /// The cells among them, where there are cells.
    pub cells: Option<u64>,
    /// The padding among them, where there are cells (RFC 2684: PAD of the CPCS-PDU).
    pub padding: Option<Bytes>,
    /// Rate of IP packets of this length: usable * packet / on_line.
    pub capacity: Rate,
    /// What its queue holds, if it is bounded.
    pub queue: Option<String>,
    /// How many flows use it, copies counted, ACKs too.
    pub flows: u64,
    /// What that packet costs if it is a Wi-Fi link.
    pub wifi: Option<WifiBudget>,
}

/// The time that a packet takes on the medium of a Wi-Fi link, of which the capacity is made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WifiBudget {
    /// RTS and CTS, or a CTS to itself, before the frame.
    pub before: Span,
    /// The frame.
    pub data: Span,
    /// The gap and the ACK behind it.
    pub ack: Span,
    /// DIFS and the mean backoff of a lone sender.
    pub access: Span,
    /// How many times it is sent at most.
    pub attempts: u32,
}

/// What a flow meets on its way, and what it needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowBudget {
    /// The flow; copies share one.
    pub name: String,
    /// How many copies.
    pub copies: u32,
    /// The nodes on the way.
    pub path: Vec<String>,
    /// Longest IP packet on the way.
    pub mtu: Bytes,
    /// Payload of a full packet: a TCP segment's data without options, a datagram's payload.
    pub payload: Bytes,
    /// That packet's length with IP and transport headers.
    pub packet: Bytes,
    /// Propagation and transmission one way.
    pub one_way: Span,
    /// Propagation and transmission of a packet there and an ACK back; TCP only.
    pub min_rtt: Option<Span>,
    /// The link that limits it.
    pub bottleneck: String,
    /// Most goodput: of payload, at the bottleneck, alone.
    pub ceiling: Rate,
    /// Most goodput of each if all flows there share it evenly.
    pub fair_share: Rate,
    /// The rate it offers, where its source has one.
    pub offered: Option<Rate>,
    /// What TCP needs.
    pub tcp: Option<TcpBudget>,
    /// What will hold it back, in sentences.
    pub warnings: Vec<String>,
}

/// What a TCP flow needs to fill its path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TcpBudget {
    /// Bandwidth-delay product in payload bytes, ceiling * min_rtt: the window needed.
    pub window_needed: Bytes,
    /// The window that its buffers allow: the least of send buffer, receive buffer, and 65535 B without scaling.
    pub window_allowed: Bytes,
    /// The queue that a halving of the window needs in order not to run dry: one bandwidth-delay product in IP bytes.
    pub buffer_needed: Bytes,
    /// Goodput that the window allows: window_allowed / min_rtt, at most the ceiling.
    pub window_limit: Rate,
    /// Time until slow start has opened the window needed: min_rtt * log2(window / initial window).
    pub slow_start: Span,
}

impl Budget {
    /// The budget of a valid scenario.
    ///
    /// # Errors
    /// If a flow has no way.
    pub fn new(scenario: &Scenario) -> Result<Budget, Problem> {
        let mut router = build::routes::Router::new(scenario)
            .map_err(|(key, error)| Problem::new(key, error.to_string()))?;
        let mut paths = Vec::new();
        for (n, (name, flow)) in scenario.flow.iter().enumerate() {
            for to in receivers(scenario, flow) {
                paths.push((n, Path::new(scenario, &mut router, name, flow, to)?));
            }
        }
        let links = link_budgets(scenario, &paths);
        let flows = paths.iter().map(|(n, path)| FlowBudget::new(scenario, *n, path, &links)).collect();
        Ok(Budget { links, terminals: terminals::budgets(scenario)?, flows })
    }
}

/// The nodes that a flow goes to.
fn receivers<'a>(scenario: &'a Scenario, flow: &'a Flow) -> Vec<&'a str> {
    match scenario.group.get(&flow.to) {
        Some(group) => {
            group.members.iter().map(String::as_str).filter(|member| *member != flow.from).collect()
        }
        None => vec![&flow.to],
    }
}

fn link_budgets(scenario: &Scenario, paths: &[(usize, Path)]) -> Vec<LinkBudget> {
    let both = |(n, (name, link)): (usize, (&String, &Link))| {
        [Way::Forward, Way::Return].map(|way| {
            let users = paths.iter().filter_map(|(flow, path)| Some((*flow, path.packet_on(n, way)?)));
            let users: Vec<(usize, u64)> = users.collect();
            let longest = users.iter().map(|(_, len)| *len).max().unwrap_or(mtu(link).get());
            let copies = build::copies::copies(scenario, [&link.between[0], &link.between[1]]);
            let of_flow = |flow: usize| {
                let flow = &scenario.flow[flow];
                let all = flow.count * build::copies::copies(scenario, [&flow.from, &flow.to]);
                u64::from(all.div_ceil(copies))
            };
            let flows = users.iter().map(|(flow, _)| of_flow(*flow)).sum();
            LinkBudget::new(scenario, (name, link), way, longest, flows)
        })
    };
    scenario.link.iter().enumerate().flat_map(both).collect()
}

impl LinkBudget {
    fn new(
        scenario: &Scenario,
        (name, link): (&str, &Link),
        way: Way,
        packet_len: u64,
        flows: u64,
    ) -> LinkBudget {
        let settings = direction(link, way);
        let medium = Medium::of(scenario, link, way);
        let on_line = medium.wire_len(packet_len as usize);
        let cells = medium.cells(packet_len as usize);
        LinkBudget {
            name: name.to_owned(),
            direction: way.name(),
            rate: medium.rate(),
            usable: medium.usable(),
            delay: settings.delay.unwrap_or_default(),
            mtu: mtu(link),
            packet: Bytes::new(packet_len),
            on_line,
            cells: cells.map(|(cells, _)| cells),
            padding: cells.map(|(_, padding)| padding),
            capacity: medium.capacity(packet_len as usize),
            queue: settings.queue.as_ref().and_then(queue_text),
            flows,
            wifi: link.wifi.as_ref().map(|wifi| WifiBudget::new(wifi, packet_len as usize)),
        }
    }
}

impl WifiBudget {
    fn new(config: &wifi::Config, packet_len: usize) -> WifiBudget {
        let exchange = config.exchange(packet_len);
        WifiBudget {
            before: exchange.lead,
            data: exchange.data,
            ack: exchange.ack,
            access: exchange.with_access(config.standard) - exchange.total(),
            attempts: config.attempts,
        }
    }
}

/// What a queue holds, in words; nothing if it has no bound.
fn queue_text(queue: &Queue) -> Option<String> {
    let fields = serde_json::to_value(queue).ok()?;
    let text = |key: &str| fields.get(key).filter(|value| !value.is_null()).cloned();
    let bytes = ["bytes", "limit", "limit_bytes"].into_iter().find_map(text);
    let packets = ["packets", "limit_packets"].into_iter().find_map(text);
    match (bytes, packets) {
        (Some(bytes), _) => Some(bytes.as_str().map_or_else(|| bytes.to_string(), str::to_owned)),
        (None, Some(packets)) => Some(format!("{packets} packets")),
        (None, None) => None,
    }
}

impl FlowBudget {
    fn new(scenario: &Scenario, n: usize, path: &Path, links: &[LinkBudget]) -> FlowBudget {
        let (name, flow) = scenario.flow.get_index(n).expect("a path is of a flow");
        let (bottleneck, ceiling) = path.bottleneck(scenario);
        let on_link = links.get(bottleneck.0 * 2 + usize::from(bottleneck.1 == Way::Return));
        let sharing = on_link.map_or(1, |link| link.flows.max(1));
        let mut budget = FlowBudget {
            name: name.clone(),
            copies: flow.count * build::copies::copies(scenario, [&flow.from, &flow.to]),
            path: path.nodes.clone(),
            mtu: Bytes::new(path.mtu),
            payload: Bytes::new(path.payload),
            packet: Bytes::new(path.packet),
            one_way: path.one_way(scenario),
            min_rtt: (flow.tcp.is_some() || flow.tfrc.is_some()).then(|| path.min_rtt(scenario)),
            bottleneck: format!(
                "{} {}",
                scenario.link.get_index(bottleneck.0).map_or("", |(name, _)| name),
                bottleneck.1.name()
            ),
            ceiling,
            fair_share: ceiling.mul_f64(1.0 / sharing as f64),
            offered: offered(flow, path.packet),
            tcp: None,
            warnings: Vec::new(),
        };
        budget.tcp = flow.tcp.as_ref().map(|config| TcpBudget::new(config, &budget));
        budget.warnings = warnings(scenario, flow, &budget, bottleneck, sharing);
        budget
    }
}

/// The mean rate of a source's payload, if it has its own.
fn offered(flow: &Flow, packet_len: u64) -> Option<Rate> {
    let video = flow.video.as_ref().map(|video| {
        let (rate, stream_bytes) = (&video.rate, 188.0 * f64::from(video.ts_packets));
        let mean = rate.pruned().mean * f64::from(rate.programmes);
        Rate::from_bps(mean as u64).mul_f64(video.payload().get() as f64 / stream_bytes)
    });
    let media = flow.tfrc.as_ref().and_then(|tfrc| tfrc.rate);
    video.or(media).or_else(|| flow.udp.as_ref().map(|udp| datagrams_offered(udp, packet_len)))
}

fn datagrams_offered(udp: &crate::scenario::Udp, packet_len: u64) -> Rate {
    use bentpipe_net::app::Pattern;
    let payload = udp.payload;
    match udp.pattern {
        Pattern::Constant { interval } => Rate::of(payload, interval),
        Pattern::ConstantRate { rate } => rate.mul_f64(payload.get() as f64 / packet_len.max(1) as f64),
        Pattern::Poisson { mean_interval } => Rate::of(payload, mean_interval),
        Pattern::OnOff { interval, mean_on, mean_off, .. } => {
            let share = mean_on.as_secs_f64() / (mean_on + mean_off).as_secs_f64().max(1e-9);
            Rate::of(payload, interval).mul_f64(share)
        }
    }
}

impl TcpBudget {
    fn new(config: &tcp::Config, flow: &FlowBudget) -> TcpBudget {
        let rtt = flow.min_rtt.unwrap_or_default();
        let window_needed = flow.ceiling.bdp(rtt);
        let receive = match config.receive_buffer {
            ReceiveBuffer::Exact(bytes) => bytes.get(),
            // Twice SO_RCVBUF is accounted for, all but 1/2^scale of it is offered.
            ReceiveBuffer::Linux(linux) => {
                let memory = linux.rcvbuf.get().saturating_mul(2);
                memory - (memory >> linux.adv_win_scale.min(63))
            }
        };
        let unscaled = if config.window_scaling { u64::MAX } else { 65_535 };
        let allowed = receive.min(config.send_buffer.get()).min(unscaled);
        let initial = u64::from(config.initial_window) * flow.payload.get();
        let doublings = (window_needed.get().max(1) as f64 / initial.max(1) as f64).log2().max(0.0);
        let in_packets = flow.packet.get() as f64 / flow.payload.get().max(1) as f64;
        TcpBudget {
            window_needed,
            window_allowed: Bytes::new(allowed),
            buffer_needed: Bytes::new((window_needed.get() as f64 * in_packets) as u64),
            window_limit: Rate::of(Bytes::new(allowed), rtt).min(flow.ceiling),
            slow_start: rtt.mul_f64(doublings),
        }
    }
}

fn warnings(
    scenario: &Scenario,
    flow: &Flow,
    budget: &FlowBudget,
    bottleneck: (usize, Way),
    sharing: u64,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let at = &budget.bottleneck;
    if let Some(tcp) = &budget.tcp {
        let (allowed, needed) = (tcp.window_allowed, tcp.window_needed);
        if allowed < needed && u64::from(flow.count) * allowed.get() < needed.get() {
            warnings.push(format!(
                "the window of {allowed} holds it to {} ({needed} would fill the path)",
                tcp.window_limit
            ));
        }
        let queue = direction(&scenario.link[bottleneck.0], bottleneck.1).queue;
        if let Some(held) = queue
            .as_ref()
            .and_then(|queue| queue_bytes(queue, budget.packet))
            .filter(|held| *held < tcp.buffer_needed)
        {
            warnings.push(format!(
                "the queue of {at} holds {held}; the path's bandwidth-delay product is {}",
                tcp.buffer_needed
            ));
        }
        let lasts = scenario.duration.saturating_sub(flow.start);
        if tcp.slow_start > lasts {
            warnings.push(format!("slow start alone takes {}; the flow lasts {lasts}", tcp.slow_start));
        }
    }
    let all = budget.offered.map_or(0.0, |offered| offered.as_bps() as f64 * f64::from(flow.count));
    if all > budget.ceiling.as_bps() as f64 {
        let (all, ceiling) = (Rate::from_bps(all as u64), budget.ceiling);
        warnings.push(format!("it offers {all}, {at} carries {ceiling} of such packets"));
    }
    if sharing > u64::from(flow.count) {
        warnings.push(format!("{sharing} flows share {at}"));
    }
    warnings
}

/// How many bytes a queue holds, if it is bounded.
fn queue_bytes(queue: &Queue, packet: Bytes) -> Option<Bytes> {
    let text = queue_text(queue)?;
    match text.strip_suffix(" packets") {
        Some(packets) => {
            packets.parse::<u64>().ok().map(|packets| Bytes::new(packets.saturating_mul(packet.get())))
        }
        None => text.parse().ok(),
    }
}

/// Headers of a packet without its payload.
fn headers(flow: &Flow) -> u64 {
    let ip = if flow.ip == Ip::V4 { 20 } else { 40 };
    match (&flow.tcp, &flow.tfrc) {
        (Some(config), _) => ip + 20 + if config.timestamps { 12 } else { 0 },
        (_, Some(config)) if config.transport == Transport::Dccp => ip + 16,
        _ => ip + 8,
    }
}

#[cfg(test)]
mod tests;
