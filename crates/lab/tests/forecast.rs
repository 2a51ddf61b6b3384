//! Forecast and run of the same scenario, shipped and generated. Bounds are those of the arithmetic, the same for all.
//!
//! - Greatest goodput: never above it by more than a thousandth and a packet over the run, since whole packets arrive. Where
//!   channels lose at random, five standard deviations of what they lose too.
//! - Saturated by datagrams: 0.99 of it from the first arrival on, since the line never idles.
//! - Datagrams are whole packets: of fragments in a full queue, each loss takes the whole datagram, and such losses are not forecast.
//! - Fair share: the mean of equal flows within a twentieth, since drop-tail queues are not fair packet by packet.
//! - Least round trip of a ping: within a microsecond.
//! - Paths that ACKs limit are not compared, since ACKs that are lost leave room, which a note says.

use std::path::PathBuf;

use bentpipe_assemble::Built;
use bentpipe_lab::budget::{Budget, FlowBudget};
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_scenario::Scenario;
use bentpipe_units::{RandomStream, Span};

use crate::common::{built, found, measured, scenario};

/// Length of the runs.
const DURATION: Span = Span::from_secs(10);

/// Goodput of a flow and the time in which it was measured.
struct Measured {
    goodput: f64,
    duration: Span,
    /// Number of copies that it is the sum of.
    copies: f64,
}

impl Measured {
    /// Returns the bits of a packet over the run.
    fn packet(&self, flow: &FlowBudget) -> f64 {
        8.0 * (flow.payload.get() * flow.fragments) as f64 / self.duration.as_secs_f64()
    }

    /// Returns five standard deviations of what channels lose.
    fn chance(&self, flow: &FlowBudget) -> f64 {
        let packets = self.goodput / self.packet(flow).max(f64::MIN_POSITIVE);
        5.0 * (flow.lost * packets).sqrt() * self.packet(flow)
    }

    /// Compares with the greatest goodput.
    ///
    /// # Errors
    /// Returns both figures if the flow had more.
    fn is_possible(&self, flow: &FlowBudget) -> Result<(), String> {
        let most = flow.ceiling.as_bps() as f64 * 1.001 + self.packet(flow) + self.chance(flow);
        if self.goodput <= most {
            return Ok(());
        }
        Err(format!("{} has {:.0} bit/s, forecast at most {}", flow.name, self.goodput, flow.ceiling))
    }

    /// Compares with what a saturated line carries, and with the fair shares. Nothing arrives in the first `late` seconds.
    ///
    /// # Errors
    /// Returns both figures if the flows had less, or if a share differs.
    fn is_saturated(&self, flow: &FlowBudget, late: f64, is_fair: bool) -> Result<(), String> {
        let arrives = 1.0 - late / self.duration.as_secs_f64();
        let least = flow.ceiling.as_bps() as f64 * 0.99 * arrives - self.packet(flow) - self.chance(flow);
        let fair = flow.fair_share.as_bps() as f64 * arrives * self.copies;
        let differs = (self.goodput - fair).abs() - self.chance(flow);
        if self.goodput >= least && (!is_fair || differs < 0.05 * fair) {
            return Ok(());
        }
        Err(format!("{:.0} bit/s, forecast at least {least:.0}, fair {fair:.0}", self.goodput))
    }
}

