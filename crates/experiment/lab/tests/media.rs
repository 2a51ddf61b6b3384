//! Least times of transfers against runs, on generated paths whose links have a medium, often one for several of them.
//!
//! No run is faster, to a part in a thousand.

use std::fmt::Write as _;

use bentpipe_assemble::Built;
use bentpipe_lab::budget::Budget;
use bentpipe_scenario::Access;
use bentpipe_units::RandomStream;

use crate::accounts::one_of;
use crate::common::{found, scenario};

/// Number of generated scenarios.
const SCENARIOS: u64 = 200;

/// Table that links have in common, and the settings of a link.
fn medium(stream: &mut RandomStream, kind: &str) -> (String, String) {
    let delay = one_of(stream, &["0 s", "5 ms", "120 ms", "270 ms"]);
    let other = one_of(stream, &["200 kbit/s", "2 Mbit/s"]);
    let dvb = |encapsulation: &str| {
        format!(
            "delay = \"{delay}\"\nforward.medium = {{ kind = \"dvb\", line = \"m\", encapsulation = \"{encapsulation}\" }}\nreturn.rate = \"{other}\"\n"
        )
    };
    match kind {
        "dvb-s2" => {
            let (symbols, signal) =
                (one_of(stream, &["100000", "1000000"]), one_of(stream, &["5.0", "11.0"]));
            let line = format!("[dvb.m]\nkind = \"dvb-s2\"\nsymbol_rate = {symbols}\nes_n0_db = {signal}\n");
            (line, dvb("gse"))
        }
        "transport-stream" => {
            let rate = one_of(stream, &["500 kbit/s", "4 Mbit/s"]);
            let encapsulation = one_of(stream, &["ule", "mpe"]);
            (format!("[dvb.m]\nkind = \"transport-stream\"\nrate = \"{rate}\"\n"), dvb(encapsulation))
        }
        "dama" => {
            let encapsulation = one_of(stream, &["ule", "gse", "rle"]);
            let contract = one_of(
                stream,
                &["cra = \"88 kbit/s\"", "cra = \"352 kbit/s\"", "cra = \"88 kbit/s\", rbdc = \"1 Mbit/s\""],
            );
            let carrier = format!("[carrier.m]\npreset = \"skyplex\"\nencapsulation = \"{encapsulation}\"\n");
            let sides = one_of(stream, &["forward return", "return forward"]);
            let (side, plain) = sides.split_once(' ').unwrap_or_default();
            let link = format!(
                "delay = \"120 ms\"\n{side}.medium = {{ kind = \"dama\", carrier = \"m\", {contract} }}\n{plain}.rate = \"{other}\"\n"
            );
            (carrier, link)
        }
        "wifi" => {
            let standard = one_of(stream, &["b", "g"]);
            let rts = one_of(stream, &["", ", rts = \"500 B\""]);
            (
                String::new(),
                format!("medium = {{ kind = \"wifi\", standard = \"{standard}\", bss = \"m\"{rts} }}\n"),
            )
        }
        "wimax" => {
            let frame = one_of(stream, &["5 ms", "10 ms", "20 ms"]);
            let link = "medium = { kind = \"wimax\", cell_name = \"m\", snr = [24.0, 18.0] }\n";
            (format!("[cell.m]\nframe = \"{frame}\"\n"), link.to_owned())
        }
        _ => (
            String::new(),
            format!("delay = \"{delay}\"\nmedium = {{ kind = \"space\", rate = \"{other}\" }}\n"),
        ),
    }
}

const KINDS: [&str; 6] = ["dvb-s2", "transport-stream", "dama", "wifi", "wimax", "space"];

/// A transfer over one or two links with a medium, and plain ones in front of them and behind them.
fn generated(number: u64) -> (String, &'static str) {
    let stream = &mut RandomStream::new(52, &format!("media/{number}"));
    let kind = KINDS[(stream.unit() * KINDS.len() as f64) as usize % KINDS.len()];
    let (shared, link) = medium(stream, kind);
    // A cell has one base station, and a terminal of a return link one side.
    let links = if matches!(kind, "wimax" | "dama") || stream.unit() < 0.4 { 1 } else { 2 };
    let (lan, last) = (
        one_of(stream, &["1 Mbit/s", "10 Mbit/s", "100 Mbit/s"]),
        one_of(stream, &["1 Mbit/s", "50 Mbit/s"]),
    );
    let mut text = format!(
        "title = \"t\"\nduration = \"90 s\"\nnode.a = {{}}\nnode.b = {{}}\nnode.n0 = {{ kind = \"router\" }}\n\
         [link.lan]\nbetween = [\"a\", \"n0\"]\nrate = \"{lan}\"\ndelay = \"1 ms\"\n"
    );
    for n in 0..links {
        let _ = write!(
            text,
            "[node.n{0}]\nkind = \"router\"\n[link.m{n}]\nbetween = [\"n{n}\", \"n{0}\"]\n{link}",
            n + 1
        );
    }
    let _ = write!(
        text,
        "[link.z]\nbetween = [\"n{links}\", \"b\"]\nrate = \"{last}\"\ndelay = \"2 ms\"\n{shared}"
    );
    let size = one_of(stream, &["100 B", "1460 B", "2000 B", "5 kB", "14480 B", "40 kB", "150 kB"]);
    let controller = one_of(stream, &["newreno", "cubic", "cubic", "hybla", "westwood+"]);
    let more = one_of(
        stream,
        &[
            "",
            "",
            ", initial_window = 1",
            ", opened_by = \"receiver\"",
            ", ack_every = 1",
            ", quick_acks = true",
        ],
    );
    let ends =
        one_of(stream, &["from = \"a\"\nto = \"b\"", "from = \"a\"\nto = \"b\"", "from = \"b\"\nto = \"a\""]);
    let _ = write!(
        text,
        "[flow.f]\n{ends}\napplication = {{ kind = \"bulk\", size = \"{size}\" }}\ntraffic = {{ kind = \"tcp\", controller = \"{controller}\"{more} }}\n"
    );
    (text, kind)
}

#[test]
fn no_run_over_a_medium_is_faster_than_the_least_time() {
    let (mut problems, mut ended) = (Vec::new(), 0);
    for number in 0..SCENARIOS {
        let (text, kind) = generated(number);
        let of = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let least = Budget::new(&of).expect("ways").flows[0].tcp.as_ref().and_then(|tcp| tcp.completion);
        let least = least.unwrap_or_else(|| panic!("no least time\n{text}")).as_secs_f64();
        // What is drawn differs.
        let seeds = if matches!(kind, "wifi" | "wimax") { 5 } else { 1 };
        let took = |seed: u64| {
            let mut built = Built::new(&of, seed, &Access::default()).expect("possible");
            found(&of, &mut built)("flow.f.completion")
        };
        let shortest = (1..=seeds).filter_map(took).fold(f64::INFINITY, f64::min);
        ended += u64::from(shortest.is_finite());
        if shortest < least * 0.999 {
            problems.push(format!("{number}, {kind}: {shortest} for at least {least}\n{text}"));
        }
    }
    assert!(problems.is_empty(), "{}\n{} of {SCENARIOS}", problems.join("\n"), problems.len());
    assert!(ended > SCENARIOS * 9 / 10, "{ended}");
}
