//! Notes on flows and links: limits, and what a forecast leaves out.

use std::collections::{BTreeSet, HashMap, HashSet};

use bentpipe_dtn::network::Layer;
use bentpipe_net::channel::Config;
use bentpipe_scenario::{Flow, Medium, Scenario, Traffic, Way, copies};
use bentpipe_site::application::Application;
use bentpipe_site::{Cost, Recorded, ShareBudget};
use bentpipe_units::{Bytes, Rate, Span};

use super::active::Activities;
use super::medium::Media;
use super::path::{Path, splitter};
use super::sharing::{Forecast, Pressed, Sharing};
use super::states::States;
use super::{
    FlowBudget, Ground, LinkBudget, chance, direction, is_whole, layer, marks, network, queues, show, windows,
};

/// Returns the notes on a flow towards a receiver.
pub(super) fn of_flow(
    ground: &Ground<'_>,
    (n, path): (usize, &Path),
    (forecast, sharing): (&Forecast, &Sharing),
    budget: &FlowBudget,
) -> Vec<String> {
    let (scenario, media) = (ground.scenario, ground.media);
    let (name, flow) = scenario.flow.get_index(n).expect("a path is of a flow");
    if let Some(why) = &budget.blocked {
        return std::iter::once(why.clone()).chain(never_start(scenario, (name, flow))).collect();
    }
    let mut notes = match budget.tcp.as_ref().and_then(|_| splitter(scenario, path)) {
        Some((node, link)) => vec![format!(
            "the proxy of {node} splits it in front of {link}: window, round trip and slow start are those without it, and it gets up to what is forecast"
        )],
        // Data does not wait where ACKs do.
        None if path.answers_on(forecast.narrowest.0, forecast.narrowest.1) => Vec::new(),
        None => {
            let is_among_others = sharing.count > u64::from(flow.count);
            windows::notes(ground, (n, path), forecast, budget, is_among_others)
        }
    };
    notes.extend(elsewhere(scenario, path, forecast));
    notes.extend(ack_note(scenario, path, forecast, budget));
    notes.extend(ack_share(scenario, path, forecast));
    notes.extend(forecast.keeps_more.then(|| {
        format!(
            "what queues keep over changes of rates or delays is not in its share: it gets up to its max goodput of {}",
            show::rate(budget.ceiling)
        )
    }));
    notes.extend(warnings((ground, (n, path)), budget, forecast, sharing));
    notes.extend(back_note(scenario, flow, (path, budget), forecast));
    notes.extend(loss_note(flow, budget));
    notes.extend(chance::of_losses(ground, (n, path), budget));
    notes.extend(chance::of_backoff(ground, (n, path), (budget, forecast.narrowest)));
    notes.extend(windows::rate_start(scenario, flow, budget));
    notes.extend(windows::late(scenario, flow, (path, budget)));
    notes.extend(windows::long_datagrams(ground, path));
    notes.extend(windows::stopped(ground, (n, path), forecast, budget));
    notes.extend(acks_note(ground, (n, path)));
    notes.extend(answers_note(ground, (n, path)));
    notes.extend(outage_note(ground, flow, path));
    notes.extend(repeated(ground, (n, flow), path));
    notes.extend(copied_bundles(ground, path));
    notes.extend(order_note(ground, flow, path));
    notes.extend(contradictions(ground, path));
    notes.extend(random_delay(media, path));
    notes.extend(bucket(scenario, media, path));
    notes.extend(waiting(ground, (n, path), forecast, budget));
    notes.extend(bursts(flow));
    notes.extend(bursty_others(name, path, sharing));
    notes.extend(proxy_events(ground, path));
    notes.extend(long_bundles(scenario, flow, path));
    notes.extend(cut_bundles(scenario, flow, (path, budget)));
    notes.extend(own_copies(ground, path));
    notes.extend(file_note(ground, (n, flow)));
    notes.extend(silence(ground.states, (n, flow), path));
    notes.extend(never_start(scenario, (name, flow)));
    notes.extend(chance::of_source(scenario, flow, budget.copies));
    notes.extend(by_turns(media, path, forecast));
    notes.extend(marks::note(path, |at| media.ceilings.has_any(at)));
    notes.extend(filters(scenario, media, (flow, path)));
    notes
}

/// Returns a note on filters that may drop a flow's packets.
fn filters(scenario: &Scenario, media: &Media<'_>, (flow, path): (&Flow, &Path)) -> Option<String> {
    let mut hops = path.hops_there().iter();
    let is_unknown = |hop: &&(usize, Way, u64)| {
        media.cost(hop.0, hop.1).dropped(&|| flow.traffic.kind().sample(flow.ip, 1)).is_none()
    };
    let at = hops.find(is_unknown)?;
    Some(format!("what the filter of {} drops of it is not forecast", direction(scenario, (at.0, at.1))))
}

