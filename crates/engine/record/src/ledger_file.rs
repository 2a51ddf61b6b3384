//! Tables of accounts of packets: Parquet files and frames.

use std::io::Write;

use ::parquet::errors::Result;

use super::accounts_file::{self, AccountRow, Field};
use super::{Frame, LedgerRow, Outcome};

/// Name of the file with the accounts of a run.
pub const LEDGER_FILE: &str = "ledger.parquet";

/// Name of the same as CSV.
pub const LEDGER_CSV: &str = "ledger.csv";

impl AccountRow for LedgerRow {
    const NAME: &'static str = "ledger";
    const FIELDS: &'static [(&'static str, Field<LedgerRow>)] = &[
        ("sender", Field::Text(|row| &row.sender)),
        ("column", Field::Text(|row| row.column.name())),
        ("place", Field::Text(|row| &row.place)),
        ("reason", Field::Text(|row| &row.reason)),
        ("packets", Field::Whole(|row| row.packets)),
        ("in_warm_up", Field::Whole(|row| row.in_warm_up)),
        ("duplicates", Field::Whole(|row| row.duplicates)),
        ("arrived", Field::Known(|row| row.arrived)),
        ("lost", Field::Known(|row| row.lost)),
        ("bytes", Field::Known(|row| row.bytes)),
    ];

    fn of(outcome: &Outcome) -> &[LedgerRow] {
        &outcome.ledger
    }
}

/// Writes accounts as Parquet, a row for each of theirs.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write_ledger(rows: &[LedgerRow], out: impl Write + Send) -> Result<()> {
    accounts_file::write(rows, out)
}

/// Returns the accounts of a run. Bytes are empty where they are not known.
pub fn ledger_frame<'a>(rows: impl Iterator<Item = &'a LedgerRow> + Clone) -> Frame {
    accounts_file::frame(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LedgerColumn;

    fn rows() -> Vec<LedgerRow> {
        let row = |column, place: &str, reason: &str, bytes| LedgerRow {
            sender: "flow.a.sender".to_owned(),
            column,
            place: place.to_owned(),
            reason: reason.to_owned(),
            packets: 7,
            in_warm_up: 2,
            duplicates: 0,
            arrived: (column == LedgerColumn::Sent).then_some(4),
            lost: None,
            bytes,
        };
        vec![
            row(LedgerColumn::Sent, "", "", Some(10_500)),
            row(LedgerColumn::TakenOver, "role.proxy", "", None),
            row(LedgerColumn::Dropped, "link.l.forward", "queue", None),
        ]
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write_ledger(&rows(), &mut bytes).expect("memory takes it");
        let read = accounts_file::read_back(bytes);
        let of = |column: &str, place: &str, reason: &str, bytes: &str| {
            let arrived = if column == "sent" { "4" } else { "null" };
            format!(
                "{{sender: \"flow.a.sender\", column: \"{column}\", place: {place}, reason: {reason}, packets: 7, in_warm_up: 2, duplicates: 0, arrived: {arrived}, lost: null, bytes: {bytes}}}"
            )
        };
        let expected = [
            of("sent", "null", "null", "10500"),
            of("taken-over", "\"role.proxy\"", "null", "null"),
            of("dropped", "\"link.l.forward\"", "\"queue\"", "null"),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn csv_has_an_empty_field_for_what_is_not_known() {
        let mut csv = Vec::new();
        ledger_frame(rows().iter()).write_csv(&mut csv).expect("memory");
        let expected = "sender,column,place,reason,packets,in_warm_up,duplicates,arrived,lost,bytes\nflow.a.sender,sent,,,7,2,0,4,,10500\n\
                        flow.a.sender,taken-over,role.proxy,,7,2,0,,,\nflow.a.sender,dropped,link.l.forward,queue,7,2,0,,,\n";
        assert_eq!(String::from_utf8_lossy(&csv), expected);
    }
}
