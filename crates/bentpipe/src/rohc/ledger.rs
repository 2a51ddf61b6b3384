//! What is noted of each packet, and what is said of them at the end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bentpipe_rohc::{CompressorState, Mode, Profile};

use super::args::OutputArgs;
use super::capture::{Capture, Packet, Sink};
use super::flows::{Ends, Flows};
use super::series::Series;
use super::tally::{Sizes, Tally};
use super::{Error, Verdict};

/// What happened to a packet.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// Its ROHC packet's record, and its own, in the files read and written.
    pub(super) record: Option<u64>,
    pub(super) frame: Option<u64>,
    pub(super) time_ns: u64,
    /// Whether that is a failure, and the word for it.
    pub(super) is_failure: bool,
    pub(super) status: &'a str,
    /// The IP packet, if there is one.
    pub(super) ip: Option<&'a [u8]>,
    pub(super) ip_len: usize,
    pub(super) rohc_len: usize,
    /// CID and sizes, if it was compressed or decompressed.
    pub(super) flow: Option<(u16, Sizes)>,
    /// Mode and state of the compressor, if one is at work.
    pub(super) state: Option<(Mode, CompressorState)>,
}

/// How many failures are told one by one.
const TOLD: u64 = 10;

/// Sums, rows and the plot's points.
pub(super) struct Ledger {
    /// What is read.
    input: PathBuf,
    /// What to say if no packet went through.
    hint: Option<&'static str>,
    tally: Tally,
    counts: BTreeMap<String, u64>,
    failures: u64,
    flows: Option<Flows>,
    rows: Option<Rows>,
    plot: Option<(PathBuf, Series)>,
    is_quiet: bool,
}

impl Ledger {
    /// Opens the files asked for.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(super) fn new(args: &OutputArgs, input: &Path) -> Result<Ledger, Error> {
        Ok(Ledger {
            input: input.into(),
            hint: None,
            tally: Tally::default(),
            counts: BTreeMap::new(),
            failures: 0,
            flows: args.flows.map(Flows::new),
            rows: args.csv.as_deref().map(Rows::create).transpose()?,
            plot: args.plot.clone().map(|path| (path, Series::default())),
            is_quiet: args.quiet,
        })
    }

    /// With something to say if no packet went through.
    pub(super) fn with_hint(self, hint: &'static str) -> Ledger {
        Ledger { hint: Some(hint), ..self }
    }

    /// Notes a packet; failures are told at once, up to a few.
    ///
    /// # Errors
    /// If its row cannot be written.
    pub(super) fn note(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        *self.counts.entry(kind(entry.status).to_owned()).or_default() += 1;
        if entry.is_failure {
            self.failures += 1;
            self.tell(entry);
        }
        if let Some((_, sizes)) = &entry.flow {
            self.tally.add(sizes);
            if let Some(flows) = &mut self.flows {
                flows.add(entry.ip, sizes);
            }
            if let Some((_, series)) = &mut self.plot {
                series.add(entry.time_ns, sizes);
            }
        }
        self.rows.as_mut().map_or(Ok(()), |rows| rows.write(entry))
    }

    fn tell(&self, entry: &Entry<'_>) {
        let number = entry.frame.or(entry.record).unwrap_or(0);
        let input = self.input.display();
        match self.failures {
            0..=TOLD => say(&format!("{input}: packet {number}: {}", entry.status)),
            _ if self.failures == TOLD + 1 => {
                say(&format!("{input}: more packets failed; --csv lists them all"))
            }
            _ => {}
        }
    }

    /// Writes what is left to write and prints the table: to standard error if standard output holds the capture.
    ///
    /// # Errors
    /// If something cannot be written.
    pub(super) fn finish(self, capture: &Capture, to_stderr: bool) -> Result<Verdict, Error> {
        capture.remarks().iter().for_each(|remark| say(remark));
        if let (Some(hint), true) = (self.hint, self.failures > 0 && self.tally == Tally::default()) {
            say(hint);
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
        if !self.is_quiet {
            let flows = self.flows.map_or_else(String::new, |flows| format!("{flows}\n"));
            let tally = &self.tally;
            print(&format!("{}\n{}\n{tally}\n{flows}", tally.headline(), counts(&self.counts)), to_stderr);
        }
        Ok(if self.failures > 0 { Verdict::Failed } else { Verdict::Clean })
    }
}

/// What a status begins with: what follows a colon is a detail.
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

/// A line for whoever waits at the terminal.
pub(super) fn say(line: &str) {
    print(&format!("bentpipe rohc: {line}\n"), true);
}

