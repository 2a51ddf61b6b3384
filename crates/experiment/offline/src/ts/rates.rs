//! Rate of a stream over time, by PID and of all.
//!
//! Memory does not grow with the length of the stream: lines are written as intervals end, and the plot keeps a bounded number
//! of intervals, of which two become one when there are more.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use bentpipe_record::WholeFile;
use bentpipe_report::{Axis, Curve, Plot, number};
use bentpipe_units::Span;
use bentpipe_wire::ts::{PACKET_LEN, Pid};

use super::survey::Role;
use crate::Error;

/// Maximum number of intervals of a file.
const MAX_INTERVALS: u64 = 1 << 22;
/// Number of intervals without packets that a file has in any case.
const EMPTY_LINES: u64 = 10_000;
/// Maximum number of points of a curve.
const MAX_POINTS: usize = 1024;
/// Number of PIDs that are drawn, those with the most packets.
const DRAWN: usize = 8;
/// Number of PIDs.
const PIDS: usize = 1 << 13;

/// File of rates: a line for each clock, interval and PID.
pub(super) struct RateFile {
    path: PathBuf,
    file: WholeFile,
    /// Lines of intervals without packets that may still be written.
    room: u64,
    /// Intervals without packets that are not in the file.
    left_out: u64,
}

impl RateFile {
    /// Begins a file with its header.
    pub(super) fn create(path: &Path) -> Result<RateFile, Error> {
        let failed = |source| Error::Write { path: path.into(), source };
        let mut file = WholeFile::create(path).map_err(failed)?;
        file.write_all(b"clock,time_s,pid,packets,bit_per_s\n").map_err(failed)?;
        Ok(RateFile { path: path.into(), file, room: EMPTY_LINES, left_out: 0 })
    }

    /// Ends the file, and returns a remark on intervals that are not in it.
    pub(super) fn finish(self) -> Result<Option<String>, Error> {
        let RateFile { path, file, left_out, .. } = self;
        let shown = path.display();
        let remark = (left_out > 0).then(|| {
            format!("{shown}: {left_out} intervals without packets left out: expected a longer --interval")
        });
        file.finish().map_err(|source| Error::Write { path, source })?;
        Ok(remark)
    }

    /// Returns `true` if an interval with this number of packets has a line.
    ///
    /// Times may be anything, so lines of empty intervals are bounded by those of packets.
    fn has_room(&mut self, packets: u64) -> bool {
        match (packets, self.room) {
            (1.., _) => self.room += packets,
            (0, 0) => {
                self.left_out += 1;
                return false;
            }
            (0, _) => self.room -= 1,
        }
        true
    }
}

/// Packets of the current interval, and an overview of those before.
pub(super) struct RateLog {
    clock: &'static str,
    interval: Span,
    /// Number of the current interval.
    current: u64,
    counts: Vec<u64>,
    touched: Vec<usize>,
    overview: Overview,
}

impl RateLog {
    /// Creates a log by a clock of this name.
    pub(super) fn new(clock: &'static str, interval: Span) -> RateLog {
        let (counts, overview) = (vec![0; PIDS], Overview::default());
        RateLog { clock, interval, current: 0, counts, touched: Vec::new(), overview }
    }

    /// Adds a packet at a time from the start. One before the current interval counts there.
    pub(super) fn add(&mut self, at: Span, pid: Pid, file: Option<&mut RateFile>) -> Result<(), Error> {
        self.advance(at, file)?;
        let place = usize::from(pid.number());
        if self.counts[place] == 0 {
            self.touched.push(place);
        }
        self.counts[place] += 1;
        Ok(())
    }

    /// Ends the intervals before a time.
    pub(super) fn advance(&mut self, at: Span, mut file: Option<&mut RateFile>) -> Result<(), Error> {
        // Whole nanoseconds: a quotient of seconds may fall short of a boundary.
        let interval = at.as_nanos() / self.interval.as_nanos().max(1);
        if interval > MAX_INTERVALS {
            let text = format!("more than {MAX_INTERVALS} intervals: expected a longer --interval");
            return Err(Error::Usage(text));
        }
        while self.current < interval {
            self.end_interval(file.as_deref_mut())?;
        }
        Ok(())
    }

    fn end_interval(&mut self, file: Option<&mut RateFile>) -> Result<(), Error> {
        self.touched.sort_unstable();
        if let Some(file) = file {
            self.write(file).map_err(|source| Error::Write { path: file.path.clone(), source })?;
        }
        let counts = &mut self.counts;
        let packets = self.touched.drain(..).map(|pid| (pid, std::mem::take(&mut counts[pid])));
        self.overview.add(packets);
        self.current += 1;
        Ok(())
    }

    fn write(&self, file: &mut RateFile) -> std::io::Result<()> {
        let at_s = (self.current * self.interval.as_nanos()) as f64 / 1e9;
        let total = self.touched.iter().map(|pid| self.counts[*pid]).sum();
        if !file.has_room(total) {
            return Ok(());
        }
        let line = |file: &mut WholeFile, pid: &dyn std::fmt::Display, packets: u64| {
            let rate = (packets * 8 * PACKET_LEN as u64) as f64 / self.interval.as_secs_f64();
            writeln!(file, "{},{at_s},{pid},{packets},{rate:.0}", self.clock)
        };
        line(&mut file.file, &"all", total)?;
        self.touched.iter().try_for_each(|pid| line(&mut file.file, pid, self.counts[*pid]))
    }

    /// Returns the number of whole intervals.
    pub(super) fn intervals(&self) -> u64 {
        self.current
    }

