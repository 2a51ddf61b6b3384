//! Report page of a study.

use bentpipe_report::amount;
use bentpipe_report::{Axis, Block, Cell, Curve, Format, Mark, Page, Picture, Plot, Scale, Table, swept};
use bentpipe_scenario::current_key;
use bentpipe_scenario::metrics::current;

use crate::comparison::{Comparison, by_origin, summary};
use crate::expected::Verdict;
use crate::runs::{Points, StudyRuns};
use crate::study::{Curves, Draw, EmbeddedImage, Figure, Instant, Study};
use crate::table::rendered;

/// Returns the page: published and simulated values, figures, description and scenarios.
pub fn study_page(
    study: &Study,
    comparisons: &[Comparison],
    runs: &StudyRuns,
    facts: Vec<(String, String)>,
) -> Page {
    let mut blocks: Vec<Block> = summary(comparisons).into_iter().map(Block::Paragraph).collect();
    let (published, own) = by_origin(comparisons);
    blocks.push(Block::Table(table("Published and simulated values", "Published", &published)));
    blocks.push(Block::Table(table("Checks of this study, not published", "Expected", &own)));
    blocks.extend(study.tables.iter().map(|table| Block::Table(rendered(table, runs))));
    let plots: Vec<Plot> = study.figures.iter().filter_map(|figure| plot(figure, runs)).collect();
    if !plots.is_empty() {
        blocks.push(Block::Heading("Figures".into()));
        blocks.push(Block::Plots(plots));
    }
    blocks.extend(study.images.iter().filter_map(|image| picture(image, runs)).map(Block::Picture));
    blocks.push(Block::Heading("How".into()));
    blocks.extend(paragraphs(&study.description));
    blocks.push(Block::Verbatim(format!("bentpipe reproduce {}", study.name)));
    blocks.extend(runs.iter().map(|(name, run)| {
        let text = std::fs::read_to_string(run.folder.path().join("scenario.original.toml"));
        Block::Folded(
            format!("Scenario \u{201c}{name}\u{201d}"),
            vec![Block::Verbatim(text.unwrap_or_default())],
        )
    }));
    Page { title: study.title.clone(), lead: study.source.clone(), facts, blocks }
}

/// Returns an image that a run left in its folder, if it did.
fn picture(image: &EmbeddedImage, runs: &StudyRuns) -> Option<Picture> {
    let file = std::fs::read(runs.run(&image.run).ok()?.folder.path().join(&image.file)).ok()?;
    let (title, note) = (image.title.clone(), image.note.clone());
    Some(Picture { title, note, format: Format::Png, file })
}

fn paragraphs(text: &str) -> Vec<Block> {
    let of_lines = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = text.split("\n\n").map(of_lines).filter(|part| !part.is_empty());
    parts.map(Block::Paragraph).collect()
}

fn table(caption: &str, expected: &str, comparisons: &[&Comparison]) -> Table {
    let head = ["", "What", expected, "Simulated", "Deviation", "Verdict", "Kind", "Source"];
    Table {
        caption: caption.into(),
        head: head.map(String::from).to_vec(),
        rows: comparisons.iter().map(|comparison| row(comparison)).collect(),
    }
}

fn row(comparison: &Comparison) -> Vec<Cell> {
    let row = &comparison.row;
    let verdict = comparison.verdict.to_string();
    let band = comparison.band_text();
    let notes = [
        ("", &row.note),
        ("chosen: ", &row.fitted),
        ("tolerance: ", &row.basis),
        ("agrees: ", &band),
        ("known deviation: ", &row.missed),
    ];
    let notes = notes.iter().filter(|(_, note)| !note.is_empty());
    let note: String = notes.map(|(what, note)| format!(" ({what}{note})")).collect();
    vec![
        Cell::Text(row.id.clone()),
        Cell::Text(format!("{}{note}", row.what)),
        Cell::Number(comparison.expected_text()),
        Cell::Number(comparison.simulated_text()),
        Cell::Number(comparison.deviation_text()),
        match comparison.verdict {
            Verdict::Met => Cell::Good(verdict),
            Verdict::Missed => Cell::Bad(verdict),
            Verdict::Undecided | Verdict::NotJudged => Cell::Text(verdict),
        },
        Cell::Text(row.kind.to_string()),
        Cell::Text(row.source.clone()),
    ]
}

/// Returns a figure, if it has anything to draw.
fn plot(figure: &Figure, runs: &StudyRuns) -> Option<Plot> {
    let is_coded = figure.curve.iter().any(|curve| curve.code.is_some());
    let plot = match &figure.x {
        Some(key) => swept_plot(figure, &current_key(key), runs),
        None if is_coded => coded_plot(figure, runs),
        None => timed_plot(figure, runs),
    };
    Some(plot).filter(|plot| !plot.is_empty())
}

