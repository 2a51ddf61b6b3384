//! ATM network of a scenario: switches, lines, and streams of cells without receivers.

use std::collections::BTreeSet;

use crate::fault::Config as CellFault;
use crate::receive::Config as ReceiveBuffer;
use crate::switch::Config as AtmSwitch;
use crate::vsvd::Config as VirtualSource;
use crate::{Encapsulation, Service};
use bentpipe_mpeg::RateConfig;
use bentpipe_net::Framing;
use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_CELLS;
use bentpipe_site::{MAX_DELAY, Named, Review, SharedTable, numbered};

/// A network of ATM switches. Links that are virtual channels (`medium = { kind = "vc" }`) and streams are led through it, over the lines of least delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Atm {
    /// Switches.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub switch: Named<AtmSwitch>,
    /// Virtual sources and destinations (VS/VD): nodes between two lines that end ABR's loops. New loops
    /// begin there.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub vs_vd: Named<VirtualSource>,
    /// ATM lines between switches, or between a node and a switch. A VS/VD node may take the place of either.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub line: Named<AtmLine>,
    /// Cells from one node to another that carry no packets: other traffic, such as video.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub stream: Named<AtmStream>,
}

impl Atm {
    /// Returns `true` if cells pass what has this name; they pass no node.
    pub fn passes(&self, name: &str) -> bool {
        self.switch.contains_key(name) || self.vs_vd.contains_key(name)
    }

    /// Returns the network without the faults of its lines.
    pub(super) fn without_channels(&self) -> Atm {
        let mut rest = self.clone();
        rest.line.values_mut().for_each(|line| line.channel = None);
        rest
    }
}

/// A line of cells, the same in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtmLine {
    /// Ends of the line: two switches, or a node and a switch. A node of `vs_vd` may be one of them.
    #[schemars(length(min = 2, max = 2))]
    pub between: [String; 2],
    /// Line rate.
    pub rate: Rate,
    /// Enables an SDH or SONET rate, of which cells get 260 of 270 columns. That is 149.76 of 155.52 Mbit/s.
    /// Otherwise the rate is the cells'.
    #[serde(default)]
    pub sdh: bool,
    /// Enables DS-3 with the PLCP, which carries 12 cells in 125 us (ITU-T G.804). That is 40.704 of 44.736 Mbit/s.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plcp: bool,
    /// Propagation delay, one way.
    #[serde(default)]
    pub delay: Span,
    /// Faults of cells in both directions: loss, bit errors, misinsertion, delay variation. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub channel: Option<CellChannel>,
}

/// Faults of cells: a single one, or several in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CellChannel {
    /// Single fault.
    One(CellFault),
    /// Several, in the order that cells meet them.
    Several(Vec<CellFault>),
}

impl CellChannel {
    /// Returns the faults in the order that cells meet them.
    pub fn faults(&self) -> &[CellFault] {
        match self {
            CellChannel::One(fault) => std::slice::from_ref(fault),
            CellChannel::Several(faults) => faults,
        }
    }
}

/// Rate of a DS-3 line in bit/s.
const DS3_BPS: u128 = 44_736_000;
/// Rate of cells in its PLCP in bit/s: 12 of 53 bytes in 125 us.
const PLCP_BPS: u128 = 12 * 53 * 8 * 8000;

impl AtmLine {
    /// Returns the rate that cells get.
    pub fn cell_rate(&self) -> Rate {
        if self.plcp {
            let cells = u128::from(self.rate.as_bps()) * PLCP_BPS / DS3_BPS;
            return Rate::from_bps(cells as u64);
        }
        Framing::Aal5LlcSnap { sdh: self.sdh }.usable(self.rate)
    }
}

