//! Line of a channel with the least capacity left by streams.

use bentpipe_site::{Member, Way};
use bentpipe_units::{Rate, Span};

use super::{Atm, CellSource, Kind, path};

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
    pub(super) fn of(member: &Member<'_, Kind>, atm: &Atm) -> Option<Bottleneck> {
        let lines = path(atm, member.from, member.to).ok()?;
        let mut before = Span::ZERO;
        let mut found: Option<Bottleneck> = None;
        for (line, way) in lines {
            let (name, config) = atm.line.get_index(line)?;
            let (rate, streams) = (config.cell_rate(), streams(atm, line, way));
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

/// Returns the mean rate of all streams over a line in one direction.
fn streams(atm: &Atm, line: usize, way: Way) -> Rate {
    let passing = atm
        .stream
        .values()
        .filter(|stream| path(atm, &stream.from, &stream.to).is_ok_and(|lines| lines.contains(&(line, way))));
    Rate::from_bps(passing.map(|stream| mean(&stream.source)).fold(0, u64::saturating_add))
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
