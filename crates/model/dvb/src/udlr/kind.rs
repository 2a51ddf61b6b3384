//! Kind of medium `udlr`: tunnelled return of a unidirectional link.

use std::net::Ipv4Addr;

use bentpipe_net::Port;
use bentpipe_units::{Rate, Span};
use bentpipe_wire::dtcp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bentpipe_site::{
    Assembly, Changes, Changing, Cost, Facts, MediumKind, Member, Order, Passage, Problem, Review, Site,
    Slot, Takes, TunnelEnds, TunnelService, Way, Wired,
};

use super::none::{self, NoCost};
use super::{Ends, Feed, TunnelEnd};

/// Return of a unidirectional link in a tunnel over other links (RFC 3077).
///
/// Packets go as Ethernet frames in GRE to the feed, which announces the tunnel by HELLOs on the link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// IPv4 address of the feed to which tunnelled packets go (FBIP). Default: 198.18.0.1 for the first link, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed_address: Option<Ipv4Addr>,
    /// Interval of HELLOs, in whole seconds. Default: "5 s".
    #[serde(default = "interval")]
    pub hello_interval: Span,
    /// Number of intervals without HELLO after which the receiver forgets the tunnel. Default: 3.
    #[serde(default = "intervals")]
    #[schemars(range(min = 1, max = 255))]
    pub hello_intervals: u8,
    /// Processing time of a packet at each end of the tunnel. Default: "10 us".
    #[serde(default = "processing")]
    pub processing: Span,
}

const fn interval() -> Span {
    Span::from_secs(5)
}

const fn intervals() -> u8 {
    3
}

const fn processing() -> Span {
    Span::from_micros(10)
}

/// Longest processing time.
const MAX_PROCESSING: Span = Span::from_secs(10);

impl Kind {
    /// Returns the interval of HELLOs in seconds, if it is possible.
    fn interval_s(&self) -> Option<u8> {
        let seconds = self.hello_interval.as_nanos() / 1_000_000_000;
        let is_whole = Span::from_secs(seconds) == self.hello_interval && seconds > 0;
        u8::try_from(seconds).ok().filter(|_| is_whole)
    }
}

impl MediumKind for Kind {
    type Shared = ();
    const TAKES: Takes = Takes {
        real_ends: Some("a real host has no end of a tunnel: expected a router between it and the link"),
        ..none::TAKES
    };

    fn check(all: &[Member<'_, Self>], (): &(), review: &mut Review<'_>) {
        none::check(all, review);
        for member in all {
            let (place, kind) = (member.place, member.medium);
            let is_possible = kind.interval_s().is_some();
            review.ensure(
                is_possible,
                &place.key("medium.hello_interval"),
                "expected 1 to 255 whole seconds",
            );
            review.ensure(
                kind.hello_intervals > 0,
                &place.key("medium.hello_intervals"),
                "expected 1 to 255 intervals, got 0",
            );
            review.ensure(
                !kind.processing.is_zero() && kind.processing <= MAX_PROCESSING,
                &place.key("medium.processing"),
                format!("expected above zero, up to {MAX_PROCESSING}"),
            );
            let is_twin = |other: &&Member<'_, Kind>| {
                other.link != member.link && (other.from, other.to) == (member.from, member.to)
            };
            let problem = "another link has a tunnel between the same nodes: expected one";
            review.ensure(!all.iter().any(|other| is_twin(&other)), &place.key("medium"), problem);
        }
        for (n, member) in all.iter().enumerate() {
            let Some(address) = member.medium.feed_address else { continue };
            let key = member.place.key("medium.feed_address");
            let usable = !address.is_multicast() && !address.is_unspecified() && !address.is_broadcast();
            review.ensure(usable, &key, format!("{address} is not a host address"));
            let is_other = |other: &Member<'_, Kind>| {
                other.medium.feed_address == Some(address) && other.to != member.to
            };
            review.ensure(
                !all[..n].iter().any(is_other),
                &key,
                format!("{address} is another feed's: expected an address of each feed"),
            );
        }
    }

    fn facts(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Facts>, Problem> {
        Ok(all.iter().map(|_| Facts { rate: Rate::default(), delay: Span::ZERO }).collect())
    }

    fn costs(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Box<dyn Cost>>, Problem> {
        Ok(all.iter().map(|_| Box::new(NoCost) as Box<dyn Cost>).collect())
    }

    fn assembly<'s>(_: usize, all: Vec<Member<'s, Self>>, (): &'s ()) -> Box<dyn Assembly + 's> {
        Box::new(Tunnels { ends: vec![None; all.len()], all })
    }

    fn change(at: &Changing<'_, Self>, _: &mut Changes) -> Result<(), Problem> {
        let why = "both ends of the tunnel go by it";
        at.refuse(&[("medium", at.before.medium == at.after.medium, why)])
    }

    fn passage(&self, _: Way) -> Passage {
        Passage::Tunnelled
    }

    fn service(&self) -> Option<TunnelService> {
        Some(TunnelService { end: self.feed_address, group: dtcp::GROUP_V4, port: dtcp::PORT })
    }
}

struct Tunnels<'s> {
    all: Vec<Member<'s, Kind>>,
    ends: Vec<Option<Ends>>,
}

impl Assembly for Tunnels<'_> {
    fn tunnel(&mut self, member: usize, TunnelEnds { from, to, end }: TunnelEnds) {
        self.ends[member] = Some(Ends { receiver: from, feed: to, tunnel: end });
    }

    fn wire(&mut self, number: usize, site: &mut Site<'_>) -> Result<Wired, Problem> {
        let (member, path) = (self.all[number], self.all[number].path());
        let none = |key: &str| Problem::new(member.place.key(key), "the tunnel has no ends");
        let ends = self.ends[number].ok_or_else(|| none("medium"))?;
        let interval_s = member.medium.interval_s().ok_or_else(|| none("medium.hello_interval"))?;
        let Kind { hello_intervals, processing, .. } = *member.medium;
        let order = |slot| Order::Link(member.link, member.way, slot);
        let near = TunnelEnd::new(ends, hello_intervals, processing);
        let near = site.add(order(Slot::Line), &path, near);
        let far = Feed::new(ends, interval_s, processing);
        let far = site.add(order(Slot::Receiver), format!("{path}/feed"), far);
        let wired = Wired::new((near, Port(0)), Rate::default());
        Ok(Wired { output: (far, Port(0)), receiver: Some(far), ..wired })
    }
}
