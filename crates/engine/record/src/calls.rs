//! Calls of a run, a row for each end that has records.

use std::io::Write;
use std::sync::Arc;

use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::writer::SerializedRowGroupWriter;
use bentpipe_site::{CallDetail, CallQuality, CallRecord};
use bentpipe_units::{Span, Time};

use super::nullable::Kind::{self, Number, Text, Whole};
use super::nullable::{column, writer};
use super::packets::RecordedFlow;
use super::parquet::Out;

/// Name of the file with the calls of a run.
pub const CALLS_FILE: &str = "calls.parquet";

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 18;

/// Call as one end knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRow {
    /// Flow.
    pub flow: Arc<RecordedFlow>,
    /// Number among the calls of the flow, from 1 on.
    pub number: u64,
    /// Node of this end.
    pub at: Arc<str>,
    /// Record.
    pub record: CallRecord,
}

/// Writes calls as Parquet, a row for each. `now` is the end of the run.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write_calls(rows: &[CallRow], now: Time, mut out: impl Write + Send) -> Result<()> {
    write_to(rows, now, &mut out)
}

fn write_to(rows: &[CallRow], now: Time, out: Out<'_>) -> Result<()> {
    let mut file = writer(out, "calls", COLUMNS)?;
    for rows in rows.chunks(GROUP_ROWS) {
        let mut group = file.next_row_group()?;
        write_names(rows, &mut group)?;
        write_times(rows, now, &mut group)?;
        write_quality(rows, &mut group)?;
        write_details(rows, &mut group)?;
        group.close()?;
    }
    file.close()?;
    Ok(())
}

type Group<'a, W> = SerializedRowGroupWriter<'a, W>;

fn write_names<W: Write + Send>(rows: &[CallRow], group: &mut Group<'_, W>) -> Result<()> {
    let mut texts = |of: fn(&CallRow) -> Option<&str>| {
        let bytes = |row| of(row).map(|text| ByteArray::from(text.as_bytes().to_vec()));
        column::<ByteArrayType, _>(group, rows.iter().map(bytes))
    };
    texts(|row| Some(&row.flow.name))?;
    texts(|row| Some(&row.flow.from))?;
    texts(|row| Some(&row.flow.to))?;
    texts(|row| Some(&row.at))?;
    texts(|row| Some(row.record.protocol))?;
    texts(|row| row.record.codec.as_deref())?;
    texts(|row| Some(row.record.end.word()))?;
    column::<Int64Type, _>(group, rows.iter().map(|row| Some(row.number as i64)))
}

fn write_times<W: Write + Send>(rows: &[CallRow], now: Time, group: &mut Group<'_, W>) -> Result<()> {
    let mut seconds = |of: &dyn Fn(&CallRecord) -> Option<f64>| {
        column::<DoubleType, _>(group, rows.iter().map(|row| of(&row.record)))
    };
    seconds(&|call| Some(call.placed.as_secs_f64()))?;
    seconds(&|call| call.post_dial.map(Span::as_secs_f64))?;
    seconds(&|call| call.set_up.map(Span::as_secs_f64))?;
    seconds(&|call| call.duration(now).map(Span::as_secs_f64))
}

fn write_quality<W: Write + Send>(rows: &[CallRow], group: &mut Group<'_, W>) -> Result<()> {
    let packets = |row: &CallRow| row.record.quality.map(|quality| quality.packets as i64);
    column::<Int64Type, _>(group, rows.iter().map(packets))?;
    let mut numbers = |of: fn(CallQuality) -> Option<f64>| {
        column::<DoubleType, _>(group, rows.iter().map(|row| row.record.quality.and_then(of)))
    };
    numbers(|quality| quality.loss)?;
    numbers(|quality| quality.mouth_to_ear.map(Span::as_secs_f64))?;
    numbers(|quality| quality.r)?;
    numbers(|quality| quality.mos)
}

fn write_details<W: Write + Send>(rows: &[CallRow], group: &mut Group<'_, W>) -> Result<()> {
    let mut texts = |of: fn(&CallDetail) -> &str| {
        let bytes =
            |row: &CallRow| row.record.detail.as_ref().map(|it| ByteArray::from(of(it).as_bytes().to_vec()));
        column::<ByteArrayType, _>(group, rows.iter().map(bytes))
    };
    texts(|detail| &detail.caller)?;
    texts(|detail| &detail.callee)?;
    texts(|detail| &detail.cause)?;
    texts(|detail| &detail.path)
}

/// Columns of the file.
const COLUMNS: &[(&str, Kind)] = &[
    ("flow", Text),
    ("caller", Text),
    ("callee", Text),
    ("at", Text),
    ("protocol", Text),
    ("codec", Text),
    ("end", Text),
    ("call", Whole),
    ("placed_s", Number),
    ("post_dial_s", Number),
    ("set_up_s", Number),
    ("duration_s", Number),
    ("packets", Whole),
    ("loss", Number),
    ("mouth_to_ear_s", Number),
    ("r", Number),
    ("mos", Number),
    ("caller_number", Text),
    ("callee_number", Text),
    ("cause", Text),
    ("path", Text),
];

#[cfg(test)]
mod tests {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use bentpipe_site::CallEnd;

    use super::*;

    fn row(number: u64, set_up: Option<Span>, end: CallEnd, quality: Option<CallQuality>) -> CallRow {
        let named = |text: &str| text.to_owned();
        let flow = RecordedFlow { name: named("calls"), from: named("office"), to: named("hub") };
        let record = CallRecord {
            protocol: "iax",
            codec: Some(named("GSM")),
            placed: Time::from_nanos(2_000_000_000),
            post_dial: Some(Span::from_millis(540)),
            set_up,
            ended: (end == CallEnd::Ended).then(|| Time::from_nanos(9_500_000_000)),
            end,
            quality,
            detail: (end == CallEnd::Ended).then(|| CallDetail {
                caller: "201".to_owned(),
                callee: "301".to_owned(),
                cause: "normal, by the caller".to_owned(),
                path: "sip - iax hub".to_owned(),
            }),
        };
        CallRow { flow: Arc::new(flow), number, at: "office".into(), record }
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let quality = CallQuality { packets: 7, loss: Some(0.25), r: Some(70.0), ..CallQuality::default() };
        let rows = [
            row(1, Some(Span::from_millis(1500)), CallEnd::Ended, Some(quality)),
            row(2, Some(Span::from_secs(2)), CallEnd::Up, None),
            row(3, None, CallEnd::TimedOut, None),
        ];
        let mut bytes = Vec::new();
        write_calls(&rows, Time::from_nanos(10_000_000_000), &mut bytes).expect("memory takes it");
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("Parquet");
        let read: Vec<String> =
            file.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect();
        let has = |n: usize, text: &str| assert!(read[n].contains(text), "{text} in {}", read[n]);
        for text in
            ["flow: \"calls\"", "caller: \"office\"", "end: \"ended\"", "set_up_s: 1.5", "duration_s: 6"]
        {
            has(0, text);
        }
        [
            (0, "loss: 0.25"),
            (0, "packets: 7"),
            (0, "mos: null"),
            (1, "duration_s: 6"),
            (1, "packets: null"),
            (0, "callee_number: \"301\""),
            (0, "path: \"sip - iax hub\""),
            (1, "cause: null"),
        ]
        .into_iter()
        .chain([(2, "end: \"timed-out\""), (2, "duration_s: null"), (2, "call: 3")])
        .for_each(|(n, text)| has(n, text));
    }
}
