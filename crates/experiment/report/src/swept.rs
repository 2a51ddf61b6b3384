//! Putting the values of a swept key along an axis.

use bentpipe_record::PointSummary;

use super::amount;
use super::axis::{Axis, Scale};
use super::plot::{Curve, Mark, Plot};

/// Measures plotted for sweeps, in order: name suffix and title.
pub(super) const SWEPT: [(&str, &str); 26] = [
    ("goodput", "Goodput"),
    ("completion", "Completion time"),
    ("burst-completion-p50", "Median completion time of bursts"),
    ("retransmitted", "Retransmitted segments"),
    ("loss", "Loss"),
    ("voice-loss", "Loss of voice, with late packets"),
    ("mos", "Mean opinion score"),
    ("r", "Rating R"),
    ("good-ratio", "Share of good calls"),
    ("good-calls", "Good calls carried"),
    ("calls", "Calls offered"),
    ("calls-established", "Calls carried"),
    ("rtt", "Mean round-trip time"),
    ("delay-mean", "Mean one-way delay"),
    ("mouth-to-ear", "Mean mouth-to-ear delay"),
    ("post-dial-p50", "Median post-dial delay"),
    ("set-up-p50", "Median set-up time"),
    ("calls-timed-out", "Calls without a response (Timer B)"),
    ("utilisation", "Link utilisation"),
    ("queue-mean-bytes", "Mean queue"),
    ("drop-ratio", "Drop ratio"),
    ("vbr-queue-max", "Peak VBR queue"),
    ("abr-queue-max", "Peak ABR queue"),
    ("ubr-queue-max", "Peak UBR queue"),
    ("cell-loss-ratio", "Cell loss ratio"),
    ("wrong-crc", "PDUs of wrong CRC"),
];

/// Returns an axis for the values of a swept key, and their positions.
pub fn axis(label: &str, values: &[&str]) -> (Axis, Vec<f64>) {
    let numbers: Option<Vec<(f64, &str)>> = values.iter().map(|value| amount::number(value)).collect();
    let unit = numbers.as_ref().and_then(|numbers| numbers.first()).map_or("", |(_, unit)| unit);
    match numbers {
        Some(numbers) if numbers.iter().all(|(_, own)| *own == unit) => {
            (Axis::new(label, unit), numbers.into_iter().map(|(number, _)| number).collect())
        }
        _ => of_words(label, values),
    }
}

fn of_words(label: &str, values: &[&str]) -> (Axis, Vec<f64>) {
    let mut axis = Axis::new(label, "");
    let place = |value: &&str| {
        let known = axis.words.iter().position(|word| word == value);
        known.unwrap_or_else(|| {
            axis.words.push((*value).to_owned());
            axis.words.len() - 1
        }) as f64
    };
    let places = values.iter().map(place).collect();
    axis.words = shortened(axis.words);
    (axis, places)
}

/// Number of characters for which an axis has room, also of the widest.
const ROOM: usize = 44;
/// Number of characters of usual width on the length of an axis.
const LENGTH: f64 = 66.0;

/// Shortens long values to the parts in which they differ.
///
/// What is still long is cut. Values that would look the same get their number in front.
fn shortened(words: Vec<String>) -> Vec<String> {
    let longest = (ROOM / words.len().max(1)).clamp(6, 20);
    if words.iter().all(|word| word.chars().count() <= longest) {
        return words;
    }
    let words = named(&words).unwrap_or(words);
    if fit(&words) {
        return words;
    }
    let chars: Vec<Vec<char>> = words.iter().map(|word| word.chars().collect()).collect();
    let backwards: Vec<Vec<char>> = chars.iter().map(|word| word.iter().rev().copied().collect()).collect();
    let (front, back) = (common(&chars), common(&backwards));
    let cut = |word: &Vec<char>| -> String {
        let own = &word[front..(word.len() - back).max(front)];
        let own: String = own.iter().collect();
        let own = own.trim_matches(['"', ' ', ',']);
        match own.char_indices().nth(longest - 1) {
            Some((end, _)) if own.chars().count() > longest => format!("{}…", &own[..end]),
            _ => own.to_owned(),
        }
    };
    let cut: Vec<String> = chars.iter().map(cut).collect();
    let is_clear = |word: &String| !word.is_empty() && cut.iter().filter(|other| *other == word).count() == 1;
    if cut.iter().all(is_clear) {
        return cut;
    }
    cut.iter().enumerate().map(|(n, word)| format!("{}. {word}", n + 1)).collect()
}

