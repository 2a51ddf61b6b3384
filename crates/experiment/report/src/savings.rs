//! Table and plots of the savings of header compression and aggregation.

use bentpipe_record::{Averaged, Cell, PointSummary, Subject, Table, group_of, subject_and_metric};
use indexmap::IndexMap;

use super::axis::Axis;
use super::numbers::quantity;
use super::page::Block;
use super::plot::{Curve, Mark, Plot};
use super::swept::spread;

/// Measures of a link's load, the best first, with their names.
const LOADS: [(&str, &str); 4] = [
    ("utilisation", "utilisation"),
    ("medium-utilisation", "utilisation of the medium"),
    ("uplink-use", "symbols of the uplink in use"),
    ("rate", "rate of IP packets"),
];

/// Measures of a call and their titles; the first one has a plot.
const CALLS: [(&str, &str); 5] = [
    ("r", "R"),
    ("mos", "MOS"),
    ("mouth-to-ear", "mouth to ear"),
    ("voice-loss", "loss, with late packets"),
    ("loss", "loss"),
];

/// Savings on a link.
#[derive(Clone, Copy, Debug)]
pub struct Savings<'a> {
    /// Points with the settings "calls" and "means".
    pub points: &'a [PointSummary],
    /// Link of the means.
    pub link: &'a str,
    /// Subjects of measures with its load.
    pub subjects: &'a [String],
    /// Flows of voice.
    pub flows: &'a [String],
}

impl Savings<'_> {
    /// Returns a row for each number of calls and means.
    pub fn table(&self) -> Table {
        let load = self.load();
        let calls: Vec<&(&str, &str)> = CALLS
            .iter()
            .filter(|(measure, _)| self.points.iter().any(|point| self.of_calls(point, measure).is_some()))
            .collect();
        let head =
            ["calls", "means"].into_iter().chain(load.map(|(_, name)| name)).chain(load.map(|_| "saved"));
        let head = head.chain(calls.iter().map(|(_, title)| *title)).map(str::to_owned).collect();
        let row = |point: &PointSummary| {
            let own = load.and_then(|(measure, _)| self.of_link(point, measure));
            let base = load.and_then(|(measure, _)| self.of_link(self.neither(point)?, measure));
            let saved =
                own.as_ref().zip(base).map(|(own, base)| 1.0 - own.estimate.mean / base.estimate.mean);
            let mut row =
                vec![number(setting(point, "calls")), Cell::Text(setting(point, "means").to_owned())];
            if load.is_some() {
                row.push(shown(own));
                row.push(number(&saved.map_or(String::new(), |saved| quantity(saved, None, "ratio"))));
            }
            row.extend(calls.iter().map(|(measure, _)| shown(self.of_calls(point, measure))));
            row
        };
        let caption = format!("Link \"{}\". Load is that of the direction with most of it.", self.link);
        Table { caption, head, rows: self.points.iter().map(row).collect() }
    }

    /// Returns the load and the rating against calls, a curve for each means.
    pub fn plots(&self) -> Vec<Plot> {
        let load = self.load().and_then(|(measure, name)| {
            self.plot(&format!("Load of link \"{}\"", self.link), name, &|point| self.of_link(point, measure))
        });
        let rated = CALLS.iter().find_map(|(measure, title)| {
            self.plot(&format!("{title} of calls"), title, &|point| self.of_calls(point, measure))
        });
        load.into_iter().chain(rated).collect()
    }

    /// Returns table and plots for a page.
    pub fn blocks(&self) -> Vec<Block> {
        vec![Block::Heading("Savings".into()), Block::Plots(self.plots()), Block::Table(self.table())]
    }

    fn plot(
        &self,
        title: &str,
        label: &str,
        value: &dyn Fn(&PointSummary) -> Option<Averaged>,
    ) -> Option<Plot> {
        let mut curves: IndexMap<&str, Curve> = IndexMap::new();
        let mut unit = String::new();
        for point in self.points {
            let Some(averaged) = value(point) else { continue };
            let colour = curves.len();
            let curve = curves.entry(setting(point, "means")).or_insert_with(|| Curve {
                name: setting(point, "means").to_owned(),
                mark: Mark::Points,
                colour,
                ..Curve::default()
            });
            curve.points.push((setting(point, "calls").parse().ok()?, averaged.estimate.mean));
            curve.errors.push(averaged.estimate.ci95.unwrap_or(f64::NAN));
            unit = averaged.unit;
        }
        let unit = if unit == "ratio" || unit == "count" { String::new() } else { unit };
        let mut plot = Plot::new(title, Axis::new("calls", ""), Axis::new(label, unit));
        plot.curves = curves.into_values().collect();
        Some(spread(plot)).filter(|plot| !plot.is_empty())
    }

    /// Returns the first measure of load that the link has, with its name.
    fn load(&self) -> Option<(&'static str, &'static str)> {
        let has = |measure: &str| self.points.iter().any(|point| self.of_link(point, measure).is_some());
        LOADS.into_iter().find(|(measure, _)| has(measure))
    }

    /// Returns a measure of the link, of the direction with most of it.
    fn of_link(&self, point: &PointSummary, measure: &str) -> Option<Averaged> {
        let of = |subject: &String| point.value(&format!("{subject}.{measure}"));
        self.subjects.iter().filter_map(of).max_by(|a, b| a.estimate.mean.total_cmp(&b.estimate.mean))
    }

    /// Returns a measure of the calls; of several flows that of the worst.
    fn of_calls(&self, point: &PointSummary, measure: &str) -> Option<Averaged> {
        let is_voice = |name: &str| {
            let Some((Subject::Flow(copy), rest)) = Subject::of_name(name) else { return false };
            let original = group_of(copy);
            let original = original.as_deref().unwrap_or(copy);
            let is_it = subject_and_metric(rest).map_or(rest, |(_, last)| last) == measure;
            is_it && self.flows.iter().any(|flow| flow == original)
        };
        let is_more = |a: &Averaged, b: &Averaged| a.estimate.mean.total_cmp(&b.estimate.mean);
        let found = point.measures.iter().filter(|(name, _)| is_voice(name)).map(|(_, averaged)| averaged);
        let worst = if matches!(measure, "r" | "mos") {
            found.min_by(|a, b| is_more(a, b))
        } else {
            found.max_by(|a, b| is_more(a, b))
        };
        worst.cloned()
    }

    /// Returns the point with as many calls and no means.
    fn neither(&self, point: &PointSummary) -> Option<&PointSummary> {
        let calls = setting(point, "calls");
        self.points
            .iter()
            .find(|other| setting(other, "calls") == calls && setting(other, "means") == "neither")
    }
}