/// Virtual channel: what it is given, in each of its directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Kind {
    /// Name of a point-to-multipoint channel for packets to groups. Default: a channel between both nodes.
    ///
    /// It leads from the first node of `between` to the second. All links from a node with the same name are leaves of one channel, and have its `service`, `encapsulation` and `limit`. Each cell is sent once on a line, and copied by switches where paths part. Leaves do not send, so that `service` is not ABR, and other links lead back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multicast: Option<String>,
    /// The service category. Unspecified bit rate if it is not said.
    pub service: Service,
    /// Encapsulation in AAL5.
    pub encapsulation: Encapsulation,
    /// Maximum number of waiting cells at each end; packets beyond are dropped. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Receive rate of the host at each end, with the size of its buffer. Default: no limit of the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub receive: Option<ReceiveBuffer>,
}

/// Cells on a channel of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtmStream {
    /// The node that sends.
    pub from: String,
    /// The node that receives, or a list of several.
    ///
    /// A list is a point-to-multipoint channel, whose cells switches copy.
    pub to: Receivers,
    /// The service category: not ABR. Variable bit rate if it is not said.
    #[serde(default = "variable")]
    pub service: Service,
    /// Source of the cells.
    pub source: CellSource,
}

/// Receivers of a stream of cells. The name of a node with copies stands for all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Receivers {
    /// Single node.
    One(String),
    /// Leaves of a point-to-multipoint channel.
    Several(#[schemars(length(min = 1))] Vec<String>),
}

impl Receivers {
    /// Returns the names of the receiving nodes.
    pub fn names(&self) -> &[String] {
        match self {
            Receivers::One(name) => std::slice::from_ref(name),
            Receivers::Several(names) => names,
        }
    }

    /// Replaces nodes with copies by the copies.
    fn spread(&mut self, count: &dyn Fn(&str) -> u32) {
        if self.names().iter().all(|name| count(name) == 1) {
            return;
        }
        let copies = |name: &String| match count(name) {
            1 => vec![name.clone()],
            several => (0..several).map(|n| numbered(name, n)).collect(),
        };
        *self = Receivers::Several(self.names().iter().flat_map(copies).collect());
    }
}

fn variable() -> Service {
    Service::Vbr { pcr: None }
}

/// The rate of a stream of cells, their headers included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CellSource {
    /// Always the same.
    Constant {
        /// The rate.
        rate: Rate,
    },
    /// A rate and silence in turn.
    OnOff {
        /// The rate while it is on.
        rate: Rate,
        /// Duration of each burst.
        on: Span,
        /// Duration of the silence after each burst.
        off: Span,
    },
    /// MPEG-2 transport streams (ATM Forum 97-0177), each sending by itself.
    Video(RateConfig),
}

impl CellSource {
    /// Returns the rates of a video source.
    pub fn video(&self) -> Option<RateConfig> {
        match self {
            CellSource::Video(config) => Some(*config),
            CellSource::Constant { .. } | CellSource::OnOff { .. } => None,
        }
    }
}

/// Maximum simulated time with cells. Their merge order reaches 52 days with 4096 channels.
const MAX_DURATION: Span = Span::from_secs(50 * 86_400);

impl SharedTable for Atm {
    /// Lines end at nodes and switches, streams at nodes.
    fn check(&self, review: &mut Review<'_>) {
        let ends = self.line.is_empty() || review.duration() <= MAX_DURATION;
        review.ensure(ends, "duration", format!("longer than {MAX_DURATION}, the most with cells"));
        self.check_names(review);
        self.line.iter().for_each(|(name, line)| self.check_line(name, line, review));
        for (name, stream) in &self.stream {
            review.ensure_node(&format!("atm.stream.{name}.from"), &stream.from);
            check_receivers(name, stream, review);
        }
    }

    fn spread(&mut self, count: &dyn Fn(&str) -> u32) {
        let copied = |name: &str, n: u32| if count(name) > 1 { numbered(name, n) } else { name.to_owned() };
        self.stream.values_mut().for_each(|stream| stream.to.spread(count));
        let lines = std::mem::take(&mut self.line);
        for (name, line) in lines {
            match line.between.iter().map(|end| count(end)).max().unwrap_or(1) {
                1 => drop(self.line.insert(name, line)),
                several => self.line.extend((0..several).map(|n| {
                    let between = line.between.each_ref().map(|end| copied(end, n));
                    (numbered(&name, n), AtmLine { between, ..line.clone() })
                })),
            }
        }
    }

