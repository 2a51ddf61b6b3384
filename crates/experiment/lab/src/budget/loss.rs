//! Packets that channels lose, by means, and times without reception.

use std::collections::{BTreeMap, BTreeSet};

use bentpipe_net::channel::pieces::Stage;
use bentpipe_net::channel::{Config, Outage};
use bentpipe_scenario::{Access, Link, Medium, Scenario, Side, Way, files};
use bentpipe_site::Channel;
use bentpipe_units::Span;

use super::medium::Media;
use super::moments;

/// The most outages of a channel that are looked at, repetitions counted.
const MOST_OUTAGES: usize = 20_000;

/// Stages that leave each packet one.
const STAGES_OF_PACKETS: [&str; 2] = ["shaper", "quick_start"];

/// Channel of a direction from a time on.
struct Held {
    from: Span,
    faults: Vec<Config>,
    /// Times without reception in order, and the time after which they repeat.
    outages: Vec<(Vec<Outage>, Option<Span>)>,
}

/// Losses of all channels over the run.
#[derive(Default)]
pub(super) struct Losses {
    of: BTreeMap<(usize, Way), Vec<Held>>,
    /// Directions whose losses are not known before the run, with the reason.
    pub(super) unknown: BTreeMap<(usize, Way), &'static str>,
    /// Directions whose outages are in a file that could not be read here.
    unread: BTreeSet<(usize, Way)>,
}

impl Losses {
    pub(super) fn new(scenario: &Scenario, media: &Media<'_>, access: Option<&Access>) -> Losses {
        let mut losses = Losses::default();
        for at in (0..scenario.link.len()).flat_map(|link| Way::BOTH.map(|way| (link, way))) {
            losses.enter(at, Span::ZERO, media.side(at.0, at.1), access);
        }
        for moment in moments(scenario) {
            for (name, link) in &moment.difference.link {
                // Copies that get settings of their own later are not among the links of the file.
                let Some(number) = scenario.link.get_index_of(name) else { continue };
                if !has_channel(link) && !Way::BOTH.iter().any(|way| losses.of.contains_key(&(number, *way)))
                {
                    continue;
                }
                for way in Way::BOTH {
                    losses.enter((number, way), moment.at, &link.side(name, way), access);
                }
            }
        }
        losses
    }

    /// Enters the channel that a direction has from a time on.
    fn enter(&mut self, at: (usize, Way), from: Span, side: &Side, access: Option<&Access>) {
        let faults = side.common.channel.as_ref().map_or(&[][..], Channel::faults);
        let before = self.of.get(&at).and_then(|all| all.last()).map_or(&[][..], |held| &held.faults);
        if faults == before {
            return;
        }
        let mut outages = Vec::new();
        for fault in faults {
            let Config::Outages { outages: own, contacts, every } = fault else { continue };
            let read = |contacts| access.and_then(|access| files::outages(contacts, access).ok());
            match contacts.as_ref().map_or_else(|| Some(own.clone()), read) {
                Some(times) => outages.push((times, *every)),
                None => drop(self.unread.insert(at)),
            }
        }
        self.unknown.extend(unknown(side, faults).map(|reason| (at, reason)));
        self.of.entry(at).or_default().push(Held { from, faults: faults.to_vec(), outages });
    }

    /// Returns the part of packets of `len` bytes that a direction loses at a time.
    ///
    /// Outages are apart. It is zero if that is not known.
    pub(super) fn part(&self, at: (usize, Way), time: Span, len: u64) -> f64 {
        if self.unknown.contains_key(&at) {
            return 0.0;
        }
        let pass: f64 = self
            .at(at, time)
            .iter()
            .filter_map(|fault| fault.mean_loss(len as usize))
            .map(|loss| 1.0 - loss)
            .product();
        1.0 - pass
    }

    /// Returns the faults that packets of `len` bytes meet on a direction at a time.
    ///
    /// Packets come in succession. Outages are apart. Copies alone if losses are not known.
    pub(super) fn stages(&self, at: (usize, Way), time: Span, len: u64) -> impl Iterator<Item = Stage> {
        let is_unknown = self.unknown.contains_key(&at);
        let stages = self.at(at, time).iter().filter_map(move |fault| fault.stage(len as usize));
        stages.filter(move |stage| !is_unknown || matches!(stage, Stage::Copies(_)))
    }

