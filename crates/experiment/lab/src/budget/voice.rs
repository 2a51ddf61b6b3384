//! Voice of flows, and its load on links.

use std::collections::HashMap;

use bentpipe_scenario::{Scenario, Traffic, Way, copies};
use bentpipe_telephony::load::{self, CallTraffic, FlowCalls, VoiceLeg};
use bentpipe_units::{Rate, Span};
use serde::Serialize;

use super::active::{Activities, Up, most_at_once};
use super::conference::Mix;
use super::medium::Media;
use super::sent::at_least_one;
use super::{Users, copies_between};

/// Voice on a direction of a link: that of `voice`, `conference`, `sip` and `iax` flows.
///
/// Each figure is its greatest at any one time, as copies start and stop. Of calls with signalling it is that of the time in which as
/// many begin as end. Signalling and RTCP are not in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VoiceLoad {
    /// Number of calls at a time. A call that crosses the link twice counts twice.
    pub calls: f64,
    /// Packets per second.
    pub packets_per_s: f64,
    /// Rate of IP packets.
    pub rate: Rate,
    /// Rate on the line, with its overhead, behind header compression.
    pub on_line: Rate,
    /// Part of the capacity for these packets.
    pub share: f64,
}

/// Calls of a flow on a leg of their way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallBudget {
    /// Mean number of calls at a time.
    pub calls: f64,
    /// Codec.
    pub codec: &'static str,
    /// Form of the voice: RTP, or mini or trunk frames of IAX2.
    pub form: &'static str,
    /// Packets per second, each way.
    pub packets_per_s: [f64; 2],
}

/// Voice of one copy of a flow.
#[derive(Clone, Debug)]
pub(super) struct Voice {
    pub(super) calls: f64,
    /// Packets of speech per second there and back.
    pub(super) packets_per_s: [f64; 2],
    /// Packets of comfort noise per second and direction, and bytes that one is shorter.
    pub(super) noise: (f64, u64),
    /// Leg that it is for, of calls with signalling.
    pub(super) leg: Option<VoiceLeg>,
    /// Mix of a conference, if it is that.
    pub(super) mix: Option<Mix>,
}

impl Voice {
    /// Returns the voice of a flow of calls without signalling.
    pub(super) fn of_traffic(traffic: &Traffic) -> Option<Voice> {
        let Traffic::Voice(config) = traffic else { return None };
        let settings = config.settings().ok()?;
        let shorter = settings.payload_len().saturating_sub(settings.noise_len());
        let noise = (settings.noise_per_s(), shorter.into());
        Some(Voice { calls: 1.0, packets_per_s: [settings.packets_per_s(); 2], noise, leg: None, mix: None })
    }

    /// Returns the voice of a member of a conference, and its mix.
    pub(super) fn of_mix(mix: Mix) -> Voice {
        Voice { calls: 1.0, packets_per_s: mix.packets_per_s, noise: (0.0, 0), leg: None, mix: Some(mix) }
    }

    /// Returns the voice of a leg of calls with signalling.
    pub(super) fn of_leg(leg: &VoiceLeg) -> Voice {
        let packets_per_s = leg.ways.map(|way| way.packets_per_s);
        Voice { calls: leg.calls, packets_per_s, noise: (0.0, 0), leg: Some(leg.clone()), mix: None }
    }

    /// Returns the calls, if they have signalling.
    pub(super) fn budget(&self) -> Option<CallBudget> {
        let leg = self.leg.as_ref()?;
        Some(CallBudget {
            calls: self.calls,
            codec: leg.voice.name(),
            form: leg.ways[0].form.words(),
            packets_per_s: self.packets_per_s,
        })
    }

    /// Returns the rate of speech in bit/s there.
    pub(super) fn offered(&self) -> Option<Rate> {
        if let Some(mix) = self.mix {
            return Some(mix.offered);
        }
        let [there, _] = self.leg.as_ref()?.ways;
        Some(Rate::from_bps((8.0 * there.packets_per_s * there.speech_len).round() as u64))
    }
}

/// Returns the legs of each flow's voice.
pub(super) fn legs(scenario: &Scenario) -> Vec<Vec<VoiceLeg>> {
    let activities = Activities::new(scenario, &HashMap::new());
    let flows = scenario.flow.values().enumerate().map(|(n, flow)| {
        let traffic = match &flow.traffic {
            Traffic::Sip(config) => CallTraffic::Sip(config),
            Traffic::Iax(config) => CallTraffic::Iax(config),
            _ => return None,
        };
        // Copies that never start have no calls.
        let copies = activities.starts(n).len() as u32;
        Some(FlowCalls { traffic, ends: [&flow.from, &flow.to], copies })
    });
    let flows: Vec<Option<FlowCalls<'_>>> = flows.collect();
    let calls: Vec<FlowCalls<'_>> = flows.iter().flatten().copied().collect();
    let mut legs = load::voice_legs(&scenario.role_tables.pabx, &calls).into_iter();
    flows.iter().map(|flow| flow.and_then(|_| legs.next()).unwrap_or_default()).collect()
}