/// A line with equal senders of datagrams or a transfer, and a change of its rate or signal now and then.
fn generated(draw: &mut RandomStream) -> (String, &'static str) {
    let mut pick = |values: &[u64]| values[(draw.unit() * values.len() as f64) as usize % values.len()];
    let (rate, delay) = (pick(&[500, 1000, 2000, 4000]), pick(&[1, 20, 100, 270]));
    let (payload, count) = (pick(&[100, 512, 1200, 1400]), pick(&[1, 1, 2, 5]));
    let (kind, changes) = (pick(&[0, 0, 1]), pick(&[0, 1, 2, 3, 4, 5]));
    let mut text = format!(
        "title = \"t\"\nduration = \"10 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.b = {{}}\n\
         link.lan = {{ between = [\"a\", \"r\"], rate = \"100 Mbit/s\", delay = \"1 ms\" }}\n[link.sky]\n\
         between = [\"r\", \"b\"]\ndelay = \"{delay} ms\"\n"
    );
    text += match changes {
        3 => "forward.channel = { kind = \"packet-errors\", loss = 0.03 }\n",
        4 => "forward.channel = { kind = \"outages\", outages = [{ at = \"3 s\", lasts = \"1500 ms\" }] }\n",
        _ => "",
    };
    let signal = changes == 2;
    text += &match signal {
        true => "forward.medium = { kind = \"dvb\", line = \"c\", encapsulation = \"gse\" }\nreturn.rate = \"1 Mbit/s\"\n"
            .to_owned(),
        false => format!("rate = \"{rate} kbit/s\"\n"),
    };
    // Each offers more than the line, so that all have an equal share of it.
    let offered = if signal { 2100 } else { rate * 13 / 10 };
    let (traffic, copies) = match kind {
        0 => (
            format!(
                "{{ kind = \"udp\", payload = \"{payload} B\", pattern = {{ kind = \"constant-rate\", rate = \"{offered} kbit/s\" }} }}"
            ),
            count,
        ),
        _ => ("{ kind = \"tcp\", controller = \"cubic\" }".to_owned(), 1),
    };
    text += &format!(
        "[flow.f]\nfrom = \"a\"\nto = \"b\"\ncount = {copies}\nstagger = \"7 ms\"\ntraffic = {traffic}\n"
    );
    if signal {
        text += "[dvb.c]\nkind = \"dvb-s2\"\nsymbol_rate = 500_000\nframe = \"short\"\nes_n0_db = 9.0\n\
                 steps = [{ at = \"4 s\", es_n0_db = 4.0 }, { at = \"7 s\", es_n0_db = 12.0 }]\n";
    } else if changes == 5 {
        text += "[[event]]\nat = \"5 s\"\nset = { \"link.sky.forward.rate\" = \"0 bit/s\" }\nhold = \"1500 ms\"\n";
    } else if changes == 1 {
        text +=
            &format!("[[event]]\nat = \"6 s\"\nset = {{ \"link.sky.rate\" = \"{} kbit/s\" }}\n", rate / 2);
    }
    (text, ["udp", "tcp"][kind as usize])
}

/// Returns the goodput of all copies of the flow of a generated scenario.
fn run(scenario: &Scenario, flow: &FlowBudget) -> Measured {
    let value = measured(scenario, &mut built(scenario));
    let of = |n: u32| {
        if flow.copies == 1 { "flow.f.goodput".to_owned() } else { format!("flow.f.{n}.goodput") }
    };
    let goodput = (1..=flow.copies).map(|n| value(&of(n))).sum();
    Measured { goodput, duration: DURATION, copies: f64::from(flow.copies) }
}

/// Returns the time until datagrams arrive, as of the line's greatest rate, and `true` if shares are those of the run.
///
/// Nothing arrives before the first packet, and the line's packets of the last time not before the end, at its greatest rate;
/// each copy starts later. A queue keeps what comes while the line is slow until it is fast, which no state has.
fn timing(budget: &Budget) -> (f64, bool) {
    let (flow, rates) = (&budget.flows[0], &budget.links[2].rates);
    let mean: f64 = rates.iter().map(|held| held.rate.as_bps() as f64 * held.share).sum();
    let faster = rates.last().map_or(1.0, |most| most.rate.as_bps() as f64 / mean);
    (faster * (flow.one_way.as_secs_f64() + 0.007 * f64::from(flow.copies)), rates.is_empty())
}

#[test]
fn generated_scenarios_do_what_is_forecast() {
    let mut draw = RandomStream::new(1, "forecast");
    for n in 0..100 {
        let (text, kind) = generated(&mut draw);
        let scenario = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let budget = Budget::new(&scenario).expect("ways");
        let found = run(&scenario, &budget.flows[0]);
        let (late, is_fair) = timing(&budget);
        let saturated = || match kind {
            "udp" => found.is_saturated(&budget.flows[0], late, is_fair),
            _ => Ok(()),
        };
        let all = found.is_possible(&budget.flows[0]).and_then(|()| saturated());
        all.unwrap_or_else(|problem| panic!("case {n}\n{text}{budget}{problem}"));
    }
}

