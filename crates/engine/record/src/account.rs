//! Measures of the accounts of flows: sums of rows of the ledger.
//!
//! `flow.X.sent-packets` and its neighbours are of the data, with `return-` of the answers. They are over the whole run,
//! as the ledger is: what was sent in the warm-up may end after it.

use std::borrow::Cow;
use std::collections::HashSet;

use bentpipe_net::Why;
use bentpipe_net::metric::End;
use indexmap::IndexMap;

use super::{LedgerColumn, LedgerRow, Measure, Subject, subject_and_metric};

/// Beginning of the names of measures of answers.
const ANSWERS: &str = "return-";
/// Name of the measure that each end of a flow with an account has.
const SENT: &str = "sent-packets";

/// Returns the sums of the rows of flows.
pub(super) fn measures(ledger: &[LedgerRow]) -> Vec<Measure> {
    let mut sums: IndexMap<String, u64> = IndexMap::new();
    for row in ledger {
        let Some((flow, end)) = Subject::end_of_flow(&row.sender) else { continue };
        let (flow, answers) = (Subject::Flow(flow), if end == End::Sender { "" } else { ANSWERS });
        let mut add = |what: &str, packets: u64| {
            *sums.entry(format!("{flow}.{answers}{what}")).or_default() += packets;
        };
        let column = |column: LedgerColumn| format!("{}-packets", column.name());
        add(&column(row.column), row.packets);
        if row.column == LedgerColumn::Dropped {
            add(&format!("dropped-{}", row.reason), row.packets);
        }
        // Of the data nothing dropped is a value.
        if row.column == LedgerColumn::Delivered && answers.is_empty() {
            add(&column(LedgerColumn::Dropped), 0);
            add(&column(LedgerColumn::Remaining), 0);
        }
    }
    sums.into_iter().filter_map(|(name, packets)| Measure::new(name, "packets", packets as f64)).collect()
}

/// Returns the measure of the packets sent, of which a measure is a part. `None` of measures that are not of an account.
///
/// A run that has the first and lacks the second has zero of it.
pub fn account_total(name: &str) -> Option<String> {
    let (flow @ Subject::Flow(_), measure) = Subject::of_name(name)? else { return None };
    let (answers, column) = match measure.strip_prefix(ANSWERS) {
        Some(column) => (ANSWERS, column),
        None => ("", measure),
    };
    let is_column = column.strip_suffix("-packets").and_then(LedgerColumn::of).is_some();
    let is_of = |reason: &str| Why::ALL.iter().any(|why| why.name() == reason);
    let is_reason = column.strip_prefix("dropped-").is_some_and(is_of);
    (is_column || is_reason).then(|| format!("{flow}.{answers}{SENT}"))
}

/// Numbers that are reported only where they are not zero.
///
/// With each comes a measure of the same thing that is reported in any case.
const LEFT_OUT: [(&str, &str); 2] = [("calls-left-out", "good-loss"), ("copies-left-out", "copies")];

/// Returns the measure with which a count is zero where it has no value. `None` of other measures.
///
/// A run that has the first and lacks the second has zero of it, if another run of its point has it.
pub fn counted_with(name: &str) -> Option<String> {
    let of_subject = || {
        let (subject, metric) = subject_and_metric(name)?;
        let (_, with) = LEFT_OUT.iter().find(|(count, _)| *count == metric)?;
        Some(format!("{subject}.{with}"))
    };
    account_total(name).or_else(of_subject)
}

