//! Query of a sensor field: operators and streams, drawn on the motes, and rows.

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{Answer, sheet};
use crate::api::body::{Ids, Search};
use crate::api::{jobs as api, queries};
use crate::app::App;
use crate::guard::Caller;
use crate::queries::{FieldQuery, Operator, Row, Rows};
use crate::url::encoded;

/// Longer side of the drawing, and its margin.
const SIDE: f64 = 720.0;
const MARGIN: f64 = 34.0;
/// Most motes with symbols in them.
const MAX_SYMBOLS: usize = 120;

/// Flow and mote that are shown.
#[derive(Deserialize)]
pub(super) struct Shown {
    #[serde(default)]
    flow: String,
    mote: Option<usize>,
}

/// Returns the page of a job's query.
pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(shown): Search<Shown>,
) -> Answer {
    let job = api::found(&app, &caller, id).await?;
    let asked = queries::Asked { flow: shown.flow, limit: Some(100) };
    let found = queries::last(&app, &caller, id, asked).await?;
    let query = found.query.clone().unwrap_or_default();
    let live = (!job.is_over()).then_some(id);
    let body = html! {
        p.crumb { a href="/jobs" { "Jobs" } " / " a href={ "/jobs/" (id) } { "#" (id) " " (job.name) } }
        h1 { "Query to a sensor field" }
        div #field data-job=[live] data-flow=(found.flow) data-mapped=(if query.motes.is_empty() { "false" } else { "true" }) {
            @if found.flow.is_empty() {
                p role="status" {
                    @if job.is_over() { "No rows are kept: this job has no query, or it ended before its run did." }
                    @else { "This job has no query yet: they appear when a run of it begins." }
                }
            } @else {
                (flows(&found))
                h2.first { "Query" }
                pre tabindex="0" { code { (query.query) } }
                (operators(&query))
                h2 { "Motes" }
                (motes(&query, &found.flow, shown.mote))
                h2 { "Rows on Earth" }
                (rows(&query, &found))
            }
        }
    };
    Ok(sheet(&caller, &format!("Query of job #{id}"), &body))
}

fn flows(found: &Rows) -> Markup {
    html! {
        @if found.flows.len() > 1 {
            form.row method="get" {
                label { "Flow" select name="flow" { @for flow in &found.flows { option value=(flow) selected[*flow == found.flow] { (flow) } } } }
                button.quiet { "Show" }
            }
        } @else { p { "Flow " b { (found.flow) } } }
    }
}

fn operators(query: &FieldQuery) -> Markup {
    let places = [
        ("Each mote", &query.operators.mote),
        ("A mote with children, in addition", &query.operators.relay),
        ("Base station", &query.operators.base),
    ];
    html! {
        div.scroll tabindex="0" role="region" aria-label="Operators" { table {
            thead { tr { th scope="col" { "Place" } th scope="col" { "Operators, in their order" } } }
            tbody { @for (place, operators) in places { tr { td { (place) } td { (listed(operators)) } } } }
        } }
    }
}

fn listed(operators: &[Operator]) -> Markup {
    html! { ol.operators { @for (symbol, words) in operators { li { b { (symbol) } " " (words) } } } }
}

/// Returns the drawing, and what is known of a chosen mote.
fn motes(query: &FieldQuery, flow: &str, chosen: Option<usize>) -> Markup {
    let count = query.motes.len();
    html! {
        @if count == 0 {
            p.note role="status" { "Their places and tree are known when the first rows have reached the base station." }
        } @else {
            p.hint { "Lines are remote streams of rows to the base station, the wider the more motes send over them. Local streams lead from each operator of a mote to the next, without the radio. A mote leads to its operators and streams; with a keyboard use Tab and Enter, or its number." }
            figure.scroll { (drawing(query, flow, chosen)) }
            form.row method="get" action="#mote" {
                input type="hidden" name="flow" value=(flow);
                label { "Mote" input name="mote" type="number" min="0" max=(count - 1) required value=[chosen]; }
                button.quiet { "Show its operators and streams" }
            }
            @if let Some(mote) = chosen.filter(|mote| *mote < count) { (details(query, mote)) }
        }
    }
}

fn details(query: &FieldQuery, mote: usize) -> Markup {
    let children: Vec<usize> =
        (0..query.motes.len()).filter(|other| query.motes[*other].parent == Some(mote)).collect();
    let place = query.motes[mote];
    let from = children.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    html! {
        section #mote aria-labelledby="mote-title" {
            h3 #mote-title { @if mote == 0 { "Base station" } @else { "Mote " (mote) } }
            @let local = if mote == 0 { query.operators.base.len() } else { query.operators.mote.len() };
            dl.facts {
                div { dt { "Place" } dd { (format!("{:.1} m, {:.1} m", place.x, place.y)) } }
                div { dt { "Hops" } dd { (query.hops(mote).map_or("no route".to_owned(), |hops| hops.to_string())) } }
                div { dt { "Remote streams from" } dd { @if from.is_empty() { "none" } @else { (from) } } }
                div { dt { "Remote stream to" } dd { @match place.parent { Some(0) => "base station", Some(parent) => (parent), None if mote == 0 => "Earth", None => "none" } } }
                div { dt { "Local streams" } dd { (local.saturating_sub(1)) } }
            }
            @if mote == 0 { (listed(&query.operators.base)) } @else {
                (listed(&query.operators.mote))
                @if !children.is_empty() { (listed(&query.operators.relay)) }
            }
        }
    }
}