    /// Returns the mean number of packets that leave a channel for one that passes.
    pub(super) fn copies(&self, at: (usize, Way), time: Span) -> f64 {
        self.at(at, time).iter().map(Config::mean_copies).product()
    }

    /// Returns `true` if a direction receives nothing at a time.
    pub(super) fn is_out(&self, at: (usize, Way), time: Span) -> bool {
        let out = |(outages, every): &(Vec<Outage>, Option<Span>)| {
            let every = every.map_or(u64::MAX, Span::as_nanos).max(1);
            let time = Span::from_nanos(time.as_nanos() % every);
            let begun = outages.partition_point(|outage| outage.at <= time);
            begun > 0 && time < outages[begun - 1].at + outages[begun - 1].lasts
        };
        self.held(at, time).is_some_and(|held| held.outages.iter().any(out))
    }

    /// Returns the faults of a direction at a time.
    pub(super) fn at(&self, at: (usize, Way), time: Span) -> &[Config] {
        self.held(at, time).map_or(&[], |held| &held.faults)
    }

    /// Returns the faults of a direction over the run, in their order.
    pub(super) fn all(&self, at: (usize, Way)) -> impl Iterator<Item = &Config> {
        self.of.get(&at).into_iter().flatten().flat_map(|held| &held.faults)
    }

    /// Returns the times at which losses change or outages begin and end.
    pub(super) fn cuts(&self, duration: Span) -> BTreeSet<Span> {
        let of = |held: &Held| {
            let times = held.outages.iter().flat_map(|(outages, every)| edges(outages, *every, duration));
            std::iter::once(held.from).chain(times).collect::<Vec<_>>()
        };
        self.of.values().flatten().flat_map(of).collect()
    }

    /// Returns a note on what is not known of a direction.
    pub(super) fn note(&self, at: (usize, Way)) -> Option<String> {
        let unread = self
            .unread
            .contains(&at)
            .then(|| "its outages are in a file that is not read here: figures are without them".to_owned());
        unread.or_else(|| Some(format!("losses of its channel are not forecast: {}", self.unknown.get(&at)?)))
    }

    /// Returns the number of changes of faults up to a time.
    pub(super) fn epoch(&self, time: Span) -> usize {
        self.of.values().map(|all| all.partition_point(|held| held.from <= time)).sum()
    }

    /// Returns `true` if no channel has a fault in the run.
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    fn held(&self, at: (usize, Way), time: Span) -> Option<&Held> {
        let all = self.of.get(&at)?;
        all[..all.partition_point(|held| held.from <= time)].last()
    }
}

/// Returns `true` if a direction of a link has a channel.
fn has_channel(link: &Link) -> bool {
    [&link.channel, &link.forward.channel, &link.reverse.channel].into_iter().any(Option::is_some)
}

/// Returns the reason why losses of a direction are not known.
fn unknown(side: &Side, faults: &[Config]) -> Option<&'static str> {
    let is_lossy = |fault: &Config| fault.mean_loss(1000) != Some(0.0);
    if !faults.iter().any(is_lossy) {
        return None;
    }
    if !matches!(side.medium, Medium::Line(_)) {
        return Some("its frames are not packets, or are sent again");
    }
    if side
        .stages
        .by_row()
        .iter()
        .any(|(row, stage)| stage.is_some() && !STAGES_OF_PACKETS.contains(&row.key))
    {
        return Some("a stage in front of the line makes other packets");
    }
    let is_run = faults.iter().any(|fault| fault.mean_loss(1000).is_none());
    is_run.then_some("they follow a trace, a signal or a decoder near or below its threshold")
}

/// Returns starts and ends of outages up to the end of the run.
fn edges(outages: &[Outage], every: Option<Span>, duration: Span) -> impl Iterator<Item = Span> {
    let repeated = every.map_or(1, |every| duration.as_nanos() / every.as_nanos().max(1) + 1);
    let most = MOST_OUTAGES / outages.len().max(1);
    let once = |n: u64| {
        let shift = every.unwrap_or_default() * n;
        outages.iter().flat_map(move |outage| {
            let at = shift + outage.at;
            [at, at + outage.lasts]
        })
    };
    (0..repeated.min(most.max(1) as u64))
        .flat_map(once)
        .filter(move |at| *at < duration)
        .collect::<Vec<_>>()
        .into_iter()
}
