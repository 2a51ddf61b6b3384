//! Gantt chart of a contact plan.
//!
//! It has a row for each pair of nodes, and a bar for each contact.

use std::fmt::Write as _;

use bentpipe_record::{ContactPlan, PlannedContact};

use super::axis::grouped;
use super::escape::escape;
use super::numbers::{number, quantity};

/// Maximum number of rows; more cannot be read.
const MAX_ROWS: usize = 60;

/// Width of the time axis, height of a row, and of its bars, in pixels.
const AXIS: f64 = 760.0;
const ROW: f64 = 22.0;
const BAR: f64 = 12.0;

/// Space above the rows, and below them for the axis.
const TOP: f64 = 8.0;
const BOTTOM: f64 = 46.0;

/// Space around texts, and the width of a letter.
const PAD: f64 = 10.0;
const LETTER: f64 = 7.2;

/// Narrowest bar.
const LEAST: f64 = 1.0;

/// Maximum number of letters of a row's name.
const MAX_LETTERS: usize = 28;

/// Number of colours, one for each node that sends, in turn.
const COLOURS: usize = 8;

/// Style of a drawing that stands alone.
const FILE_STYLE: &str = "svg{font:13px system-ui,\"DejaVu Sans\",sans-serif}text{fill:#222}.soft{fill:#59626d}\
    .grid{stroke:#e3e6ea}.m0{fill:#0072b2}.m1{fill:#d55e00}.m2{fill:#009068}.m3{fill:#b0478c}.m4{fill:#b98300}\
    .m5{fill:#4c4fb8}.m6{fill:#5b6570}.m7{fill:#7a4a21}.unused{fill-opacity:.35}";