/// Returns a note on data and ACKs that wait for each other at random.
fn by_turns(media: &Media<'_>, path: &Path, forecast: &Forecast) -> Option<String> {
    let (link, way) = forecast.narrowest;
    let len = usize::try_from(path.packet).ok()?;
    (path.window.is_some() && media.cost(link, way).airtime(len).is_some()).then(|| {
        "its data and ACKs contend for the medium, and windows that open again after losses leave it idle: it gets up to what is forecast".to_owned()
    })
}

/// Returns a note on speech back that does not fit its way.
fn back_note(
    scenario: &Scenario,
    flow: &Flow,
    (path, budget): (&Path, &FlowBudget),
    forecast: &Forecast,
) -> Option<String> {
    let (carries, at) = forecast.back?;
    let copies = path.answers_per_packet() * f64::from(flow.count);
    let offers = budget.offered?.mul_f64(copies);
    (offers.as_bps() as f64 > 1.001 * carries.as_bps() as f64).then(|| {
        format!(
            "back it offers {offers}, but {} carries only {carries} of such packets",
            direction(scenario, at)
        )
    })
}

/// Returns a note on losses of channels for a sender that they slow down.
fn loss_note(flow: &Flow, budget: &FlowBudget) -> Option<String> {
    (budget.lost > 0.0 && (budget.tcp.is_some() || matches!(flow.traffic, Traffic::Tfrc(_)))).then(|| {
        let part = show::percent(budget.lost);
        format!("channels lose {part} of its packets on average: a sender that slows down at a loss gets less than is forecast")
    })
}

/// Returns a note on ACKs that channels lose.
fn acks_note(ground: &Ground<'_>, (n, path): (usize, &Path)) -> Option<String> {
    let of_state = |(state, time): (usize, f64)| {
        let [there, both] = path.answered(ground.media, ground.states, state);
        (time * there, time * both)
    };
    let states = ground.states.of_flow(n).into_iter().filter(|_| path.window.is_some());
    let sum = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
    let (there, both) = states.map(of_state).reduce(sum).filter(|(there, _)| *there > 0.0)?;
    let part = 1.0 - both / there;
    (part > FEW_ACKS).then(|| {
        format!(
            "channels lose {} of its ACKs: windows open later, and its timers wait at times: it gets up to what is forecast",
            show::percent(part)
        )
    })
}

/// Part of ACKs whose loss changes little.
const FEW_ACKS: f64 = 0.005;

/// Returns a note on answers that channels lose.
fn answers_note(ground: &Ground<'_>, (n, path): (usize, &Path)) -> Option<String> {
    if !path.asks() {
        return None;
    }
    let (media, states) = (ground.media, ground.states);
    let (mut asked, mut answered) = (0.0, 0.0);
    for (state, time) in states.of_flow(n) {
        let [there, both] = path.answered(media, states, state);
        (asked, answered) = (asked + time * there, answered + time * both);
    }
    let part = if asked > 0.0 { 1.0 - answered / asked } else { 0.0 };
    (part > 1e-9).then(|| {
        let [part, all] = [part, 1.0 - answered].map(show::percent);
        format!("channels lose {part} of the answers that come: {all} of requests are unanswered")
    })
}

/// Returns a note on times without reception for a sender that waits in them.
fn outage_note(ground: &Ground<'_>, flow: &Flow, path: &Path) -> Option<String> {
    let is_out =
        |at: &(usize, Way)| ground.states.rates(*at).first().is_some_and(|least| least.rate.as_bps() == 0);
    let out = path.directions().into_iter().find(is_out)?;
    let at = direction(ground.scenario, out);
    match &flow.traffic {
        Traffic::Bundles(_) => Some(format!(
            "at times nothing comes over {at}: bundles that are sent then are lost, or wait and are sent again: up to what is forecast arrives"
        )),
        Traffic::Tfrc(_) => Some(format!(
            "at times nothing comes over {at}, and its rate is low behind them: it gets up to what is forecast"
        )),
        _ => path.window.map(|_| {
            format!(
                "at times nothing comes over {at}: its timers wait for up to twice as long, and it begins in slow start then: it gets up to what is forecast"
            )
        }),
    }
}

