//! Notes on windows, and on the queues that they fill.

use bentpipe_scenario::{Controller, Flow, Medium, Scenario, Traffic, Way};
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::atm::PAYLOAD_LEN;

use super::active::time;
use super::path::Path;
use super::queues::{queue_bytes, queue_of};
use super::sharing::{Alone, Forecast, of_bucket};
use super::transfer::Transfer;
use super::{FlowBudget, Ground, TcpBudget, direction, show, size};

/// Delay in a queue that is worth a note.
///
/// The queue also holds [`BDPS_OF_QUEUE`].
const LONGEST_WAIT: Span = Span::from_secs(1);

/// Number of bandwidth-delay products of a queue that is too long.
const BDPS_OF_QUEUE: u64 = 2;

/// Number of bandwidth-delay products of a queue that holds what BBR sends at first.
const BDPS_OF_BBR: u64 = 3;

/// Number of packets that it sends beyond them.
const BURST_OF_BBR: u64 = 16;

/// Part of data behind a bucket, or of time in slow start, worth a note.
const PART: f64 = 0.02;

/// Returns notes on the window of a flow at the direction that limits it.
pub(super) fn notes(
    ground: &Ground<'_>,
    (n, path): (usize, &Path),
    forecast: &Forecast,
    budget: &FlowBudget,
    is_among_others: bool,
) -> Vec<String> {
    let (Some(tcp), flow) = (&budget.tcp, &ground.scenario.flow[n]) else { return Vec::new() };
    let way = forecast.narrowest;
    let at = &direction(ground.scenario, way);
    let held = held(ground, way, budget.packet);
    let mut notes: Vec<String> = limited(flow, tcp).into_iter().collect();
    let is_of_shaper = ground.media.side(way.0, way.1).stages.shaper.is_some();
    let of = if is_of_shaper { format!("the shaper of {at}") } else { format!("the queue of {at}") };
    notes.extend(held.and_then(|held| small_queue(flow, budget, tcp, &of, held)));
    let fits = queue_of(ground.media, way.0, way.1).and_then(|queue| queue_bytes(&queue, budget.packet));
    notes.extend(long_queue(flow, budget, tcp, at, fits.unwrap_or_default()));
    let is_shared = budget.is_squeezed();
    let is_hybla = controller(flow).is_some_and(|controller| matches!(controller, Controller::Hybla(_)));
    if is_hybla && held.is_some() && (tcp.window_allowed > tcp.window_needed || is_shared) {
        notes.push(
            "Hybla opens its window faster than its round trip: what it loses in the queue is not forecast"
                .to_owned(),
        );
    }
    if is_vegas(flow) && is_among_others {
        notes.push(
            "Vegas takes delays behind packets of others for its own queue, and yields to them: it gets up to what is forecast"
                .to_owned(),
        );
    }
    if is_vegas(flow) && path.directions().into_iter().any(|(link, way)| ground.media.is_random(link, way)) {
        notes.push("Vegas takes random delays for a queue: it gets up to what is forecast".to_owned());
    }
    notes.extend(few_segments(budget, tcp));
    notes.extend(westwood(ground.scenario, flow, budget, held.unwrap_or_default()));
    notes.extend(overshoot(ground.scenario, flow, budget, held.unwrap_or_default()));
    notes.extend(probes(flow, budget));
    notes.extend(bucket(ground, (n, flow), way));
    notes.extend(slow_start(ground.scenario, flow, budget, tcp));
    notes.extend(in_rounds(ground.scenario, flow, budget, tcp));
    notes.extend(few_acks(flow));
    notes.extend(ended(flow, budget));
    notes.extend(unsacked(ground.scenario, flow, budget, held.unwrap_or_default()));
    let before = path.hops_there().iter().map(|hop| (hop.0, hop.1)).take_while(|hop| *hop != way);
    notes.extend(bursts(ground, flow, budget, before));
    notes
}

fn controller(flow: &Flow) -> Option<&Controller> {
    match &flow.traffic {
        Traffic::Tcp(tcp) => Some(&tcp.controller),
        _ => None,
    }
}

fn is_vegas(flow: &Flow) -> bool {
    controller(flow).is_some_and(|controller| matches!(controller, Controller::Vegas(_)))
}