/// Nobody can be told that printing failed, so it may.
fn print(text: &str, to_stderr: bool) {
    let _ = if to_stderr {
        io::stderr().write_all(text.as_bytes())
    } else {
        io::stdout().write_all(text.as_bytes())
    };
}

/// The table of `--csv`: the columns of the reference streams' tables, then what is told besides.
struct Rows {
    path: PathBuf,
    out: Sink,
}

const COLUMNS: &str = "record,frame,status,ip_len,ip_crc32,rohc_len,hdr_in,hdr_out,cid,profile,packet_type,mode,state,time_s,flow";

impl Rows {
    fn create(path: &Path) -> Result<Rows, Error> {
        let mut out = Sink::create(path).map_err(|source| Error::Write { path: path.into(), source })?;
        writeln!(out, "{COLUMNS}").map_err(|source| Error::Write { path: path.into(), source })?;
        Ok(Rows { path: path.into(), out })
    }

    fn write(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        writeln!(self.out, "{}", row(entry))
            .map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    fn finish(self) -> Result<(), Error> {
        self.out.finish().map_err(|source| Error::Write { path: self.path, source })
    }
}

fn row(entry: &Entry<'_>) -> String {
    let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let crc = entry.ip.map_or(String::new(), |ip| format!("{:08x}", crc32fast::hash(ip)));
    let mut row = format!(
        "{},{},{},{},{crc},{}",
        number(entry.record),
        number(entry.frame),
        entry.status.replace(',', ";"),
        entry.ip_len,
        entry.rohc_len,
    );
    match &entry.flow {
        None => row.push_str(",,,,,"),
        Some((cid, sizes)) => row.push_str(&format!(
            ",{},{},{cid},{:#06x},{}",
            sizes.ip_header,
            sizes.rohc_header,
            sizes.profile.id(),
            sizes.packet_type,
        )),
    }
    match entry.state {
        None => row.push_str(",,"),
        Some((mode, state)) => row.push_str(&format!(",{},{}", mode_name(mode), state.name())),
    }
    let profile = entry.flow.as_ref().map_or(Profile::Uncompressed, |(_, sizes)| sizes.profile);
    let ends = entry.ip.and_then(|ip| Ends::of(ip, profile)).map_or(String::new(), |ends| ends.to_string());
    let (seconds, nanos) = (entry.time_ns / 1_000_000_000, entry.time_ns % 1_000_000_000);
    row.push_str(&format!(",{seconds}.{nanos:09},{ends}"));
    row
}

const fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Unidirectional => "U-mode",
        Mode::Optimistic => "O-mode",
        Mode::Reliable => "R-mode",
    }
}

/// An entry for a packet of the capture that is compressed.
pub(super) fn entry<'a>(packet: &Packet<'a>, status: &'a str, is_failure: bool) -> Entry<'a> {
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
    use super::*;
    use bentpipe_rohc::{PacketType, Profile};

    #[test]
    fn rows_are_those_of_the_reference_tables() {
        let packet = Packet { number: 2, time_ns: 1_050_000_000, len: 9, bytes: b"123456789" };
        let sizes = Sizes {
            profile: Profile::Ip,
            packet_type: PacketType::Ir,
            ip_len: 9,
            ip_header: 8,
            rohc_len: 12,
            rohc_header: 11,
        };
        let sent =
            Entry { record: Some(1), rohc_len: 12, flow: Some((3, sizes)), ..entry(&packet, "ok", false) };
        assert_eq!(row(&sent), "1,2,ok,9,cbf43926,12,8,11,3,0x0004,IR,,,1.050000000,");
        let state = Some((Mode::Optimistic, CompressorState::FirstOrder));
        assert!(row(&Entry { state, ..sent }).ends_with(",IR,O-mode,FO,1.050000000,"));
        let sent = Entry { record: Some(1), flow: Some((3, sizes)), ..entry(&packet, "ok", false) };
        let refused = entry(&packet, "refused: a, b", true);
        assert_eq!(row(&refused), ",2,refused: a; b,9,cbf43926,0,,,,,,,,1.050000000,");
        assert!(row(&sent).split(',').count() == row(&refused).split(',').count());
        assert_eq!(row(&sent).split(',').count(), COLUMNS.split(',').count());
    }

    #[test]
    fn counts_are_by_kind() {
        let noted = BTreeMap::from([("ok".to_owned(), 3), (kind("refused: why").to_owned(), 1)]);
        assert_eq!(counts(&noted), "4 packets: 3 ok, 1 refused.");
    }
}
