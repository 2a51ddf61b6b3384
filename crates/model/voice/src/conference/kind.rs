//! Role of a bridge, and traffic of its members.

use bentpipe_net::Element;
use bentpipe_site::{
    Copies, End, FlowAt, FlowEnds, FlowGround, FlowTakes, Ground, IpVersion, PortNumbers, Problem, Review,
    RoleAt, RoleKind, Sample, TrafficKind,
};
use bentpipe_units::{Bytes, Time};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::rtp;

use super::config::{Legs, Role};
use super::mixer::Mixer;
use crate::call::{Agent, Ends, HEADERS_LEN, MAX_CALLS, Plan, Side, Waits, count_apart, even};

/// Word of the role.
const ROLE: &str = "conference";
/// Longest list of contributing sources in bytes.
const SOURCES_LEN: u64 = 4 * rtp::MAX_CSRCS as u64;

impl RoleKind for Role {
    type Shared = ();

    fn check(&self, _: &RoleAt<'_>, (): &(), _: &mut Review<'_>) {}

    fn plan(&self, (): &(), _: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem> {
        Ok(Box::new(Mixer::new(self.clone())))
    }
}

impl TrafficKind for Legs {
    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, copies: Copies::Together, ..FlowTakes::default() }
    }

    fn check(&self, key: &str, review: &mut Review<'_>) {
        self.0.check(key, review);
        let is_free = self.0.echo_loudness.is_none();
        review.ensure(
            is_free,
            &format!("{key}.echo_loudness"),
            "echo is not modelled in conferences: expected none",
        );
    }

    fn header_len(&self) -> u64 {
        self.0.header_len()
    }

    fn segment_len(&self) -> Option<u64> {
        self.0.segment_len()
    }

    fn answer_len(&self) -> u64 {
        self.0.answer_len()
    }

    fn sample(&self, ip: IpVersion, copies: u16) -> Option<Sample> {
        self.0.sample(ip, copies)
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let settings = self.0.settings().map_err(|error| at.impossible("", &error))?;
        if at.copies > MAX_CALLS {
            return Err(Problem::new(at.key("count"), format!("expected at most {MAX_CALLS} members")));
        }
        let bridge = ground.client(at, at.from, ROLE)?;
        let conversation = format!("node/{}/{ROLE}", ground.name(at.from));
        let numbers = PortNumbers::consecutive(2 * at.copies as u16 + 1);
        let datagrams = ground.datagrams(at, Protocol::UDP, numbers)?;
        let longest = (Bytes::new(settings.payload_len().into()), HEADERS_LEN + SOURCES_LEN);
        ground.fit(at, &datagrams, longest, "frames")?;
        ground.nodes().send_to(at.from, at.ip);
        let [own, members] = [datagrams.source, datagrams.destination].map(even);
        let end = |local, remote, side| {
            Agent::new(Plan {
                settings,
                ends: Ends { local, remote },
                side,
                count: at.copies,
                start: Time::ZERO + at.start,
                stop: at.stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
                conversations: (at.seed, conversation.clone()),
            })
        };
        let waits = Waits::default();
        let end = |local, remote, side| {
            let mut end = end(local, remote, side);
            // Members send without a wait.
            end.share_waits(waits.clone());
            end
        };
        let side = Side::Members { first: at.peers.before, all: at.peers.all };
        let mut ends = [end(own, members, Side::Bridge), end(members, own, side)];
        count_apart(&mut ends, &datagrams, at.copies, ground);
        let [own, members] = ends;
        Ok(FlowEnds {
            sender: End::of_calls(own, datagrams.sender).joined(bridge),
            receivers: vec![End::of_calls(members, datagrams.receivers[0])],
            judges: Vec::new(),
        })
    }
}