/// Returns a note on windows that do not fill the path.
fn limited(flow: &Flow, tcp: &TcpBudget) -> Option<String> {
    let (allowed, needed) = (tcp.window_allowed, tcp.window_needed);
    (allowed < needed && u64::from(flow.count) * allowed.get() < needed.get()).then(|| {
        format!("the window of {allowed} limits it to {} ({needed} would fill the path)", tcp.window_limit)
    })
}

/// Number of segments of a window of which one matters.
const FEW: u64 = 20;

/// Returns a note on a window that limits, and has room for few segments.
fn few_segments(budget: &FlowBudget, tcp: &TcpBudget) -> Option<String> {
    let segments = tcp.window_allowed.get() / budget.payload.get().max(1);
    (tcp.window_allowed < tcp.window_needed && segments < FEW).then(|| {
        format!(
            "its window has room for {segments} segments, and waits for whole ones and their ACKs: it gets up to what is forecast"
        )
    })
}

/// Returns the most bytes that wait in front of a direction.
fn held(ground: &Ground<'_>, (link, way): (usize, Way), packet: Bytes) -> Option<Bytes> {
    let side = ground.media.side(link, way);
    if let Some(shaper) = &side.stages.shaper {
        return Some(shaper.limit);
    }
    let Medium::Vc(channel) = &side.medium else {
        return queue_bytes(&queue_of(ground.media, link, way)?, packet);
    };
    let of_switch = |limits: &[Option<u32>; 4]| limits.iter().flatten().min().copied();
    let switches = ground.scenario.shared.atm.switch.values().map(|switch| &switch.limit);
    let switches = switches.filter_map(|limit| of_switch(&[limit.cbr, limit.vbr, limit.abr, limit.ubr]));
    let cells = switches.chain(channel.limit).min()?;
    Some(Bytes::new(u64::from(cells) * PAYLOAD_LEN as u64))
}

/// Returns a note on a queue that is shorter than what is on the way.
fn small_queue(
    flow: &Flow,
    budget: &FlowBudget,
    tcp: &TcpBudget,
    queue: &str,
    held: Bytes,
) -> Option<String> {
    let is_bbr = controller(flow).is_some_and(|controller| matches!(controller, Controller::Bbr(_)));
    // Startup of BBR has twice the product in the queue, and bursts of segments where that is few of them.
    let at_first = BDPS_OF_BBR.saturating_mul(tcp.product.get());
    let at_first = at_first.saturating_add(BURST_OF_BBR * budget.packet.get());
    let is_small =
        held < tcp.product || is_bbr && held.get() < at_first && is_overrun(flow, budget, tcp, held);
    if !is_small {
        return None;
    }
    let note = format!("{queue} holds {held}; the path's bandwidth-delay product is {}", tcp.product);
    if !is_overrun(flow, budget, tcp, held) {
        return Some(note);
    }
    let bound = match controller(flow) {
        Some(Controller::NewReno(_) | Controller::Hybla(_)) => {
            let part = halved(held.get() as f64 / tcp.product.get().max(1) as f64);
            if part < 0.99 {
                format!(", in the long run at most {:.0} % of that", 100.0 * part)
            } else {
                String::new()
            }
        }
        _ => String::new(),
    };
    Some(format!(
        "{note}: what is lost there leaves the line idle, and it gets up to what is forecast{bound}"
    ))
}

/// Returns `true` if a sender may send more at once than a queue holds.
///
/// In slow start that is half of its window.
fn is_overrun(flow: &Flow, budget: &FlowBudget, tcp: &TcpBudget, held: Bytes) -> bool {
    let needed = tcp.window_needed.get();
    let allowed = tcp.window_allowed.min(size(flow).unwrap_or(Bytes::new(u64::MAX))).get();
    let slow = budget.offered.is_some_and(|offered| offered.as_bps() < budget.ceiling.as_bps());
    let is_full = allowed.saturating_mul(flow.count.into()) > needed.saturating_add(held.get());
    !slow && (is_full || allowed.min(needed) / 2 > held.get())
}

/// Returns the part of a line that a window fills, halved at each loss.
///
/// `queue` is that in bandwidth-delay products. Below one of them the line idles; above, the queue delays each turn.
fn halved(queue: f64) -> f64 {
    let least = (1.0 + queue) / 2.0;
    if least >= 1.0 {
        return 1.0;
    }
    let (turns, full) = (1.0 - least, queue * (1.0 + queue / 2.0));
    (turns * (1.0 + least) / 2.0 + full) / (turns + full)
}

