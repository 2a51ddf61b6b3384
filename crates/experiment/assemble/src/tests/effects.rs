//! Effect of each key of ATM networks and virtual channels.
//!
//! A key of the schema changes a result, or is refused.

use std::collections::{BTreeMap, BTreeSet};

use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_scenario::Document;
use bentpipe_scenario::catalogue;
use bentpipe_units::Time;
use serde_json::Value;

use crate::{Built, checked};

/// Two sources of ABR that share 10 Mbit/s with other cells. One is behind a VS/VD node.
const BASE: &str = r#"
title = "t"
duration = "300 ms"
node.s1 = {}
node.s2 = {}
node.d1 = {}
node.d2 = {}
[atm.switch.near]
abr = { kind = "erica-plus" }
[atm.switch.far]
[atm.vs_vd.hub]
[atm.line]
s1 = { between = ["s1", "near"], rate = "10 Mbit/s", delay = "1 ms" }
s2 = { between = ["s2", "hub"], rate = "10 Mbit/s", delay = "1 ms" }
hub = { between = ["hub", "near"], rate = "10 Mbit/s", delay = "1 ms" }
trunk = { between = ["near", "far"], rate = "10 Mbit/s", delay = "3 ms" }
d1 = { between = ["far", "d1"], rate = "10 Mbit/s" }
d2 = { between = ["far", "d2"], rate = "10 Mbit/s" }
[link.p1]
between = ["s1", "d1"]
medium = { kind = "vc", service = { kind = "abr" } }
[link.p2]
between = ["s2", "d2"]
medium = { kind = "vc", service = { kind = "abr" } }
[atm.stream.other]
from = "s1"
to = "d2"
source = { kind = "constant", rate = "1 Mbit/s" }
[group.g]
members = ["d1"]
[flow.f1]
from = "s1"
to = "d1"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "1 ms" }, payload = "1200 B" }
[flow.f2]
from = "s2"
to = "d2"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "1 ms" }, payload = "1200 B" }
"#;

const SERVICE: &str = "link.p1.medium.service";
const SWITCH: &str = "atm.switch.near";
const LINE: &str = "atm.line.trunk";
const SOURCE: &str = "atm.stream.other.source";