/// Returns the number of motes that send over the stream of each mote, itself included.
fn loads(query: &FieldQuery) -> Vec<usize> {
    let mut loads = vec![0; query.motes.len()];
    for mote in (1..query.motes.len()).filter(|mote| query.hops(*mote).is_some()) {
        let mut at = mote;
        while at != 0 {
            loads[at] += 1;
            at = query.motes[at].parent.unwrap_or(0);
        }
    }
    loads
}

fn drawing(query: &FieldQuery, flow: &str, chosen: Option<usize>) -> Markup {
    let bound = |of: fn(&crate::queries::Mote) -> f64| {
        let values = query.motes.iter().map(of);
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
    };
    let ((left, right), (low, high)) = (bound(|mote| mote.x), bound(|mote| mote.y));
    let scale = SIDE / (right - left).max(high - low).max(1e-3);
    let at = |n: usize| {
        let mote = query.motes[n];
        (MARGIN + (mote.x - left) * scale, MARGIN + (high - mote.y) * scale)
    };
    let (width, height) = ((right - left) * scale + 2.0 * MARGIN, (high - low) * scale + 2.0 * MARGIN);
    let has_symbols = query.motes.len() <= MAX_SYMBOLS;
    let radius = if has_symbols { 19.0 } else { 6.0 };
    let symbols =
        |operators: &[Operator]| operators.iter().map(|(symbol, _)| &symbol[..]).collect::<String>();
    let (all, relay) = (symbols(&query.operators.mote), symbols(&query.operators.relay));
    let base = symbols(&query.operators.base);
    let loads = loads(query);
    let is_parent = |n: usize| query.motes.iter().any(|mote| mote.parent == Some(n));
    let parents: Vec<bool> = (0..query.motes.len()).map(is_parent).collect();
    // With symbols, number and symbols are the name that speech control knows it by.
    let name = |n: usize| match (n, query.motes[n].parent) {
        (0, _) => "Base station".to_owned(),
        (_, None) => format!("Mote {n}, without a route"),
        (_, Some(parent)) => format!("Mote {n}, sends to {parent}"),
    };
    let size = |value: f64| format!("{value:.1}");
    html! {
        svg.field viewBox={ "0 0 " (size(width)) " " (size(height)) } role="group" aria-label="Motes with their operators and streams" {
            @for n in 1..query.motes.len() { @if let Some(parent) = query.motes[n].parent {
                @let ((x, y), (to, up)) = (at(n), at(parent));
                line x1=(size(x)) y1=(size(y)) x2=(size(to)) y2=(size(up)) stroke-width=(size(1.0 + (loads[n].max(1) as f64).log2())) {}
            } }
            @for n in 0..query.motes.len() {
                @let (x, y) = at(n);
                a href={ "?flow=" (encoded(flow)) "&mote=" (n) "#mote" } data-mote=(n) aria-label=[(!has_symbols).then(|| name(n))] .base[n == 0] .lost[n > 0 && query.motes[n].parent.is_none()] .chosen[chosen == Some(n)] {
                    circle cx=(size(x)) cy=(size(y)) r=(size(if n == 0 { radius + 3.0 } else { radius })) {}
                    @if has_symbols {
                        text x=(size(x)) y=(size(y - 2.0)) { (if n == 0 { "base".to_owned() } else { n.to_string() }) }
                        text.symbols x=(size(x)) y=(size(y + 10.0)) { (if n == 0 { &base } else { &all }) @if n > 0 && parents[n] { "+" (relay) } }
                    }
                }
            }
        }
    }
}

fn rows(query: &FieldQuery, found: &Rows) -> Markup {
    html! {
        p.note #rows-count role="status" { (found.total) " rows" @if found.rows.len() < found.total as usize { ", of which the last " (found.rows.len()) " are shown" } "." }
        div.scroll #rows tabindex="0" role="region" aria-label="Rows" { table.packets {
            thead { tr {
                th.num scope="col" { "Received (s)" } th.num scope="col" { "Sampled (s)" } th.num scope="col" { "Epoch" } th.num scope="col" { "Mote" }
                @for title in &query.titles { th.num scope="col" { (title) } }
            } }
            tbody { @for row in found.rows.iter().rev() { (line(row)) } }
        } }
        button.quiet #rows-pause type="button" hidden { "Pause" }
    }
}

fn line(row: &Row) -> Markup {
    html! { tr {
        td.num { (format!("{:.3}", row.received)) } td.num { (format!("{:.3}", row.sampled)) } td.num { (row.epoch) }
        td.num { @if row.mote > 0 { (row.mote) } @else { "base" } }
        @for value in &row.values { td.num { (bentpipe_report::number(*value)) } }
    } }
}

/// Returns the link to the page.
pub(super) fn link(job: i64) -> Markup {
    html! { p { a href={ "/jobs/" (job) "/field" } { "Query to a sensor field: operators, motes and rows" } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::{Mote, Operators};

    #[test]
    fn hostile_words_stay_text() {
        let hostile = "</code><script>alert(1)</script>".to_owned();
        let operator = vec![(hostile.clone(), hostile.clone())];
        let query = FieldQuery {
            query: hostile.clone(),
            titles: vec![hostile.clone()],
            operators: Operators { mote: operator.clone(), relay: operator.clone(), base: operator },
            motes: vec![
                Mote { x: 0.0, y: 0.0, parent: None },
                Mote { x: 1e300, y: -1e300, parent: Some(0) },
                Mote { x: 2.0, y: 1.0, parent: Some(3) },
                Mote { x: 2.0, y: 1.0, parent: Some(2) },
            ],
        };
        let page =
            html! { (operators(&query)) (motes(&query, &hostile, Some(1))) (rows(&query, &Rows::default())) };
        assert!(!page.into_string().contains("<script"));
        assert_eq!(loads(&query), [0, 1, 0, 0]);
    }
}
