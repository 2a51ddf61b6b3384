//! Notes on flows whose figures are means of what is drawn.

use bentpipe_net::channel::Config;
use bentpipe_scenario::{Flow, Scenario, Traffic, Way};
use bentpipe_transport::app::Pattern;
use bentpipe_units::Span;
use bentpipe_voice::Speech;

use super::path::Path;
use super::sent::at_least_one;
use super::{FlowBudget, Ground, direction, show, size};

/// Mean time of talk and silence of a call together.
const TURN: Span = Span::from_secs(3);

/// Numbers of random packets, and of turns, with a mean of their own.
const MANY: [f64; 2] = [1600.0, 800.0];

/// Returns a note on sources that are random over the run.
pub(super) fn of_source(scenario: &Scenario, flow: &Flow, copies: u32) -> Option<String> {
    let end = flow.stop.unwrap_or(Span::MAX).min(scenario.duration);
    let time = end.saturating_sub(flow.start).as_secs_f64() * f64::from(copies);
    let of = |cycle: Span| time / cycle.as_secs_f64().max(f64::MIN_POSITIVE);
    let is_random = match &flow.traffic {
        Traffic::Udp(udp) => match udp.pattern {
            Pattern::Poisson { mean_interval } => of(mean_interval) < MANY[0],
            Pattern::OnOff { mean_on, mean_off, .. } => of(mean_on + mean_off) < MANY[1],
            Pattern::Constant { .. } | Pattern::ConstantRate { .. } => false,
        },
        Traffic::Voice(voice) => {
            voice.silence_suppression && voice.speech != Speech::Continuous && of(TURN) < MANY[1]
        }
        // Members are in one conversation.
        Traffic::Conference(legs) => {
            let pauses = legs.0.silence_suppression && legs.0.speech != Speech::Continuous;
            pauses && of(TURN) < MANY[1] * f64::from(copies)
        }
        _ => false,
    };
    is_random.then(|| {
        "it sends at random: what it offers is a mean, as is what is lost, and a short run differs".to_owned()
    })
}

/// Least part of a rate by which chance may raise it, for a note.
const BY_CHANCE: f64 = 0.01;

/// Standard deviations that a run may be off a mean.
const DEVIATIONS: f64 = 3.0;

/// Returns a note on a mean that channels draw.
pub(super) fn of_losses(
    ground: &Ground<'_>,
    (n, path): (usize, &Path),
    budget: &FlowBudget,
) -> Option<String> {
    if budget.lost >= 1.0 || !may_have_more(budget) {
        return None;
    }
    let of_hop = |hop: &(usize, Way, u64)| {
        let (at, len) = ((hop.0, hop.1), (path.packet + hop.2) as usize);
        ground.states.losses.all(at).map(|fault| variance(fault, len)).sum::<f64>()
    };
    let of_packet: f64 = path.hops_there().iter().map(of_hop).sum();
    (DEVIATIONS * deviation(ground, (n, path), budget, of_packet) > BY_CHANCE).then(|| {
        "channels draw which packets they lose or copy: its max goodput is a mean, and a run may have more"
            .to_owned()
    })
}

/// Returns a note on a mean of backoffs, which stations draw.
pub(super) fn of_backoff(
    ground: &Ground<'_>,
    (n, path): (usize, &Path),
    (budget, at): (&FlowBudget, (usize, Way)),
) -> Option<String> {
    let len = path.data_on(at.0, at.1).filter(|_| may_have_more(budget))? as usize;
    let cost = ground.media.cost(at.0, at.1);
    let drawn = cost.drawn(len).as_secs_f64();
    let takes = 8.0 * len as f64 / at_least_one(cost.capacity(len));
    // Slots up to twice the mean have the same probability.
    let of_packet = (drawn / takes).powi(2) / 3.0;
    let more = DEVIATIONS * deviation(ground, (n, path), budget, of_packet);
    (more > BY_CHANCE).then(|| {
        format!(
            "stations of {} draw their backoff: its max goodput is a mean, and a run may have up to {} more",
            direction(ground.scenario, at),
            show::percent(more)
        )
    })
}

/// Returns `true` if a flow offers more than its max goodput.
fn may_have_more(budget: &FlowBudget) -> bool {
    budget.offered.is_none_or(|offered| offered > budget.ceiling)
}

/// Returns the variance of a packet's passage, over the square of its mean.
///
/// Packets that follow each other are not independent where the channel has a state.
fn variance(fault: &Config, len: usize) -> f64 {
    let Some(lost) = fault.mean_loss(len).filter(|lost| *lost < 1.0) else { return 0.0 };
    let bursts = |p: f64, r: f64, [good, bad]: [f64; 2], steps: f64| {
        let part = p / (p + r).max(f64::MIN_POSITIVE);
        let kept = (1.0 - p - r).max(0.0).powf(steps).min(1.0 - 1e-9);
        2.0 * (bad - good).powi(2) * part * (1.0 - part) * kept / (1.0 - kept)
    };
    let of_state = match *fault {
        Config::GilbertElliott { p, r, loss_good, loss_bad } => bursts(p, r, [loss_good, loss_bad], 1.0),
        Config::BitBursts { p, r, ber_good, ber_bad } => {
            let bits = 8.0 * len as f64;
            let losses = [ber_good, ber_bad].map(|ber| 1.0 - (1.0 - ber).powf(bits));
            bursts(p, r, losses, bits)
        }
        // Copies take the line's time, and are drawn too.
        Config::Duplication { probability } => {
            return probability * (1.0 - probability) / (1.0 + probability).powi(2);
        }
        _ => 0.0,
    };
    (lost * (1.0 - lost) + of_state) / (1.0 - lost).powi(2)
}

/// Returns the deviation of a flow's goodput over its time, as a part of it. `of_packet` is the variance of one packet.
fn deviation(ground: &Ground<'_>, (n, path): (usize, &Path), budget: &FlowBudget, of_packet: f64) -> f64 {
    let seconds = ground.states.seconds(n, &ground.states.of_flow(n));
    let rate = budget.offered.map_or(budget.ceiling, |offered| offered.min(budget.ceiling));
    let bits = rate.as_bps() as f64 * seconds;
    let bits = size(&ground.scenario.flow[n]).map_or(bits, |size| bits.min(8.0 * size.get() as f64));
    let packets = bits / (8 * path.whole[1].max(1)) as f64;
    (of_packet / packets.max(1.0)).sqrt()
}
