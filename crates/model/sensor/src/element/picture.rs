//! Picture of a field and its tree as SVG.

use std::fmt::Write;

use crate::message::Place;

/// Longer side of the picture, and its margin, in pixels.
const SIDE: f32 = 640.0;
const MARGIN: f32 = 30.0;
/// Width of the legend, and distance of its lines.
const LEGEND: f32 = 110.0;
const LINE: f32 = 16.0;
/// Colour of motes without a route.
const LOST: &str = "#cc0000";
/// Colours of the levels of the tree, in turn.
const COLOURS: [&str; 6] = ["#0b5394", "#38761d", "#b45f06", "#741b47", "#45818e", "#666666"];

/// Returns the picture of a map, with lines to parents and motes coloured by level.
pub(super) fn draw(map: &[Place]) -> String {
    let bound = |of: fn(&Place) -> f32| {
        let values = map.iter().map(of);
        values.fold((f32::MAX, f32::MIN), |(low, high), value| (low.min(value), high.max(value)))
    };
    let ((left, right), (low, high)) = (bound(|place| place.x), bound(|place| place.y));
    let scale = SIDE / (right - left).max(high - low).max(1.0);
    let at = |place: &Place| (MARGIN + (place.x - left) * scale, MARGIN + (high - place.y) * scale);
    let (width, height) =
        ((right - left) * scale + 2.0 * MARGIN + LEGEND, (high - low) * scale + 2.0 * MARGIN);
    let height = height.max(MARGIN + LINE * (COLOURS.len() + 4) as f32);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"9\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for place in map {
        if let Some(parent) = map.get(usize::from(place.parent)) {
            let ((x, y), (to, up)) = (at(place), at(parent));
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{up:.1}\" stroke=\"#999999\"/>"
            );
        }
    }
    for (n, place) in map.iter().enumerate() {
        let (x, y) = at(place);
        if n == 0 {
            let (x, y) = (x - 7.0, y - 7.0);
            let _ =
                writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\" fill=\"black\"/>");
            continue;
        }
        let colour = level(map, n).map_or(LOST, |level| COLOURS[(level - 1) % COLOURS.len()]);
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>");
        if map.len() <= 200 {
            let (x, y) = (x + 7.0, y + 3.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{n}</text>");
        }
    }
    legend(&mut svg, map, (width - LEGEND, scale));
    svg.push_str("</svg>\n");
    svg
}

/// Adds what the colours stand for, and a bar of a round number of metres.
fn legend(svg: &mut String, map: &[Place], (left, scale): (f32, f32)) {
    let deepest = (1..map.len()).filter_map(|mote| level(map, mote)).max().unwrap_or(0);
    let hops = |level: usize| if level == 1 { "1 hop".to_owned() } else { format!("{level} hops") };
    let levels = (1..=deepest.min(COLOURS.len())).map(|level| {
        let more = if level < deepest && level == COLOURS.len() { ", and so on" } else { "" };
        (COLOURS[level - 1], format!("{}{more}", hops(level)))
    });
    let is_without = (1..map.len()).any(|mote| level(map, mote).is_none());
    let without = is_without.then(|| (LOST, "no route".to_owned()));
    let entries = [("black", "base station".to_owned())].into_iter().chain(levels).chain(without);
    let mut y = MARGIN;
    for (colour, text) in entries {
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\">{text}</text>",
            y - 9.0,
            left + 14.0,
            y
        );
        y += LINE;
    }
    let metres = 10_f32.powf((80.0 / scale).log10().floor());
    let bar = metres * scale;
    let _ = writeln!(
        svg,
        "<path d=\"M{left:.1} {y:.1}h{bar:.1}\" stroke=\"black\" stroke-width=\"2\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\">{metres} m</text>",
        left + bar + 5.0,
        y + 4.0
    );
}

/// Returns the hops from a mote to the base station, if it has a route.
fn level(map: &[Place], mut mote: usize) -> Option<usize> {
    for hops in 0..map.len() {
        if mote == 0 {
            return Some(hops);
        }
        mote = usize::from(map.get(mote)?.parent);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_its_tree_and_motes_without_a_route() {
        let place = |x: f32, parent| Place { x, y: x * 2.0, parent };
        let svg = draw(&[place(0.0, u16::MAX), place(1.0, 0), place(2.0, 1), place(3.0, u16::MAX)]);
        assert_eq!((svg.matches("<line").count(), svg.matches("<circle").count()), (2, 3));
        assert!(svg.contains("#cc0000") && svg.ends_with("</svg>\n"));
        for text in ["base station", ">1 hop<", ">2 hops<", "no route", "0.1 m"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }
}
