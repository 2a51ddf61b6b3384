//! Accounts of packets of a result, by end of a flow.

use std::collections::HashSet;

use bentpipe_net::metric::UnitColumn;
use bentpipe_record::{
    Averaged, Cell, FlowFact, FlowNote, LedgerColumn, LedgerLine, LedgerRow, PointSummary, ResultSet,
    Subject, Table, UnitLine, UnitRow, account_total, pattern,
};
use indexmap::IndexMap;

/// Most rows shown.
const MAX_ROWS: usize = 200;

/// Most notes on flows without goodput, and flows that a note names.
const MAX_SILENT: usize = 8;

/// Returns the accounts of a point's flows, as sums over its seeds.
pub(crate) fn account_table(point: &PointSummary) -> Option<Table> {
    let rows: Vec<&LedgerRow> =
        point.ledger.iter().filter(|row| row.is_of_traffic() || row.is_open()).collect();
    let head = ["packets of", "what", "packets", "where", "why"].map(String::from).to_vec();
    let caption = format!(
        "Packets sent and copied are delivered, taken over, dropped or remaining, warm-up included.{}{}",
        of_runs(point.seeds.len()),
        part(rows.len())
    );
    table(caption, head, rows.iter().map(|row| cells(row)))
}

/// Returns the accounts of units of a point's flows, as sums over its seeds.
pub(crate) fn unit_table(point: &PointSummary) -> Option<Table> {
    let head = ["flow", "what", "count", "unit", "where", "why"].map(String::from).to_vec();
    let caption = format!(
        "Units offered and copied are refused, delivered, duplicates, dropped or remaining, warm-up included.{}{}",
        of_runs(point.seeds.len()),
        part_of(point.units.len(), "units.parquet")
    );
    let row = |row: &UnitRow| {
        let label = row.column.name().to_owned();
        let is_bad = row.is_open() || matches!(row.column, UnitColumn::Refused | UnitColumn::Dropped);
        vec![
            Cell::Text(row.flow.clone()),
            if is_bad { Cell::Bad(label) } else { Cell::Text(label) },
            Cell::Number(row.count.to_string()),
            Cell::Text(row.unit.clone()),
            Cell::Text(row.place.clone()),
            Cell::Text(row.reason.clone()),
        ]
    };
    table(caption, head, point.units.iter().map(row))
}

/// Returns the dropped packets of flows at each point, with place and reason.
pub(crate) fn drop_table(results: &ResultSet<'_>) -> Option<Table> {
    let several = results.points.len() > 1;
    let is_drop = |row: &&LedgerRow| row.is_of_traffic() && row.column == LedgerColumn::Dropped;
    let of_point = |(point, summary): (_, &'_ PointSummary)| {
        summary.ledger.clone().into_iter().filter(|row| is_drop(&row)).map(move |row| (point, row))
    };
    let labels = results.points.iter().map(|point| &point.label[..]);
    let rows: Vec<(&str, LedgerRow)> = labels.zip(results.summaries()).flat_map(of_point).collect();
    let point = several.then_some("point");
    let head = point.into_iter().chain(["packets of", "dropped", "where", "why"]).map(String::from).collect();
    let seeds = results.points.first().map_or(0, |point| point.seeds.len());
    let caption =
        format!("Packets dropped on their way, warm-up included.{}{}", of_runs(seeds), part(rows.len()));
    let row = |(label, row): &(&str, LedgerRow)| {
        let of_drop = [
            Cell::Text(row.sender.clone()),
            Cell::Number(row.packets.to_string()),
            Cell::Text(row.place.clone()),
            Cell::Text(row.reason.clone()),
        ];
        several.then(|| Cell::Text((*label).to_owned())).into_iter().chain(of_drop).collect()
    };
    table(caption, head, rows.iter().map(row))
}