/// Returns `true` if all are words, and neighbours leave a space between them.
fn fit(words: &[String]) -> bool {
    let lengths: Vec<usize> = words.iter().map(|word| word.chars().count()).collect();
    let distance = LENGTH / words.len().max(1) as f64;
    let is_shown = |length: &usize| (1..=LENGTH as usize / 2).contains(length);
    lengths.iter().all(is_shown)
        && lengths.windows(2).all(|pair| (pair[0] + pair[1]) as f64 / 2.0 + 1.0 <= distance)
}

/// Returns the names of values, if they differ. Tables are named by `name` or `kind`.
fn named(words: &[String]) -> Option<Vec<String>> {
    let of = |word: &String| {
        let Some(table) = word.strip_prefix('{') else { return Some(word.clone()) };
        let keys = ["name = \"", "kind = \""];
        let name = keys.iter().find_map(|key| table.split_once(key)?.1.split('"').next());
        name.map(str::to_owned)
    };
    let names: Vec<String> = words.iter().map(of).collect::<Option<_>>()?;
    let is_once = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    names.iter().all(is_once).then_some(names)
}

/// Returns the length of what all words begin with, without a part that is cut.
fn common(words: &[Vec<char>]) -> usize {
    let Some(first) = words.first() else { return 0 };
    let agrees = |n: &usize| words.iter().all(|word| word.get(*n) == first.get(*n));
    let same = (0..first.len()).take_while(agrees).count();
    let is_end = |c: &char| matches!(c, '"' | ' ' | ',' | '[' | ']' | '{' | '}' | '=');
    first[..same].iter().rposition(is_end).map_or(0, |end| end + 1)
}

/// Returns a curve of means and confidence intervals, in rising order on the axis. Points without the measure are
/// left out.
pub fn curve(name: String, colour: usize, places: &[f64], points: &[&PointSummary], measure: &str) -> Curve {
    let value = |(x, point): (&f64, &&PointSummary)| {
        let averaged = point.value(measure)?;
        Some((*x, averaged.estimate.mean, averaged.estimate.ci95.unwrap_or(f64::NAN)))
    };
    let mut found: Vec<(f64, f64, f64)> = places.iter().zip(points).filter_map(value).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    Curve {
        name,
        points: found.iter().map(|(x, y, _)| (*x, *y)).collect(),
        errors: found.iter().map(|(.., half)| *half).collect(),
        mark: Mark::Points,
        colour,
    }
}

/// Returns the plot with axes fitted to its curves. They are logarithmic for positive values over decades, and do not
/// start at zero if all values are far from it. Over words, dots replace lines.
pub fn spread(plot: Plot) -> Plot {
    let mut plot = plot.spread_x();
    if !plot.x.words.is_empty() {
        // Between categories there is nothing that a line could stand for.
        let joined = plot.curves.iter_mut().filter(|curve| curve.mark == Mark::Points);
        joined.for_each(|curve| curve.mark = Mark::Dots);
    }
    let logarithmic = plot.x.scale == Scale::Logarithmic;
    let places = || plot.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0);
    let (low, high) = (places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max));
    let from_zero = !logarithmic && plot.x.from_zero && low <= high / 2.0;
    Plot { x: Axis { from_zero, ..plot.x }, ..plot }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[&str]) -> Vec<String> {
        of_words("value", values).0.words
    }

    #[test]
    fn long_values_on_an_axis_are_what_they_differ_in() {
        let services = [
            r#"[{ service = "be", dscp = [46] }, {}]"#,
            r#"[{ service = "rt-ps", interval = "20 ms", dscp = [46] }, {}]"#,
            r#"[{ service = "ugs", interval = "10 ms", dscp = [46] }, {}]"#,
        ];
        assert_eq!(words(&services), ["be", "rt-ps\", inter…", "ugs\", interva…"]);
        let tables =
            ["cubic", r#"{ name = "hybla", pacing = "window" }"#, r#"{ name = "fixed", rate = "2 Mbit/s" }"#];
        assert_eq!(words(&tables), ["cubic", "hybla", "fixed"]);
        assert_eq!(words(&["cubic", "new reno"]), ["cubic", "new reno"]);
        // Seven of 44 characters are six each, but short neighbours leave room.
        let controllers = ["newreno", "westwood+", "hybla", "cubic", "vegas", "bbr", "fixed"];
        assert_eq!(words(&controllers), controllers);
        let long = ["newreno-1", "westwood+1", "hybla-paced", "cubic-old", "vegas", "bbr", "fixed"];
        assert_eq!(words(&long)[2], "hybla…");
        let alike = ["a value of twenty characters, and one", "a value of twenty characters, and two"];
        assert_eq!(words(&alike), ["one", "two"]);
        assert_eq!(words(&["", "twenty characters and some"]), ["1. ", "2. twenty characters a…"]);
    }
}