/// Returns a note on a queue that delays for long.
fn long_queue(flow: &Flow, budget: &FlowBudget, tcp: &TcpBudget, at: &str, fits: Bytes) -> Option<String> {
    let all = Bytes::new(tcp.window_allowed.get().saturating_mul(u64::from(flow.count)));
    let waits = fits.min(Bytes::new(all.get().saturating_sub(tcp.window_needed.get())));
    if budget.ceiling.as_bps() == 0 {
        return Some(format!("nothing gets through {at} while it sends: what comes there waits, or is lost"));
    }
    let delay = budget.ceiling.span_of(waits);
    (delay > LONGEST_WAIT && waits.get() > BDPS_OF_QUEUE * tcp.buffer_needed.get()).then(|| {
        format!(
            "windows of {all} let {waits} wait in the queue of {at}, {} of delay; set `queue` to about {}",
            show::time(delay),
            tcp.buffer_needed
        )
    })
}

/// Returns a note on a sender that a bucket lets send faster for a time.
fn bucket(ground: &Ground<'_>, (n, flow): (usize, &Flow), (link, way): (usize, Way)) -> Option<String> {
    let limit = ground.media.limit(link, way)?;
    let is_written = flow.application.offered().is_some_and(|offered| offered <= limit.rate);
    let seconds = ground.states.seconds(n, &ground.states.of_flow(n));
    (of_bucket(ground.media, (link, way), seconds) < 1.0 - PART && !is_written).then(|| {
        format!(
            "it sends faster while the bucket of {} of {} is full, and loses packets when it is empty: it gets up to what is forecast",
            limit.burst,
            direction(ground.scenario, (link, way))
        )
    })
}

/// Least time of a measurement of a round trip by BBR, and that between two.
const PROBE: [Span; 2] = [Span::from_millis(200), Span::from_secs(10)];

/// Returns a note on a controller that empties the path now and then.
fn probes(flow: &Flow, budget: &FlowBudget) -> Option<String> {
    let takes = PROBE[0] + budget.min_rtt?;
    let is_long = takes.as_secs_f64() > 1.5 * PART * PROBE[1].as_secs_f64();
    let is_bbr = controller(flow).is_some_and(|controller| matches!(controller, Controller::Bbr(_)));
    (is_bbr && is_long && budget.offered.is_none()).then(|| {
        "BBR empties the path to measure its round trip, which leaves the line idle: it gets up to what is forecast".to_owned()
    })
}

/// Returns a note on a slow start that doubles its window.
///
/// It loses as much as fits the path. With an ACK for two segments it loses half as much, and sends that again while the queue is served.
fn overshoot(scenario: &Scenario, flow: &Flow, budget: &FlowBudget, held: Bytes) -> Option<String> {
    let Traffic::Tcp(config) = &flow.traffic else { return None };
    let grows = matches!(&config.controller, Controller::NewReno(_) | Controller::Cubic(_));
    let doubles = grows && config.ack_every <= 1;
    let tcp = budget.tcp.as_ref().filter(|tcp| doubles && is_overrun(flow, budget, tcp, held))?;
    let sends = time(scenario, flow).unwrap_or_else(|| scenario.duration.saturating_sub(flow.start));
    let sends = tcp.completion.map_or(sends, |takes| takes.min(sends));
    let again = budget.ceiling.span_of(Bytes::new(held.get().saturating_add(tcp.window_needed.get())));
    (again.as_secs_f64() > PART * sends.as_secs_f64()).then(|| {
        "its slow start doubles the window in each round trip, and loses as much at once as fits the path: it gets up to what is forecast".to_owned()
    })
}

/// Returns a note on a window that follows a mean of the rate.
///
/// Behind slow start the mean is that of some ten round trips, and has a part of the rate by then. The rest of the window grows by a segment in each.
fn westwood(scenario: &Scenario, flow: &Flow, budget: &FlowBudget, held: Bytes) -> Option<String> {
    let is_westwood =
        controller(flow).is_some_and(|controller| matches!(controller, Controller::Westwood(_)));
    let tcp = budget.tcp.as_ref().filter(|tcp| is_westwood && is_overrun(flow, budget, tcp, held))?;
    let sends = time(scenario, flow).unwrap_or_else(|| scenario.duration.saturating_sub(flow.start));
    let sends = tcp.completion.map_or(sends, |takes| takes.min(sends));
    let segments = tcp.window_needed.get() as f64 / budget.payload.get().max(1) as f64;
    let grows = segments * budget.min_rtt?.as_secs_f64();
    // What the queue held is lost as well, and sent again in that window.
    let again = budget.ceiling.span_of(held).as_secs_f64();
    (grows / 2.0 + again > PART * sends.as_secs_f64()).then(|| {
        "Westwood+ takes its window after a loss from a mean of the rate over some ten round trips, which is low behind slow start: the line idles then, and it gets up to what is forecast".to_owned()
    })
}

