//! Table and plot of speech that was carried.

use bentpipe_record::stats::Estimate;
use bentpipe_report::{Axis, Cell, Curve, Mark, Plot, Table};

use super::{Carried, judge};

/// Returns a row for each run.
pub(super) fn table(carried: &[Carried]) -> Table {
    let is_swept = carried.iter().any(|one| !one.point.is_empty());
    let mut head = vec!["run", "codec"];
    head.extend(is_swept.then_some("setting"));
    head.extend(["seed", "sent", "lost", "late", "mouth to ear", "R", "MOS", "listening", "PESQ", "ViSQOL"]);
    let number = |value: Option<f64>, digits: usize| {
        Cell::Number(value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}")))
    };
    let row = |(n, one): (usize, &Carried)| {
        let [sent, lost, late] = one.counts;
        let mut row = vec![Cell::Number((n + 1).to_string()), Cell::Text(one.codec.clone())];
        row.extend(is_swept.then(|| Cell::Text(one.point.clone())));
        row.extend([Cell::Number(one.seed.to_string()), Cell::Number(sent.to_string())]);
        row.extend([lost, late].map(|count| Cell::Number(format!("{:.1} %", share(count, sent)))));
        row.push(Cell::Number(
            one.mouth_to_ear.map_or("-".to_owned(), |ear| format!("{:.0} ms", 1e3 * ear.as_secs_f64())),
        ));
        row.push(number(one.score.map(|score| score.r), 1));
        row.push(number(one.score.map(|score| score.mos), 2));
        row.push(number(one.score.map(|score| score.listening), 2));
        row.extend(one.judged.each_ref().map(|judged| number(judged.as_ref().ok().copied(), 2)));
        row
    };
    let caption = String::new();
    let head = head.into_iter().map(str::to_owned).collect();
    Table { caption, head, rows: carried.iter().enumerate().map(row).collect() }
}

fn share(count: u64, of: u64) -> f64 {
    100.0 * count as f64 / of.max(1) as f64
}

/// Returns the meaning of the columns, and reasons for missing scores.
pub(super) fn remarks(carried: &[Carried]) -> Vec<String> {
    let mut remarks = Vec::new();
    if carried.iter().any(|one| one.score.is_none() && one.counts[0] > one.counts[1] + one.counts[2]) {
        remarks.push(
            "no R: G.113 does not have both factors of the codec, and the scenario gives no `impairment`"
                .to_owned(),
        );
    }
    let mut reasons: Vec<&str> = carried
        .iter()
        .flat_map(|one| &one.judged)
        .filter_map(|judged| judged.as_ref().err())
        .map(String::as_str)
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    remarks.extend(reasons.into_iter().filter(|reason| !reason.is_empty()).map(str::to_owned));
    remarks
}

/// Returns scores by the E-model and by the judge over the loss, for each codec.
pub(super) fn plot(carried: &[Carried]) -> Plot {
    let x = Axis { covers: Some((0.0, 1.0)), ..Axis::new("packets lost or late (%)", "") };
    let y = Axis { covers: Some((1.0, 5.0)), from_zero: false, ..Axis::new("mean opinion score", "") };
    let mut plot = Plot::new("Speech by model and by ear-model", x, y);
    let seeds = carried.iter().map(|one| one.seed).collect::<std::collections::BTreeSet<u64>>().len();
    plot.note = format!(
        "E-model: listening, without delay. Means of n = {seeds} seeds{}.",
        if seeds > 1 { ", with 95 % confidence intervals" } else { "" }
    );
    let mut codecs: Vec<(&str, u32)> = Vec::new();
    for one in carried {
        if !codecs.contains(&(&one.codec, one.rate_hz)) {
            codecs.push((&one.codec, one.rate_hz));
        }
    }
    for (colour, (codec, rate_hz)) in codecs.into_iter().enumerate() {
        let of: Vec<&Carried> = carried.iter().filter(|one| one.codec == codec).collect();
        let scale = judge::scale(judge::is_wide(rate_hz));
        plot.curves.push(curve(format!("{codec}, E-model"), (colour, Mark::Dashed), &of, |one| {
            one.score.map(|score| score.listening)
        }));
        plot.curves.push(curve(format!("{codec}, {scale}"), (colour, Mark::Points), &of, |one| {
            one.judged[0].as_ref().ok().copied()
        }));
        plot.curves.push(curve(format!("{codec}, ViSQOL"), (colour, Mark::Dots), &of, |one| {
            one.judged[1].as_ref().ok().copied()
        }));
    }
    plot.curves.retain(|curve| !curve.points.is_empty());
    plot
}

/// Returns the means of each point's seeds over the mean loss.
fn curve(
    name: String,
    (colour, mark): (usize, Mark),
    carried: &[&Carried],
    score: impl Fn(&Carried) -> Option<f64>,
) -> Curve {
    let mut points = Vec::new();
    for runs in carried.chunk_by(|a, b| a.place == b.place) {
        let scored: Vec<(f64, f64)> = runs
            .iter()
            .filter_map(|one| Some((share(one.counts[1] + one.counts[2], one.counts[0]), score(one)?)))
            .collect();
        let (losses, scores): (Vec<f64>, Vec<f64>) = scored.into_iter().unzip();
        let (Some(loss), Some(score)) = (Estimate::of(&losses), Estimate::of(&scores)) else { continue };
        points.push((loss.mean, score.mean, score.ci95.unwrap_or(f64::NAN)));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let errors = if mark == Mark::Points { points.iter().map(|point| point.2).collect() } else { Vec::new() };
    Curve { name, colour, mark, errors, points: points.iter().map(|point| (point.0, point.1)).collect() }
}