/// Returns a note on losses of channels below bundles.
fn repeated(ground: &Ground<'_>, (n, flow): (usize, &Flow), path: &Path) -> Option<String> {
    let layer = layer(ground.scenario, flow)?;
    let is_measured = matches!(layer, Layer::Tcpcl | Layer::Dccp);
    let states = ground.states.of_flow(n).into_iter();
    let part: f64 =
        states.map(|(state, part)| part * path.repeated(ground.media, ground.states, state)).sum();
    let part = Some(part).filter(|part| *part > 1e-9).map(show::percent);
    let Some(part) = part else {
        return is_measured.then(|| {
            "connections below bundles limit their rate, with slow starts of their own: up to what is forecast arrives"
                .to_owned()
        });
    };
    match layer {
        Layer::Ltp => Some(format!(
            "channels lose {part} of its packets, which LTP sends again: bundles come later, and up to what is forecast arrives"
        )),
        Layer::Tcpcl => Some(format!(
            "channels lose {part} of its packets, which TCP sends again: it slows down at them, and up to what is forecast arrives"
        )),
        Layer::Dccp => Some(format!(
            "channels lose {part} of its packets, and DCCP slows down at them: up to what is forecast arrives"
        )),
        Layer::Udp | Layer::LtpGreen => None,
    }
}

/// Returns a note on copies of bundles that nodes on the way send on.
fn copied_bundles(ground: &Ground<'_>, path: &Path) -> Option<String> {
    let before = path.stops.last().copied().unwrap_or_default();
    let mut hops = path.hops_there()[..before].iter().map(|hop| (hop.0, hop.1));
    let is_copied = |at: &(usize, Way)| {
        ground.states.losses.all(*at).any(|fault| matches!(fault, Config::Duplication { .. }))
    };
    let at = hops.find(is_copied)?;
    Some(format!(
        "bundles come twice over {}, and nodes send both on: fewer are lost than is forecast",
        direction(ground.scenario, at)
    ))
}

/// Returns a note on packets that pass others.
///
/// A sender that slows down takes late ones for lost.
fn order_note(ground: &Ground<'_>, flow: &Flow, path: &Path) -> Option<String> {
    let slows = path.window.is_some() || matches!(flow.traffic, Traffic::Tfrc(_));
    let mut ways = path.hops_there().iter().map(|hop| (hop.0, hop.1)).filter(|_| slows);
    let at = ways.find(|at| ground.states.losses.all(*at).any(changes_order))?;
    Some(format!(
        "the channel of {} lets packets pass others, and late ones are taken for lost: it slows down then, and gets up to what is forecast",
        direction(ground.scenario, at)
    ))
}

fn changes_order(fault: &Config) -> bool {
    match fault {
        Config::Reordering { probability, delay } => *probability > 0.0 && !delay.is_zero(),
        Config::Jitter { keep_order, .. } => !keep_order,
        Config::JitterTable(table) => !table.keep_order,
        _ => false,
    }
}

/// Returns a note on copies of fragments with wrong bits, which contradict right ones.
fn contradictions(ground: &Ground<'_>, path: &Path) -> Option<String> {
    let ways = path.hops_there().iter().map(|hop| (hop.0, hop.1)).filter(|_| path.fragments > 1);
    let mut faults = ways.flat_map(|at| ground.states.losses.all(at));
    let is_copied = faults.any(|fault| matches!(fault, Config::Duplication { .. }));
    let is_wrong = |fault: &Config| match fault {
        Config::BitErrors { crc, .. } => !crc,
        Config::Coded(config) => !config.crc,
        Config::BitBursts { .. } => true,
        _ => false,
    };
    (is_copied && faults.any(is_wrong)).then(|| {
        "copies of its fragments have wrong bits, and contradict right ones: more of its datagrams are lost than is forecast".to_owned()
    })
}

/// Returns a note on delays that are drawn for each packet.
fn random_delay(media: &Media<'_>, path: &Path) -> Option<String> {
    let is_random = |(link, way): (usize, Way)| media.is_random(link, way);
    path.directions().into_iter().any(is_random).then(|| {
        "channels delay each packet at random: delays are means of packets far apart, and single ones are shorter and longer"
            .to_owned()
    })
}

/// Returns a note on packets that never fit a bucket.
fn bucket(scenario: &Scenario, media: &Media<'_>, path: &Path) -> Option<String> {
    let too_long = |&(link, way): &(usize, Way)| {
        let (limit, len) = (media.limit(link, way)?, path.packet_on(link, way)?);
        (len > limit.longest.get()).then(|| {
            let (len, at) = (Bytes::new(len), direction(scenario, (link, way)));
            format!(
                "packets of {len} never fit the bucket of {} of the shaper of {at}, which drops them",
                limit.longest
            )
        })
    };
    path.directions().iter().find_map(too_long)
}

