//! A study's results as a page.

use super::study::{Curves, Draw, Figure, Shown, Study};
use super::{Comparison, StudyRuns, Verdict};
use crate::record::Series;
use crate::report::{Axis, Block, Cell, Curve, Mark, Page, Picture, Plot, Scale, Table, number, swept};
use crate::units;

/// The page: what was published and what we got, the figures, the scenarios.
pub fn study_page(
    study: &Study,
    comparisons: &[Comparison],
    runs: &StudyRuns,
    facts: Vec<(String, String)>,
) -> Page {
    let mut blocks = vec![Block::Table(table(comparisons))];
    blocks.extend(study.tables.iter().map(|table| Block::Table(table.table(runs))));
    let plots: Vec<Plot> = study.figures.iter().filter_map(|figure| plot(figure, runs)).collect();
    if !plots.is_empty() {
        blocks.push(Block::Heading("Figures".into()));
        blocks.push(Block::Plots(plots));
    }
    blocks.extend(study.pictures.iter().filter_map(|picture| shown(picture, runs)).map(Block::Picture));
    blocks.push(Block::Heading("How".into()));
    blocks.extend(paragraphs(&study.description));
    blocks.push(Block::Verbatim(format!("bentpipe reproduce {}", study.name)));
    blocks.extend(runs.0.iter().map(|(name, run)| {
        let text = std::fs::read_to_string(run.folder.path().join("scenario.original.toml"));
        Block::Folded(
            format!("Scenario \u{201c}{name}\u{201d}"),
            vec![Block::Verbatim(text.unwrap_or_default())],
        )
    }));
    Page { title: study.title.clone(), lead: study.source.clone(), facts, blocks }
}

/// A picture that a run left, if it did.
fn shown(picture: &Shown, runs: &StudyRuns) -> Option<Picture> {
    let png = std::fs::read(runs.0.get(&picture.run)?.folder.path().join(&picture.file)).ok()?;
    Some(Picture { title: picture.title.clone(), note: picture.note.clone(), png })
}

fn paragraphs(text: &str) -> Vec<Block> {
    let of_lines = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = text.split("\n\n").map(of_lines).filter(|part| !part.is_empty());
    parts.map(Block::Paragraph).collect()
}

fn table(comparisons: &[Comparison]) -> Table {
    let head = ["", "What", "Published", "Ours", "Deviation", "Verdict", "Kind", "Source"];
    Table {
        caption: "Published and ours".into(),
        head: head.map(String::from).to_vec(),
        rows: comparisons.iter().map(row).collect(),
    }
}

fn row(comparison: &Comparison) -> Vec<Cell> {
    let row = &comparison.row;
    let verdict = comparison.verdict.to_string();
    let notes = [("", &row.note), ("known deviation: ", &row.missed)];
    let notes = notes.iter().filter(|(_, note)| !note.is_empty());
    let note: String = notes.map(|(what, note)| format!(" ({what}{note})")).collect();
    vec![
        Cell::Text(row.id.clone()),
        Cell::Text(format!("{}{note}", row.what)),
        Cell::Number(comparison.published_text()),
        Cell::Number(comparison.ours_text()),
        Cell::Number(comparison.deviation_text()),
        match comparison.verdict {
            Verdict::Met => Cell::Good(verdict),
            Verdict::Missed => Cell::Bad(verdict),
            Verdict::NotJudged => Cell::Text(verdict),
        },
        Cell::Text(row.kind.to_string()),
        Cell::Text(row.source.clone()),
    ]
}

impl Comparison {
    /// The published value with its unit.
    pub fn published_text(&self) -> String {
        with_unit(&self.row.expected.to_string(), &self.row.unit)
    }

    /// Ours with its unit and confidence interval, or why there is none.
    pub fn ours_text(&self) -> String {
        match &self.ours {
            Err(why) => why.clone(),
            Ok((ours, ci95)) => {
                let half = ci95.map(|half| format!(" \u{b1} {}", number(half))).unwrap_or_default();
                with_unit(&format!("{}{half}", number(*ours)), &self.row.unit)
            }
        }
    }

    /// By how much ours is off, in per cent; empty where that makes no sense.
    pub fn deviation_text(&self) -> String {
        let deviation = self.ours.as_ref().ok().and_then(|(ours, _)| self.row.expected.deviation(*ours));
        deviation.map(|share| format!("{:+.1} %", share * 100.0)).unwrap_or_default()
    }
}

fn with_unit(text: &str, unit: &str) -> String {
    // A bare number is a ratio already.
    if unit.is_empty() || unit == "ratio" { text.to_owned() } else { format!("{text} {unit}") }
}

/// The figure; none if nothing of it can be drawn.
fn plot(figure: &Figure, runs: &StudyRuns) -> Option<Plot> {
    let is_coded = figure.curve.iter().any(|curve| curve.code.is_some());
    let plot = match &figure.x {
        _ if is_coded => coded_plot(figure, runs),
        Some(key) => swept_plot(figure, key, runs),
        None => timed_plot(figure, runs),
    };
    Some(plot).filter(|plot| !plot.is_empty())
}

/// Points that functions compute, and published ones beside them.
fn coded_plot(figure: &Figure, runs: &StudyRuns) -> Plot {
    let unit = figure.curve.first().map_or("", |curve| &curve.unit);
    let mut plot = Plot::new(&figure.title, Axis::new(&figure.x_label, ""), Axis::new(&figure.y_label, unit));
    plot.note.clone_from(&figure.note);
    plot.x.words.clone_from(&figure.x_words);
    for (colour, curve) in figure.curve.iter().enumerate() {
        let (points, mark) = match &curve.code {
            Some(code) => (runs.computed_curve(code).unwrap_or_default(), curve.mark.unwrap_or(Mark::Points)),
            None => (published_points(curve).0, Mark::Dots),
        };
        plot.curves.push(Curve { name: curve.name.clone(), points, mark, colour, ..Curve::default() });
    }
    swept::spread(plot)
}