    /// Returns the plot of the rates of all packets and of the largest PIDs.
    pub(super) fn plot(&self, roles: &BTreeMap<Pid, Role>, what: impl Fn(&Role) -> String) -> Plot {
        let title =
            format!("Rate by {}", if self.clock == "pcr" { "clock references" } else { "times of capture" });
        let mut plot = Plot::new(title, Axis::new("time", "s"), Axis::new("rate", "bit/s"));
        let step_s = self.interval.as_secs_f64() * self.overview.width.max(1) as f64;
        plot.note = format!("mean over {} s each", number(step_s));
        let curve = |name: String, colour: usize, packets: &[u64]| {
            let point = |(n, packets): (usize, &u64)| {
                (n as f64 * step_s, (packets * 8 * PACKET_LEN as u64) as f64 / step_s)
            };
            Curve {
                name,
                points: packets.iter().enumerate().map(point).collect(),
                colour,
                ..Curve::default()
            }
        };
        let whole = self.overview.whole();
        plot.curves.push(curve("all".to_owned(), 0, &self.overview.total[..whole]));
        let mut pids: Vec<(u64, usize)> =
            self.overview.by_pid.iter().map(|(pid, packets)| (packets.iter().sum(), *pid)).collect();
        pids.sort_unstable_by(|a, b| b.cmp(a));
        for (nth, (_, pid)) in pids.into_iter().take(DRAWN).enumerate() {
            let mut packets = self.overview.by_pid[&pid].clone();
            packets.resize(whole, 0);
            let role = Pid::new(pid as u16).and_then(|pid| Some((pid, roles.get(&pid)?)));
            let name = role.map_or_else(String::new, |(pid, role)| format!("{pid} {}", what(role)));
            plot.curves.push(curve(name, nth + 1, &packets));
        }
        plot
    }
}

/// Packets over a bounded number of equal parts of the time.
#[derive(Debug, Default)]
struct Overview {
    /// Number of intervals in a part; 0 before the first.
    width: u64,
    /// Intervals in the last part.
    filled: u64,
    total: Vec<u64>,
    by_pid: BTreeMap<usize, Vec<u64>>,
}

impl Overview {
    fn add(&mut self, packets: impl Iterator<Item = (usize, u64)>) {
        self.width = self.width.max(1);
        if self.total.is_empty() || self.filled == self.width {
            if self.total.len() == MAX_POINTS {
                self.halve();
            }
            self.total.push(0);
            self.filled = 0;
        }
        self.filled += 1;
        let place = self.total.len() - 1;
        for (pid, packets) in packets {
            self.total[place] += packets;
            let parts = self.by_pid.entry(pid).or_default();
            parts.resize(place + 1, 0);
            parts[place] += packets;
        }
    }

    /// Merges parts in pairs.
    fn halve(&mut self) {
        let pairs = |parts: &[u64]| parts.chunks(2).map(|pair| pair.iter().sum()).collect::<Vec<u64>>();
        self.total = pairs(&self.total);
        self.by_pid.values_mut().for_each(|parts| *parts = pairs(parts));
        self.width *= 2;
    }

    /// Returns the number of whole parts.
    fn whole(&self) -> usize {
        self.total.len() - usize::from(self.filled < self.width && !self.total.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_in_their_interval() {
        let mut log = RateLog::new("pcr", Span::from_millis(100));
        let pid = |number| Pid::new(number).expect("13 bits");
        for (at_ms, number) in [(0, 1), (50, 2), (310, 1), (200, 1), (550, 3)] {
            log.add(Span::from_millis(at_ms), pid(number), None).expect("few intervals");
        }
        assert_eq!((log.intervals(), log.overview.total.clone()), (5, vec![2, 0, 0, 2, 0]));
        assert_eq!(log.overview.by_pid[&1], [1, 0, 0, 2]);
        assert!(log.advance(Span::from_secs(1_000_000_000), None).is_err());
    }

    #[test]
    fn a_packet_at_a_boundary_is_the_first_of_its_interval() {
        let mut log = RateLog::new("capture", Span::from_millis(70));
        for nth in 0..1000 {
            log.add(Span::from_millis(7 * nth), Pid::NULL, None).expect("few intervals");
        }
        assert_eq!(log.overview.total, [10; 99]);
    }

    #[test]
    fn a_file_grows_with_the_packets_and_not_with_their_times() {
        let folder = bentpipe_testkit::Folder::new();
        let path = folder.file("rates.csv");
        let (mut file, mut log) =
            (RateFile::create(&path).unwrap(), RateLog::new("capture", Span::from_millis(1)));
        let pid = Pid::new(1).expect("13 bits");
        for at_us in [0, 1000, 4_000_000_000, 4_000_001_500] {
            log.add(Span::from_micros(at_us), pid, Some(&mut file)).expect("few intervals");
        }
        let remark = file.finish().unwrap().expect("a remark");
        assert!(remark.contains("3989996 intervals without packets left out"), "{remark}");
        let lines = std::fs::read_to_string(&path).unwrap();
        assert_eq!(lines.lines().count(), 1 + 3 * 2 + 10_002);
        assert!(lines.ends_with("capture,4000,all,1,1504000\ncapture,4000,1,1,1504000\n"), "{lines:.200}");
    }

    #[test]
    fn an_overview_is_bounded_and_loses_nothing() {
        let mut overview = Overview::default();
        for n in 0..10_000_u64 {
            overview.add([(7, n), (8, 1)].into_iter());
        }
        assert!(overview.total.len() <= MAX_POINTS && overview.width == 16, "{}", overview.width);
        assert_eq!(overview.total.iter().sum::<u64>(), 9999 * 10_000 / 2 + 10_000);
        assert_eq!(overview.by_pid[&8].iter().sum::<u64>(), 10_000);
        assert_eq!(overview.total[0], (0..16).sum::<u64>() + 16);
    }
}
