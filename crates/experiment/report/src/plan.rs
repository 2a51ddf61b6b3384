//! The picture of a burst time plan: whose slots are when.

use bentpipe_record::Burst;

use super::axis::Axis;
use super::plot::{Curve, Mark, Plot};

/// Bursts that a picture shows at most: more would be too fine to see.
const MAX_BURSTS: usize = 2000;
/// Bursts of the closer picture, so few that each is seen.
const CLOSE: usize = 150;
/// Maximum number of terminals whose rows are named; more are numbered.
const MAX_NAMED: usize = 12;
/// Letters of a name that are shown next to a row.
const NAME: usize = 28;

/// Plots the start of the plan, and of a long one its middle. Empty if nothing was ever assigned.
pub(super) fn plots(carrier: &str, bursts: &[Burst]) -> Vec<Plot> {
    let shown = &bursts[..bursts.len().min(MAX_BURSTS)];
    let mut plots: Vec<Plot> = plot(format!("Burst time plan of {carrier}"), shown).into_iter().collect();
    if shown.len() > 2 * CLOSE {
        let middle = shown.len() / 2;
        let mut closer =
            plot(format!("Burst time plan of {carrier}, closer"), &shown[middle..middle + CLOSE]);
        closer.iter_mut().for_each(|plot| plot.x.from_zero = false);
        plots.extend(closer);
    }
    plots
}

/// A row for each terminal, in a colour for each carrier.
fn plot(title: String, shown: &[Burst]) -> Option<Plot> {
    let mut terminals: Vec<&str> = shown.iter().map(|burst| &burst.terminal[..]).collect();
    terminals.sort_by_key(|name| natural(name));
    terminals.dedup();
    let mut y = Axis::new("terminal", "");
    if terminals.len() <= MAX_NAMED {
        y.words = terminals.iter().map(|name| label(name, &terminals)).collect();
    } else {
        y.label = "terminal, by number".to_owned();
    }
    let carriers = shown.iter().map(|burst| burst.carrier).max()?;
    let mut plot = Plot::new(title, Axis::time(), y);
    let [start, end] = [shown.first()?.start_s, shown.last()?.end_s];
    plot.note = format!("every slot that was assigned, {start:.1} s to {end:.1} s");
    for number in 0..=carriers {
        let of_carrier = shown.iter().filter(|burst| burst.carrier == number);
        let row =
            |burst: &Burst| terminals.iter().position(|name| *name == burst.terminal).unwrap_or(0) as f64;
        let points = of_carrier.flat_map(|burst| {
            let y = row(burst);
            [(burst.start_s, y), (burst.end_s, y), (f64::NAN, f64::NAN)]
        });
        let name = if carriers == 0 { "assigned".to_owned() } else { format!("carrier {}", number + 1) };
        plot.curves.push(Curve {
            name,
            points: points.collect(),
            mark: Mark::Rows,
            colour: number.into(),
            ..Curve::default()
        });
    }
    Some(plot)
}

/// Returns a key for natural order, which has "home.2" before "home.10".
fn natural(name: &str) -> (&str, u64, &str) {
    let digits = name.rsplit_once('.').and_then(|(base, number)| Some((base, number.parse().ok()?, "")));
    digits.unwrap_or((name, 0, name))
}

/// A name short enough for its row; the end of it where beginnings are alike.
fn label(name: &str, all: &[&str]) -> String {
    let count = name.chars().count();
    if count <= NAME {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME - 1).collect();
    let alike = all.iter().filter(|other| other.starts_with(&start)).count() > 1;
    if alike {
        format!("\u{2026}{}", name.chars().skip(count + 1 - NAME).collect::<String>())
    } else {
        start + "\u{2026}"
    }
}