/// Returns a note on what waits while a line is slower than what comes.
fn waiting(
    ground: &Ground<'_>,
    (n, path): (usize, &Path),
    forecast: &Forecast,
    budget: &FlowBudget,
) -> Option<String> {
    let offered = budget.offered?.as_bps() as f64 * (1.0 - budget.lost);
    let is_less = (forecast.fair.as_bps() as f64) < 0.999 * offered;
    // A connection keeps what is written in an outage. What others send is lost.
    let keeps = |at: &(usize, Way)| budget.tcp.is_some() || !ground.states.is_cut(*at);
    let slows = |at: &(usize, Way)| !ground.states.rates(*at).is_empty() && keeps(at);
    let slow = path.directions().into_iter().find(slows)?;
    let has_room = offered < forecast.alone.as_bps() as f64;
    (is_less && has_room && ground.states.of_flow(n).len() > 1).then(|| {
        format!(
            "{} is slower than what comes at times: what queues and senders keep until later is not counted",
            direction(ground.scenario, slow)
        )
    })
}

/// Returns a note on bursts as fast as the connection takes them.
fn bursts(flow: &Flow) -> Option<String> {
    let is_written = flow.traffic.kind().takes().application;
    (is_written && flow.application.is_burst_without_rate()).then(|| {
        let note = match flow.application.cycle() {
            Some(_) => "its bursts begin in slow start: figures are those of bursts at the full rate",
            None => "the times of its bursts are random: figures are those of bursts without end",
        };
        note.to_owned()
    })
}

/// Returns a note on others that send in bursts.
///
/// A connection takes what they leave.
fn bursty_others(name: &str, path: &Path, sharing: &Sharing) -> Option<String> {
    let other = sharing.bursty_other(name).filter(|_| path.window.is_some())?;
    Some(format!(
        "{other} sends in bursts on its way: windows grow slowly into what that leaves, and it gets up to what is forecast"
    ))
}

/// Returns a note on a proxy on the way that events change.
fn proxy_events(ground: &Ground<'_>, path: &Path) -> Option<String> {
    let splits = |node: &str| ground.scenario.roles_of(node).iter().any(|role| role.word() == "pep");
    let mut on_way = path.nodes.iter().filter(|node| ground.changed.contains(node.as_str()) && splits(node));
    let node = on_way.next().filter(|_| path.window.is_some())?;
    Some(format!("events change the proxy of {node}: figures are with the one of the start"))
}

/// Returns a note on copies of links with settings of their own.
fn own_copies(ground: &Ground<'_>, path: &Path) -> Option<String> {
    let links = path.directions().into_iter().filter_map(|(link, _)| ground.scenario.link.get_index(link));
    let mut own = links.filter_map(|(name, _)| Some((name, ground.apart.get(name.as_str())?)));
    let (name, count) = own.next()?;
    Some(format!(
        "copies of {name} with settings of their own ({count}) are not forecast: figures are those of the others"
    ))
}

/// Returns a note on bundles in datagrams that are longer than packets.
fn long_bundles(scenario: &Scenario, flow: &Flow, path: &Path) -> Option<String> {
    (is_whole(scenario, flow) && path.fragments > 1).then(|| {
        format!(
            "each bundle is a datagram longer than the path's MTU of {}: it travels in {} fragments, and is lost with any of them",
            Bytes::new(path.mtu),
            path.fragments
        )
    })
}

/// Returns a note on bundles in several packets, where channels lose some.
fn cut_bundles(scenario: &Scenario, flow: &Flow, (path, budget): (&Path, &FlowBudget)) -> Option<String> {
    let network = network(scenario, flow).filter(|_| budget.lost > 0.0)?;
    let is_cut = matches!(network.layer, Layer::LtpGreen | Layer::Dccp) && path.pieces > 1;
    let is_joined = network.layer == Layer::LtpGreen && network.ltp.aggregate.is_some();
    let cut = format!("each bundle is in {} packets, and is lost with any of them", path.pieces);
    let joined =
        "bundles are in blocks together, and are lost with each other: more are lost than is forecast";
    match (is_joined, is_cut) {
        (true, _) => Some(joined.to_owned()),
        (false, is_cut) => is_cut.then_some(cut),
    }
}

