//! Plots of what jobs left: of one, or of several overlaid on common axes.

use std::path::PathBuf;

use bentpipe_report::{Curve, Mark, Plot, number, run_plots};
use maud::{Markup, html};

use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::store::jobs::Artifact;
use crate::url::encoded;

/// Most bytes of series that a page draws.
pub(crate) const MAX_SERIES: i64 = 8 << 20;
/// Most jobs whose plots are overlaid, and most curves of a plot.
pub(crate) const MAX_OVERLAID: usize = 8;
const MAX_CURVES: usize = 16;
/// Most rows of a plot's table.
const MAX_ROWS: usize = 40;
/// File of a run's series.
const SERIES: &str = "series.parquet";

/// Run whose series are drawn: the first one of a job.
#[derive(Serialize, Deserialize)]
pub(crate) struct Source {
    job: i64,
    pub(crate) folder: PathBuf,
    /// Size of the series in bytes.
    pub(crate) bytes: i64,
}

impl Source {
    /// Returns the first run with series among the results of a job.
    pub(crate) fn new(app: &App, (job, results): (i64, &str), files: &[Artifact]) -> Option<Source> {
        let is_series =
            |path: &str| path.strip_suffix(SERIES).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        let file = files.iter().find(|file| is_series(&file.path))?;
        let folder = app.results(job, &format!("{results}/{}", file.path.strip_suffix(SERIES)?)).ok()?;
        Some(Source { job, folder, bytes: file.bytes })
    }
}

/// Returns the plots of runs. Those of the same quantity are one, so that all have its axes.
fn overlaid(sources: &[Source]) -> Vec<Plot> {
    let mut all: Vec<Plot> = Vec::new();
    for source in sources {
        for plot in run_plots(&source.folder).unwrap_or_default() {
            let is_same = |known: &&mut Plot| known.title == plot.title && known.y.unit == plot.y.unit;
            let place = match all.iter_mut().find(is_same) {
                Some(known) => known,
                None => {
                    all.push(Plot { curves: Vec::new(), ..plot.clone() });
                    let Some(last) = all.last_mut() else { continue };
                    last
                }
            };
            let first = place.curves.iter().map(|curve| curve.colour + 1).max().unwrap_or(0);
            for mut curve in plot.curves {
                if sources.len() > 1 {
                    curve.name = format!("#{} {}", source.job, curve.name);
                    curve.colour += first;
                }
                place.curves.push(curve);
            }
        }
    }
    for plot in &mut all {
        let count = plot.curves.len();
        plot.curves.truncate(MAX_CURVES);
        if count > MAX_CURVES {
            plot.note = format!("The first {MAX_CURVES} of {count} curves.");
        }
    }
    all
}

/// Part of the time that all plots of a page show, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) from_s: Option<f64>,
    pub(crate) until_s: Option<f64>,
}

impl Window {
    /// Reads the window of a query. Numbers that make none are ignored.
    pub(crate) fn of(query: &[(String, String)]) -> Window {
        let number = |wanted: &str| {
            let (_, text) = query.iter().find(|(name, _)| name == wanted)?;
            text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
        };
        let window = Window { from_s: number("from"), until_s: number("until") };
        let is_empty = |until_s| until_s <= window.from_s.unwrap_or(0.0);
        if window.until_s.is_some_and(is_empty) { Window::default() } else { window }
    }

    fn has(&self, at_s: f64) -> bool {
        self.from_s.is_none_or(|from_s| at_s >= from_s) && self.until_s.is_none_or(|until_s| at_s <= until_s)
    }
}

/// Returns plots with the same axis of time.
///
/// It is that of the window, or of the longest run.
fn linked(plots: Vec<Plot>, window: Window) -> Vec<Plot> {
    let end_s = plots.iter().flat_map(times).fold(0.0, f64::max);
    let covers = (window.from_s.unwrap_or(0.0), window.until_s.unwrap_or(end_s));
    let shown = |mut plot: Plot| {
        for curve in &mut plot.curves {
            let is_kept: Vec<bool> = curve.points.iter().map(|(at_s, _)| window.has(*at_s)).collect();
            if curve.errors.len() == curve.points.len() {
                let mut kept = is_kept.iter();
                curve.errors.retain(|_| kept.next() == Some(&true));
            }
            curve.points.retain(|(at_s, _)| window.has(*at_s));
        }
        plot.x.covers = Some(covers);
        plot.x.from_zero = covers.0 == 0.0;
        plot
    };
    plots.into_iter().map(shown).filter(|plot| !plot.is_empty()).collect()
}

fn times(plot: &Plot) -> impl Iterator<Item = f64> {
    plot.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).filter(|at_s| at_s.is_finite())
}

/// Returns the plots of runs as a part of a page.
///
/// Without any it is empty.
pub(crate) fn drawn_in(sources: &[Source], window: Window) -> String {
    let plots = linked(overlaid(sources), window);
    if plots.is_empty() { String::new() } else { drawn(&plots).into_string() }
}