fn table(caption: String, head: Vec<String>, rows: impl Iterator<Item = Vec<Cell>>) -> Option<Table> {
    let rows: Vec<Vec<Cell>> = rows.take(MAX_ROWS).collect();
    (!rows.is_empty()).then_some(Table { caption, head, rows })
}

fn of_runs(seeds: usize) -> String {
    if seeds > 1 { format!(" Sums of {seeds} seeds.") } else { String::new() }
}

/// Returns a note on rows that are left out.
fn part(all: usize) -> String {
    part_of(all, "ledger.parquet")
}

fn part_of(all: usize, file: &str) -> String {
    if all <= MAX_ROWS {
        return String::new();
    }
    format!(" Shown: {MAX_ROWS} of {all} rows; {file} of each run has all.")
}

fn cells(row: &LedgerRow) -> Vec<Cell> {
    let label = row.column.label().to_owned();
    let is_bad = row.column == LedgerColumn::Dropped || row.is_open();
    let what = if is_bad { Cell::Bad(label) } else { Cell::Text(label) };
    vec![
        Cell::Text(row.sender.clone()),
        what,
        Cell::Number(row.packets.to_string()),
        Cell::Text(row.place.clone()),
        Cell::Text(row.reason.clone()),
    ]
}

/// Returns the interval of the measures, if it is not that of the accounts.
pub fn interval(point: &PointSummary) -> Option<String> {
    let PointSummary { warm_up, .. } = point;
    (!warm_up.is_zero()).then(|| {
        format!("measures leave out the warm-up of {warm_up}; accounts of packets are of the whole run")
    })
}

/// Returns a note for each flow without goodput.
///
/// It has the cause, or what became of the packets.
pub(crate) fn silent(point: &PointSummary) -> Vec<String> {
    let causes: Vec<(&FlowNote, usize)> = point
        .flow_notes
        .iter()
        .filter(|(note, _)| note.fact.is_idle())
        .map(|(note, runs)| (note, *runs))
        .collect();
    let has_cause: HashSet<&str> = causes.iter().map(|(note, _)| &note.flow[..]).collect();
    let goodput = |flow: &str| point.measures.get(&format!("{flow}.goodput")).map(|it| it.estimate);
    let all = point.seeds.len() as u64;
    // Of a flow with goodput in some runs, the cause is that of the others.
    let is_cause =
        |runs: usize, it: bentpipe_record::stats::Estimate| it.mean == 0.0 || it.n + runs as u64 <= all;
    let causes =
        causes.into_iter().filter(|(note, runs)| goodput(&note.flow).is_none_or(|it| is_cause(*runs, it)));
    let zero = point.measures.iter().filter(|(_, averaged)| averaged.estimate.mean == 0.0);
    let flows: Vec<&str> = zero
        .filter_map(|(name, _)| name.strip_suffix(".goodput").filter(|it| flow_of(it).is_some()))
        .filter(|flow| !has_cause.contains(flow))
        .collect();
    let mut notes: Vec<String> = alike(point, causes);
    // Each reason is sought in the whole ledger, and only these are shown. All flows have one, or none has.
    let (first, others) = flows.split_at(flows.len().min(MAX_SILENT.saturating_sub(notes.len())));
    let reasons: Vec<String> = first.iter().filter_map(|flow| reason(flow, point)).collect();
    let has_reasons = !reasons.is_empty() || first.is_empty();
    let more = notes.len().saturating_sub(MAX_SILENT) + if has_reasons { others.len() } else { 0 };
    notes.extend(reasons);
    notes.truncate(MAX_SILENT);
    notes.extend(
        (more > 0).then(|| format!("{more} notes more of flows without goodput; outcome.json has all")),
    );
    notes
}

