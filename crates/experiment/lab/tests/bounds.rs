//! Least times of transfers against runs, on generated paths whose links change.
//!
//! No run is faster, to a millisecond. Half of them take at most a tenth more.

use std::fmt::Write as _;

use bentpipe_lab::budget::Budget;
use bentpipe_units::RandomStream;

use crate::common::{built, found, scenario};

/// Number of generated scenarios.
const SCENARIOS: u64 = 300;

/// Values of what is drawn.
struct Draw(RandomStream);

impl Draw {
    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[(self.0.unit() * values.len() as f64) as usize % values.len()]
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.0.unit()
    }
}

const RATES: [u64; 8] = [100, 200, 400, 800, 2000, 5000, 10_000, 50_000];
const DELAYS: [u64; 8] = [0, 1, 5, 20, 50, 120, 270, 600];

/// Event on a link at a time.
fn event(draw: &mut Draw, links: u64) -> String {
    let link = draw.of(&(0..links).collect::<Vec<_>>());
    let within = draw.of(&[0.5, 2.0, 8.0]);
    let (at, of_packet) = (draw.between(0.0, within), draw.of(&DELAYS) as f64 / 1e3);
    // Some are at the instants of packets.
    let at = draw.of(&[at, at, of_packet, 0.0]);
    let side = draw.of(&["", "", "forward.", "return."]);
    let (key, value, hold) = match draw.of(&[0, 0, 1, 1, 2, 3]) {
        0 => ("delay", format!("{} ms", draw.of(&DELAYS)), ""),
        1 => ("rate", format!("{} kbit/s", draw.of(&RATES)), ""),
        2 => ("rate", "0 bit/s".to_owned(), "hold = \"700 ms\"\n"),
        _ => ("delay", format!("{} ms", draw.of(&DELAYS)), "hold = \"400 ms\"\n"),
    };
    format!("[[event]]\nat = \"{at:.6} s\"\nset = {{ \"link.l{link}.{side}{key}\" = \"{value}\" }}\n{hold}")
}

/// A transfer over some links with events.
fn generated(number: u64) -> String {
    let mut draw = Draw(RandomStream::new(52, &format!("bounds/{number}")));
    let links = draw.of(&[1, 2, 2, 3, 4, 5]);
    let mut text = "title = \"t\"\nduration = \"90 s\"\n".to_owned();
    for node in 0..=links {
        let kind = if node == 0 || node == links { "" } else { "kind = \"router\"" };
        let _ = writeln!(text, "node.n{node} = {{ {kind} }}");
    }
    for link in 0..links {
        let (rate, delay) = (draw.of(&RATES), draw.of(&DELAYS));
        let _ = writeln!(
            text,
            "[link.l{link}]\nbetween = [\"n{link}\", \"n{}\"]\nrate = \"{rate} kbit/s\"\ndelay = \"{delay} ms\"",
            link + 1
        );
        text += draw.of(&[
            "",
            "",
            "",
            "return.rate = \"50 kbit/s\"\n",
            "queue = { kind = \"drop-tail\", packets = 20 }\n",
        ]);
    }
    let sizes = ["1 B", "200 B", "1460 B", "2000 B", "5 kB", "15 kB", "40 kB", "150 kB", "500 kB", "2 MB"];
    let controller = draw.of(&["newreno", "cubic", "cubic", "westwood+", "hybla", "vegas", "bbr"]);
    let more = draw.of(&[
        "",
        "",
        ", initial_window = 1",
        ", initial_window = 3",
        ", opened_by = \"receiver\"",
        ", ack_every = 1",
        ", receive_buffer = \"20 kB\"",
    ]);
    let start = draw.of(&[0, 0, 1]);
    let _ = write!(
        text,
        "[flow.f]\nfrom = \"n0\"\nto = \"n{links}\"\nstart = \"{start} s\"\napplication = {{ kind = \"bulk\", size = \"{}\" }}\n\
         traffic = {{ kind = \"tcp\", controller = \"{controller}\"{more} }}\n",
        draw.of(&sizes)
    );
    let events = draw.of(&[0, 1, 1, 2, 3, 4]);
    (0..events).for_each(|_| text += &event(&mut draw, links));
    text
}

