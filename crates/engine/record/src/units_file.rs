//! Tables of accounts of units: Parquet files and frames.

use std::io::Write;

use ::parquet::errors::Result;

use super::accounts_file::{self, AccountRow, Field};
use super::{Frame, Outcome, UnitRow};

/// Name of the file with the accounts of units of a run.
pub const UNITS_FILE: &str = "units.parquet";

/// Name of the same as CSV.
pub const UNITS_CSV: &str = "units.csv";

impl AccountRow for UnitRow {
    const NAME: &'static str = "units";
    const FIELDS: &'static [(&'static str, Field<UnitRow>)] = &[
        ("flow", Field::Text(|row| &row.flow)),
        ("unit", Field::Text(|row| &row.unit)),
        ("column", Field::Text(|row| row.column.name())),
        ("place", Field::Text(|row| &row.place)),
        ("reason", Field::Text(|row| &row.reason)),
        ("count", Field::Whole(|row| row.count)),
    ];

    fn of(outcome: &Outcome) -> &[UnitRow] {
        &outcome.units
    }
}

/// Writes accounts of units as Parquet, a row for each of theirs.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write_units(rows: &[UnitRow], out: impl Write + Send) -> Result<()> {
    accounts_file::write(rows, out)
}

/// Returns the accounts of units of a run.
pub fn units_frame<'a>(rows: impl Iterator<Item = &'a UnitRow> + Clone) -> Frame {
    accounts_file::frame(rows)
}

#[cfg(test)]
mod tests {
    use bentpipe_net::metric::UnitColumn;

    use super::*;

    fn rows() -> Vec<UnitRow> {
        let row = |column, reason: &str| UnitRow {
            flow: "flow.a".to_owned(),
            unit: "calls".to_owned(),
            column,
            place: String::new(),
            reason: reason.to_owned(),
            count: 7,
        };
        vec![row(UnitColumn::Offered, ""), row(UnitColumn::Refused, "all-lines-busy")]
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write_units(&rows(), &mut bytes).expect("memory takes it");
        let read = accounts_file::read_back(bytes);
        let of = |column: &str, reason: &str| {
            format!(
                "{{flow: \"flow.a\", unit: \"calls\", column: \"{column}\", place: null, reason: {reason}, count: 7}}"
            )
        };
        assert_eq!(read, [of("offered", "null"), of("refused", "\"all-lines-busy\"")]);
        let mut csv = Vec::new();
        units_frame(rows().iter()).write_csv(&mut csv).expect("memory");
        let expected = "flow,unit,column,place,reason,count\nflow.a,calls,offered,,,7\nflow.a,calls,refused,,all-lines-busy,7\n";
        assert_eq!(String::from_utf8_lossy(&csv), expected);
    }
}