/// A forecast that is wrong by 3 % is found in most cases, and one that is wrong by a twelfth in all.
#[test]
fn the_bounds_find_a_wrong_forecast() {
    let mut draw = RandomStream::new(1, "forecast");
    let (mut cases, mut found_by_three) = (0, [0, 0]);
    while cases < 12 {
        let (text, kind) = generated(&mut draw);
        let scenario = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let budget = Budget::new(&scenario).expect("ways");
        if kind != "udp" || budget.flows[0].lost > 0.0 || budget.flows[0].one_way > Span::from_millis(50) {
            continue;
        }
        cases += 1;
        let (measured, (late, is_fair)) = (run(&scenario, &budget.flows[0]), timing(&budget));
        let is_found = |factor: f64| {
            let mut flow = budget.flows[0].clone();
            (flow.ceiling, flow.fair_share) = (flow.ceiling.mul_f64(factor), flow.fair_share.mul_f64(factor));
            measured.is_possible(&flow).and_then(|()| measured.is_saturated(&flow, late, is_fair)).is_err()
        };
        assert!(is_found(0.92) && is_found(1.08), "{text}");
        found_by_three[0] += i32::from(is_found(0.97));
        found_by_three[1] += i32::from(is_found(1.03));
    }
    assert!(found_by_three.iter().all(|found| *found >= 7), "{found_by_three:?} of {cases}");
}

/// A reply is as long as its request, and the path is idle.
#[test]
fn a_ping_has_the_round_trip_of_the_forecast() {
    let mut draw = RandomStream::new(1, "forecast");
    for payload in [0, 400, 1000, 1400] {
        let (text, _) = generated(&mut draw);
        let flow = text.find("count =").expect("a flow");
        let text = format!(
            "{}traffic = {{ kind = \"ping\", interval = \"700 ms\", payload = \"{payload} B\" }}\n",
            &text[..flow]
        );
        let text = text.replace(
            "forward.medium = { kind = \"dvb\", line = \"c\", encapsulation = \"gse\" }",
            "rate = \"1 Mbit/s\"",
        );
        let scenario = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let flow = &Budget::new(&scenario).expect("ways").flows[0];
        let (least, rtt) = (
            flow.min_rtt.expect("answers").as_secs_f64(),
            measured(&scenario, &mut built(&scenario))("flow.f.rtt-min"),
        );
        assert!((-1e-6..1e-6).contains(&(rtt - least)), "{text}: {rtt} for {least}");
    }
}

/// Returns the first point of each shipped scenario, no longer than the runs, with its forecast.
fn shipped() -> Vec<(PathBuf, Scenario, Built, Budget)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = std::fs::read_dir(folder).expect("the examples").map(|entry| entry.expect("readable").path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let one = |file: PathBuf| {
        let document = bentpipe_paths::document(&file).unwrap_or_else(|error| panic!("{error}"));
        let plan = Plan::new(&document, Seeds::default()).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut scenario = plan.points[0].scenario.clone();
        scenario.duration = scenario.duration.min(DURATION);
        scenario.probe.warm_up = Span::ZERO;
        let built = Built::new(&scenario, 1, document.access()).expect("possible");
        let budget = Budget::with_files(&scenario, Some(document.access())).expect("ways");
        (file, scenario, built, budget)
    };
    files.map(one).collect()
}

#[test]
fn no_flow_of_a_shipped_scenario_exceeds_its_forecast() {
    let mut goodputs = 0;
    for (file, scenario, mut built, budget) in shipped() {
        let is_single = |name: &str| budget.flows.iter().filter(|other| other.name == name).count() == 1;
        let flows: Vec<&FlowBudget> = budget.flows.iter().filter(|flow| is_single(&flow.name)).collect();
        let value = found(&scenario, &mut built);
        for flow in flows {
            let by_acks = flow.warnings.iter().any(|warning| warning.starts_with("its ACKs of"));
            for n in 1..=flow.copies {
                let name = if flow.copies == 1 { flow.name.clone() } else { format!("{}.{n}", flow.name) };
                // A transfer that is not complete, or a kind without bytes, has none.
                if let Some(goodput) = value(&format!("flow.{name}.goodput")).filter(|_| !by_acks) {
                    let found = Measured { goodput, duration: scenario.duration, copies: 1.0 };
                    found
                        .is_possible(flow)
                        .unwrap_or_else(|problem| panic!("{}: {problem}\n{budget}", file.display()));
                    goodputs += 1;
                }
            }
        }
    }
    assert!(goodputs >= 80, "{goodputs} compared");
}