/// Draws computed points and published ones.
fn coded_plot(figure: &Figure, runs: &StudyRuns) -> Plot {
    let unit = figure.curve.first().map_or("", |curve| &curve.unit);
    let mut plot = Plot::new(&figure.title, Axis::new(&figure.x_label, ""), Axis::new(&figure.y_label, unit));
    plot.note.clone_from(&figure.note);
    plot.x.words.clone_from(&figure.x_words);
    (plot.x.from_zero, plot.y.from_zero) = (figure.from.is_none(), figure.from_zero);
    for (colour, curve) in figure.curve.iter().enumerate() {
        let (mut points, mark) = free_points(curve, runs, &mut Axis::new("", ""));
        points.retain(|(x, _)| figure.shows(*x));
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
            let (points, mark) = free_points(curve, runs, &mut y);
            curves.push(Curve { name: curve.name.clone(), points, mark, colour, ..Curve::default() });
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

/// Returns the points of a computed or published curve, and their mark. Published points set the unit of the axis.
fn free_points(curve: &Curves, runs: &StudyRuns, y: &mut Axis) -> (Points, Mark) {
    match &curve.code {
        Some(code) => (runs.curve(code).unwrap_or_default(), curve.mark.unwrap_or(Mark::Points)),
        None => {
            let (points, unit) = published_points(curve);
            y.unit = unit.to_owned();
            (points, Mark::Dots)
        }
    }
}

/// Returns published points in base units, and the base unit of y.
fn published_points(curve: &Curves) -> (Vec<(f64, f64)>, &'static str) {
    let base = ["bit/s", "B", "s"].into_iter().find(|base| curve.unit.ends_with(base)).unwrap_or("");
    let factor = amount::factor(base, &curve.unit).unwrap_or(1.0);
    let place = |(x, y): &(String, f64)| Some((amount::number(x)?.0, y * factor));
    (curve.points.iter().filter_map(place).collect(), base)
}

fn timed_plot(figure: &Figure, runs: &StudyRuns) -> Plot {
    let mut y = Axis::new(&figure.y_label, "");
    let mut curves = Vec::new();
    let mut missing = String::new();
    for (colour, curve) in figure.curve.iter().enumerate() {
        let Some((unit, mut series)) = over_time(curve, figure.since.as_deref(), runs) else {
            missing += &format!(" Missing: {} (series {}).", curve.name, curve.measure);
            continue;
        };
        y.unit = unit.to_owned();
        for points in &mut series {
            points.retain(|(t, _)| figure.shows(*t));
        }
        let is_limit = curve.name.contains("ssthresh");
        for (n, points) in drawn(curve.draw, series).into_iter().enumerate() {
            let name = if n == 0 { curve.name.clone() } else { String::new() };
            let dashed = is_limit || (curve.draw == Draw::Median && n > 0);
            let mark = if dashed { Mark::Dashed } else { Mark::Line };
            curves.push(Curve { name, points, mark, colour, ..Curve::default() });
        }
    }
    curves.extend(instants(figure, &curves));
    y.from_zero = figure.from_zero;
    if figure.logarithmic {
        y.scale = Scale::Logarithmic;
    }
    let note = format!("{}{missing}", figure.note);
    let x = Axis { from_zero: figure.from.is_none(), ..Axis::time() };
    Plot { title: figure.title.clone(), note, x, y, curves }
}

/// Returns upright lines at the published instants, as high as the curves are.
fn instants(figure: &Figure, curves: &[Curve]) -> Vec<Curve> {
    let values =
        || curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).filter(|y| y.is_finite());
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let upright = |(n, instant): (usize, &Instant)| Curve {
        name: instant.name.clone(),
        points: vec![(instant.at, low), (instant.at, high)],
        mark: Mark::Dashed,
        colour: figure.curve.len() + n,
        ..Curve::default()
    };
    figure.instant.iter().enumerate().filter(|_| low <= high).map(upright).collect()
}

/// Returns the curves to draw for several series, the named one first.
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

/// Returns a column of the first seed of each selected point, and its unit. Time counts from the start of flow `since`.
fn over_time(curve: &Curves, since: Option<&str>, runs: &StudyRuns) -> Option<(&'static str, Vec<Points>)> {
    let name = curve.run.as_ref()?;
    let run = runs.run(name).ok()?;
    let chosen = runs.points(name, &curve.at).ok()?;
    let count = if curve.draw == Draw::First { 1 } else { chosen.len() };
    let (mut unit, mut all) = (None, Vec::new());
    for chosen in chosen.into_iter().take(count) {
        let point = run.point(chosen).ok()?;
        let series = run.series(point).ok()?;
        let column = series.column_of(&current(&curve.measure))?;
        unit = Some(column.unit().symbol());
        let start = since.and_then(|flow| point.scenario.flow.get(flow));
        let start = start.map_or(0.0, |flow| flow.start.as_secs_f64());
        let times = series.seconds().into_iter().map(|time| time - start);
        all.push(times.zip(column.data.to_f64()).filter(|(time, _)| *time >= 0.0).collect());
    }
    Some((unit?, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(text: &str) -> Figure {
        toml::from_str(&format!("title = \"t\"\ncurve = []\n{text}")).expect("a figure")
    }

    #[test]
    fn published_instants_are_as_high_as_the_curves() {
        let figure = figure("instant = [{ name = \"published\", at = 27.0 }]");
        let curve = |points: &[(f64, f64)]| Curve { points: points.to_vec(), ..Curve::default() };
        let curves = [curve(&[(0.0, 3.0), (1.0, f64::NAN)]), curve(&[(0.0, 1.0), (2.0, 9.0)])];
        let lines = instants(&figure, &curves);
        assert_eq!(lines[0].points, [(27.0, 1.0), (27.0, 9.0)]);
        assert_eq!((lines[0].name.as_str(), lines[0].mark), ("published", Mark::Dashed));
        assert_eq!(instants(&figure, &[]), []);
    }

    #[test]
    fn a_cut_out_shows_its_part_of_the_axis() {
        let (whole, part) = (figure(""), figure("from = 2.0\nuntil = 3.0"));
        assert_eq!([1.0, 2.0, 3.0, 4.0].map(|x| whole.shows(x)), [true; 4]);
        assert_eq!([1.0, 2.0, 3.0, 4.0].map(|x| part.shows(x)), [false, true, true, false]);
        assert!(whole.from_zero);
    }
}