fn swept_plot(figure: &Figure, key: &str, runs: &StudyRuns) -> Plot {
    let label = if figure.x_label.is_empty() { key } else { &figure.x_label };
    let (mut x, mut y) = (Axis::new(label, ""), Axis::new(&figure.y_label, ""));
    let mut curves = Vec::new();
    for (colour, curve) in figure.curve.iter().enumerate() {
        let Some(run) = &curve.run else {
            let (points, unit) = published_points(curve);
            y.unit = unit.to_owned();
            let (name, mark) = (curve.name.clone(), Mark::Dots);
            curves.push(Curve { name, points, mark, colour, ..Curve::default() });
            continue;
        };
        let points = runs.points(run, &curve.at).unwrap_or_default();
        let values: Vec<&str> =
            points.iter().filter_map(|point| point.settings.get(key)).map(String::as_str).collect();
        let (axis, places) = swept::axis(label, &values);
        let unit =
            points.iter().find_map(|point| point.value(&curve.measure)).map(|value| value.unit.clone());
        (x, y.unit) = (axis, unit.unwrap_or_default());
        curves.push(swept::curve(curve.name.clone(), colour, &places, &points, &curve.measure));
    }
    swept::spread(Plot { title: figure.title.clone(), note: figure.note.clone(), x, y, curves })
}

/// Points read from the publication, in base units, and the base unit of y.
fn published_points(curve: &Curves) -> (Vec<(f64, f64)>, &'static str) {
    let base = ["bit/s", "B", "s"].into_iter().find(|base| curve.unit.ends_with(base)).unwrap_or("");
    let factor = units::factor(base, &curve.unit).unwrap_or(1.0);
    let place = |(x, y): &(String, f64)| Some((units::number(x)?.0, y * factor));
    (curve.points.iter().filter_map(place).collect(), base)
}

fn timed_plot(figure: &Figure, runs: &StudyRuns) -> Plot {
    let mut y = Axis::new(&figure.y_label, "");
    let mut curves = Vec::new();
    let mut missing = String::new();
    for (colour, curve) in figure.curve.iter().enumerate() {
        let Some((unit, mut series)) = over_time(curve, figure.since.as_deref(), runs) else {
            missing += &format!(" Missing: {}, as nothing is called {}.", curve.name, curve.measure);
            continue;
        };
        y.unit = unit.to_owned();
        for points in &mut series {
            points.retain(|(t, _)| figure.until.is_none_or(|until| *t <= until));
        }
        let is_limit = curve.name.contains("ssthresh");
        for (n, points) in drawn(curve.draw, series).into_iter().enumerate() {
            let name = if n == 0 { curve.name.clone() } else { String::new() };
            let dashed = is_limit || (curve.draw == Draw::Median && n > 0);
            let mark = if dashed { Mark::Dashed } else { Mark::Line };
            curves.push(Curve { name, points, mark, colour, ..Curve::default() });
        }
    }
    if figure.logarithmic {
        y.scale = Scale::Logarithmic;
    }
    let note = format!("{}{missing}", figure.note);
    Plot { title: figure.title.clone(), note, x: Axis::time(), y, curves }
}

/// Values over time.
type Points = Vec<(f64, f64)>;

/// The curves that are drawn of several series: the one that is named first.
fn drawn(draw: Draw, series: Vec<Points>) -> Vec<Points> {
    if draw != Draw::Median {
        return series;
    }
    let most = series.iter().max_by_key(|points| points.len()).cloned().unwrap_or_default();
    let mut bands = vec![Points::new(); 3];
    for (n, (time, _)) in most.into_iter().enumerate() {
        let values = series.iter().filter_map(|points| points.get(n)).map(|(_, value)| *value);
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first(), values.last()) else { continue };
        let levels = [values[values.len() / 2], *least, *most];
        bands.iter_mut().zip(levels).for_each(|(band, level)| band.push((time, level)));
    }
    bands
}

/// A column of the first seed's series of each point that is to be drawn, and its unit. Time counts from the start of the
/// flow `since`.
fn over_time(curve: &Curves, since: Option<&str>, runs: &StudyRuns) -> Option<(&'static str, Vec<Points>)> {
    let run = runs.0.get(curve.run.as_ref()?)?;
    let chosen = runs.points(curve.run.as_ref()?, &curve.at).ok()?;
    let count = if curve.draw == Draw::First { 1 } else { chosen.len() };
    let (mut unit, mut all) = (None, Vec::new());
    for chosen in chosen.into_iter().take(count) {
        let number = run.summary.points.iter().position(|point| std::ptr::eq(point, chosen))?;
        let point = run.plan.points.get(number)?;
        let series: Series = run.folder.series(point, *point.seeds.first()?).ok()?;
        let column = series.columns.iter().find(|c| format!("{}.{}", c.element, c.name) == curve.measure)?;
        unit = Some(column.unit.symbol());
        let start = since.and_then(|flow| point.scenario.flow.get(flow));
        let start = start.map_or(0.0, |flow| flow.start.as_secs_f64());
        let times = series.seconds().into_iter().map(|time| time - start);
        all.push(times.zip(column.data.to_f64()).filter(|(time, _)| *time >= 0.0).collect());
    }
    Some((unit?, all))
}