/// Returns a note for each cause of no goodput, one for copies.
fn alike<'a>(point: &PointSummary, causes: impl Iterator<Item = (&'a FlowNote, usize)>) -> Vec<String> {
    let mut alike: IndexMap<(String, &FlowFact, usize), Vec<&str>> = IndexMap::new();
    for (FlowNote { flow, fact }, runs) in causes {
        alike.entry((pattern(flow), fact, runs)).or_default().push(flow);
    }
    let all = point.seeds.len();
    let note = |((pattern, fact, runs), flows): ((String, &FlowFact, usize), Vec<&str>)| {
        let in_runs = if runs < all { format!(" in {runs} of {all} runs") } else { String::new() };
        match flows[..] {
            [flow] => format!("{} {}{in_runs}: {fact}", named(flow), lack(fact, false)),
            _ => format!(
                "{} copies of {} {}{in_runs}: of each, {fact}",
                flows.len(),
                named(&pattern),
                lack(fact, true)
            ),
        }
    };
    alike.into_iter().map(note).collect()
}

/// Returns what a flow lacks for a cause. Not all traffic has goodput.
fn lack(fact: &FlowFact, are_several: bool) -> &'static str {
    match (fact, are_several) {
        (FlowFact::Inactive | FlowFact::StartsAfterEnd | FlowFact::StartsAfterStop, _) => "did not run",
        (FlowFact::EndsInWarmUp | FlowFact::NothingSent, false) => "has nothing to measure",
        (FlowFact::EndsInWarmUp | FlowFact::NothingSent, true) => "have nothing to measure",
        (_, false) => "has no goodput",
        (_, true) => "have no goodput",
    }
}

fn named(flow: &str) -> &str {
    flow_of(flow).unwrap_or(flow)
}

/// Returns the name of a flow that the name of a subject is of.
fn flow_of(name: &str) -> Option<&str> {
    match Subject::of_name(name)? {
        (Subject::Flow(flow), "") => Some(flow),
        _ => None,
    }
}

/// Returns what became of the packets of a flow without goodput. `None` for results of versions without accounts.
fn reason(flow: &str, point: &PointSummary) -> Option<String> {
    let is_own =
        |row: &&LedgerRow| Subject::end_of_flow(&row.sender).is_some_and(|(of, _)| of == named(flow));
    let counted = counted(flow, point);
    let rows: Vec<&LedgerRow> = if point.ledger.is_empty() {
        counted.iter().collect()
    } else {
        point.ledger.iter().filter(is_own).collect()
    };
    let units: Vec<&UnitRow> = point.units.iter().filter(|row| row.flow == flow).collect();
    let flow = named(flow);
    if rows.is_empty()
        && let [first, ..] = units[..]
    {
        // Others carry its data.
        return Some(format!("{flow} has no goodput: of its {}, {}", first.unit, UnitLine(&units)));
    }
    if rows.is_empty() {
        let has_accounts =
            !point.ledger.is_empty() || point.measures.keys().any(|name| account_total(name).is_some());
        return has_accounts.then(|| format!("{flow} has no goodput: no packet of it was sent"));
    }
    let included = if point.warm_up.is_zero() { "" } else { ", warm-up included," };
    Some(format!("{flow} has no goodput: of both its ends{included} {}", LedgerLine(&rows)))
}

/// Returns rows with the measures of a flow's accounts.
///
/// Campaigns have those in the place of rows. They have no places, and are means over the seeds.
fn counted(flow: &str, point: &PointSummary) -> Vec<LedgerRow> {
    let row = |(name, averaged): (&String, &Averaged)| {
        let end = name.strip_prefix(flow)?.strip_prefix('.')?;
        account_total(name)?;
        let part = end.strip_prefix("return-").unwrap_or(end);
        let (column, reason) = match part.strip_prefix("dropped-") {
            Some("packets") => return None,
            Some(reason) => (LedgerColumn::Dropped, reason),
            None => (LedgerColumn::of(part.strip_suffix("-packets")?)?, ""),
        };
        let reason = if column == LedgerColumn::Remaining { "on-the-way" } else { reason };
        let (sender, reason, packets) =
            (flow.to_owned(), reason.to_owned(), averaged.estimate.mean.round() as u64);
        Some(LedgerRow {
            sender,
            column,
            place: String::new(),
            reason,
            packets,
            in_warm_up: 0,
            duplicates: 0,
            arrived: None,
            lost: None,
            bytes: None,
        })
    };
    point.measures.iter().filter_map(row).collect()
}