fn setting<'p>(point: &'p PointSummary, key: &str) -> &'p str {
    point.settings.iter().find(|(name, _)| *name == key).map_or("", |(_, value)| value)
}

fn number(text: &str) -> Cell {
    Cell::Number(text.to_owned())
}

fn shown(averaged: Option<Averaged>) -> Cell {
    number(&averaged.map_or_else(
        || "\u{2013}".to_owned(),
        |averaged| quantity(averaged.estimate.mean, averaged.estimate.ci95, &averaged.unit),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Point with the utilisation of both directions and the rating of two copies of a flow.
    fn point(calls: u32, means: &str, [forward, back]: [f64; 2], r: [f64; 2]) -> PointSummary {
        let measure = |name: &str, unit: &str, value: f64| {
            format!("\"{name}\": {{\"unit\": \"{unit}\", \"n\": 1, \"mean\": {value:?}, \"ci95\": null}}")
        };
        let measures = [
            measure("link.sky.forward.utilisation", "ratio", forward),
            measure("link.sky.return.utilisation", "ratio", back),
            measure("flow.calls.1.r", "count", r[0]),
            measure("flow.calls.2.r", "count", r[1]),
            measure("flow.calls-of-others.r", "count", 1.0),
        ];
        let json = format!(
            "{{\"settings\": {{\"calls\": \"{calls}\", \"means\": \"{means}\"}}, \"seeds\": [1], \"fingerprints\": [\"\"], \
             \"measures\": {{{}}}}}",
            measures.join(",")
        );
        serde_json::from_str(&json).expect("a point")
    }

    #[test]
    fn savings_are_of_the_busier_direction_and_as_many_calls() {
        let points = [
            point(1, "neither", [0.1, 0.2], [80.0, 79.5]),
            point(1, "both", [0.05, 0.04], [78.0, 77.5]),
            point(4, "neither", [0.8, 0.4], [70.0, 71.0]),
            point(4, "both", [0.2, 0.1], [77.0, 76.5]),
        ];
        let flows = ["calls".to_owned()];
        let subjects = ["link.sky.forward", "link.sky.return"].map(str::to_owned);
        let savings = Savings { points: &points, link: "sky", subjects: &subjects, flows: &flows };
        let table = savings.table();
        assert_eq!(table.head, ["calls", "means", "utilisation", "saved", "R"]);
        let rows: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.text().replace('\u{a0}', " ")).collect())
            .collect();
        assert_eq!(rows[1][..2], ["1", "both"]);
        assert!(
            rows[1][2].starts_with('5') && rows[1][3].starts_with("75") && rows[1][4].starts_with("77.5"),
            "{rows:?}"
        );
        assert!(rows[3][3].starts_with("75") && rows[2][3].starts_with('0'), "{rows:?}");
        let [load, rated] = &savings.plots()[..] else { panic!("two plots") };
        assert_eq!(load.curves.len(), 2);
        assert_eq!(load.curves[1].points, [(1.0, 0.05), (4.0, 0.2)]);
        assert_eq!(rated.curves[0].points, [(1.0, 79.5), (4.0, 70.0)]);
        let other = Savings { subjects: &[], ..savings };
        assert_eq!(other.table().head, ["calls", "means", "R"]);
    }
}