    fn bound(&mut self, notices: &mut Vec<String>) {
        for (name, switch) in &mut self.switch {
            let limit = &mut switch.limit;
            let all = [&mut limit.cbr, &mut limit.vbr, &mut limit.abr, &mut limit.ubr];
            let unlimited = all.into_iter().filter(|limit| limit.is_none());
            if unlimited.map(|limit| *limit = Some(MAX_CELLS)).count() > 0 {
                notices
                    .push(format!("switch \"{name}\": queues without a limit get one of {MAX_CELLS} cells"));
            }
        }
        for (name, vs_vd) in &mut self.vs_vd {
            vs_vd.limit.get_or_insert_with(|| {
                notices
                    .push(format!("vs_vd \"{name}\": queues without a limit get one of {MAX_CELLS} cells"));
                MAX_CELLS
            });
        }
        for line in self.line.values_mut() {
            line.channel.get_or_insert(CellChannel::One(CellFault::CellLoss { ratio: 0.0 }));
        }
    }
}

fn check_receivers(name: &str, stream: &AtmStream, review: &mut Review<'_>) {
    let (key, names) = (format!("atm.stream.{name}.to"), stream.to.names());
    review.ensure(!names.is_empty(), &key, "no node: expected one or more");
    let mut seen = BTreeSet::new();
    for (n, to) in names.iter().enumerate() {
        let key = match &stream.to {
            Receivers::One(_) => key.clone(),
            Receivers::Several(_) => format!("{key}.{n}"),
        };
        review.ensure_node(&key, to);
        review.ensure(stream.from != *to, &key, "the node that it comes from");
        review.ensure(seen.insert(to), &key, "named before: expected each node once");
    }
}

impl Atm {
    fn check_names(&self, review: &mut Review<'_>) {
        for name in self.switch.keys().filter(|name| review.is_node(name)).cloned().collect::<Vec<_>>() {
            review.refuse(
                &format!("atm.switch.{name}"),
                "a node has this name too: a line could not distinguish them",
            );
        }
        let taken = |name: &&String| review.is_node(name) || self.switch.contains_key(*name);
        for name in self.vs_vd.keys().filter(taken).cloned().collect::<Vec<_>>() {
            review.refuse(
                &format!("atm.vs_vd.{name}"),
                "a node or switch has this name too: a line could not distinguish them",
            );
        }
    }

    fn check_line(&self, name: &str, line: &AtmLine, review: &mut Review<'_>) {
        let key = format!("atm.line.{name}");
        for (n, end) in line.between.iter().enumerate() {
            if !review.is_node(end) && !self.passes(end) {
                let passed = self.switch.keys().chain(self.vs_vd.keys()).map(String::as_str);
                let known: Vec<&str> = review.nodes().chain(passed).collect();
                review.refuse_name(&known, "node or switch", &format!("{key}.between.{n}"), end);
            }
        }
        let differ = line.between[0] != line.between[1];
        review.ensure(differ, &format!("{key}.between"), "both ends are one: expected two");
        review.ensure(line.rate.as_bps() > 0, &format!("{key}.rate"), "expected more than zero");
        review.ensure(
            !(line.sdh && line.plcp),
            &format!("{key}.plcp"),
            "conflicts with `sdh`: expected one mapping of cells",
        );
        review.ensure(line.delay <= MAX_DELAY, &format!("{key}.delay"), format!("longer than {MAX_DELAY}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_get_what_mappings_leave() {
        let line = |rate, sdh, plcp| AtmLine {
            between: ["a".to_owned(), "b".to_owned()],
            rate: Rate::from_bps(rate),
            sdh,
            plcp,
            delay: Span::ZERO,
            channel: None,
        };
        assert_eq!(line(44_736_000, false, false).cell_rate().as_bps(), 44_736_000);
        assert_eq!(line(44_736_000, false, true).cell_rate().as_bps(), 96_000 * 53 * 8, "96,000 cells/s");
        assert_eq!(line(155_520_000, true, false).cell_rate().as_bps(), 149_760_000);
    }
}