/// Adds the zeros of counts that another run of the same point has.
pub(super) fn add_zeros<'a>(runs: &mut [Vec<Cow<'a, Measure>>]) {
    let mut counts: IndexMap<String, (String, Measure)> = IndexMap::new();
    for measure in runs.iter().flatten() {
        if !counts.contains_key(&measure.name)
            && let Some(with) = counted_with(&measure.name)
        {
            let zero = Measure { value: 0.0, ..(**measure).clone() };
            counts.insert(measure.name.clone(), (with, zero));
        }
    }
    for run in runs {
        let own: HashSet<&str> = run.iter().map(|measure| &measure.name[..]).collect();
        let is_zero = |(name, (with, _)): &(&String, &(String, Measure))| {
            own.contains(&with[..]) && !own.contains(&name[..])
        };
        let zeros: Vec<Measure> = counts.iter().filter(is_zero).map(|(_, (_, zero))| zero.clone()).collect();
        run.extend(zeros.into_iter().map(Cow::Owned));
    }
}

/// Returns the measures that are parts of the packets sent, with any reason. None of another measure than that.
pub(super) fn parts(total: &str) -> impl Iterator<Item = String> {
    let end = total.strip_suffix(SENT).filter(|_| account_total(total).is_some());
    let columns = LedgerColumn::ALL.iter().map(|column| format!("{}-packets", column.name()));
    let reasons = Why::ALL.iter().map(|why| format!("dropped-{}", why.name()));
    end.into_iter()
        .flat_map(move |end| columns.clone().chain(reasons.clone()).map(move |part| format!("{end}{part}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sender: &str, column: LedgerColumn, reason: &str, packets: u64) -> LedgerRow {
        let (place, reason) = (String::new(), reason.to_owned());
        LedgerRow {
            sender: sender.to_owned(),
            column,
            place,
            reason,
            packets,
            in_warm_up: 0,
            duplicates: 0,
            arrived: None,
            lost: None,
            bytes: None,
        }
    }

    #[test]
    fn measures_are_sums_of_rows_and_each_is_a_part_of_those_sent() {
        use LedgerColumn::{Delivered, Dropped, Sent};
        let rows = [
            row("flow.a.1.sender", Sent, "", 10),
            row("flow.a.1.sender", Delivered, "", 4),
            row("flow.a.1.sender", Dropped, "queue", 1),
            row("flow.a.1.sender", Dropped, "queue", 2),
            row("flow.a.1.sender", Dropped, "channel", 3),
            row("flow.a.1.receiver", Sent, "", 5),
            row("flow.a.1.receiver", Dropped, "aqm", 5),
            row("role.proxy", Sent, "", 7),
        ];
        let measures = measures(&rows);
        let found: Vec<String> = measures.iter().map(|it| format!("{} {}", it.name, it.value)).collect();
        let expected = [
            "flow.a.1.sent-packets 10",
            "flow.a.1.delivered-packets 4",
            "flow.a.1.dropped-packets 6",
            "flow.a.1.remaining-packets 0",
            "flow.a.1.dropped-queue 3",
            "flow.a.1.dropped-channel 3",
            "flow.a.1.return-sent-packets 5",
            "flow.a.1.return-dropped-packets 5",
            "flow.a.1.return-dropped-aqm 5",
        ];
        assert_eq!(found, expected);
        for measure in &measures {
            let is_answer = measure.name.contains(".return-");
            let total = if is_answer { "flow.a.1.return-sent-packets" } else { "flow.a.1.sent-packets" };
            assert_eq!(account_total(&measure.name).as_deref(), Some(total));
        }
        assert_eq!(account_total("flow.a.1.goodput"), None);
        assert_eq!(account_total("link.a.forward.dropped-queue"), None);
        assert_eq!(account_total("flow.a.1.dropped-quuee"), None);
        let parts: Vec<String> = parts("flow.a.1.return-sent-packets").collect();
        assert!(
            parts.iter().all(|part| account_total(part).as_deref() == Some("flow.a.1.return-sent-packets"))
        );
        assert!(parts.iter().any(|part| part == "flow.a.1.return-dropped-queue"), "{parts:?}");
        assert_eq!(
            super::parts("flow.a.1.delivered-packets").count() + super::parts("flow.a.goodput").count(),
            0
        );
    }
}