/// Notes shares on overloaded links of flows that do not slow down.
pub(super) fn overload(
    (scenario, activities): (&Scenario, &Activities),
    (paths, forecasts): (&[(usize, Path)], &[Forecast]),
    flows: &mut [FlowBudget],
    links: &[LinkBudget],
) {
    behind_data(scenario, activities, paths, flows);
    if forecasts.iter().all(|forecast| forecast.pressed.is_none()) {
        return;
    }
    let cells: HashSet<String> = links
        .iter()
        .filter(|link| link.cells.is_some())
        .map(|link| format!("{} {}", link.name, link.direction))
        .collect();
    for (flow, Forecast { pressed, .. }) in flows.iter_mut().zip(forecasts) {
        // Where flows send more than fits.
        let Some(Pressed { at, by, is_shared }) = pressed else { continue };
        let Some((name, settings)) = scenario.flow.get_index(*by) else { continue };
        if *is_shared || *name != flow.name {
            let at = direction(scenario, *at);
            flow.warnings.push(format!(
                "{name} sends more than its share of {at}, and does not slow down: it gets more, and others less"
            ));
        }
        if *name == flow.name {
            flow.warnings.extend(lost_unevenly(settings));
        }
        // Each loses parts there, whichever flow fills it.
        if flow.tcp.is_none() {
            flow.warnings.extend(whole_or_lost(flow, cells.contains(&direction(scenario, *at))));
        }
    }
}

/// Returns a note on packets or copies that a full queue does not treat alike.
fn lost_unevenly(flow: &Flow) -> Option<String> {
    let refreshes = matches!(&flow.traffic, Traffic::Udp(udp) if udp.refresh.is_some());
    if refreshes {
        return Some("a full queue loses its larger refresh packets first: less arrives".to_owned());
    }
    (!flow.start_spread.is_zero()).then(|| {
        "a full queue does not treat alike copies that start at random: their means differ".to_owned()
    })
}

/// Notes flows that slow down on a link which others fill that slow down too.
pub(super) fn unlike(
    scenario: &Scenario,
    activities: &Activities,
    paths: &[(usize, Path)],
    flows: &mut [FlowBudget],
) {
    let slows = |flow: &FlowBudget| {
        let own = scenario.flow.get_full(&flow.name);
        let is_tfrc = own.is_some_and(|(_, _, flow)| matches!(flow.traffic, Traffic::Tfrc(_)));
        let begins = own.is_none_or(|(n, ..)| activities.begin(n) > 0.0);
        (flow.tcp.is_some() || is_tfrc) && flow.blocked.is_none() && begins
    };
    let fills = |flow: &FlowBudget| {
        let asks = flow.offered.map_or(f64::INFINITY, |offered| offered.as_bps() as f64);
        let most = asks.min(flow.by_answers.map_or(f64::INFINITY, |most| most.as_bps() as f64));
        let window = flow.tcp.as_ref().map_or(f64::INFINITY, |tcp| tcp.window_limit.as_bps() as f64);
        slows(flow) && (flow.fair_share.as_bps() as f64) < 0.999 * most.min(window)
    };
    let full: HashSet<String> =
        flows.iter().filter(|flow| fills(flow)).map(|flow| flow.bottleneck.clone()).collect();
    let mut on: HashMap<String, HashSet<String>> = HashMap::new();
    let ways: Vec<Vec<String>> = paths
        .iter()
        .map(|(_, path)| path.hops_there().iter().map(|hop| direction(scenario, (hop.0, hop.1))))
        .map(|names| names.filter(|name| full.contains(name)).collect())
        .collect();
    for (flow, ways) in flows.iter().zip(&ways).filter(|(flow, _)| slows(flow)) {
        for at in ways {
            on.entry(at.clone()).or_default().insert(flow.name.clone());
        }
    }
    among_others(flows, &ways, &on);
    for (flow, ways) in flows.iter_mut().zip(ways).filter(|(flow, _)| slows(flow)) {
        let Some(at) = ways.into_iter().find(|at| on[at].len() > 1) else { continue };
        flow.warnings.push(format!(
            "flows that slow down share {at}: equal parts are forecast, and controllers, round trips and starts make others"
        ));
    }
}

/// Notes flows that do not slow down on a link which others fill that do.
fn among_others(flows: &mut [FlowBudget], ways: &[Vec<String>], on: &HashMap<String, HashSet<String>>) {
    for (flow, ways) in flows.iter_mut().zip(ways) {
        let fills = |at: &&String| on.get(*at).is_some_and(|names| !names.contains(&flow.name));
        let Some(at) = ways.iter().find(fills).filter(|_| flow.blocked.is_none()) else { continue };
        flow.warnings.push(format!(
            "others fill the queue of {at} and slow down at what it drops: it waits there too, and may lose packets"
        ));
    }
}