/// Returns the least time of the transfer, and the time that it took.
///
/// `None` if it does not end, or events overlap.
fn both(text: &str) -> Option<(f64, f64)> {
    let scenario = match scenario(text) {
        Err(refusal) if refusal.contains("another event") => return None,
        other => other.unwrap_or_else(|refusal| panic!("{refusal}\n{text}")),
    };
    let flow = Budget::new(&scenario).expect("ways").flows[0].clone();
    let took = found(&scenario, &mut built(&scenario))("flow.f.completion")?;
    let least = flow.tcp.and_then(|tcp| tcp.completion)?;
    Some((least.as_secs_f64(), took))
}

#[test]
fn no_run_is_faster_than_the_least_time() {
    let (mut problems, mut ratios) = (Vec::new(), Vec::new());
    let scenarios = std::env::var("BOUNDS").ok().and_then(|count| count.parse().ok()).unwrap_or(SCENARIOS);
    for number in 0..scenarios {
        let text = generated(number);
        let Some((least, took)) = both(&text) else { continue };
        ratios.push(took / least);
        if took < least - 1e-3 {
            problems.push(format!("{number}: {took} for at least {least}\n{text}"));
        }
    }
    assert!(problems.is_empty(), "{}\n{}", problems.join("\n"), problems.len());
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    assert!(ratios.len() as u64 > scenarios / 2 && median < 1.1, "{median} of {}", ratios.len());
}

/// An event that comes while a SYN is on its way counts from the link on that the SYN comes to later.
#[test]
fn a_delay_that_changes_in_front_of_a_syn_is_its_own() {
    for (at, delay) in [(100, 20), (250, 20), (251, 600), (300, 20), (700, 20), (1200, 20), (1500, 20)] {
        let text = format!(
            "title = \"t\"\nduration = \"30 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.s = {{ kind = \"router\" }}\nnode.b = {{}}\n\
             link.k = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"250 ms\" }}\n\
             link.l = {{ between = [\"r\", \"s\"], rate = \"10 Mbit/s\", delay = \"400 ms\" }}\n\
             link.m = {{ between = [\"s\", \"b\"], rate = \"10 Mbit/s\", delay = \"5 ms\" }}\n\
             [flow.f]\nfrom = \"a\"\nto = \"b\"\napplication = {{ kind = \"bulk\", size = \"1 kB\" }}\ntraffic = \"tcp\"\n\
             [[event]]\nat = \"{at} ms\"\nset = {{ \"link.l.delay\" = \"{delay} ms\" }}\n"
        );
        let (least, took) = both(&text).expect("it ends");
        assert!(least <= took && took < 1.6 * least, "{at} ms: {took} for at least {least}");
    }
}

/// The last segment is short on each line, and comes while others are on those behind.
#[test]
fn a_short_last_segment_has_its_own_length_on_each_line() {
    for window in ["", ", initial_window = 1", ", initial_window = 2"] {
        for size in ["1461 B", "2000 B", "3000 B", "6000 B"] {
            let mut text = "title = \"t\"\nduration = \"30 s\"\n".to_owned();
            for (n, rate) in [200, 200, 400, 800].into_iter().enumerate() {
                let kind = if n == 0 { "" } else { "kind = \"router\"" };
                let _ = writeln!(
                    text,
                    "node.n{n} = {{ {kind} }}\nlink.l{n} = {{ between = [\"n{n}\", \"n{}\"], rate = \"{rate} kbit/s\" }}",
                    n + 1
                );
            }
            let _ = write!(
                text,
                "node.n4 = {{}}\n[flow.f]\nfrom = \"n0\"\nto = \"n4\"\napplication = {{ kind = \"bulk\", size = \"{size}\" }}\n\
                 traffic = {{ kind = \"tcp\"{window} }}\n"
            );
            let (least, took) = both(&text).expect("it ends");
            assert!(least <= took && took < 1.1 * least, "{size}{window}: {took} for at least {least}");
        }
    }
}