/// Key of the schema, settings that it needs, and the setting.
type Row = (&'static str, Vec<String>, String);

fn row(key: &'static str, with: &[&str], set: &str) -> Row {
    let long = |text: &str| {
        let places = [("SERVICE", SERVICE), ("SWITCH", SWITCH), ("LINE", LINE), ("SOURCE", SOURCE)];
        places.iter().fold(text.to_owned(), |text, (short, long)| text.replace(short, long))
    };
    (key, with.iter().map(|with| long(with)).collect(), long(set))
}

/// Both channels of one category, so that the trunk is full.
fn both(service: &str) -> [String; 2] {
    ["p1", "p2"].map(|link| format!("link.{link}.medium.service={service}"))
}

fn channel_rows() -> Vec<Row> {
    let mut rows = vec![
        row(
            "link.*.medium[vc].service[cbr].pcr",
            &["SERVICE=cbr"],
            "SERVICE={kind=\"cbr\",pcr=\"2 Mbit/s\"}",
        ),
        row(
            "link.*.medium[vc].service[vbr].pcr",
            &["SERVICE=vbr"],
            "SERVICE={kind=\"vbr\",pcr=\"2 Mbit/s\"}",
        ),
        row(
            "link.*.medium[vc].service[ubr].pcr",
            &["SERVICE=ubr"],
            "SERVICE={kind=\"ubr\",pcr=\"2 Mbit/s\"}",
        ),
        row("link.*.medium[vc].service", &[], "SERVICE=cbr"),
        row(
            "link.*.medium[vc].encapsulation",
            &["flow.f1.traffic.payload=1162 B"],
            "link.p1.medium.encapsulation=vc-mux",
        ),
        row("link.*.medium[vc].limit", &[], "link.p1.medium.limit=30"),
        row(
            "link.*.medium[vc].multicast",
            &["flow.f1.to=g", "link.p1.medium.service=ubr"],
            "link.p1.medium.multicast=all",
        ),
    ];
    const SLOW: &str = "link.p1.medium.receive={rate=\"2 Mbit/s\",limit=100}";
    const SIGNALLED: &str = "link.p1.medium.receive={rate=\"2 Mbit/s\",limit=100,congested=20}";
    rows.extend([
        row("link.*.medium[vc].receive.rate", &[SLOW], "link.p1.medium.receive.rate=1 Mbit/s"),
        row("link.*.medium[vc].receive.limit", &[SLOW], "link.p1.medium.receive.limit=50"),
        row("link.*.medium[vc].receive.congested", &[SLOW], "link.p1.medium.receive.congested=20"),
        row(
            "link.*.medium[vc].receive.explicit_rate",
            &[SIGNALLED],
            "link.p1.medium.receive.explicit_rate=true",
        ),
    ]);
    let abr = |key: &'static str, with: &[&str], set: &str| row(key, with, &format!("SERVICE.{set}"));
    const SELDOM: &str = "flow.f1.traffic.pattern.interval=60 ms";
    rows.extend([
        abr("link.*.medium[vc].service[abr].pcr", &[], "pcr=3 Mbit/s"),
        abr("link.*.medium[vc].service[abr].mcr", &[], "mcr=6 Mbit/s"),
        abr("link.*.medium[vc].service[abr].icr", &[], "icr=100 kbit/s"),
        abr("link.*.medium[vc].service[abr].rif", &["SERVICE.icr=100 kbit/s"], "rif=0.001"),
        abr("link.*.medium[vc].service[abr].rdf", &["SWITCH={efci=1}"], "rdf=0.5"),
        abr("link.*.medium[vc].service[abr].nrm", &[], "nrm=8"),
        abr("link.*.medium[vc].service[abr].mrm", &["SERVICE.trm=1 ms", SELDOM], "mrm=20"),
        abr("link.*.medium[vc].service[abr].trm", &[SELDOM], "trm=1 ms"),
        abr("link.*.medium[vc].service[abr].tbe", &[], "tbe=32"),
        abr("link.*.medium[vc].service[abr].crm", &[], "crm=1"),
        abr("link.*.medium[vc].service[abr].cdf", &["SERVICE.crm=1"], "cdf=0.5"),
        abr(
            "link.*.medium[vc].service[abr].adtf",
            &["SERVICE.icr=1 Mbit/s", "flow.f2.start=250 ms", SELDOM],
            "adtf=10 ms",
        ),
        abr("link.*.medium[vc].service[abr].tcr", &["SERVICE.icr=1 bit/s"], "tcr=100.0"),
        abr("link.*.medium[vc].service[abr].frtt", &["SERVICE.tbe=32"], "frtt=100 ms"),
        abr(
            "link.*.medium[vc].service[abr].use_it_or_lose_it",
            &["SERVICE.icr=100 kbit/s", "SERVICE.rif=1.0", SELDOM],
            "use_it_or_lose_it=true",
        ),
        abr(
            "link.*.medium[vc].service[abr].weight",
            &["SWITCH.abr={kind=\"erica-plus\",fairness=\"mcr-plus-weighted-share\"}"],
            "weight=3.0",
        ),
    ]);
    rows
}

fn switch_rows() -> Vec<Row> {
    const PLUS: &str = "SWITCH.abr={kind=\"erica-plus\"}";
    const ERICA: &str = "SWITCH.abr={kind=\"erica\"}";
    const MINIMUM: &str = "SERVICE.mcr=6 Mbit/s";
    let mut rows = vec![
        row("atm.switch.*.abr", &[], "SWITCH.abr=erica"),
        row("atm.switch.*.abr[erica].utilisation", &[ERICA], "SWITCH.abr.utilisation=0.5"),
        row(
            "atm.switch.*.abr[erica].fairness",
            &[ERICA, MINIMUM],
            "SWITCH.abr.fairness=max-of-mcr-and-share",
        ),
        row(
            "atm.switch.*.abr[erica-plus].fairness",
            &[PLUS, MINIMUM],
            "SWITCH.abr.fairness=mcr-proportional",
        ),
        row("atm.switch.*.abr[erica-plus].queue.t0", &[PLUS], "SWITCH.abr.queue.t0=20 ms"),
        row("atm.switch.*.abr[erica-plus].queue.a", &[PLUS], "SWITCH.abr.queue.a=2.0"),
        row("atm.switch.*.abr[erica-plus].queue.b", &[PLUS], "SWITCH.abr.queue.b=1.1"),
        row("atm.switch.*.abr[erica-plus].queue.qdlf", &[PLUS], "SWITCH.abr.queue.qdlf=0.99"),
        row("atm.switch.*.efci", &["SWITCH={}"], "SWITCH.efci=5"),
        row("atm.switch.*.becn", &["SWITCH={}"], "SWITCH.becn=5"),
    ];
    const SETS: [(&str, &str, &str); 6] = [
        ("atm.switch.*.abr[erica].measure.cells", "atm.switch.*.abr[erica-plus].measure.cells", "cells=20"),
        ("atm.switch.*.abr[erica].measure.time", "atm.switch.*.abr[erica-plus].measure.time", "time=1 ms"),
        ("atm.switch.*.abr[erica].measure.delta", "atm.switch.*.abr[erica-plus].measure.delta", "delta=1.0"),
        (
            "atm.switch.*.abr[erica].measure.count_rates",
            "atm.switch.*.abr[erica-plus].measure.count_rates",
            "count_rates=true",
        ),
        (
            "atm.switch.*.abr[erica].measure.load_weight",
            "atm.switch.*.abr[erica-plus].measure.load_weight",
            "load_weight=0.3",
        ),
        (
            "atm.switch.*.abr[erica].measure.parts_weight",
            "atm.switch.*.abr[erica-plus].measure.parts_weight",
            "parts_weight=0.3",
        ),
    ];
    for (erica, plus, set) in SETS {
        let late = "flow.f2.start=100 ms";
        rows.push(row(erica, &[ERICA, late], &format!("SWITCH.abr.measure.{set}")));
        rows.push(row(plus, &[PLUS, late], &format!("SWITCH.abr.measure.{set}")));
    }
    const LIMITS: [(&str, &str, &str, &str); 4] = [
        ("cbr", "atm.switch.*.limit.cbr", "atm.switch.*.epd.cbr", "atm.switch.*.ppd.cbr"),
        ("vbr", "atm.switch.*.limit.vbr", "atm.switch.*.epd.vbr", "atm.switch.*.ppd.vbr"),
        ("abr", "atm.switch.*.limit.abr", "atm.switch.*.epd.abr", "atm.switch.*.ppd.abr"),
        ("ubr", "atm.switch.*.limit.ubr", "atm.switch.*.epd.ubr", "atm.switch.*.ppd.ubr"),
    ];
    for (class, limit, epd, ppd) in LIMITS {
        let services = both(class);
        let full = format!("SWITCH={{limit={{{class}=60}}}}");
        let with = [services[0].as_str(), services[1].as_str(), "SWITCH={}"];
        let in_full = [with[0], with[1], full.as_str()];
        rows.push(row(limit, &with, &format!("SWITCH.limit.{class}=60")));
        rows.push(row(epd, &in_full, &format!("SWITCH.epd={{{class}=20}}")));
        rows.push(row(ppd, &in_full, &format!("SWITCH.ppd={{{class}=true}}")));
    }
    let full = ["SWITCH={limit={abr=60}}"];
    rows.push(row("atm.switch.*.epd", &full, "SWITCH.epd=20"));
    rows.push(row("atm.switch.*.ppd", &full, "SWITCH.ppd=true"));
    rows
}

fn node_and_line_rows() -> Vec<Row> {
    const HUB: &str = "atm.line.hub.rate=3 Mbit/s";
    const BURSTS: &str = "LINE.channel={kind=\"cell-loss-bursts\",p=0.01,r=0.5,loss_bad=0.5}";
    const LOSS: &str = "LINE.channel={kind=\"cell-loss\",ratio=0.01}";
    const BITS: &str = "LINE.channel={kind=\"bit-errors\",ber=1e-5}";
    const CODED: &str = "LINE.channel={kind=\"coded\",code_rate=\"3/4\",eb_n0_db=3.0}";
    // 3 dB: 50 dBW less 205.6 dB of free space and 70 dB for the rate, and 228.6 dB for Boltzmann's constant.
    const BUDGET: &str = "LINE.channel={kind=\"coded\",code_rate=\"3/4\",budget={eirp_dbw=50.0,g_t_db=0.0,frequency_ghz=12.0,rate=\"10 Mbit/s\"}}";
    const INSERTED: &str = "LINE.channel={kind=\"misinsertion\",per_second=100.0,vci=32}";
    let law = |law: &str| format!("LINE.channel={{kind=\"delay-variation\",law={law}}}");
    let uniform = law("{kind=\"uniform\",max=\"1 ms\"}");
    let exponential = law("{kind=\"exponential\",mean=\"1 ms\"}");
    let normal = law("{kind=\"normal\",mean=\"1 ms\",deviation=\"1 ms\"}");
    let pareto = law("{kind=\"pareto\",mean=\"2 ms\",deviation=\"1 ms\"}");
    let [of_uniform, of_normal, of_pareto] = [&uniform, &normal, &pareto].map(|law| [law.as_str()]);
    vec![
        row("atm.vs_vd.*.queue.t0", &[HUB], "atm.vs_vd.hub.queue.t0=20 ms"),
        row("atm.vs_vd.*.queue.a", &[HUB], "atm.vs_vd.hub.queue.a=2.0"),
        row("atm.vs_vd.*.queue.b", &[HUB], "atm.vs_vd.hub.queue.b=1.1"),
        row("atm.vs_vd.*.queue.qdlf", &[HUB], "atm.vs_vd.hub.queue.qdlf=0.99"),
        row("atm.vs_vd.*.limit", &[HUB], "atm.vs_vd.hub.limit=20"),
        row("atm.vs_vd.*.transparent", &[], "atm.vs_vd.hub.transparent=true"),
        row("atm.line.*.between[]", &[], "LINE.between=[\"far\",\"near\"]"),
        row("atm.line.*.rate", &[], "LINE.rate=5 Mbit/s"),
        row("atm.line.*.sdh", &[], "LINE.sdh=true"),
        row("atm.line.*.plcp", &[], "LINE.plcp=true"),
        row("atm.line.*.delay", &[], "LINE.delay=4 ms"),
        row("atm.line.*.channel[cell-loss].ratio", &[LOSS], "LINE.channel.ratio=0.1"),
        row("atm.line.*.channel[cell-loss-bursts].p", &[BURSTS], "LINE.channel.p=0.1"),
        row("atm.line.*.channel[cell-loss-bursts].r", &[BURSTS], "LINE.channel.r=0.1"),
        row("atm.line.*.channel[cell-loss-bursts].loss_good", &[BURSTS], "LINE.channel.loss_good=0.1"),
        row("atm.line.*.channel[cell-loss-bursts].loss_bad", &[BURSTS], "LINE.channel.loss_bad=1.0"),
        row("atm.line.*.channel[bit-errors].ber", &[BITS], "LINE.channel.ber=1e-4"),
        row("atm.line.*.channel[coded].code_rate", &[CODED], "LINE.channel.code_rate=\"7/8\""),
        row("atm.line.*.channel[coded].eb_n0_db", &[CODED], "LINE.channel.eb_n0_db=2.0"),
        row("atm.line.*.channel[coded].implementation_db", &[CODED], "LINE.channel.implementation_db=0.5"),
        row("atm.line.*.channel[coded].outer", &[CODED], "LINE.channel.outer=false"),
        row("atm.line.*.channel[coded].crc", &[CODED], "LINE.channel.crc=true"),
        row("atm.line.*.channel[coded].budget.eirp_dbw", &[BUDGET], "LINE.channel.budget.eirp_dbw=49.5"),
        row("atm.line.*.channel[coded].budget.g_t_db", &[BUDGET], "LINE.channel.budget.g_t_db=-0.5"),
        row(
            "atm.line.*.channel[coded].budget.frequency_ghz",
            &[BUDGET],
            "LINE.channel.budget.frequency_ghz=13.0",
        ),
        row(
            "atm.line.*.channel[coded].budget.distance_km",
            &[BUDGET],
            "LINE.channel.budget.distance_km=40000.0",
        ),
        row("atm.line.*.channel[coded].budget.losses_db", &[BUDGET], "LINE.channel.budget.losses_db=0.5"),
        row("atm.line.*.channel[coded].budget.rate", &[BUDGET], "LINE.channel.budget.rate=\"11 Mbit/s\""),
        row("atm.line.*.channel[misinsertion].per_second", &[INSERTED], "LINE.channel.per_second=1000.0"),
        row("atm.line.*.channel[misinsertion].vci", &[INSERTED], "LINE.channel.vci=33"),
        row(
            "atm.line.*.channel[delay-variation].law[uniform].min",
            &of_uniform,
            "LINE.channel.law.min=500 us",
        ),
        row("atm.line.*.channel[delay-variation].law[uniform].max", &of_uniform, "LINE.channel.law.max=2 ms"),
        row(
            "atm.line.*.channel[delay-variation].law[exponential].mean",
            &[&exponential],
            "LINE.channel.law.mean=2 ms",
        ),
        row("atm.line.*.channel[delay-variation].law[normal].mean", &of_normal, "LINE.channel.law.mean=2 ms"),
        row(
            "atm.line.*.channel[delay-variation].law[normal].deviation",
            &of_normal,
            "LINE.channel.law.deviation=2 ms",
        ),
        row("atm.line.*.channel[delay-variation].law[pareto].mean", &of_pareto, "LINE.channel.law.mean=3 ms"),
        row(
            "atm.line.*.channel[delay-variation].law[pareto].deviation",
            &of_pareto,
            "LINE.channel.law.deviation=2 ms",
        ),
        row(
            "atm.line.*.channel[delay-variation].law[pareto].shape",
            &of_pareto,
            "LINE.channel.law.shape=5.0",
        ),
    ]
}

fn stream_rows() -> Vec<Row> {
    const ON_OFF: &str = "SOURCE={kind=\"on-off\",rate=\"2 Mbit/s\",on=\"5 ms\",off=\"5 ms\"}";
    const VIDEO: &str = "SOURCE={kind=\"video\",mean=\"2 Mbit/s\",deviation=\"1 Mbit/s\"}";
    const MANY: &str =
        "SOURCE={kind=\"video\",mean=\"2 Mbit/s\",deviation=\"1 Mbit/s\",shortest=\"1 ms\",longest=\"2 ms\"}";
    let service = |kind: &str| format!("atm.stream.other.service={{kind=\"{kind}\",pcr=\"500 kbit/s\"}}");
    let mut rows = vec![
        row("atm.stream.*.from", &[], "atm.stream.other.from=s2"),
        row("atm.stream.*.to", &[], "atm.stream.other.to=d1"),
        row("atm.stream.*.to[]", &[], "atm.stream.other.to=[\"d1\", \"d2\"]"),
        row("atm.stream.*.service", &[], "atm.stream.other.service=ubr"),
        row("atm.stream.*.service[cbr].pcr", &[], &service("cbr")),
        row("atm.stream.*.service[vbr].pcr", &[], &service("vbr")),
        row("atm.stream.*.service[ubr].pcr", &[], &service("ubr")),
        row("atm.stream.*.source[constant].rate", &[], "SOURCE.rate=3 Mbit/s"),
        row("atm.stream.*.source[on-off].rate", &[ON_OFF], "SOURCE.rate=3 Mbit/s"),
        row("atm.stream.*.source[on-off].on", &[ON_OFF], "SOURCE.on=9 ms"),
        row("atm.stream.*.source[on-off].off", &[ON_OFF], "SOURCE.off=9 ms"),
    ];
    const VIDEO_KEYS: [(&str, &str); 8] = [
        ("atm.stream.*.source[video].mean", "mean=3 Mbit/s"),
        ("atm.stream.*.source[video].deviation", "deviation=3 Mbit/s"),
        ("atm.stream.*.source[video].programmes", "programmes=2"),
        ("atm.stream.*.source[video].hurst", "hurst=0.6"),
        ("atm.stream.*.source[video].highest", "highest=2100 kbit/s"),
        ("atm.stream.*.source[video].shortest", "shortest=1 ms"),
        ("atm.stream.*.source[video].longest", "longest=21 ms"),
        ("atm.stream.*.source[video].synthesis", "synthesis=paxson"),
    ];
    rows.extend(VIDEO_KEYS.map(|(key, set)| row(key, &[VIDEO], &format!("SOURCE.{set}"))));
    rows.push(row("atm.stream.*.source[video].lowest", &[MANY], "SOURCE.lowest=1900 kbit/s"));
    rows.push(row("atm.stream.*.source[video].samples", &[MANY], "SOURCE.samples=4"));
    const WIDE: &str = "SOURCE={kind=\"video\",mean=\"2 Mbit/s\",deviation=\"4 Mbit/s\"}";
    rows.push(row("atm.stream.*.source[video].bounding", &[WIDE], "SOURCE.bounding=exponentiate"));
    const PICTURES: &str = "SOURCE={kind=\"video\",mean=\"2 Mbit/s\",deviation=\"1 Mbit/s\",pictures={}}";
    const PICTURE_KEYS: [(&str, &str); 4] = [
        ("atm.stream.*.source[video].pictures.interval", "pictures.interval=20 ms"),
        ("atm.stream.*.source[video].pictures.group", "pictures.group=6"),
        ("atm.stream.*.source[video].pictures.distance", "pictures.distance=1"),
        ("atm.stream.*.source[video].pictures.sizes[]", "pictures.sizes=[9.0, 3.0, 1.0]"),
    ];
    rows.extend(PICTURE_KEYS.map(|(key, set)| row(key, &[PICTURES], &format!("SOURCE.{set}"))));
    rows
}

/// Adds the names of a schema's leaves below `path`.
fn leaves(root: &Value, node: &Value, path: &str, found: &mut BTreeSet<String>) {
    let node = match node["$ref"].as_str() {
        Some(place) => root.pointer(place.trim_start_matches('#')).expect("a definition"),
        None => node,
    };
    for alternatives in ["oneOf", "anyOf", "allOf"] {
        node[alternatives].as_array().into_iter().flatten().for_each(|node| leaves(root, node, path, found));
    }
    if node["type"] == "array" {
        let is_list = path.ends_with(".channel");
        return leaves(root, &node["items"], &format!("{path}{}", if is_list { "" } else { "[]" }), found);
    }
    let kind = node["properties"]["kind"]["const"].as_str();
    let path = kind.map_or(path.to_owned(), |kind| format!("{path}[{kind}]"));
    let properties = node["properties"].as_object();
    properties.into_iter().flatten().filter(|(key, _)| *key != "kind").for_each(|(key, node)| {
        leaves(root, node, &format!("{path}.{key}"), found);
    });
    if node["additionalProperties"].is_object() {
        return leaves(root, &node["additionalProperties"], &format!("{path}.*"), found);
    }
    let types = [&node["type"]].into_iter().chain(node["type"].as_array().into_iter().flatten());
    let is_plain = types.filter_map(Value::as_str).any(|of| !matches!(of, "object" | "array" | "null"));
    let is_word = node["const"].is_string() || node["enum"].is_array();
    if is_plain && path.ends_with("[]") || (is_plain || is_word) && !path.ends_with(']') {
        found.insert(path);
    }
}

/// The keys that the walk is about.
fn walked() -> BTreeSet<String> {
    let root = catalogue::schema();
    let mut all = BTreeSet::new();
    leaves(root, &root["properties"]["atm"], "atm", &mut all);
    leaves(root, &root["properties"]["link"], "link", &mut all);
    all.retain(|key| key.starts_with("atm.") || key.starts_with("link.*.medium[vc]."));
    // A stream with ABR is refused with any keys.
    all.retain(|key| !key.starts_with("atm.stream.*.service[abr]"));
    // Other terms of ERICA hide these here; `atm/src/erica.rs` tests them alone.
    all.retain(|key| !key.ends_with(".measure.activity_decay") && !key.ends_with(".measure.immediate"));
    all
}

#[derive(Default, PartialEq)]
struct Values(BTreeMap<String, u64>, String);

impl bentpipe_net::Observer for Values {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(format!("{} {}", self.1, metric.name), total);
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.0.insert(format!("{} {}", self.1, metric.name), value.to_bits());
    }
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.1);
    }
}

