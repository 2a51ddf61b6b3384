//! Traffic of calls.

use std::net::SocketAddr;

use bentpipe_net::ledger::SubAccount;
use bentpipe_site::{
    Copies, Datagrams, End, FlowAt, FlowEnds, FlowGround, FlowTakes, IpVersion, PortNumbers, Problem,
    RealTraffic, Review, Sample, TrafficKind,
};
use bentpipe_transport::app::{self, Header, Pattern, SourceConfig};
use bentpipe_units::{Bytes, Rate, Time};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::rtp;

use super::agent::{Agent, Ends, Plan, Side};
use super::config::{Config, Settings};
use crate::conversation::Party;

/// Length of UDP and RTP header.
pub(crate) const HEADERS_LEN: u64 = 8 + rtp::HEADER_LEN as u64;
/// Maximum number of calls between two nodes, each with two ports.
pub(crate) const MAX_CALLS: u32 = 32_000;

impl TrafficKind for Config {
    fn dscp(&self) -> Option<u8> {
        Some(self.dscp)
    }

    /// Copies that start together are one element at each end: cheaper, and nothing else differs.
    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, copies: Copies::Together, ..FlowTakes::default() }
    }

    fn check(&self, key: &str, review: &mut Review<'_>) {
        if let Err(error) = self.settings() {
            let problem = Problem::impossible(key, &error);
            review.refuse(&problem.key, problem.problem);
        }
    }

    fn real(&self, _ip: IpVersion) -> Result<RealTraffic, &'static str> {
        Err("no program stands for this traffic; calls of traffic \"sip\" with `media` have one")
    }

    fn header_len(&self) -> u64 {
        HEADERS_LEN
    }

    fn segment_len(&self) -> Option<u64> {
        Some(u64::from(self.settings().ok()?.payload_len()) + HEADERS_LEN)
    }

    /// Returns the same as the other direction: both speak.
    fn answer_len(&self) -> u64 {
        self.segment_len().unwrap_or(HEADERS_LEN)
    }

    /// Returns the mean rate of payload in one direction, that of comfort noise too. RTCP is left out.
    fn offered(&self, _: Bytes) -> Option<Rate> {
        let settings = self.settings().ok()?;
        let speech = settings.packets_per_s() * f64::from(settings.payload_len());
        let noise = settings.noise_per_s() * f64::from(settings.noise_len());
        Some(Rate::from_bps((8.0 * (speech + noise)).round() as u64))
    }

    /// Returns speech packets alone, without pauses and RTCP.
    fn sample(&self, ip: IpVersion, copies: u16) -> Option<Sample> {
        let settings = self.settings().ok()?;
        let payload = Bytes::new(u64::from(settings.payload_len()) + rtp::HEADER_LEN as u64);
        let pattern = Pattern::Constant { interval: settings.interval() };
        let source =
            SourceConfig { header: Header::Rtp, count: copies, ..SourceConfig::new(pattern, payload) };
        app::sample(&source, ip)
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let settings = self.settings().map_err(|error| at.impossible("", &error))?;
        if at.copies > MAX_CALLS {
            return Err(Problem::new(at.key("count"), format!("expected at most {MAX_CALLS} calls")));
        }
        let numbers = PortNumbers::consecutive(2 * at.copies as u16 + 1);
        let datagrams = ground.datagrams(at, Protocol::UDP, numbers)?;
        ground.fit(at, &datagrams, (Bytes::new(settings.payload_len().into()), HEADERS_LEN), "frames")?;
        ground.nodes().send_to(at.from, at.ip);
        let [caller, called] = [datagrams.source, datagrams.destination].map(even);
        let end = |local, remote, party| Agent::new(plan(settings, at, Ends { local, remote }, party));
        let mut ends = [end(caller, called, Party::A), end(called, caller, Party::B)];
        count_apart(&mut ends, &datagrams, at.copies, ground);
        let [caller, called] = ends;
        Ok(FlowEnds {
            sender: End::of_calls(caller, datagrams.sender),
            receivers: vec![End::of_calls(called, datagrams.receivers[0])],
            judges: Vec::new(),
        })
    }
}

/// Sets an account for each call and direction at both ends.
pub(crate) fn count_apart(
    ends: &mut [Agent; 2],
    datagrams: &Datagrams,
    calls: u32,
    ground: &mut FlowGround<'_, '_>,
) {
    let [forward, back] = [0, 1].map(|_| (0..calls).map(|_| SubAccount::default()).collect::<Vec<_>>());
    let [a, b] = ends;
    a.set_accounts(ground.account_of(datagrams.sender), [forward.clone(), back.clone()]);
    b.set_accounts(ground.account_of(datagrams.receivers[0]), [back, forward]);
}

/// Returns an address with the next even port.
pub(crate) fn even(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port().next_multiple_of(2))
}

fn plan(settings: Settings, at: &FlowAt<'_>, ends: Ends, party: Party) -> Plan {
    Plan {
        settings,
        ends,
        side: Side::Party(party),
        count: at.copies,
        start: Time::ZERO + at.start,
        stop: at.stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
        conversations: (at.seed, format!("flow/{}/conversation/{}", at.name, at.start.as_nanos())),
    }
}