/// Returns a note on a slow start that takes a part of a flow's time.
fn slow_start(scenario: &Scenario, flow: &Flow, budget: &FlowBudget, tcp: &TcpBudget) -> Option<String> {
    let lasts = scenario.duration.saturating_sub(flow.start);
    let sends = time(scenario, flow).unwrap_or(lasts).as_secs_f64();
    let is_long = |time: Span| time.as_secs_f64() > PART * sends;
    match (tcp.slow_start, tcp.with_slow_start, tcp.completion) {
        (slow_start, less, _)
            if is_vegas(flow) && (less.is_some() || slow_start.is_none_or(is_long)) =>
        {
            Some(
                "Vegas ends its slow start at delays of single packets or of a tick of its clock, and grows slowly then: it gets up to what is forecast".to_owned(),
            )
        }
        (Some(slow_start), ..) if slow_start > lasts => {
            let less = if tcp.with_slow_start.is_none() { ": it gets up to what is forecast" } else { "" };
            Some(format!("slow start alone takes {}; the flow lasts {lasts}{less}", show::time(slow_start)))
        }
        (None, Some(_), Some(completion)) if completion <= lasts => {
            Some(format!("its data have arrived after {}, before its window is open", show::time(completion)))
        }
        (None, Some(_), _) => {
            Some("it ends before its window is open: its goodput is that within a tenth".to_owned())
        }
        (Some(slow_start), ..) => {
            let is_long = is_long(slow_start);
            if is_long && flow.application.offered().is_some() {
                let slow_start = show::time(slow_start);
                return Some(format!(
                    "in its slow start of up to {slow_start} it may send less than is written: it gets up to what is forecast"
                ));
            }
            let is_shared = budget.is_squeezed();
            (is_shared && is_long && size(flow).is_none()).then(|| {
                format!(
                    "its slow start takes {} of {}, which its share is without: it gets up to that",
                    show::time(slow_start),
                    show::time(Span::from_secs_f64(sends))
                )
            })
        }
        _ => None,
    }
}

/// Returns a note on a window that is sent once in a round trip.
///
/// A short time has few of them.
fn in_rounds(scenario: &Scenario, flow: &Flow, budget: &FlowBudget, tcp: &TcpBudget) -> Option<String> {
    let sends = time(scenario, flow)?.as_secs_f64();
    let longest = budget.round_trips.map_or(budget.min_rtt?, |[.., most]| most);
    let part = longest.as_secs_f64() / sends;
    let is_limited = tcp.window_allowed < tcp.window_needed && size(flow).is_none();
    (is_limited && part > PART).then(|| {
        format!("its window is sent once in a round trip: it gets up to {} more or less", show::percent(part))
    })
}

/// Number of segments an ACK from which on a window often waits for a timer.
const MANY_AN_ACK: u32 = 4;

/// Returns a note on a receiver that acknowledges by its timer.
fn few_acks(flow: &Flow) -> Option<String> {
    let Traffic::Tcp(config) = &flow.traffic else { return None };
    (config.ack_every >= MANY_AN_ACK).then(|| {
        format!(
            "its receiver acknowledges {} segments at once, or after {}: windows of fewer wait for that, and it gets up to what is forecast",
            config.ack_every,
            show::time(config.ack_delay)
        )
    })
}

/// Part of a flow's time without an arrival that is worth a note.
const LATE: f64 = 0.05;

/// Returns a note on packets that take long to arrive.
pub(super) fn late(scenario: &Scenario, flow: &Flow, (path, budget): (&Path, &FlowBudget)) -> Option<String> {
    let takes = budget.one_way.filter(|_| path.window.is_none() && budget.offered.is_some())?;
    let begin = flow.start.max(scenario.probe.warm_up);
    let sends = flow.stop.unwrap_or(Span::MAX).min(scenario.duration).saturating_sub(begin).as_secs_f64();
    let is_cold = flow.start >= scenario.probe.warm_up;
    (is_cold && takes.as_secs_f64() > LATE * sends).then(|| {
        format!(
            "it begins to arrive after {}, which counts as its time: it gets up to what is forecast",
            show::time(takes)
        )
    })
}