/// Times in which copies of flows have calls, by the numbers of the flows.
pub(super) struct CallTimes(HashMap<usize, Vec<(u64, [f64; 2])>>);

impl CallTimes {
    /// Finds the times.
    pub(super) fn new(scenario: &Scenario, activities: &Activities) -> CallTimes {
        let end = scenario.duration.as_secs_f64();
        let of_flow = |(n, traffic): (usize, &Traffic)| {
            let remains = remains(traffic)?.as_secs_f64();
            let of_copy = |(copy, [from, to]): (u64, [f64; 2])| {
                (copy_of_ends(scenario, n, copy), [from, (to + remains).min(end)])
            };
            Some((n, activities.of_copies(scenario, n).into_iter().map(of_copy).collect()))
        };
        let traffic = scenario.flow.values().map(|flow| &flow.traffic).enumerate();
        CallTimes(traffic.filter_map(of_flow).collect())
    }

    /// Returns those of a flow, each with the number of the copy of its ends.
    fn of(&self, flow: usize) -> &[(u64, [f64; 2])] {
        self.0.get(&flow).map_or(&[], Vec::as_slice)
    }
}

/// Returns the number, from zero, of the copy of the ends of a flow's copy.
pub(super) fn copy_of_ends(scenario: &Scenario, flow: usize, copy: u64) -> u64 {
    let flow = &scenario.flow[flow];
    let ends = [&*flow.from, &*flow.to];
    let number = |end: &str| {
        let (node, number) = end.rsplit_once('.')?;
        (copies::original(scenario, end)? == node).then(|| number.parse::<u64>().ok())?
    };
    let own = ends.into_iter().find_map(number).map(|number| number.saturating_sub(1));
    own.unwrap_or_else(|| copy % u64::from(copies_between(scenario, ends)).max(1))
}

/// Returns the time for which calls go on when a flow places no more. `None` if it has none.
fn remains(traffic: &Traffic) -> Option<Span> {
    match traffic {
        Traffic::Voice(_) | Traffic::Conference(_) => Some(Span::ZERO),
        Traffic::Sip(config) => Some(config.ring + config.hold),
        Traffic::Iax(config) => Some(config.ring + config.hold),
        _ => None,
    }
}

impl VoiceLoad {
    /// Returns the voice on a direction of a link, if there is any.
    pub(super) fn new(
        (scenario, times): (&Scenario, &CallTimes),
        media: &Media<'_>,
        users: &Users<'_>,
        (link, way): (usize, Way),
    ) -> Option<VoiceLoad> {
        let cost = media.cost(link, way);
        let between = &scenario.link[link].between;
        let copies = u64::from(copies_between(scenario, [&between[0], &between[1]]));
        let (mut has_voice, mut all) = (false, Vec::new());
        for (flow, path) in users.on(link, way) {
            for voice in path.voice_on(link, way) {
                let (len, per_s) = (voice.len as usize, voice.packets_per_s);
                let on_line = voice
                    .compressed
                    .map_or_else(|| cost.wire_len(len).get() as f64, |compressed| compressed.on_line_bytes);
                let capacity = match voice.compressed {
                    Some(_) => cost.usable().as_bps() as f64 * len as f64 / on_line.max(1.0),
                    None => cost.capacity(len).as_bps() as f64,
                };
                has_voice = true;
                let bits = 8.0 * per_s * len as f64;
                let (noises, shorter) = voice.noise;
                let noise = len.saturating_sub(shorter as usize);
                let noise_on_line = match voice.compressed {
                    Some(_) => (on_line - shorter as f64).max(0.0),
                    None => cost.wire_len(noise).get() as f64,
                };
                let noise_bits = 8.0 * noises * noise as f64;
                let load = [
                    voice.calls,
                    per_s + noises,
                    bits + noise_bits,
                    8.0 * (per_s * on_line + noises * noise_on_line),
                    bits / capacity.max(1.0) + noise_bits / at_least_one(cost.capacity(noise)),
                ];
                let up = |(end, time): &(u64, [f64; 2])| Up { group: end % copies, time: *time, load };
                all.extend(times.of(*flow).iter().map(up));
            }
        }
        let [calls, packets, bits, line_bits, share] = most_at_once(&all);
        let rate = |bps: f64| Rate::from_bps(bps.round() as u64);
        has_voice.then(|| VoiceLoad {
            calls,
            packets_per_s: packets,
            rate: rate(bits),
            on_line: rate(line_bits),
            share,
        })
    }
}