/// Returns a note for each sender that carries the data of flows.
///
/// It has what became of the packets.
pub(crate) fn carried(point: &PointSummary) -> Vec<String> {
    let mut carriers: IndexMap<&FlowFact, Vec<&str>> = IndexMap::new();
    for FlowNote { flow, fact } in point.flow_notes.keys().filter(|note| !note.fact.is_idle()) {
        carriers.entry(fact).or_default().push(named(flow));
    }
    carriers.into_iter().map(|(fact, flows)| carriage(fact, &flows, point)).collect()
}

fn carriage(fact: &FlowFact, flows: &[&str], point: &PointSummary) -> String {
    let own = match flows {
        [flow] => format!("{flow} has no account of packets of its own: its"),
        _ if flows.len() <= MAX_SILENT => {
            format!("{} have no account of packets of their own: their", flows.join(", "))
        }
        _ => format!("{} flows have no account of packets of their own: their", flows.len()),
    };
    let of_sender = |wanted: &str| point.ledger.iter().filter(|row| row.sender == wanted).collect::<Vec<_>>();
    let became = match fact {
        FlowFact::CarriedBy { sender } => format!(": {}", LedgerLine(&of_sender(sender))),
        _ => String::new(),
    };
    format!("{own} data are {fact}{became}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ledger: &[(&str, LedgerColumn, &str, u64)]) -> PointSummary {
        let json = "{\"settings\": {}, \"seeds\": [1], \"fingerprints\": [\"\"], \"measures\": {\
             \"flow.a.goodput\": {\"unit\": \"bit/s\", \"n\": 1, \"mean\": 0.0, \"ci95\": null}, \
             \"flow.b.goodput\": {\"unit\": \"bit/s\", \"n\": 1, \"mean\": 5.0, \"ci95\": null}}}";
        let mut point: PointSummary = serde_json::from_str(json).expect("a point");
        let row = |(sender, column, reason, packets): &(&str, LedgerColumn, &str, u64)| LedgerRow {
            sender: (*sender).to_owned(),
            column: *column,
            place: if reason.is_empty() { String::new() } else { "link.l.forward".to_owned() },
            reason: (*reason).to_owned(),
            packets: *packets,
            in_warm_up: 0,
            duplicates: 0,
            arrived: None,
            lost: None,
            bytes: None,
        };
        point.ledger = ledger.iter().map(row).collect();
        point
    }

    #[test]
    fn what_others_carry_was_sent() {
        let mut point = point(&[("flow.b.sender", LedgerColumn::Sent, "", 9)]);
        let row = |column, reason: &str, count| UnitRow {
            flow: "flow.a".to_owned(),
            unit: "bundles".to_owned(),
            column,
            place: String::new(),
            reason: reason.to_owned(),
            count,
        };
        point.units = vec![
            row(UnitColumn::Offered, "", 201),
            row(UnitColumn::Delivered, "", 0),
            row(UnitColumn::Dropped, "deleted", 201),
        ];
        let note = "a has no goodput: of its bundles, 201 offered, 0 delivered, 201 dropped (deleted)";
        assert_eq!(silent(&point), [note]);
    }

    #[test]
    fn a_flow_without_goodput_has_a_reason() {
        use LedgerColumn::{Dropped, Sent};
        let of_b = ("flow.b.sender", Sent, "", 9);
        assert_eq!(silent(&point(&[of_b])), ["a has no goodput: no packet of it was sent"]);
        let lost = [("flow.a.sender", Sent, "", 4), ("flow.a.sender", Dropped, "queue", 4), of_b];
        let note =
            "a has no goodput: of both its ends 4 sent, 0 delivered, 4 dropped (queue, link.l.forward)";
        assert_eq!(silent(&point(&lost)), [note]);
        assert_eq!(silent(&point(&[])), [""; 0], "without accounts there is no reason to give");
    }

    #[test]
    fn a_cause_in_the_scenario_is_named_in_place_of_packets() {
        let of_a = ("flow.a.sender", LedgerColumn::Sent, "", 2);
        let mut idle = point(&[of_a]);
        let note = |flow: &str, fact| (FlowNote { flow: flow.to_owned(), fact }, 1);
        idle.flow_notes = [
            note("flow.a", FlowFact::NothingAsked),
            note("flow.b", FlowFact::Inactive),
            note("flow.c.1", FlowFact::StartsAfterStop),
            note("flow.c.2", FlowFact::StartsAfterStop),
        ]
        .into();
        let expected = [
            "a has no goodput: its application asks for nothing",
            "2 copies of c.* did not run: of each, it would start after its stop",
        ];
        assert_eq!(silent(&idle), expected, "b has goodput after all");
        idle.seeds = vec![1, 2, 3];
        assert_eq!(silent(&idle)[0], "a has no goodput in 1 of 3 runs: its application asks for nothing");
        // Goodput in one of three runs, and a cause in the others.
        let late = FlowNote { flow: "flow.b".to_owned(), fact: FlowFact::StartsAfterEnd };
        idle.flow_notes = [(late, 2)].into();
        assert_eq!(silent(&idle)[0], "b did not run in 2 of 3 runs: it would start after the end of the run");
    }

    #[test]
    fn flows_without_an_account_name_what_carries_them_and_its_packets() {
        use LedgerColumn::{Delivered, Sent};
        let mut carried_by = point(&[("node.x.dtn", Sent, "", 7), ("node.x.dtn", Delivered, "", 7)]);
        let fact = || FlowFact::CarriedBy { sender: "node.x.dtn".to_owned() };
        let note = |flow: &str, fact| (FlowNote { flow: flow.to_owned(), fact }, 1);
        carried_by.flow_notes =
            [note("flow.up", fact()), note("flow.down", fact()), note("flow.tv", FlowFact::Cells)].into();
        let expected = [
            "up, down have no account of packets of their own: their data are in packets of node.x.dtn: 7 sent, 7 delivered",
            "tv has no account of packets of its own: its data are in ATM cells, which lines and ends of channels count",
        ];
        assert_eq!(carried(&carried_by), expected);
    }

    #[test]
    fn a_campaign_has_reasons_without_places() {
        let mut of_campaign = point(&[]);
        for (name, mean) in [("sent-packets", 4.0), ("dropped-packets", 4.0), ("dropped-queue", 4.0)] {
            let estimate = bentpipe_record::stats::Estimate::of(&[mean]).expect("a value");
            of_campaign
                .measures
                .insert(format!("flow.a.{name}"), Averaged { unit: "packets".into(), estimate });
        }
        assert_eq!(
            silent(&of_campaign),
            ["a has no goodput: of both its ends 4 sent, 0 delivered, 4 dropped (queue)"]
        );
        of_campaign.warm_up = "2 s".parse().expect("a time");
        let note = "measures leave out the warm-up of 2 s; accounts of packets are of the whole run";
        assert_eq!(interval(&of_campaign).as_deref(), Some(note));
    }

    #[test]
    fn accounts_of_flows_are_rows_and_others_are_not() {
        use LedgerColumn::{Dropped, Sent};
        let rows =
            [("flow.b.sender", Sent, "", 9), ("flow.b.sender", Dropped, "queue", 2), ("node.x", Sent, "", 1)];
        let table = account_table(&point(&rows)).expect("rows");
        let texts: Vec<&str> = table.rows[1].iter().map(Cell::text).collect();
        assert_eq!(texts, ["flow.b.sender", "dropped", "2", "link.l.forward", "queue"]);
        assert_eq!(table.rows.len(), 2);
    }
}
