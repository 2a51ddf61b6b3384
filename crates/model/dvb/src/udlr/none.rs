//! Kind of medium `none`: the direction of a one-way link in which no packets pass.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Packet, Port, Why};
use bentpipe_units::{Bytes, Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bentpipe_site::{
    Assembly, Changes, Changing, Cost, Facts, MediumKind, Member, Order, Passage, Problem, Review, Site,
    Slot, Takes, Way, Wired, line,
};

use super::metrics;

/// Direction without a carrier: the link is one-way, and packets return over other links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
#[serde(deny_unknown_fields)]
pub struct Kind {}

/// Settings that a direction without a line of its own refuses.
pub(super) const TAKES: Takes = Takes {
    queue: Some("the direction without a carrier has no queue: expected it in the other direction alone"),
    channel: Some("the direction without a carrier has no channel: expected it in the other direction alone"),
    stages: Some("the direction without a carrier has no stages: expected them in the other direction alone"),
    real_ends: None,
};

/// Reports keys of a line, and a link none of whose directions has a carrier.
pub(super) fn check<M>(all: &[Member<'_, M>], review: &mut Review<'_>) {
    for member in all {
        let place = member.place;
        for key in ["rate", "delay", "delay_changes"] {
            let problem = "the direction without a carrier has none: expected it in the other direction";
            review.ensure(!place.is_own(key), &place.own_key(key), problem);
        }
        line::refuse_framing(
            member,
            "conflicts with the medium of one direction, which has no frames",
            review,
        );
        let is_closed = all.iter().any(|other| other.link == member.link && other.way != member.way);
        let problem = "both directions are without a carrier: expected it in `forward` or `return` alone";
        review.ensure(!is_closed, &place.key("medium"), problem);
    }
}

impl MediumKind for Kind {
    type Shared = ();
    const TAKES: Takes = TAKES;

    fn check(all: &[Member<'_, Self>], (): &(), review: &mut Review<'_>) {
        check(all, review);
    }

    fn facts(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Facts>, Problem> {
        Ok(all.iter().map(|_| Facts { rate: Rate::default(), delay: Span::ZERO }).collect())
    }

    fn costs(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Box<dyn Cost>>, Problem> {
        Ok(all.iter().map(|_| Box::new(NoCost) as Box<dyn Cost>).collect())
    }

    fn assembly<'s>(_: usize, all: Vec<Member<'s, Self>>, (): &'s ()) -> Box<dyn Assembly + 's> {
        Box::new(Nothing(all))
    }

    fn change(at: &Changing<'_, Self>, _: &mut Changes) -> Result<(), Problem> {
        at.refuse(&[("medium", at.before.medium == at.after.medium, "the direction has no carrier")])
    }

    fn passage(&self, _: Way) -> Passage {
        Passage::Closed
    }
}

/// Cost where no packet passes.
pub(super) struct NoCost;

impl Cost for NoCost {
    fn rate(&self) -> Rate {
        Rate::default()
    }

    fn wire_len(&self, len: usize) -> Bytes {
        Bytes::new(len as u64)
    }
}

struct Nothing<'s>(Vec<Member<'s, Kind>>);

impl Assembly for Nothing<'_> {
    fn wire(&mut self, member: usize, site: &mut Site<'_>) -> Result<Wired, Problem> {
        let member = self.0[member];
        let order = Order::Link(member.link, member.way, Slot::Line);
        let part = site.add(order, member.path(), NoCarrier::default());
        Ok(Wired::new((part, Port(0)), Rate::default()))
    }
}

/// Direction without a carrier. It drops all packets, which no route leads there.
#[derive(Debug, Default)]
struct NoCarrier {
    dropped: u64,
}

impl Element for NoCarrier {
    fn receive(&mut self, _: Port, packet: Packet, _: &mut Cx<'_>) -> Time {
        self.dropped += 1;
        packet.lose(Why::NoRoute);
        Time::NEVER
    }

    fn wake(&mut self, _: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, _: Port, _: Port) -> bool {
        false
    }

    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::DROPPED_NO_CARRIER, self.dropped);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
