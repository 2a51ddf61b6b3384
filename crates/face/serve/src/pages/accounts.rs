//! Accounts of packets of a job's flows, from the measures of its points.

use std::collections::BTreeMap;

use bentpipe_record::{Subject, account_total};
use bentpipe_report::quantity;
use maud::{Markup, html};
use serde_json::Value;

use super::layout::settings_text;
use crate::store::jobs::JobMeasure;

/// Most rows of the table.
const MAX_ROWS: usize = 500;

/// Measures of a flow's end, by their names without the flow.
type Account<'a> = BTreeMap<&'a str, &'a JobMeasure>;

/// Returns `true` for a measure that this table has.
pub(super) fn is_account(measure: &JobMeasure) -> bool {
    account_total(&measure.name).is_some()
}

/// Returns a row for each end of a flow at each point. Drops have their reasons.
pub(super) fn table(measures: &[JobMeasure], points: &[(Value, String)]) -> Markup {
    let accounts = accounts(measures);
    let several = points.len() > 1;
    let settings = |point: i64| {
        points.get(point as usize).map(|(settings, _)| settings_text(settings)).unwrap_or_default()
    };
    let number = |of: Option<&&JobMeasure>| of.map_or_else(|| "0".to_owned(), |measure| packets(measure));
    html! {
        @if !accounts.is_empty() {
            h2 { "Packets" }
            details open[accounts.len() <= 40] {
            summary { (accounts.len()) " ends of flows" }
            div.scroll tabindex="0" role="region" aria-label="Packets" { table {
                thead { tr {
                    @if several { th scope="col" { "Point" } }
                    th scope="col" { "Flow" } th.num scope="col" { "Sent" } th.num scope="col" { "Delivered" }
                    th.num scope="col" { "Dropped" } th scope="col" { "Reasons" } th.num scope="col" { "Remaining" }
                } }
                tbody { @for ((point, end), account) in accounts.iter().take(MAX_ROWS) { tr {
                    @if several { td { (settings(*point)) } }
                    td { (title(end)) }
                    td.num { (number(account.get("sent-packets"))) }
                    td.num { (number(account.get("delivered-packets"))) }
                    td.num { (number(account.get("dropped-packets"))) }
                    td { (reasons(account)) }
                    td.num { (number(account.get("remaining-packets"))) }
                } } }
            } }
            p.hint {
                @if accounts.len() > MAX_ROWS { "The first " (MAX_ROWS) " of " (accounts.len()) "; the file summary.csv has all. " }
                "Means over the seeds, warm-up included. The report and ledger.parquet of each run have the place of each drop."
            }
            }
        }
    }
}

/// Returns the accounts by point and by end of a flow: "flow.download." or "flow.download.return-".
fn accounts(measures: &[JobMeasure]) -> BTreeMap<(i64, String), Account<'_>> {
    let mut accounts: BTreeMap<(i64, String), Account<'_>> = BTreeMap::new();
    for measure in measures {
        let Some(total) = account_total(&measure.name) else { continue };
        let end = total.trim_end_matches("sent-packets");
        accounts
            .entry((measure.point, end.to_owned()))
            .or_default()
            .insert(&measure.name[end.len()..], measure);
    }
    accounts
}

fn title(end: &str) -> String {
    match Subject::of_name(end) {
        Some((Subject::Flow(flow), "return-")) => format!("{flow}, answers"),
        Some((Subject::Flow(flow), _)) => flow.to_owned(),
        _ => end.to_owned(),
    }
}

/// Returns a mean number of packets with its interval.
fn packets(measure: &JobMeasure) -> String {
    measure.mean.map_or_else(|| "\u{2013}".to_owned(), |mean| quantity(mean, measure.half, "count"))
}

fn reasons(account: &Account<'_>) -> String {
    let reason = |(name, measure): (&&str, &&JobMeasure)| {
        let reason = name.strip_prefix("dropped-").filter(|reason| *reason != "packets")?;
        Some(format!("{reason} {}", packets(measure)))
    };
    account.iter().filter_map(reason).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(point: i64, name: &str, mean: f64) -> JobMeasure {
        let unit = "packets".to_owned();
        JobMeasure { point, name: name.to_owned(), unit, n: 1, mean: Some(mean), half: None }
    }

    #[test]
    fn ends_of_flows_have_a_row_with_reasons() {
        let measures = [
            measure(0, "flow.a.sent-packets", 9.0),
            measure(0, "flow.a.dropped-packets", 3.0),
            measure(0, "flow.a.dropped-queue", 2.0),
            measure(0, "flow.a.dropped-channel", 1.0),
            measure(0, "flow.a.return-sent-packets", 4.0),
            measure(0, "flow.<b>.sent-packets", 5.0),
            measure(0, "flow.a.goodput", 7e6),
        ];
        let page = table(&measures, &[(Value::Null, String::new())]).into_string();
        for text in [
            "3 ends of flows",
            "<td>a</td><td class=\"num\">9</td><td class=\"num\">0</td><td class=\"num\">3</td>",
            "<td>channel 1, queue 2</td>",
            "<td>a, answers</td><td class=\"num\">4</td>",
            "<td>&lt;b&gt;</td><td class=\"num\">5</td>",
        ] {
            assert!(page.contains(text), "{text} in {page}");
        }
        assert!(!page.contains("goodput") && !page.contains("Point"), "{page}");
        assert_eq!(table(&measures[6..], &[]).into_string(), "");
    }
}
