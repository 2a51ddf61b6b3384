//! Log of the packets of a job: totals, rows of CSV, flows and the plot.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bentpipe_rohc::{CompressorState, Mode, Profile};
use serde_json::{Value, json};

use super::flows::{Ends, Flows};
use super::series::Series;
use super::totals::{Method, Sizes, Totals};
use super::uncompressed::{reason, uncounted};
use crate::capture::{Capture, Packet, Sink, write_counts};
use crate::{Error, Intake, Outcome, Session};

/// Report of a job: further files, and the choice of packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// CSV file with a row per packet.
    pub csv: Option<PathBuf>,
    /// SVG file with the header size over time.
    pub plot: Option<PathBuf>,
    /// Number of flows to list in the text, those with the most header bytes first. Default: none.
    pub flows: Option<usize>,
    /// Choice of packets, and a file for the records that are left out.
    pub intake: Intake,
}

impl Outputs {
    /// Checks that no file to write is the input or another of them. `others` are those of the job.
    ///
    /// # Errors
    /// Returns an error that names the file.
    pub(crate) fn check_apart(&self, input: &Path, others: [Option<&Path>; 2]) -> Result<(), Error> {
        let [first, second] = others;
        let outputs = [first, second, self.csv.as_deref(), self.plot.as_deref()];
        crate::capture::check_apart(input, outputs, &self.intake)
    }
}

/// Result for a packet.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// Number of the ROHC packet's record in its file.
    pub(crate) record: Option<u64>,
    pub(crate) frame: Option<u64>,
    pub(crate) time_ns: u64,
    /// Set for a failure.
    pub(crate) is_failure: bool,
    /// Status word, with an optional detail after a colon.
    pub(crate) status: &'a str,
    /// IP packet, if there is one.
    pub(crate) ip: Option<&'a [u8]>,
    pub(crate) ip_len: usize,
    pub(crate) rohc_len: usize,
    /// CID, if it is known, and sizes, if it was compressed or decompressed.
    pub(crate) flow: Option<(Option<u16>, Sizes)>,
    /// Mode and state of the compressor, if there is one.
    pub(crate) state: Option<(Mode, CompressorState)>,
}

/// Maximum number of flows of a reason whose packets are counted.
const MAX_FLOWS: usize = 10_000;
/// Number of flows of a reason that are listed.
const LISTED_FLOWS: usize = 5;

/// Maximum number of failures that are reported one by one.
const MAX_REPORTED: u64 = 10;

/// Packets by reason, and those of each flow.
#[derive(Default)]
struct Reasons(BTreeMap<&'static str, (u64, BTreeMap<Ends, u64>)>);

impl Reasons {
    fn add(&mut self, reason: &'static str, bytes: &[u8]) {
        let (count, flows) = self.0.entry(reason).or_default();
        *count += 1;
        if let Some(ends) = Ends::with_ports(bytes)
            && (flows.len() < MAX_FLOWS || flows.contains_key(&ends))
        {
            *flows.entry(ends).or_default() += 1;
        }
    }

    /// Describes the reasons as JSON.
    fn json(&self) -> Value {
        let all = self.0.iter().map(|(reason, (count, flows))| {
            let flows =
                flows.iter().map(|(ends, count)| json!({ "flow": ends.to_string(), "packets": count }));
            json!({ "reason": reason, "packets": count, "flows": flows.collect::<Vec<_>>() })
        });
        all.collect()
    }

    /// Lists the reasons with the flows of each. The head is in front of the first line.
    fn text(&self, head: &str) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(reason, (count, _))| format!("{count} {reason}")).collect();
        if parts.is_empty() {
            return String::new();
        }
        let mut text = format!("{head}: {}.\n", parts.join("; "));
        for (reason, (_, flows)) in &self.0 {
            let mut flows: Vec<_> = flows.iter().map(|(ends, count)| (Reverse(*count), ends)).collect();
            flows.sort_unstable();
            for (Reverse(count), ends) in flows.iter().take(LISTED_FLOWS) {
                text += &format!("  {ends}: {count} {reason}\n");
            }
            let rest = flows.len().saturating_sub(LISTED_FLOWS);
            if rest > 0 {
                text += &format!("  {rest} other flows or more {reason}\n");
            }
        }
        text
    }
}

/// Totals, rows and the plot's points.
pub(crate) struct PacketLog<'a> {
    session: &'a dyn Session,
    input: PathBuf,
    /// Remark for a job in which no packet succeeded.
    hint: Option<&'static str>,
    totals: Totals,
    counts: BTreeMap<String, u64>,
    failures: u64,
    /// Packets that were sent uncompressed.
    uncompressed: Reasons,
    /// Compressed packets of whose headers a part counts as payload.
    uncounted: Reasons,
    flows: Option<Flows>,
    rows: Option<Rows>,
    plot: Option<(PathBuf, Series)>,
    intake: Intake,
}

