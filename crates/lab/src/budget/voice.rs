//! Voice of flows, and its load on links.

use bentpipe_scenario::{Scenario, Traffic, Way};
use bentpipe_telephony::load::{self, CallTraffic, FlowCalls, VoiceLeg};
use bentpipe_units::Rate;
use serde::Serialize;

use super::medium::Media;
use super::{Users, copies_between, flows_on};

/// Voice on a direction of a link: that of `voice`, `sip` and `iax` flows.
///
/// It is that of the time in which as many calls begin as end. Signalling and RTCP are not in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VoiceLoad {
    /// Mean number of calls at a time. A call that crosses the link twice counts twice.
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
    /// Packets per second there and back.
    pub(super) packets_per_s: [f64; 2],
    /// Leg that it is for, of calls with signalling.
    pub(super) leg: Option<VoiceLeg>,
}

impl Voice {
    /// Returns the voice of a flow of calls without signalling.
    pub(super) fn of_traffic(traffic: &Traffic) -> Option<Voice> {
        let Traffic::Voice(config) = traffic else { return None };
        let packets_per_s = config.settings().ok()?.packets_per_s();
        Some(Voice { calls: 1.0, packets_per_s: [packets_per_s; 2], leg: None })
    }

    /// Returns the voice of a leg of calls with signalling.
    pub(super) fn of_leg(leg: &VoiceLeg) -> Voice {
        let packets_per_s = leg.ways.map(|way| way.packets_per_s);
        Voice { calls: leg.calls, packets_per_s, leg: Some(leg.clone()) }
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
        let [there, _] = self.leg.as_ref()?.ways;
        Some(Rate::from_bps((8.0 * there.packets_per_s * there.speech_len).round() as u64))
    }
}

/// Returns the legs of each flow's voice.
pub(super) fn legs(scenario: &Scenario) -> Vec<Vec<VoiceLeg>> {
    let flows = scenario.flow.values().map(|flow| {
        let traffic = match &flow.traffic {
            Traffic::Sip(config) => CallTraffic::Sip(config),
            Traffic::Iax(config) => CallTraffic::Iax(config),
            _ => return None,
        };
        let copies = flow.count * copies_between(scenario, [&flow.from, &flow.to]);
        Some(FlowCalls { traffic, ends: [&flow.from, &flow.to], copies })
    });
    let flows: Vec<Option<FlowCalls<'_>>> = flows.collect();
    let calls: Vec<FlowCalls<'_>> = flows.iter().flatten().copied().collect();
    let mut legs = load::voice_legs(&scenario.role_tables.pabx, &calls).into_iter();
    flows.iter().map(|flow| flow.and_then(|_| legs.next()).unwrap_or_default()).collect()
}

impl VoiceLoad {
    /// Returns the voice on a direction of a link, if there is any.
    pub(super) fn new(
        scenario: &Scenario,
        media: &Media<'_>,
        users: &Users<'_>,
        (link, way): (usize, Way),
    ) -> Option<VoiceLoad> {
        let cost = media.cost(link, way);
        let (mut has_voice, [mut calls, mut packets, mut bits, mut line_bits, mut share]) = (false, [0.0; 5]);
        for (flow, path) in users.on(link, way) {
            let copies = flows_on(scenario, &scenario.link[link], *flow) as f64;
            for voice in path.voice_on(link, way) {
                let (len, per_s) = (voice.len as usize, voice.packets_per_s * copies);
                let on_line = voice
                    .compressed
                    .map_or_else(|| cost.wire_len(len).get() as f64, |compressed| compressed.on_line_bytes);
                let capacity = match voice.compressed {
                    Some(_) => cost.usable().as_bps() as f64 * len as f64 / on_line.max(1.0),
                    None => cost.capacity(len).as_bps() as f64,
                };
                has_voice = true;
                calls += voice.calls * copies;
                packets += per_s;
                bits += 8.0 * per_s * len as f64;
                line_bits += 8.0 * per_s * on_line;
                share += 8.0 * per_s * len as f64 / capacity.max(1.0);
            }
        }
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