/// Results of the scenario with these settings, or its refusal.
fn results(settings: &[String]) -> Result<(String, Values), String> {
    let mut document =
        Document::parse("file.toml", BASE.as_bytes()).map_err(|refusal| refusal.to_string())?;
    for setting in settings {
        document.set(setting).map_err(|refusal| refusal.to_string())?;
    }
    let scenario = checked(&document).map_err(|refusal| refusal.to_string())?;
    let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default())
        .map_err(|problem| problem.to_string())?;
    built.network.run_until(Time::from_nanos(300_000_000));
    let mut values = Values::default();
    let ids: Vec<_> = built.network.ids().collect();
    for id in ids {
        values.1 = built.network.path(id).to_owned();
        built.network.observe(id, &mut values);
    }
    Ok((format!("{:?}", built.network.fingerprint()), values))
}

#[test]
fn every_key_of_atm_has_an_effect_or_is_refused() {
    let rows = [channel_rows(), switch_rows(), node_and_line_rows(), stream_rows()].concat();
    let known: BTreeSet<String> = rows.iter().map(|(key, ..)| (*key).to_owned()).collect();
    let (missing, gone) = (walked(), known);
    let missing: Vec<_> = missing.symmetric_difference(&gone).collect();
    assert!(
        missing.is_empty(),
        "keys of the schema without a row here, or the other way round: {missing:#?}"
    );
    let idle: Vec<String> =
        rows.iter().filter_map(|(key, with, set)| without_effect(key, with, set)).collect();
    assert!(idle.is_empty(), "keys without effect: {idle:#?}");
}

