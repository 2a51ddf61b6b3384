//! Line of a channel with the least capacity left by streams.

use std::collections::{BTreeMap, BTreeSet};

use bentpipe_site::Way;
use bentpipe_units::{Rate, Span};

use super::paths::Graph;
use super::{Atm, CellSource};

/// Line that limits channels of ABR and UBR.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bottleneck {
    line: String,
    /// Rate of cells, mean rate of streams in this direction, and the rest.
    rate: Rate,
    streams: Rate,
    pub(super) left: Rate,
    /// Feedback delay: from the line to the source and back.
    feedback: Span,
}

impl Bottleneck {
    /// Finds the line with the least capacity left, the first of several. `None` without a path.
    pub(super) fn of(lines: &[(usize, Way)], atm: &Atm, streams: &Streams) -> Option<Bottleneck> {
        let mut before = Span::ZERO;
        let mut found: Option<Bottleneck> = None;
        for &(line, way) in lines {
            let (name, config) = atm.line.get_index(line)?;
            let (rate, streams) = (config.cell_rate(), streams.on(line, way));
            let left = Rate::from_bps(rate.as_bps().saturating_sub(streams.as_bps()));
            if found.as_ref().is_none_or(|least| left < least.left) {
                let line = name.clone();
                found = Some(Bottleneck { line, rate, streams, left, feedback: before + before });
            }
            before += config.delay;
        }
        found
    }

    /// Returns the lines of a budget.
    pub(super) fn notes(&self, is_abr: bool) -> Vec<String> {
        let Bottleneck { line, rate, streams, left, feedback } = self;
        let mut notes = Vec::new();
        if streams.as_bps() > 0 {
            notes.push(format!(
                "line \"{line}\": {rate} less {streams} of streams on average leaves {left} of cells"
            ));
        }
        if is_abr {
            notes.push(format!("feedback delay of line \"{line}\": {feedback}"));
        }
        notes
    }
}

/// Mean rate of all streams over each line and direction.
pub(super) struct Streams(BTreeMap<(usize, Way), u64>);

impl Streams {
    /// Adds up the streams of a network. Each counts once on a line, with one receiver or many.
    pub(super) fn new(atm: &Atm, graph: &Graph<'_>) -> Streams {
        let mut all = BTreeMap::new();
        for stream in atm.stream.values() {
            let lines: BTreeSet<(usize, Way)> = match stream.to.names() {
                [to] => graph.path(&stream.from, to).into_iter().flatten().collect(),
                several => {
                    let tree = graph.tree(&stream.from);
                    several.iter().flat_map(|to| tree.path(to).unwrap_or_default()).collect()
                }
            };
            for at in lines {
                let sum: &mut u64 = all.entry(at).or_default();
                *sum = sum.saturating_add(mean(&stream.source));
            }
        }
        Streams(all)
    }

    /// Returns the mean rate of all streams on a line.
    pub(super) fn on(&self, line: usize, way: Way) -> Rate {
        Rate::from_bps(self.0.get(&(line, way)).copied().unwrap_or_default())
    }
}

/// Returns the mean rate of a source in bits per second.
fn mean(source: &CellSource) -> u64 {
    match source {
        CellSource::Constant { rate } => rate.as_bps(),
        CellSource::OnOff { rate, on, off } => {
            let (on, all) = (on.as_nanos(), (*on + *off).as_nanos().max(1));
            (u128::from(rate.as_bps()) * u128::from(on) / u128::from(all)) as u64
        }
        CellSource::Video(config) => (config.bounded().mean * f64::from(config.programmes)) as u64,
    }
}