impl<'a> PacketLog<'a> {
    /// Creates the files of `outputs`.
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub(crate) fn new(
        outputs: &Outputs,
        input: &Path,
        session: &'a dyn Session,
    ) -> Result<PacketLog<'a>, Error> {
        Ok(PacketLog {
            session,
            input: input.into(),
            hint: None,
            totals: Totals::default(),
            counts: BTreeMap::new(),
            failures: 0,
            uncompressed: Reasons::default(),
            uncounted: Reasons::default(),
            flows: outputs.flows.map(Flows::new),
            rows: outputs.csv.as_deref().map(Rows::create).transpose()?,
            plot: outputs.plot.clone().map(|path| (path, Series::default())),
            intake: outputs.intake.clone(),
        })
    }

    /// Sets the remark for a job in which no packet succeeded.
    pub(crate) fn with_hint(self, hint: &'static str) -> PacketLog<'a> {
        PacketLog { hint: Some(hint), ..self }
    }

    /// Records a packet; the first failures are reported at once.
    ///
    /// # Errors
    /// Returns an error if its row cannot be written.
    pub(crate) fn record(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        match self.counts.get_mut(kind(entry.status)) {
            Some(count) => *count += 1,
            None => _ = self.counts.insert(kind(entry.status).to_owned(), 1),
        }
        if entry.is_failure {
            self.failures += 1;
            self.report(entry);
        }
        if let Some((_, sizes)) = &entry.flow {
            self.totals.add(sizes);
            match (sizes.method, entry.ip) {
                (Method::Rohc(Profile::Uncompressed), Some(bytes)) => {
                    self.uncompressed.add(reason(bytes, entry.ip_len), bytes);
                }
                (Method::Rohc(_), Some(bytes)) => {
                    let reason = uncounted(bytes, entry.ip_len);
                    reason.into_iter().for_each(|reason| self.uncounted.add(reason, bytes));
                }
                _ => {}
            }
            if let Some(flows) = &mut self.flows {
                flows.add(entry.ip, sizes);
            }
            if let Some((_, series)) = &mut self.plot {
                series.add(entry.time_ns, sizes);
            }
        }
        self.rows.as_mut().map_or(Ok(()), |rows| rows.write(entry))
    }

    /// Describes results, sizes and reasons as JSON.
    fn json(&self) -> Value {
        json!({
            "results": self.counts,
            "failures": self.failures,
            "uncompressed": self.uncompressed.json(),
            "headers_as_payload": self.uncounted.json(),
            "sizes": self.totals.json(),
        })
    }

    fn report(&self, entry: &Entry<'_>) {
        let number = entry.frame.or(entry.record).unwrap_or(0);
        let input = self.input.display();
        match self.failures {
            0..=MAX_REPORTED => self.session.note(&format!("{input}: packet {number}: {}", entry.status)),
            _ if self.failures == MAX_REPORTED + 1 => {
                self.session.note(&format!("{input}: more packets failed; --csv lists them all"))
            }
            _ => {}
        }
    }

    /// Finishes the files, and returns the totals as text.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub(crate) fn finish(self, capture: &Capture) -> Result<Outcome, Error> {
        self.session.note(&capture.remark());
        write_counts(&self.intake, self.json(), capture.json())?;
        let is_incomplete = capture.account().has_damage();
        if let (Some(hint), true) = (self.hint, self.failures > 0 && self.totals == Totals::default()) {
            self.session.note(hint);
        }
        if let Some(rows) = self.rows {
            rows.finish()?;
        }
        if let Some((path, series)) = &self.plot {
            let written = Sink::create(path).and_then(|mut file| {
                file.write_all(series.plot().to_svg().as_bytes())?;
                file.finish()
            });
            written.map_err(|source| Error::Write { path: path.clone(), source })?;
        }
        let flows = self.flows.map_or_else(String::new, |flows| format!("{flows}\n"));
        let totals = &self.totals;
        let reasons = self.uncounted.text("Headers behind a cut count as payload")
            + &self.uncompressed.text("Not compressed");
        let counts = counts(&self.counts);
        let text = format!("{}\n{counts}\n{reasons}{totals}\n{flows}", totals.headline());
        Ok(Outcome::new(text, self.session, self.failures > 0 || is_incomplete))
    }
}

/// Returns the word that a status begins with.
fn kind(status: &str) -> &str {
    status.split_once(':').map_or(status, |(kind, _)| kind)
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let packets: u64 = counts.values().sum();
    let kinds: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    match kinds[..] {
        [] => "No packets.".into(),
        _ => format!("{packets} packets: {}.", kinds.join(", ")),
    }
}

/// Rows of CSV: the columns of the reference streams' tables, and more after them.
struct Rows {
    path: PathBuf,
    out: csv::Writer<Sink>,
}

const COLUMNS: [&str; 15] = [
    "record",
    "frame",
    "status",
    "ip_len",
    "ip_crc32",
    "rohc_len",
    "hdr_in",
    "hdr_out",
    "cid",
    "profile",
    "packet_type",
    "mode",
    "state",
    "time_s",
    "flow",
];

