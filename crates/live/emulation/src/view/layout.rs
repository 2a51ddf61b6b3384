//! The table's text, as wide and as high as there is room.

use bentpipe_report::quantity;

/// Row of one direction of a link.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) rate_bps: f64,
    pub(crate) queue_bytes: f64,
    pub(crate) delay_s: f64,
    /// Drops by cause.
    pub(crate) drops: Vec<(&'static str, u64)>,
}

/// The emulator itself.
pub(crate) struct Status {
    pub(crate) elapsed_s: f64,
    pub(crate) packets: u64,
    /// Median, 99th percentile, worst.
    pub(crate) late_s: [f64; 3],
    /// Share of a processor.
    pub(crate) cpu: f64,
}

/// The longest name that is shown whole.
const MAX_NAME: usize = 28;

/// Columns that every table has next to the name: rate, queue and delay.
const NUMBERS: usize = 14 + 12 + 12;

/// Returns lines for a terminal of `columns` and `lines`. None is longer, and there are fewer, so that a redrawn table
/// replaces the one before.
pub(crate) fn layout(rows: &[Row], status: &Status, (columns, lines): (usize, usize)) -> String {
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let name = longest.min(MAX_NAME).min(columns.saturating_sub(NUMBERS + 1)).max(8);
    // The head, the last lines and the one that the cursor is in.
    let room = lines.saturating_sub(5).max(1);
    let mut text = vec![format!("{:<name$}{:>14}{:>12}{:>12}  dropped", "link", "rate", "queue", "delay")];
    text.extend(rows.iter().take(room).map(|row| row.line(name)));
    if rows.len() > room {
        text.push(format!("and {} more, in a higher terminal", rows.len() - room));
    }
    text.extend(status.lines(columns));
    let cut: Vec<String> = text.iter().map(|line| fitted(line, columns)).collect();
    cut.concat()
}

impl Row {
    fn line(&self, name: usize) -> String {
        let rate = quantity(self.rate_bps, None, "bit/s");
        let (queue, delay) = (quantity(self.queue_bytes, None, "B"), quantity(self.delay_s, None, "s"));
        let shown = fitted(&self.name, name);
        let drops = self.drops.iter().map(|(cause, total)| {
            let cause = cause.strip_prefix("dropped-").unwrap_or(cause);
            format!("{cause} {total}")
        });
        let drops = drops.collect::<Vec<_>>().join(", ");
        format!("{:<name$}{rate:>14}{queue:>12}{delay:>12}  {drops}", shown.trim_end())
    }
}

impl Status {
    /// Formats on one line, or on two where one is too long.
    fn lines(&self, columns: usize) -> Vec<String> {
        let [p50, p99, max] = self.late_s.map(|late| quantity(late, None, "s"));
        let gone =
            format!("{:.1} s, {} packets, CPU {:.0} %", self.elapsed_s, self.packets, self.cpu * 100.0);
        let late = format!("late: p50 {p50}, p99 {p99}, max {max}");
        let both = format!("{gone}; {late}");
        if both.chars().count() < columns { vec![both] } else { vec![gone, late] }
    }
}

/// Returns a line cut to the width of the terminal.
fn fitted(line: &str, columns: usize) -> String {
    let line = line.trim_end();
    if line.chars().count() <= columns {
        return format!("{line}\n");
    }
    let kept: String = line.chars().take(columns.saturating_sub(1)).collect();
    format!("{kept}\u{2026}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<Row> {
        let row = |n: usize| Row {
            name: format!("satellite-{n} forward"),
            rate_bps: 4.98e6,
            queue_bytes: 61_200.0,
            delay_s: 0.27,
            drops: vec![("dropped-queue", 12), ("lost", 3)],
        };
        (0..count).map(row).collect()
    }

    fn status() -> Status {
        Status { elapsed_s: 12.52, packets: 8123, late_s: [12e-6, 61e-6, 2.1e-3], cpu: 0.08 }
    }

    #[test]
    fn a_line_has_all_of_a_link() {
        let text = layout(&rows(1), &status(), (100, 24)).replace('\u{a0}', " ");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].starts_with("satellite-0 forward"), "{text}");
        for part in ["4.980 Mbit/s", "61.20 kB", "270.0 ms", "queue 12, lost 3"] {
            assert!(lines[1].contains(part), "{part}: {text}");
        }
        assert_eq!(
            lines[2],
            "12.5 s, 8123 packets, CPU 8 %; late: p50 12.00 \u{b5}s, p99 61.00 \u{b5}s, max 2.100 ms"
        );
    }

    #[test]
    fn no_line_is_wider_and_no_table_higher_than_the_terminal() {
        for (columns, lines) in [(120, 50), (80, 24), (60, 10), (40, 8), (20, 6), (10, 3)] {
            let text = layout(&rows(30), &status(), (columns, lines));
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
            assert!(text.lines().count() < lines.max(6), "{lines}: {text}");
        }
    }
}