/// Returns a note on a rate that doubles in each round trip (RFC 5348, 4.3).
pub(super) fn rate_start(scenario: &Scenario, flow: &Flow, budget: &FlowBudget) -> Option<String> {
    let (Traffic::Tfrc(_), Some(rtt)) = (&flow.traffic, budget.min_rtt) else { return None };
    let lasts = flow.stop.unwrap_or(scenario.duration).min(scenario.duration).saturating_sub(flow.start);
    let rate = budget.offered.unwrap_or(budget.ceiling).min(budget.ceiling);
    let packets = rate.bdp(rtt).get() as f64 / budget.payload.get().max(1) as f64;
    let rounds = packets.max(1.0).log2() + 1.0;
    (rtt.as_secs_f64() * rounds > PART * lasts.as_secs_f64()).then(|| {
        "its rate doubles in each round trip at first, and it sends less than is written: it gets up to what is forecast"
            .to_owned()
    })
}

/// Returns a note on what waits at a stop, and arrives faster than before.
///
/// It sends more than a line carries. Goodput is up to the last arrival.
pub(super) fn stopped(
    ground: &Ground<'_>,
    (n, path): (usize, &Path),
    forecast: &Forecast,
    budget: &FlowBudget,
) -> Option<String> {
    let flow = &ground.scenario.flow[n];
    let (stop, end) = (flow.stop.filter(|stop| *stop < ground.scenario.duration)?, ground.scenario.duration);
    let offered = match budget.offered {
        Some(offered) => offered.as_bps() as f64 * f64::from(flow.count),
        // Data without end.
        None if matches!(flow.traffic, Traffic::Tfrc(_)) => f64::INFINITY,
        None => return None,
    };
    let before = (forecast.sent.as_bps() as f64).max(1.0);
    let held = held(ground, forecast.limit, budget.packet)?;
    if budget.tcp.is_some() || offered <= 1.001 * before {
        return None;
    }
    let sends = stop.saturating_sub(flow.start).as_secs_f64();
    let after = greatest_rate(ground, (n, path), stop);
    let carried_later = after * end.saturating_sub(stop).as_secs_f64();
    let waits = (8.0 * held.get() as f64).min(offered * sends).min(carried_later);
    let more = (before * sends + waits) / (sends + waits / after.max(1.0)) / before - 1.0;
    (more > PART).then(|| {
        let at = direction(ground.scenario, forecast.limit);
        format!(
            "what waits in front of {at} when it stops arrives behind that: up to {} more than is forecast",
            show::percent(more)
        )
    })
}

/// Returns the greatest rate of payload from a time on, in bit/s.
fn greatest_rate(ground: &Ground<'_>, (n, path): (usize, &Path), from: Span) -> f64 {
    let alone = Alone::new(ground.scenario, ground.media, (n, path));
    let (media, states) = (ground.media, ground.states);
    let rate = |state: usize| alone.by_link(media, states, state).into_iter().fold(f64::INFINITY, f64::min);
    (states.at(from)..states.len()).map(rate).fold(0.0, f64::max)
}

/// Returns a note on datagrams whose fragments fill a queue at once.
pub(super) fn long_datagrams(ground: &Ground<'_>, path: &Path) -> Option<String> {
    if path.fragments == 1 || path.window.is_some() {
        return None;
    }
    // One of them is sent while the others come.
    let waits = Bytes::new(path.whole[0].saturating_sub(path.packet));
    let ways = path.hops_there().iter().map(|hop| (hop.0, hop.1));
    let (way, held) = ways
        .filter_map(|way| Some((way, held(ground, way, Bytes::new(path.packet))?)))
        .find(|of| of.1 < waits)?;
    Some(format!(
        "the queue of {} holds {held}, and the fragments of a datagram come at once: some are lost, and the datagram with them",
        direction(ground.scenario, way)
    ))
}

/// Returns a note on transfers that end one after the other.
fn ended(flow: &Flow, budget: &FlowBudget) -> Option<String> {
    let is_shared = budget.is_squeezed();
    (is_shared && size(flow).is_some()).then(|| {
        "transfers that end leave their shares to others: figures are those of equal shares, and each has its own"
            .to_owned()
    })
}