/// Returns plots as pictures, with what they show in words and as tables.
fn drawn(plots: &[Plot]) -> Markup {
    let words = |plot: &Plot| {
        let names: Vec<&str> = named(plot).map(|curve| &curve.name[..]).collect();
        format!("{}: {}", plot.title, names.join(", "))
    };
    html! {
        div.pictures {
            @for plot in plots {
                @let svg = plot.to_picture();
                figure.plot {
                    img.picture alt=(words(plot)) data-x=[axis(&svg)] src={ "data:image/svg+xml," (encoded(&svg)) };
                    (table(plot))
                }
            }
        }
    }
}

/// Returns left, right, first and last time of the axis in a drawing.
fn axis(svg: &str) -> Option<&str> {
    svg.split_once(" data-x=\"")?.1.split_once('"').map(|(axis, _)| axis)
}

fn named(plot: &Plot) -> impl Iterator<Item = &Curve> {
    plot.curves
        .iter()
        .filter(|curve| !matches!(curve.mark, Mark::Instants | Mark::Band) && !curve.name.is_empty())
}

/// Returns a plot as a table of evenly spaced instants.
///
/// At each it has the latest value of each curve.
fn table(plot: &Plot) -> Markup {
    let curves: Vec<&Curve> = named(plot).collect();
    let (first_s, last_s) = plot.x.covers.unwrap_or((0.0, times(plot).fold(0.0, f64::max)));
    let step_s = (last_s - first_s) / (MAX_ROWS - 1) as f64;
    let instants = (0..MAX_ROWS).map(|n| first_s + step_s * n as f64);
    let value = |curve: &Curve, at_s: f64| {
        let past = curve.points.iter().take_while(|point| point.0 <= at_s + 1e-9);
        past.last().map_or(f64::NAN, |point| point.1)
    };
    let title = |curve: &Curve| match &plot.y.unit[..] {
        "" | "count" => curve.name.clone(),
        unit => format!("{} ({unit})", curve.name),
    };
    html! {
        details {
            summary { "Table: " (plot.title) }
            div.scroll tabindex="0" role="region" aria-label={ "Table: " (plot.title) } { table {
                thead { tr { th.num scope="col" { "Time (s)" } @for curve in &curves { th.num scope="col" { (title(curve)) } } } }
                tbody { @for at_s in instants { tr {
                    td.num { (number(at_s)) }
                    @for curve in &curves { td.num { (number(value(curve, at_s))) } }
                } } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_report::Axis;

    use super::*;

    fn plot(title: &str, end: u32) -> Plot {
        let points = (0..=end).map(|n| (f64::from(n), f64::from(n * n))).collect();
        let curve = Curve { name: "flow.f".to_owned(), points, ..Curve::default() };
        Plot { curves: vec![curve], ..Plot::new(title, Axis::time(), Axis::new("window", "B")) }
    }

    #[test]
    fn plots_of_a_page_have_one_axis_of_time() {
        let all = linked(vec![plot("Windows", 10), plot("Queues", 30)], Window::default());
        let places: Vec<String> =
            all.iter().map(|plot| axis(&plot.to_svg()).expect("an axis").to_owned()).collect();
        assert!(places.iter().all(|place| place.ends_with(" 0 30 0")), "{places:?}");
        let query = |from: &str, until: &str| {
            [("from", from), ("until", until)].map(|(name, text)| (name.to_owned(), text.to_owned()))
        };
        let window = Window::of(&query("2.5", "7"));
        let all = linked(vec![plot("Windows", 10), plot("Queues", 30)], window);
        let points = &all[0].curves[0].points;
        assert_eq!((points.first(), points.last()), (Some(&(3.0, 9.0)), Some(&(7.0, 49.0))));
        assert!(axis(&all[1].to_svg()).is_some_and(|place| place.ends_with(" 2.5 7 0")));
        // Nothing of the short run is after its end.
        assert_eq!(
            linked(vec![plot("Windows", 10), plot("Queues", 30)], Window::of(&query("20", ""))).len(),
            1
        );
        for (from, until) in [("x", "-1"), ("5", "5"), ("NaN", "inf")] {
            let window = Window::of(&query(from, until));
            assert!(
                window == Window::default() || (window.from_s, window.until_s) == (Some(5.0), None),
                "{window:?}"
            );
        }
    }

    #[test]
    fn a_plot_is_a_table_too() {
        let page = drawn(&linked(vec![plot("Windows", 39)], Window::default())).into_string();
        assert!(page.contains("flow.f (B)") && page.contains("Table: Windows"));
        assert_eq!(page.matches("<tr>").count(), MAX_ROWS + 1);
        assert!(page.contains("<td class=\"num\">1521</td>"), "{page}");
    }
}