/// Notes the goodput that a run shows of flows to groups with unequal members.
pub(super) fn groups(scenario: &Scenario, flows: &mut [FlowBudget]) {
    let mut of: HashMap<String, Vec<(f64, f64)>> = HashMap::new();
    let is_to_group = |flow: &&mut FlowBudget| {
        scenario.flow.get(&flow.name).is_some_and(|flow| scenario.group.contains_key(&flow.to))
    };
    for flow in flows.iter_mut().filter(is_to_group) {
        // Copies of a node are members each, and have one forecast.
        let member = flow.path.last().and_then(|name| scenario.node.get(name));
        let copies = member.map_or(1.0, |node| f64::from(node.count));
        of.entry(flow.name.clone()).or_default().push((flow.fair_share.as_bps() as f64, copies));
    }
    for flow in flows {
        let Some(all) = of.get(&flow.name) else { continue };
        let (least, most) = all.iter().fold((f64::MAX, 0.0), |(least, most): (f64, f64), (gets, _)| {
            (least.min(*gets), most.max(*gets))
        });
        if least < 0.999 * most {
            let members: f64 = all.iter().map(|(_, copies)| copies).sum();
            let in_all: f64 = all.iter().map(|(gets, copies)| gets * copies).sum();
            let mean = Rate::from_bps((in_all / members).round() as u64);
            flow.warnings.push(format!(
                "its figures in a run are over all {members} members of its group: a goodput of {} is their mean",
                show::rate(mean)
            ));
        }
    }
}

/// Notes transfers whose ACKs wait behind the data of others.
fn behind_data(
    scenario: &Scenario,
    activities: &Activities,
    paths: &[(usize, Path)],
    flows: &mut [FlowBudget],
) {
    let begins = |name: &str| {
        let number = scenario.flow.get_index_of(name);
        number.is_none_or(|number| activities.begin(number) > 0.0)
    };
    let fills = |flow: &&FlowBudget| flow.tcp.is_some() && flow.offered.is_none() && begins(&flow.name);
    let full: HashMap<String, String> =
        flows.iter().filter(fills).map(|flow| (flow.bottleneck.clone(), flow.name.clone())).collect();
    for (flow, (_, path)) in flows.iter_mut().zip(paths).filter(|(flow, _)| flow.tcp.is_some()) {
        let answers = path.directions().into_iter().filter(|(link, way)| path.answers_on(*link, *way));
        let other = |at: String| full.get(&at).filter(|name| **name != flow.name).map(|_| at);
        if let Some(at) = answers.map(|at| direction(scenario, at)).find_map(other) {
            flow.warnings
                .push(format!("its ACKs wait behind data of others on {at}: it gets less than is forecast"));
        }
    }
}

/// Returns a note on packets that are lost with any of their parts.
fn whole_or_lost(flow: &FlowBudget, in_cells: bool) -> Option<String> {
    let parts = if flow.fragments > 1 {
        "fragments"
    } else if in_cells {
        "cells, where their queues have room for some of them,"
    } else {
        return None;
    };
    Some(format!("what does not fit is lost in {parts} and each takes its whole packet: fewer arrive"))
}

/// Returns a number of things in words.
pub(super) fn counted(number: u64, thing: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{s}")
}

/// Returns a note on the file that a flow sends.
fn file_note(ground: &Ground<'_>, (n, flow): (usize, &Flow)) -> Option<String> {
    let Some(file) = ground.recorded.get(&n) else {
        let has_file = flow.traffic.kind().recorded(&mut |_| Err(String::new()), Span::MAX).is_some();
        let note = "its file is not read here: what it offers is not forecast, and shares do not count it";
        return has_file.then(|| note.to_owned());
    };
    let Recorded { packets: sent, of: (packets, bytes, lasts), note, .. } = file;
    let duration = ground.scenario.duration;
    let (end, place) = match flow.stop.filter(|stop| *stop < duration) {
        Some(stop) => (stop, "before its stop"),
        None => (duration, "in the run"),
    };
    let left = end.saturating_sub(flow.start);
    let cut = if sent < packets {
        format!("; {left} of that are {place}, with {}", counted(*sent, "packet"))
    } else {
        String::new()
    };
    let note = note.as_ref().map_or_else(String::new, |note| format!("; {note}"));
    let packets = counted(*packets, "packet");
    Some(format!("its file has {packets} with {bytes} in {}{cut}{note}", show::time(*lasts)))
}

/// Returns a note on a flow that is silent, or whose rate is not known.
fn silence(states: &States, (n, flow): (usize, &Flow), path: &Path) -> Option<String> {
    let kind = flow.traffic.kind();
    if let Some(reason) = path.unknown {
        return Some(format!("what it offers is not forecast, and shares do not count it: {reason}"));
    }
    let writes = !kind.takes().application || flow.application != Application::Nothing;
    let [active, of] = states.activities.total(n, flow);
    let [active, of] = [active, of].map(Span::from_secs_f64);
    let is_switched = !flow.active || states.activities.is_switched(n);
    match writes {
        false => Some("its application writes nothing".to_owned()),
        true if active.is_zero() && is_switched => {
            Some("it is not active in the run, and sends nothing".to_owned())
        }
        true if active < of && is_switched => {
            Some(format!("it is active for {} of {}", show::time(active), show::time(of)))
        }
        true => None,
    }
}

