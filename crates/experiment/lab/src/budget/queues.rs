//! Notes on queues: targets that a packet exceeds, and what classes have.

use bentpipe_net::queue::{Class, DEFAULT_PACKETS, Discipline};
use bentpipe_scenario::Way;
use bentpipe_units::{Bytes, Span};

use super::medium::Media;
use super::show;
use super::states::States;

/// Returns notes on the queue of a direction.
pub(super) fn notes(media: &Media<'_>, states: &States, at: (usize, Way), len: u64) -> Vec<String> {
    let targets = short_targets(media, states, at, len);
    targets.into_iter().chain(of_classes(media, at, len)).collect()
}

/// Returns the times that disciplines of a queue aim at, with the class of each.
fn targets(queue: &Discipline) -> Vec<(Option<&str>, Span)> {
    let of = |queue: &Discipline| match queue {
        Discipline::CoDel(config) => Some(config.target),
        Discipline::FqCoDel(config) => Some(config.target),
        Discipline::Pie(config) => Some(config.target),
        Discipline::DualPi2(config) => Some(config.target),
        Discipline::DropTail(_) | Discipline::Red(_) | Discipline::Priority(_) | Discipline::Classes(_) => {
            None
        }
    };
    match queue {
        Discipline::Classes(classes) => {
            let all = classes.class.iter();
            all.filter_map(|class| Some((Some(&*class.name), of(&class.queue.into())?))).collect()
        }
        queue => of(queue).map(|target| (None, target)).into_iter().collect(),
    }
}

/// Returns the thresholds from which on L4S packets are marked, with the class of each.
fn steps(queue: &Discipline) -> Vec<(Option<&str>, Span)> {
    let of = |queue: &Discipline| match queue {
        // The ramp marks half in its middle.
        Discipline::DualPi2(config) if config.min_qlen_step == 0 => {
            Some(config.step_thresh + config.step_range.mul_f64(0.5))
        }
        _ => None,
    };
    match queue {
        Discipline::Classes(classes) => {
            let all = classes.class.iter();
            all.filter_map(|class| Some((Some(&*class.name), of(&class.queue.into())?))).collect()
        }
        queue => of(queue).map(|step| (None, step)).into_iter().collect(),
    }
}

/// Returns notes on targets and thresholds of a queue below a packet's time.
fn short_targets(media: &Media<'_>, states: &States, at: (usize, Way), len: u64) -> Vec<String> {
    let Some(queue) = queue_of(media, at.0, at.1) else { return Vec::new() };
    let cost = media.cost(at.0, at.1);
    // In the slowest of its states.
    let rates = states.rates(at).iter().map(|share| share.rate.as_bps()).filter(|rate| *rate > 0);
    let slower = rates.min().map_or(1.0, |least| cost.rate().as_bps() as f64 / least as f64);
    let takes = cost.time(usize::try_from(len).unwrap_or(usize::MAX)).mul_f64(slower.max(1.0));
    let short = |(class, time): &(Option<&str>, Span)| {
        let of = class.map_or_else(|| "its queue".to_owned(), |class| format!("class {class} of its queue"));
        let (time, takes, len) = (show::time(*time), show::time(takes), Bytes::new(len));
        (of, time, takes, len)
    };
    let is_short = |(_, time): &(Option<&str>, Span)| *time < takes;
    let targets = targets(&queue).into_iter().filter(is_short).map(|one| {
        let (of, time, takes, len) = short(&one);
        format!(
            "the target of {of}, {time}, is less than the {takes} of a packet of {len} on the line: it drops where hardly any wait (RFC 8289, section 4.4)"
        )
    });
    let steps = steps(&queue).into_iter().filter(is_short).map(|one| {
        let (of, time, takes, len) = short(&one);
        format!(
            "`step_thresh` of {of} marks from {time} on, less than the {takes} of a packet of {len} on the line: `min_qlen_step` = 1 keeps a packet that waits for one from its mark (RFC 9332, A.2)"
        )
    });
    targets.chain(steps).collect()
}

/// Returns notes on what classes of a queue are guaranteed, and on their ceilings.
fn of_classes(media: &Media<'_>, at: (usize, Way), len: u64) -> Vec<String> {
    let Some(classes) = media.classes(at) else { return Vec::new() };
    let of = |class: &Class| {
        let rate = class.rate.map(|rate| format!(" at least {rate}"));
        let ceil = class.ceil.map(|ceil| format!(" at most {ceil}"));
        let rest = format!(" priority {}, weight {}", class.priority, class.weight);
        let all: Vec<String> = rate.into_iter().chain(ceil).chain([rest]).collect();
        format!("{}{}", class.name, all.join(","))
    };
    let all: Vec<String> = classes.class.iter().map(of).collect();
    let changes = if media.ceilings.changes(at) { "; events change them" } else { "" };
    let mut notes = vec![format!("classes of its queue, in IP packets: {}{changes}", all.join("; "))];
    let carries = media.cost(at.0, at.1).capacity(usize::try_from(len).unwrap_or(usize::MAX));
    let carries = classes.ceil.map_or(carries, |ceil| ceil.min(carries));
    if classes.guaranteed() > carries {
        notes.push(format!(
            "its classes are guaranteed {}, more than the {carries} that it carries: none can rely on its rate",
            classes.guaranteed()
        ));
    }
    notes
}

/// Returns the queue in front of a transmitter; `None` for a medium that has others.
pub(super) fn queue_of(media: &Media<'_>, link: usize, way: Way) -> Option<Discipline> {
    let side = media.side(link, way);
    side.medium.takes().queue.is_none().then(|| side.common.queue.clone().unwrap_or_default())
}

/// Returns the capacity of a queue in words.
pub(super) fn queue_text(queue: &Discipline) -> String {
    if let Discipline::Classes(classes) = queue {
        return format!("{} classes", classes.class.len());
    }
    let fields = serde_json::to_value(queue).expect("a queue is a table");
    let text = |key: &str| fields.get(key).filter(|value| !value.is_null()).cloned();
    let bytes = ["bytes", "limit", "limit_bytes"].into_iter().find_map(text);
    let packets = ["packets", "limit_packets"].into_iter().find_map(text);
    match (bytes, packets) {
        (Some(bytes), _) => bytes.as_str().map_or_else(|| bytes.to_string(), str::to_owned),
        (None, Some(packets)) if packets == 1 => "1 packet".to_owned(),
        (None, Some(packets)) => format!("{packets} packets"),
        (None, None) => format!("{DEFAULT_PACKETS} packets"),
    }
}

/// Returns the capacity of a queue in bytes, if it is bounded.
pub(super) fn queue_bytes(queue: &Discipline, packet: Bytes) -> Option<Bytes> {
    let text = queue_text(queue);
    match text.strip_suffix(" packets").or_else(|| text.strip_suffix(" packet")) {
        Some(packets) => {
            packets.parse::<u64>().ok().map(|packets| Bytes::new(packets.saturating_mul(packet.get())))
        }
        None => text.parse().ok(),
    }
}