/// Units of time with the steps of their ticks, in seconds.
const UNITS: [(&str, f64); 4] = [("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)];

/// Contacts of a pair, in the order of their starts.
struct Row<'a> {
    from: &'a str,
    to: &'a str,
    contacts: Vec<&'a PlannedContact>,
}

/// Returns the pairs in the order of their first contact's place in the plan.
fn rows(plan: &ContactPlan) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for contact in &plan.contacts {
        let found = rows.iter().position(|row| (row.from, row.to) == (&contact.from[..], &contact.to[..]));
        match found {
            Some(row) => rows[row].contacts.push(contact),
            None if rows.len() > MAX_ROWS => break,
            None => rows.push(Row { from: &contact.from, to: &contact.to, contacts: vec![contact] }),
        }
    }
    for row in &mut rows {
        row.contacts.sort_by(|one, other| one.start_s.total_cmp(&other.start_s));
    }
    // A pair's two directions are next to each other.
    let place = |rows: &[Row<'_>], from: &str, to: &str| {
        rows.iter().position(|row| [(row.from, row.to), (row.to, row.from)].contains(&(from, to)))
    };
    let keys: Vec<_> = rows.iter().map(|row| place(&rows, row.from, row.to)).collect();
    let mut keyed: Vec<_> = keys.into_iter().zip(rows).collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// Returns the chart as an `<svg>` element. `None` for a plan without contacts, or with more pairs than can be read.
pub(super) fn draw(plan: &ContactPlan) -> Option<String> {
    draw_styled(plan, "")
}

/// Returns the chart as an SVG file. `None` for a plan without contacts, or with more than 60 pairs.
pub fn contact_chart(plan: &ContactPlan) -> Option<String> {
    let style = format!("<style>{FILE_STYLE}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
    draw_styled(plan, &style).map(|svg| svg + "\n")
}

fn draw_styled(plan: &ContactPlan, style: &str) -> Option<String> {
    let rows = rows(plan);
    if rows.is_empty() || rows.len() > MAX_ROWS {
        return None;
    }
    let names: Vec<String> =
        rows.iter().map(|row| shortened(&format!("{} \u{2192} {}", row.from, row.to))).collect();
    let rates: Vec<String> = rows.iter().map(rate).collect();
    let width_of = |texts: &[String]| {
        let letters = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        letters as f64 * LETTER + 2.0 * PAD
    };
    let (left, right) = (width_of(&names), width_of(&rates));
    let times = plan.contacts.iter().flat_map(|contact| [contact.start_s, contact.end_s]);
    let (low, high) = times.fold((f64::MAX, f64::MIN), |(low, high), time| (low.min(time), high.max(time)));
    let high = if high > low { high } else { low + 1.0 };
    let scale = Scale { low, high, left };
    let (width, height) = (left + AXIS + right, TOP + rows.len() as f64 * ROW + BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"img\" class=\"gantt\"><title>Contact plan: {} pairs, {} contacts</title>{style}",
        rows.len(),
        plan.contacts.len()
    );
    let bottom = TOP + rows.len() as f64 * ROW;
    scale.draw_axis(bottom, &mut svg);
    let senders = senders(&rows);
    for (n, (row, (name, rate))) in rows.iter().zip(names.iter().zip(&rates)).enumerate() {
        let y = TOP + n as f64 * ROW;
        let colour = senders.iter().position(|sender| *sender == row.from).unwrap_or(0) % COLOURS;
        let _ = write!(svg, "<text x=\"{PAD}\" y=\"{:.1}\">{}</text>", y + 15.0, escape(name));
        draw_bars(row, &scale, (y + (ROW - BAR) / 2.0, colour), &mut svg);
        let x = left + AXIS + PAD;
        let _ =
            write!(svg, "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>", y + 15.0, escape(rate));
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// Returns the nodes that send, in the order of the rows.
fn senders<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let mut senders: Vec<&str> = Vec::new();
    for row in rows {
        if !senders.contains(&row.from) {
            senders.push(row.from);
        }
    }
    senders
}

/// Draws the contacts of a row; those that no route uses are below the others.
fn draw_bars(row: &Row<'_>, scale: &Scale, place: (f64, usize), svg: &mut String) {
    for is_used in [false, true] {
        let mut bars: Vec<Bar> = Vec::new();
        for contact in row.contacts.iter().filter(|contact| contact.light_s.is_some() == is_used) {
            let bar = Bar::new(contact, scale);
            match bars.last_mut() {
                Some(last) if last.hides(&bar) => last.join(bar),
                _ => bars.push(bar),
            }
        }
        bars.iter().for_each(|bar| bar.draw(row, place, svg));
    }
}

/// Bar of one contact, or of several that are too close to be seen alone.
struct Bar {
    start: f64,
    end: f64,
    is_used: bool,
    contacts: usize,
    note: String,
}

impl Bar {
    fn new(contact: &PlannedContact, scale: &Scale) -> Bar {
        let (start, end) = (scale.place(contact.start_s), scale.place(contact.end_s));
        let light = contact
            .light_s
            .map_or("no range: never used".to_owned(), |light| format!("light time {} s", number(light)));
        let [from, to] = [contact.start_s, contact.end_s].map(seconds);
        let note = format!("{from} to {to}, {}, {light}", quantity(contact.bps, None, "bit/s"));
        Bar { start, end: end.max(start + LEAST), is_used: contact.light_s.is_some(), contacts: 1, note }
    }

    /// Returns `true` if a later bar is hidden by this one. Both begin, or one lies, within the least width.
    fn hides(&self, later: &Bar) -> bool {
        let is_narrow = [self, later].iter().any(|bar| bar.end - bar.start <= LEAST);
        later.start < self.start + LEAST / 2.0 || is_narrow && later.start < self.end + LEAST / 2.0
    }

    fn join(&mut self, other: Bar) {
        self.end = self.end.max(other.end);
        self.contacts += other.contacts;
    }

    fn draw(&self, row: &Row<'_>, (y, colour): (f64, usize), svg: &mut String) {
        let (class, width) = (if self.is_used { "" } else { " unused" }, self.end - self.start);
        let note = if self.contacts == 1 { self.note.clone() } else { format!("{} contacts", self.contacts) };
        let title = escape(&format!("{} \u{2192} {}: {note}", row.from, row.to));
        let _ = write!(
            svg,
            "<rect class=\"m{colour}{class}\" x=\"{:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{BAR}\"><title>{title}</title></rect>",
            self.start
        );
    }
}

/// Time axis.
struct Scale {
    low: f64,
    high: f64,
    left: f64,
}

impl Scale {
    fn place(&self, time: f64) -> f64 {
        self.left + (time - self.low) / (self.high - self.low) * AXIS
    }

    fn draw_axis(&self, bottom: f64, svg: &mut String) {
        let span = self.high - self.low;
        let (unit, factor) = UNITS.into_iter().find(|(_, factor)| span >= 2.0 * factor).unwrap_or(("s", 1.0));
        let step = step(span / factor, unit);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let [low, high] = [self.low, self.high].map(|time| time / factor / step);
        for n in (low - 1e-9).ceil() as i64..=(high + 1e-9).floor() as i64 {
            let value = n as f64 * step;
            let (x, text) = (self.place(value * factor), grouped(value, decimals));
            let _ = write!(svg, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom:.1}\"/>");
            let _ = write!(
                svg,
                "<text class=\"soft\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{text}</text>",
                bottom + 17.0
            );
        }
        let (x, y) = (self.left + AXIS / 2.0, bottom + 37.0);
        let _ = write!(svg, "<text text-anchor=\"middle\" x=\"{x:.1}\" y=\"{y:.1}\">time ({unit})</text>");
    }
}

/// Returns the step of ticks, so that there are at most 13 of them.
fn step(span: f64, unit: &str) -> f64 {
    let own: &[f64] = match unit {
        "d" => &[0.5, 1.0, 2.0],
        "h" => &[0.5, 1.0, 2.0, 3.0, 4.0],
        "min" => &[0.5, 1.0, 2.0, 5.0, 10.0],
        _ => &[],
    };
    let least = span / 12.0;
    let decade = 10_f64.powf(least.log10().floor());
    let decimal = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade);
    let fits = |step: &f64| *step >= least * (1.0 - 1e-9);
    own.iter().copied().chain(decimal).find(fits).unwrap_or(10.0 * decade)
}

/// Returns a time in seconds, with milliseconds if it has any.
fn seconds(time: f64) -> String {
    let decimals = if (time * 1000.0).round() % 1000.0 == 0.0 { 0 } else { 3 };
    format!("{} s", grouped(time, decimals))
}

/// Returns the rates of a row.
fn rate(row: &Row<'_>) -> String {
    let rates = row.contacts.iter().map(|contact| contact.bps);
    let (low, high) = rates.fold((f64::MAX, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    let high_text = quantity(high, None, "bit/s");
    if low < high { format!("{} to {high_text}", quantity(low, None, "bit/s")) } else { high_text }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_LETTERS {
        return text.to_owned();
    }
    text.chars().take(MAX_LETTERS - 1).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(from: &str, to: &str, start_s: f64, end_s: f64) -> PlannedContact {
        PlannedContact { from: from.into(), to: to.into(), start_s, end_s, bps: 64e3, light_s: Some(750.0) }
    }

    fn plan(contacts: Vec<PlannedContact>) -> ContactPlan {
        ContactPlan { name: "mars".into(), contacts }
    }

    /// Places and widths of all bars.
    fn bars(svg: &str) -> Vec<(f64, f64)> {
        let value = |rect: &str, name: &str| -> f64 {
            let (_, rest) = rect.split_once(&format!(" {name}=\"")).expect("an attribute");
            rest.split('"').next().expect("a value").parse().expect("a number")
        };
        svg.split("<rect class=\"m").skip(1).map(|rect| (value(rect, "x"), value(rect, "width"))).collect()
    }

    #[test]
    fn bars_are_in_proportion_to_the_contacts() {
        let contacts = vec![
            contact("a", "b", 0.0, 3600.0),
            contact("b", "a", 1800.0, 7200.0),
            contact("a", "b", 5400.0, 7200.0),
        ];
        let svg = draw(&plan(contacts)).expect("a chart");
        let bars = bars(&svg);
        let left = bars[0].0;
        let wanted = [(left, AXIS / 2.0), (left + AXIS * 0.75, AXIS / 4.0), (left + AXIS / 4.0, AXIS * 0.75)];
        for (bar, wanted) in bars.iter().zip(wanted) {
            assert!((bar.0 - wanted.0).abs() < 0.02 && (bar.1 - wanted.1).abs() < 0.02, "{bars:?}");
        }
        assert!(svg.contains("0 s to 3600 s") && svg.contains("light time 750"), "{svg}");
        assert!(svg.contains("time (h)"), "{svg}");
    }

    #[test]
    fn thousands_of_short_contacts_are_few_bars() {
        let contacts = (0..50_000).map(|n| contact("a", "b", f64::from(n), f64::from(n) + 0.5)).collect();
        assert!(bars(&draw(&plan(contacts)).expect("a chart")).len() < 1000);
    }

    #[test]
    fn overlapping_contacts_are_bounded_too() {
        let contacts = (0..50_000).map(|n| contact("a", "b", f64::from(n), f64::from(n) + 9_000.0)).collect();
        assert!(bars(&draw(&plan(contacts)).expect("a chart")).len() < 2000);
    }

    #[test]
    fn the_axis_of_any_span_has_few_ticks() {
        for tenth in -80..=100 {
            let end = 10_f64.powf(f64::from(tenth) / 10.0);
            let svg = draw(&plan(vec![contact("a", "b", 0.0, end)])).expect("a chart");
            let ticks: Vec<&str> = svg.split("text-anchor=\"middle\"").skip(1).collect();
            // The last text is that of the axis.
            assert!((5..=14).contains(&ticks.len()), "{end} s: {ticks:?}");
            let labels: std::collections::BTreeSet<_> =
                ticks.iter().map(|tick| tick.split(['>', '<']).nth(1)).collect();
            assert_eq!(labels.len(), ticks.len(), "{end} s: {labels:?}");
        }
    }

    #[test]
    fn names_are_escaped_and_a_contact_without_range_is_pale() {
        let mut odd = contact("<a>", "b", 5.0, 5.0);
        odd.light_s = None;
        let svg = contact_chart(&plan(vec![odd])).expect("a chart");
        assert!(
            svg.contains("&lt;a&gt; \u{2192} b") && svg.contains("m0 unused") && !svg.contains("NaN"),
            "{svg}"
        );
    }

    #[test]
    fn a_plan_without_contacts_or_with_too_many_pairs_is_not_drawn() {
        assert_eq!(draw(&plan(Vec::new())), None);
        let contacts = (0..100).map(|n| contact(&n.to_string(), "b", 0.0, 1.0)).collect();
        assert_eq!(draw(&plan(contacts)), None);
    }
}