/// Returns a note on a path that answers limit.
fn ack_note(scenario: &Scenario, path: &Path, forecast: &Forecast, budget: &FlowBudget) -> Option<String> {
    let (link, way) = forecast.narrowest;
    let by_answers = budget.by_answers.filter(|_| path.answers_on(link, way))?;
    let (at, len) = (direction(scenario, (link, way)), Bytes::new(path.answer_len()));
    let with_slow_start = budget.tcp.as_ref().and_then(|tcp| tcp.with_slow_start);
    let most = with_slow_start.filter(|most| *most > by_answers).unwrap_or(budget.ceiling);
    let [by_answers, most] = [by_answers, most].map(show::rate);
    Some(format!(
        "its ACKs of {len} fill {at}, which limits it to {by_answers} where none is lost and its window stays; while it grows, or as ACKs are lost, it gets more, up to {most}"
    ))
}

/// Returns a note on other directions that limit a flow at times.
fn elsewhere(scenario: &Scenario, path: &Path, forecast: &Forecast) -> Option<String> {
    (path.window.is_some() && forecast.elsewhere > FEW).then(|| {
        format!(
            "{} limits it for {} of its time, and other links for the rest: notes on windows and queues are those of the former",
            direction(scenario, forecast.narrowest),
            show::percent(1.0 - forecast.elsewhere)
        )
    })
}

/// Part of a flow's time that is worth a note.
const FEW: f64 = 0.02;

/// Returns a note on a share that answers have of a link.
fn ack_share(scenario: &Scenario, path: &Path, forecast: &Forecast) -> Option<String> {
    let (link, way) = forecast.limit;
    let is_apart = forecast.limit != forecast.narrowest;
    (path.window.is_some() && is_apart && path.answers_on(link, way)).then(|| {
        let at = direction(scenario, (link, way));
        format!("its ACKs share {at} with others: it gets more than its share where ACKs are lost, and less where they wait")
    })
}

/// Notes the contenders for a carrier.
pub(super) fn contend(
    scenario: &Scenario,
    paths: &[(usize, Path)],
    flows: &mut [FlowBudget],
    terminals: &[ShareBudget],
) {
    let by_name: HashMap<String, &ShareBudget> = terminals
        .iter()
        .map(|terminal| (format!("{} {}", terminal.name, terminal.direction), terminal))
        .collect();
    let mut counts: HashMap<&str, u32> = HashMap::new();
    terminals.iter().for_each(|terminal| *counts.entry(&terminal.carrier).or_default() += terminal.copies);
    for (flow, (n, path)) in flows.iter_mut().zip(paths) {
        if by_name.is_empty() {
            continue;
        }
        let is_tfrc = matches!(scenario.flow[*n].traffic, Traffic::Tfrc(_));
        let mut names = path.directions().into_iter().map(|at| direction(scenario, at));
        let requests =
            |name: String| by_name.get(&name).is_some_and(|terminal| terminal.least < terminal.most);
        if (flow.tcp.is_some() || is_tfrc) && flow.blocked.is_none() && names.any(requests) {
            flow.warnings.push(
                "what it sends or its answers wait for slots that are requested: round trips, the buffer needed and slow start are without that, and it gets up to what is forecast".to_owned(),
            );
        }
        let Some(terminal) = by_name.get(&flow.bottleneck) else { continue };
        let needs =
            flow.offered.is_some_and(|offered| offered > terminal.least) && terminal.least < terminal.most;
        if needs && flow.tcp.is_none() && !is_tfrc && flow.blocked.is_none() {
            flow.warnings.push(
                "it waits for slots that are requested, at first for the first of them: it gets up to what is forecast".to_owned(),
            );
        }
        let count = counts[&*terminal.carrier];
        if count < 2 || terminal.share >= terminal.most {
            continue;
        }
        flow.warnings.push(format!(
            "{count} terminals share carrier {}; if all request, {} has {} of {}",
            terminal.carrier, flow.bottleneck, terminal.share, terminal.most
        ));
    }
}

