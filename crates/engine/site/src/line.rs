//! Line: a queue, a serialiser at a rate, and a delay.

use std::sync::Arc;

use bentpipe_net::link::{self, DelayChange};
use bentpipe_net::{Framing, Link, Port};
use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::{aal5, llc};

pub use crate::line_keys::{DelayChanges, LineKeys as Kind};
use crate::{
    Assembly, Changes, Changing, Cost, Facts, MediumKind, Member, Order, Problem, Review, Site, Slot, Wired,
};

/// Fastest line.
pub const MAX_RATE: Rate = Rate::from_bps(100_000_000_000_000);

impl MediumKind for Kind {
    type Shared = ();

    const IS_ALONE: bool = true;

    fn check(all: &[Member<'_, Self>], (): &(), review: &mut Review<'_>) {
        all.iter().for_each(|member| check_rate(member, review));
    }

    fn mtu(&self) -> Bytes {
        match self.framing() {
            // RFC 2225.
            Framing::Aal5LlcSnap { .. } => Bytes::new(9180),
            _ => Bytes::new(1500),
        }
    }

    fn facts(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Facts>, Problem> {
        let facts = |member: &Member<'_, Self>| Facts {
            rate: member.medium.rate.unwrap_or_default(),
            delay: member.common.delay,
        };
        Ok(all.iter().map(facts).collect())
    }

    fn costs(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Box<dyn Cost>>, Problem> {
        let cost = |member: &Member<'_, Self>| -> Box<dyn Cost> {
            let Kind { rate, .. } = member.medium;
            Box::new(LineCost(rate.unwrap_or_default(), member.medium.framing()))
        };
        Ok(all.iter().map(cost).collect())
    }

    fn assembly<'s>(_: usize, all: Vec<Member<'s, Self>>, (): &'s ()) -> Box<dyn Assembly + 's> {
        Box::new(Lines { members: all })
    }

    fn cut(member: &Member<'_, Self>) -> Result<(), Problem> {
        if member.medium.delay_changes.is_none() {
            return Ok(());
        }
        let problem = "of a cut link come from a file: expected `[[event]]`s that set its delay";
        Err(Problem::new(member.place.key("delay_changes"), problem))
    }

    fn change(at: &Changing<'_, Self>, to: &mut Changes) -> Result<(), Problem> {
        let Kind { rate, framing, delay_changes } = at.after.medium;
        let before = at.before.medium;
        let expected = "expected what the scenario started with";
        at.refuse(&[
            ("framing", *framing == before.framing, expected),
            ("delay_changes", *delay_changes == before.delay_changes, expected),
        ])?;
        let line = at.handle.line;
        if *rate != before.rate {
            to.set(line, at.key("rate"), *rate, |line: &mut Link, now, rate| {
                line.set_rate(now, rate);
                Ok(())
            });
        }
        let delay = at.after.common.delay;
        if delay != at.before.common.delay {
            to.set(line, at.key("delay"), delay, |line: &mut Link, now, delay| {
                line.set_delay(now, delay);
                Ok(())
            });
        }
        if let Some(queue) = at.queue()? {
            to.set(line, at.key("queue"), queue, |line: &mut Link, now, queue| line.set_queue(now, &queue));
        }
        at.faults(to)
    }
}

fn check_rate(member: &Member<'_, Kind>, review: &mut Review<'_>) {
    let place = member.place;
    let key = if place.is_own("rate") || place.is_shared("rate") { "rate" } else { "medium.rate" };
    let Some(rate) = member.medium.rate else {
        let way = member.way.name();
        let problem =
            format!("no rate in the {way} direction: expected `rate = \"10 Mbit/s\"`, or `{way}.rate`");
        return review.refuse(place.link_key(), problem);
    };
    // A line that an event gives no rate is down until the next one.
    let is_real = rate.as_bps() > 0 || review.is_later();
    review.ensure(is_real, &place.key(key), "expected more than zero");
    review.ensure(rate <= MAX_RATE, &place.key(key), format!("faster than {MAX_RATE}"));
}

/// Reports the framing of a line that another medium was given.
pub fn refuse_framing<M>(member: &Member<'_, M>, problem: &str, review: &mut Review<'_>) {
    let stands = member.line.framing.is_some_and(|framing| framing != Framing::None);
    // Both directions have one framing: it is reported once.
    review.ensure(!stands, &format!("{}.framing", member.place.link_key()), problem);
}

struct LineCost(Rate, Framing);

impl Cost for LineCost {
    fn rate(&self) -> Rate {
        self.0
    }

    fn usable(&self) -> Rate {
        self.1.usable(self.0)
    }

    fn cells(&self, len: usize) -> Option<(u64, Bytes)> {
        let Framing::Aal5LlcSnap { .. } = self.1 else { return None };
        let len = len + llc::HEADER_LEN;
        Some((aal5::cells(len) as u64, Bytes::new(aal5::pad_len(len) as u64)))
    }

    fn wire_len(&self, len: usize) -> Bytes {
        self.1.wire_len(len)
    }
}

struct Lines<'s> {
    members: Vec<Member<'s, Kind>>,
}

impl Assembly for Lines<'_> {
    fn wire(&mut self, member: usize, site: &mut Site<'_>) -> Result<Wired, Problem> {
        let member = self.members[member];
        let (common, path) = (member.common, member.path());
        let config = link::Config {
            rate: member.medium.rate,
            delay: common.delay,
            delay_changes: Vec::new(),
            framing: member.medium.framing(),
            mtu: Some(common.mtu),
            queue: common.queue.clone().unwrap_or_default(),
        };
        let changes = delay_changes(&member, site)?;
        let line = Link::new(&config).and_then(|line| line.with_delay_changes(changes));
        let line = line.map_err(|error| match error.key {
            "rate" => Problem::impossible(member.place.link_key(), &error),
            _ => Problem::impossible(&member.place.key("queue"), &error),
        })?;
        let line = (site.add(Order::Link(member.link, member.way, Slot::Line), &path, line), Port(0));
        let channels = site.faults((member.link, member.way, &path), common, member.place, line)?;
        let output = channels.last().map_or(line, |last| (*last, Port(0)));
        let rate = member.medium.rate.unwrap_or_default();
        Ok(Wired { output, channels, ..Wired::new(line, rate) })
    }
}

/// Returns the changes of a line's delay.
fn delay_changes(member: &Member<'_, Kind>, site: &Site<'_>) -> Result<Arc<[DelayChange]>, Problem> {
    let Some(changes) = &member.medium.delay_changes else { return Ok(Arc::default()) };
    site.files()
        .delay_changes(changes, member.common.delay)
        .map_err(|(part, problem)| Problem::new(member.place.key(&format!("delay_changes.{part}")), problem))
}
