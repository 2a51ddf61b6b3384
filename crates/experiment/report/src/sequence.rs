//! Sequence diagram of the first packets of a flow.
//!
//! Two upright lines are its ends, and an arrow is a packet.
//!
//! Time goes down, but not to scale: where nothing happens it is cut short, and packets that follow each other closely are
//! drawn apart, so that each can be read. The order of all events is kept, and the margins have their times.

use std::fmt::Write;

use bentpipe_record::{FirstPacket, FirstPackets};

use super::escape::escape;

const WIDTH: f64 = 900.0;
/// Horizontal positions of both ends.
const LEFT: f64 = 260.0;
const RIGHT: f64 = 640.0;
/// Space above the first event, with the names of the ends.
const HEAD: f64 = 46.0;
/// Least distance of two events of one end, which their labels need.
const APART: f64 = 15.0;
/// Pixels of a second, and most pixels between two events.
const SECOND: f64 = 260.0;
const MOST: f64 = 46.0;

/// Sending or arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    at_s: f64,
    packet: usize,
    is_arrival: bool,
    /// Set if it is at the receiving end of the flow.
    is_right: bool,
}

/// Returns the diagram as an `<svg>` element.
pub(super) fn draw(flow: &FirstPackets) -> String {
    let events = events(&flow.packets);
    let places = places(&events);
    let bottom = places.iter().copied().fold(HEAD, f64::max) + 20.0;
    let mut svg = format!(
        "<svg class=\"sequence\" viewBox=\"0 0 {WIDTH} {bottom:.0}\" role=\"img\" aria-label=\"First packets of {}\">",
        escape(&flow.flow.name)
    );
    for (x, name) in [(LEFT, &flow.flow.from), (RIGHT, &flow.flow.to)] {
        let _ = write!(svg, "<text class=\"end\" x=\"{x}\" y=\"20\">{}</text>", escape(name));
        let _ = write!(svg, "<path class=\"axis\" d=\"M{x} 30V{bottom:.0}\"/>");
    }
    for (number, packet) in flow.packets.iter().enumerate() {
        let place = |is_arrival: bool| {
            let event =
                events.iter().position(|event| (event.packet, event.is_arrival) == (number, is_arrival))?;
            Some(places[event])
        };
        if let Some(from) = place(false) {
            arrow(&mut svg, packet, from, place(true));
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Returns all events in the order of time.
fn events(packets: &[FirstPacket]) -> Vec<Event> {
    let both = |(packet, record): (usize, &FirstPacket)| {
        let event = |at_s: f64, is_arrival: bool| Event {
            at_s,
            packet,
            is_arrival,
            is_right: record.is_return != is_arrival,
        };
        [Some(event(record.sent_s, false)), record.arrived_s.map(|at_s| event(at_s, true))]
    };
    let mut events: Vec<Event> = packets.iter().enumerate().flat_map(both).flatten().collect();
    events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    events
}

/// Returns the vertical position of each event.
fn places(events: &[Event]) -> Vec<f64> {
    let (mut last, mut of_end, mut before) = (HEAD, [HEAD - APART; 2], None::<f64>);
    let place = |event: &Event| -> f64 {
        let gap: f64 = before.map_or(0.0, |before| (event.at_s - before) * SECOND);
        let own = &mut of_end[usize::from(event.is_right)];
        last = (last + gap.min(MOST)).max(*own + APART);
        (*own, before) = (last, Some(event.at_s));
        last
    };
    events.iter().map(place).collect()
}

/// Draws a packet from its sending to its arrival, or to its loss.
fn arrow(svg: &mut String, packet: &FirstPacket, from: f64, to: Option<f64>) {
    let (start, end) = if packet.is_return { (RIGHT, LEFT) } else { (LEFT, RIGHT) };
    let class = if packet.is_return { "s1" } else { "s0" };
    match to {
        Some(to) => {
            let (dx, dy) = (end - start, to - from);
            let length = dx.hypot(dy).max(1.0);
            let (ux, uy) = (dx / length, dy / length);
            let (tip_x, tip_y) = (end - ux, to - uy);
            let corner = |side: f64| (tip_x - ux * 8.0 - uy * 4.0 * side, tip_y - uy * 8.0 + ux * 4.0 * side);
            let ((ax, ay), (bx, by)) = (corner(1.0), corner(-1.0));
            let _ = write!(
                svg,
                "<path class=\"line {class}\" d=\"M{start} {from:.1}L{tip_x:.1} {tip_y:.1}M{ax:.1} {ay:.1}L{tip_x:.1} {tip_y:.1}L{bx:.1} {by:.1}\"/>"
            );
            let anchor = if packet.is_return { "left" } else { "right" };
            let x = if packet.is_return { LEFT - 8.0 } else { RIGHT + 8.0 };
            let seconds = packet.arrived_s.map(seconds).unwrap_or_default();
            let _ =
                write!(svg, "<text class=\"{anchor} time\" x=\"{x}\" y=\"{:.1}\">{seconds}</text>", to + 4.0);
        }
        None => {
            let (x, y) = (start + (end - start) * 0.42, from + 12.0);
            let lost = packet.lost_at.as_deref().map(|at| format!("lost at {at}"));
            let what = lost.or_else(|| packet.stays.clone()).unwrap_or_else(|| "in flight".to_owned());
            let cross = if packet.lost_at.is_some() { "m-4 -4l8 8m0 -8l-8 8" } else { "" };
            let _ =
                write!(svg, "<path class=\"line {class}\" d=\"M{start} {from:.1}L{x:.1} {y:.1}{cross}\"/>");
            let _ = write!(
                svg,
                "<text class=\"lost\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 10.0,
                y + 4.0,
                escape(&what)
            );
        }
    }
    let (anchor, x) = if packet.is_return { ("right", RIGHT + 8.0) } else { ("left", LEFT - 8.0) };
    let text = format!("{}  {}", escape(&packet.label), seconds(packet.sent_s));
    let text = if packet.is_return {
        format!("{}  {}", seconds(packet.sent_s), escape(&packet.label))
    } else {
        text
    };
    let _ = write!(svg, "<text class=\"{anchor}\" x=\"{x}\" y=\"{:.1}\">{text}</text>", from + 4.0);
}

/// Returns a time with its unit, to a tenth of a millisecond.
fn seconds(seconds: f64) -> String {
    format!("{seconds:.4} s")
}

#[cfg(test)]
mod tests {
    use bentpipe_record::RecordedFlow;

    use super::*;

    fn packet(is_return: bool, sent_s: f64, arrived_s: Option<f64>, label: &str) -> FirstPacket {
        let lost_at = arrived_s.is_none().then(|| "link.sky.forward".to_owned());
        FirstPacket { is_return, sent_s, arrived_s, lost_at, stays: None, label: label.to_owned() }
    }

    #[test]
    fn the_order_of_events_is_kept_and_labels_have_room() {
        let packets = [
            packet(false, 0.0, Some(0.27), "SYN"),
            packet(true, 0.27, Some(0.54), "SYN, ACK 1"),
            packet(false, 0.54, None, "data 1 to 1448"),
            packet(false, 0.54001, Some(0.8112), "data 1449 to 2896"),
        ];
        let events = events(&packets);
        let places = places(&events);
        assert!(places.windows(2).all(|pair| pair[0] <= pair[1]), "{places:?}");
        for is_right in [false, true] {
            let own: Vec<f64> = events
                .iter()
                .zip(&places)
                .filter(|(event, _)| event.is_right == is_right)
                .map(|(_, y)| *y)
                .collect();
            assert!(own.windows(2).all(|pair| pair[1] - pair[0] >= APART), "{own:?}");
        }
        let mut packets = packets.to_vec();
        let stays = Some("taken over by node.e.pep".to_owned());
        packets.push(FirstPacket { lost_at: None, stays, ..packet(false, 0.9, None, "data") });
        let flow = RecordedFlow { name: "web".into(), from: "server".into(), to: "<client>".into() };
        let svg = draw(&FirstPackets { flow, packets });
        assert!(svg.contains(">taken over by node.e.pep<"), "{svg}");
        assert!(svg.contains("lost at link.sky.forward") && svg.contains("&lt;client&gt;"), "{svg}");
        assert_eq!(svg.matches("<path class=\"line").count(), 5);
    }
}