/// Returns a note on losses that are repeated one by one.
///
/// Slow start loses up to half a window at once.
fn unsacked(scenario: &Scenario, flow: &Flow, budget: &FlowBudget, held: Bytes) -> Option<String> {
    let Traffic::Tcp(config) = &flow.traffic else { return None };
    let tcp = budget.tcp.as_ref().filter(|tcp| !config.sack && is_overrun(flow, budget, tcp, held))?;
    let window = tcp.window_allowed.get().min(tcp.window_needed.get().saturating_add(held.get()));
    let lost = window as f64 / 2.0 / budget.payload.get().max(1) as f64;
    let sends = time(scenario, flow).unwrap_or_else(|| scenario.duration.saturating_sub(flow.start));
    (lost * budget.min_rtt?.as_secs_f64() > PART * sends.as_secs_f64()).then(|| {
        format!(
            "without SACK it sends one lost segment again in each round trip, and slow start loses up to {lost:.0} at once: it gets up to what is forecast"
        )
    })
}

/// Returns notes on what a slow start is forecast without.
pub(super) fn of_transfer(
    ground: &Ground<'_>,
    flow: &Flow,
    (budget, transfer): (&FlowBudget, Option<&Transfer>),
) -> Vec<String> {
    let Some(transfer) = transfer.filter(|_| budget.blocked.is_none()) else { return Vec::new() };
    let without = transfer.is_without.map(|why| match budget.tcp.as_ref().and_then(|tcp| tcp.completion) {
        Some(_) => format!(
            "its completion is forecast without slow start, as {why}: it takes longer, and it gets up to what is forecast"
        ),
        None => format!("its slow start is not forecast, as {why}: it gets up to what is forecast"),
    });
    let changes = transfer.changes.then(|| {
        "rates or round trips of its way change while it sends: windows grow into more, and lose where there is less: it gets up to what is forecast".to_owned()
    });
    let is_left_out = transfer.is_of_size && transfer.takes.is_none() && flow.stop.is_some();
    let cut = is_left_out.then(|| {
        "it may stop before all of its data are written: when they arrive is not forecast".to_owned()
    });
    let left = ground.scenario.duration.saturating_sub(flow.start);
    let late = budget.tcp.as_ref().and_then(|tcp| tcp.completion).filter(|takes| *takes > left);
    let late = late
        .map(|takes| format!("its data take {} or more, and the run has {left} for them", show::time(takes)));
    let burst = match &flow.traffic {
        Traffic::Tcp(config) => config.max_burst,
        _ => None,
    };
    let burst = burst.map(|burst| {
        format!("it sends at most {burst} segments for an ACK (`max_burst`), and its window may stay unused: it gets up to what is forecast")
    });
    let warm_up = ground.scenario.probe.warm_up.saturating_sub(flow.start);
    let is_cold = !warm_up.is_zero() && transfer.slow_start.is_none_or(|takes| takes > warm_up);
    let cold = is_cold
        .then(|| "its slow start goes on behind the warm-up: it gets up to what is forecast".to_owned());
    [without, changes, cut, late, burst, cold].into_iter().flatten().collect()
}

/// Returns a note on a queue in front of others that a slow start overruns.
fn bursts(
    ground: &Ground<'_>,
    flow: &Flow,
    budget: &FlowBudget,
    mut ways: impl Iterator<Item = (usize, Way)>,
) -> Option<String> {
    let tcp = budget.tcp.as_ref()?;
    let half = tcp.window_allowed.get().min(tcp.window_needed.get()) / 2;
    let is_short = |way: &(usize, Way)| {
        let is_near = usable(ground, *way).as_bps() < 2 * budget.ceiling.as_bps();
        let held = held(ground, *way, budget.packet);
        is_near && held.is_some_and(|held| half > held.get() && is_overrun(flow, budget, tcp, held))
    };
    let way = ways.find(is_short)?;
    Some(format!(
        "the queue of {} holds less than bursts of slow start: it gets up to what is forecast",
        direction(ground.scenario, way)
    ))
}

fn usable(ground: &Ground<'_>, (link, way): (usize, Way)) -> Rate {
    ground.media.cost(link, way).usable()
}

#[cfg(test)]
mod tests {
    use super::halved;

    #[test]
    fn a_window_that_is_halved_fills_three_quarters_without_a_queue() {
        assert!((halved(0.0) - 0.75).abs() < 1e-12);
        assert!((halved(1.0) - 1.0).abs() < 1e-12);
        assert!(halved(0.4) > 0.9 && halved(0.4) < 0.95);
    }
}
