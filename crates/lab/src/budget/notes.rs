//! Notes on flows and links: limits, and what a forecast leaves out.

use std::collections::HashMap;

use bentpipe_scenario::{Flow, Queue, Scenario, Way, copies};
use bentpipe_site::application::Application;
use bentpipe_site::{Recorded, ShareBudget};
use bentpipe_units::{Bytes, Rate, Span};

use super::medium::Media;
use super::path::{Path, splitter};
use super::sharing::{Forecast, Sharing};
use super::states::States;
use super::{FlowBudget, Ground, direction, queue_of, queue_text, show};

/// Delay in a queue that is worth a note.
///
/// The queue also holds [`BDPS_OF_QUEUE`].
const LONGEST_WAIT: Span = Span::from_secs(1);

/// Number of bandwidth-delay products of a queue that is too long.
const BDPS_OF_QUEUE: u64 = 2;

/// Returns the notes on a flow towards a receiver.
pub(super) fn of_flow(
    ground: &Ground<'_>,
    (n, path): (usize, &Path),
    (forecast, sharing): (&Forecast, &Sharing),
    budget: &FlowBudget,
) -> Vec<String> {
    let (scenario, media) = (ground.scenario, ground.media);
    let (name, flow) = scenario.flow.get_index(n).expect("a path is of a flow");
    let mut notes = match budget.tcp.as_ref().and_then(|_| splitter(scenario, path)) {
        Some((node, link)) => vec![format!(
            "the proxy of {node} splits it in front of {link}: window, round trip and slow start are those without it"
        )],
        // Data does not wait where ACKs do.
        None if path.answers_on(forecast.narrowest.0, forecast.narrowest.1) => Vec::new(),
        None => tcp_warnings(scenario, media, flow, budget, forecast.narrowest),
    };
    notes.extend(ack_note(scenario, path, forecast));
    notes.extend(warnings(flow, budget, forecast.sent, sharing));
    notes.extend(loss_note(budget));
    notes.extend(file_note(ground, (n, flow)));
    notes.extend(silence(ground.states, (n, flow)));
    notes.extend(never_start(scenario, (name, flow)));
    notes
}

/// Returns a note on losses of channels for a sender that they slow down.
fn loss_note(budget: &FlowBudget) -> Option<String> {
    (budget.lost > 0.0 && budget.tcp.is_some()).then(|| {
        let part = show::percent(budget.lost);
        format!("channels lose {part} of its packets on average: a sender that slows down at a loss gets less than is forecast")
    })
}

/// Returns a note on the file that a flow sends.
fn file_note(ground: &Ground<'_>, (n, flow): (usize, &Flow)) -> Option<String> {
    let Some(file) = ground.recorded.get(&n) else {
        let has_file = flow.traffic.kind().recorded(&mut |_| Err(String::new())).is_some();
        let note = "its file is not read here: what it offers is not forecast, and shares do not count it";
        return has_file.then(|| note.to_owned());
    };
    let Recorded { packets, bytes, lasts } = file;
    let left = ground.scenario.duration.saturating_sub(flow.start);
    let cut = if lasts > &left { format!("; {left} of that are in the run") } else { String::new() };
    Some(format!("its file has {packets} packets with {bytes} in {}{cut}", show::time(*lasts)))
}

/// Returns a note on a flow that is silent, or whose rate is not known.
fn silence(states: &States, (n, flow): (usize, &Flow)) -> Option<String> {
    let kind = flow.traffic.kind();
    if let Some(reason) = kind.unknown_rate() {
        return Some(format!("what it offers is not forecast, and shares do not count it: {reason}"));
    }
    let writes = !kind.takes().application || flow.application != Application::Nothing;
    let [active, of] = states.activities.total(n, flow);
    let [active, of] = [active, of].map(Span::from_secs_f64);
    let is_switched = !flow.active || states.activities.is_switched(n);
    match writes {
        false => Some("its application writes nothing".to_owned()),
        true if active.is_zero() && is_switched => {
            Some("it is not active in the run, and sends nothing".to_owned())
        }
        true if active < of && is_switched => {
            Some(format!("it is active for {} of {}", show::time(active), show::time(of)))
        }
        true => None,
    }
}

/// Returns a note on a path that answers limit.
fn ack_note(scenario: &Scenario, path: &Path, forecast: &Forecast) -> Option<String> {
    let (link, way) = forecast.narrowest;
    (path.window.is_some() && path.answers_on(link, way)).then(|| {
        let (at, len) = (direction(scenario, (link, way)), Bytes::new(path.answer_len()));
        let rate = show::rate(forecast.alone);
        format!("its ACKs of {len} fill {at}, which limits it to {rate}, or to more where ACKs are lost")
    })
}