impl Rows {
    fn create(path: &Path) -> Result<Rows, Error> {
        let out = Sink::create(path).map_err(|source| Error::Write { path: path.into(), source })?;
        let mut rows = Rows { path: path.into(), out: csv::Writer::from_writer(out) };
        rows.write_cells(&COLUMNS.map(String::from))?;
        Ok(rows)
    }

    fn write(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        self.write_cells(&row(entry))
    }

    fn write_cells(&mut self, cells: &[String]) -> Result<(), Error> {
        let failed = |error: csv::Error| Error::Write { path: self.path.clone(), source: error.into() };
        self.out.write_record(cells).map_err(failed)
    }

    fn finish(self) -> Result<(), Error> {
        let Rows { path, out } = self;
        let out = out.into_inner().map_err(|error| io::Error::from(error.error().kind()));
        out.and_then(Sink::finish).map_err(|source| Error::Write { path, source })
    }
}

fn row(entry: &Entry<'_>) -> [String; 15] {
    let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let crc = entry.ip.map_or(String::new(), |ip| format!("{:08x}", crc32fast::hash(ip)));
    let sizes = entry.flow.as_ref().map(|(_, sizes)| sizes);
    let of_flow = |text: fn(&Sizes) -> String| sizes.map_or(String::new(), text);
    let cid = number(entry.flow.as_ref().and_then(|(cid, _)| cid.map(u64::from)));
    let [mode, state] =
        entry.state.map_or_else(Default::default, |(mode, state)| [mode_name(mode), state.name()]);
    let method = sizes.map_or(Method::Rohc(Profile::Uncompressed), |sizes| sizes.method);
    let ends = entry.ip.and_then(|ip| Ends::of(ip, method)).map_or(String::new(), |ends| ends.to_string());
    let (seconds, nanos) = (entry.time_ns / 1_000_000_000, entry.time_ns % 1_000_000_000);
    [
        number(entry.record),
        number(entry.frame),
        // Readers that split rows at commas only are many.
        entry.status.replace(',', ";"),
        entry.ip_len.to_string(),
        crc,
        entry.rohc_len.to_string(),
        of_flow(|sizes| sizes.ip_header.to_string()),
        of_flow(|sizes| sizes.rohc_header.to_string()),
        cid,
        of_flow(|sizes| sizes.method.cell()),
        of_flow(|sizes| sizes.form.cell()),
        mode.to_owned(),
        state.to_owned(),
        format!("{seconds}.{nanos:09}"),
        ends,
    ]
}

const fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Unidirectional => "U-mode",
        Mode::Optimistic => "O-mode",
        Mode::Reliable => "R-mode",
    }
}

/// Creates the entry of a packet that is to be compressed.
pub(crate) fn entry<'a>(packet: &Packet<'a>, status: &'a str, is_failure: bool) -> Entry<'a> {
    Entry {
        record: None,
        frame: Some(packet.number),
        time_ns: packet.time_ns,
        is_failure,
        status,
        ip: Some(packet.bytes),
        ip_len: packet.len,
        rohc_len: 0,
        flow: None,
        state: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::totals::Form;
    use super::*;
    use bentpipe_rohc::{PacketType, Profile};

    #[test]
    fn rows_are_those_of_the_reference_tables() {
        let packet =
            Packet { number: 2, time_ns: 1_050_000_000, len: 9, bytes: b"123456789", ..Packet::default() };
        let sizes = Sizes {
            method: Method::Rohc(Profile::Ip),
            form: Form::Rohc(PacketType::Ir),
            ip_len: 9,
            ip_header: 8,
            kept: 0,
            rohc_len: 12,
            rohc_header: 11,
        };
        let sent = Entry {
            record: Some(1),
            rohc_len: 12,
            flow: Some((Some(3), sizes)),
            ..entry(&packet, "ok", false)
        };
        let row = |entry: &Entry<'_>| row(entry).join(",");
        assert_eq!(row(&sent), "1,2,ok,9,cbf43926,12,8,11,3,0x0004,IR,,,1.050000000,");
        let state = Some((Mode::Optimistic, CompressorState::FirstOrder));
        assert!(row(&Entry { state, ..sent }).ends_with(",IR,O-mode,FO,1.050000000,"));
        let sent = Entry { record: Some(1), flow: Some((Some(3), sizes)), ..entry(&packet, "ok", false) };
        let refused = entry(&packet, "refused: a, b", true);
        assert_eq!(row(&refused), ",2,refused: a; b,9,cbf43926,0,,,,,,,,1.050000000,");
        assert!(row(&sent).split(',').count() == row(&refused).split(',').count());
        assert_eq!(row(&sent).split(',').count(), COLUMNS.len());
    }

    #[test]
    fn counts_are_by_kind() {
        let noted = BTreeMap::from([("ok".to_owned(), 3), (kind("refused: why").to_owned(), 1)]);
        assert_eq!(counts(&noted), "4 packets: 3 ok, 1 refused.");
    }
}