/// Returns the rate that the bottleneck carries.
///
/// What is lost in front of it does not come to it.
fn carried(ground: &Ground<'_>, (n, path): (usize, &Path), forecast: &Forecast) -> Rate {
    let hop = path.hops_there().iter().position(|hop| (hop.0, hop.1) == forecast.limit);
    let (mut come, mut open) = (0.0, 0.0);
    for (state, time) in ground.states.of_flow(n) {
        let parts = path.passing(ground.media, ground.states, state, path.waits);
        if parts.last().is_some_and(|part| *part > 0.0) {
            open += time;
            come += time * hop.map_or(1.0, |hop| parts[hop]);
        }
    }
    let part = if open > 0.0 { (come / open).min(1.0) } else { 1.0 };
    forecast.sent.mul_f64(part)
}

fn warnings(
    (ground, (n, path)): (&Ground<'_>, (usize, &Path)),
    budget: &FlowBudget,
    forecast: &Forecast,
    sharing: &Sharing,
) -> Vec<String> {
    let flow = &ground.scenario.flow[n];
    let (mut warnings, at) = (Vec::new(), &budget.bottleneck);
    let all = budget.offered.map_or(0.0, |offered| offered.as_bps() as f64 * f64::from(flow.count));
    // Rates have four digits.
    if all > 1.001 * forecast.sent.as_bps() as f64 {
        let (all, carries) = (Rate::from_bps(all as u64), carried(ground, (n, path), forecast));
        warnings.push(format!("it offers {all}, but {at} carries only {carries} of such packets"));
    }
    if sharing.count > u64::from(flow.count) {
        warnings.push(sharing.describe());
    }
    warnings
}

/// Returns a note on copies that would start too late.
fn never_start(scenario: &Scenario, flow: (&str, &Flow)) -> Option<String> {
    let [run, after_end, after_stop] = copies::started(scenario, flow, scenario.seed);
    let why = match (after_end, after_stop) {
        (0, 0) => return None,
        (_, 0) => format!("{after_end} would start after the end"),
        (0, _) => format!("{after_stop} would start after their stop"),
        _ => format!("{after_end} would start after the end, {after_stop} after their stop"),
    };
    Some(format!("{run} of {} copies run; {why}", run + after_end + after_stop))
}

/// Returns a note on packets of several lengths on a medium used in turn.
pub(super) fn in_turn(cost: &dyn Cost, lens: impl Iterator<Item = u64>) -> Option<String> {
    let lens: BTreeSet<u64> = lens.collect();
    let (shortest, longest) = (*lens.first()?, *lens.last()?);
    (cost.airtime(longest as usize).is_some() && longest > 2 * shortest.max(1)).then(|| {
        "stations send a packet each in turn: flows of longer packets get more than an equal share".to_owned()
    })
}

/// Returns a note on packets that are in more frames than they fill, with others.
fn in_frames(media: &Media<'_>, at: (usize, Way), len: usize) -> Option<String> {
    let cost = media.cost(at.0, at.1);
    if !matches!(media.side(at.0, at.1).medium, Medium::Space(_)) {
        return None;
    }
    let least = cost.mean_loss(len, 1);
    let more = (2..=MOST_PACKETS).map(|count| cost.mean_loss(len, count)).find(|more| *more > least)?;
    (more > least + 0.005).then(|| {
        format!(
            "where packets follow each other, frames have parts of two: up to {} of packets are lost in place of {}",
            show::percent(more),
            show::percent(least)
        )
    })
}

/// The most packets in a frame that are looked at.
const MOST_PACKETS: u64 = 64;

/// Returns notes on delay and losses of a direction.
pub(super) fn of_link(media: &Media<'_>, states: &States, at: (usize, Way), len: u64) -> Vec<String> {
    let channel = media.channel_delay(at.0, at.1);
    let channel =
        (!channel.is_zero()).then(|| format!("its channel adds {} on average", show::time(channel)));
    let unknown = "its delays are in a file that is not read here: figures are of the first one".to_owned();
    let sample = "only a sample of the changes was looked at: shares of time are estimates".to_owned();
    let is_sample = states.is_sample && !states.rates(at).is_empty();
    let losses = states.losses.note(at);
    let remade = media.remaking(at.0, at.1).map(|key| {
        format!("its `{key}` makes other packets of those that come: figures are those without it")
    });
    let served = "its queue serves some packets first: shares are those without that".to_owned();
    let served = media.serves_first(at.0, at.1).then_some(served);
    let notes = [
        in_frames(media, at, len as usize),
        remade,
        served,
        channel,
        losses,
        states.unknown.contains(&at).then_some(unknown),
        is_sample.then_some(sample),
    ];
    let of_queue = queues::notes(media, states, at, len).into_iter();
    of_queue.chain(notes.into_iter().flatten()).collect()
}