/// Notes the contenders for a carrier.
pub(super) fn contend(flows: &mut [FlowBudget], terminals: &[ShareBudget]) {
    let by_name: HashMap<String, &ShareBudget> = terminals
        .iter()
        .map(|terminal| (format!("{} {}", terminal.name, terminal.direction), terminal))
        .collect();
    let mut counts: HashMap<&str, u32> = HashMap::new();
    terminals.iter().for_each(|terminal| *counts.entry(&terminal.carrier).or_default() += terminal.copies);
    for flow in flows {
        let Some(terminal) = by_name.get(&flow.bottleneck) else { continue };
        let count = counts[&*terminal.carrier];
        if count < 2 || terminal.share >= terminal.most {
            continue;
        }
        flow.warnings.push(format!(
            "{count} terminals share carrier {}; if all request, {} has {} of {}",
            terminal.carrier, flow.bottleneck, terminal.share, terminal.most
        ));
    }
}

fn tcp_warnings(
    scenario: &Scenario,
    media: &Media<'_>,
    flow: &Flow,
    budget: &FlowBudget,
    bottleneck: (usize, Way),
) -> Vec<String> {
    let mut warnings = Vec::new();
    let at = &direction(scenario, bottleneck);
    if let Some(tcp) = &budget.tcp {
        let (allowed, needed) = (tcp.window_allowed, tcp.window_needed);
        if allowed < needed && u64::from(flow.count) * allowed.get() < needed.get() {
            warnings.push(format!(
                "the window of {allowed} limits it to {} ({needed} would fill the path)",
                tcp.window_limit
            ));
        }
        let queue = queue_of(media, bottleneck.0, bottleneck.1);
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
        let all = Bytes::new(allowed.get().saturating_mul(u64::from(flow.count)));
        let fits = queue.as_ref().and_then(|queue| queue_bytes(queue, budget.packet)).unwrap_or_default();
        let waits = fits.min(Bytes::new(all.get().saturating_sub(needed.get())));
        let delay = budget.ceiling.span_of(waits);
        if delay > LONGEST_WAIT && waits.get() > BDPS_OF_QUEUE * tcp.buffer_needed.get() {
            warnings.push(format!(
                "windows of {all} let {waits} wait in the queue of {at}, {} of delay; set `queue` to about {}",
                show::time(delay),
                tcp.buffer_needed
            ));
        }
        let lasts = scenario.duration.saturating_sub(flow.start);
        if let Some(slow_start) = tcp.slow_start.filter(|slow_start| *slow_start > lasts) {
            warnings
                .push(format!("slow start alone takes {}; the flow lasts {lasts}", show::time(slow_start)));
        }
    }
    warnings
}

fn warnings(flow: &Flow, budget: &FlowBudget, carries: Rate, sharing: &Sharing) -> Vec<String> {
    let (mut warnings, at) = (Vec::new(), &budget.bottleneck);
    let all = budget.offered.map_or(0.0, |offered| offered.as_bps() as f64 * f64::from(flow.count));
    if all > carries.as_bps() as f64 {
        let all = Rate::from_bps(all as u64);
        warnings.push(format!("it offers {all}, but {at} carries only {carries} of such packets"));
    }
    if sharing.count > u64::from(flow.count) {
        warnings.push(sharing.describe());
    }
    warnings
}

/// Returns a note on copies that would start after the end of the run.
fn never_start(scenario: &Scenario, flow: (&str, &Flow)) -> Option<String> {
    let (started, of) = copies::started(scenario, flow, scenario.seed);
    let left_out = of - started;
    (left_out > 0).then(|| format!("{started} of {of} copies run; {left_out} would start after the end"))
}

/// Returns the capacity of a queue in bytes, if it is bounded.
fn queue_bytes(queue: &Queue, packet: Bytes) -> Option<Bytes> {
    let text = queue_text(queue);
    match text.strip_suffix(" packets") {
        Some(packets) => {
            packets.parse::<u64>().ok().map(|packets| Bytes::new(packets.saturating_mul(packet.get())))
        }
        None => text.parse().ok(),
    }
}

/// Returns notes on delay and losses of a direction.
pub(super) fn of_link(media: &Media<'_>, states: &States, at: (usize, Way)) -> Vec<String> {
    let channel = media.channel_delay(at.0, at.1);
    let channel =
        (!channel.is_zero()).then(|| format!("its channel adds {} on average", show::time(channel)));
    let unknown = "its delays are in a file that is not read here: figures are of the first one".to_owned();
    let sample = "only a sample of the changes was looked at: shares of time are estimates".to_owned();
    let is_sample = states.is_sample && !states.rates(at).is_empty();
    let losses = states.losses.note(at);
    let notes =
        [channel, losses, states.unknown.contains(&at).then_some(unknown), is_sample.then_some(sample)];
    notes.into_iter().flatten().collect()
}