/// Returns the key if setting it changes nothing.
fn without_effect(key: &str, with: &[String], set: &str) -> Option<String> {
    let before = results(with).unwrap_or_else(|refusal| panic!("{key}: {refusal}"));
    let all: Vec<String> = with.iter().cloned().chain([set.to_owned()]).collect();
    match results(&all) {
        Ok(after) => (after == before).then(|| format!("{key}: {set}")),
        Err(refusal) => {
            let place = set.split(['=', ' ']).next().unwrap_or_default();
            assert!(refusal.contains(place), "{key}: {refusal}");
            None
        }
    }
}

#[test]
fn refusals_of_idle_keys_name_their_place() {
    let refused = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        results(&settings).err().expect("refused")
    };
    let say = refused(&["atm.stream.other.service={kind=\"vbr\",pcr=\"1 Mbit/s\"}"]);
    assert!(say.contains("atm.stream.other.service.pcr: a stream sends at the rate of its source"), "{say}");
    let video = "atm.stream.other.source={kind=\"video\",mean=\"1 Mbit/s\",deviation=\"0 bit/s\"}";
    for key in ["atm.stream.other.recovery={}", "atm.stream.other.source.pcr=true"] {
        let say = refused(&[video, key]);
        let place = key.split('=').next().unwrap_or_default();
        assert!(say.contains(&format!("{place}: unknown key: these cells have no contents")), "{say}");
    }
    let source =
        "flow.f1.traffic={kind=\"video\",rate={mean=\"1 Mbit/s\",deviation=\"0 bit/s\"},recovery={}}";
    let say = refused(&[source]);
    assert!(say.contains("flow.f1.traffic.recovery: unknown key: the datagrams of a video source"), "{say}");
    let say = refused(&["atm.switch.near.ppd=true"]);
    assert!(say.contains("atm.switch.near.ppd: expected a category with a `limit`"), "{say}");
    let say = refused(&["atm.switch.near.limit.abr=100", "atm.switch.near.epd={abr=100}"]);
    assert!(say.contains("atm.switch.near.epd: expected fewer cells than the `limit`"), "{say}");
    let say = refused(&["link.p1.medium.service.mcr=6 Mbit/s", "link.p2.medium.service.mcr=5 Mbit/s"]);
    assert!(say.contains("link.p2.medium.service.mcr: minimum rates of ABR"), "{say}");
    assert!(say.contains("on line \"trunk\" sum to 11 Mbit/s: expected at most its 10 Mbit/s"), "{say}");
}
