//! Notes on flows whose figures are means of what is drawn.

use bentpipe_net::channel::Config;
use bentpipe_scenario::{Flow, Scenario, Traffic};
use bentpipe_transport::app::Pattern;
use bentpipe_units::Span;
use bentpipe_voice::Speech;

use super::path::Path;
use super::{FlowBudget, Ground};

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
    if budget.tcp.is_some() || budget.lost >= 1.0 {
        return None;
    }
    let losses = &ground.states.losses;
    let variance = |config: &Config| match *config {
        Config::PacketErrors { loss } => loss / (1.0 - loss).max(f64::MIN_POSITIVE),
        Config::GilbertElliott { p, r, .. } => {
            // Losses of one burst are one draw.
            let lost = p / (p + r).max(f64::MIN_POSITIVE);
            let kept = (1.0 - p - r).clamp(0.0, 1.0 - 1e-9);
            lost / (1.0 - lost).max(f64::MIN_POSITIVE) * (1.0 + kept) / (1.0 - kept)
        }
        _ => 0.0,
    };
    let hops = path.hops_there().iter();
    let of_packet: f64 = hops.flat_map(|hop| losses.all((hop.0, hop.1))).map(variance).sum();
    let seconds = ground.states.seconds(n, &ground.states.of_flow(n));
    let rate = budget.offered.map_or(budget.ceiling, |offered| offered.min(budget.ceiling));
    let packets = rate.as_bps() as f64 * seconds / (8 * path.whole[1].max(1)) as f64;
    let deviation = (of_packet / packets.max(1.0)).sqrt();
    (DEVIATIONS * deviation > BY_CHANCE).then(|| {
        "channels draw what they lose: its max goodput is a mean, and a run may have more".to_owned()
    })
}
