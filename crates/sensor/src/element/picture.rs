//! Picture of a field and its tree as SVG.

use std::fmt::Write;

use crate::message::Place;

/// Longer side of the picture, and its margin, in pixels.
const SIDE: f32 = 640.0;
const MARGIN: f32 = 30.0;
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
    let (width, height) = ((right - left) * scale + 2.0 * MARGIN, (high - low) * scale + 2.0 * MARGIN);
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
        let colour = level(map, n).map_or("#cc0000", |level| COLOURS[(level - 1) % COLOURS.len()]);
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>");
        if map.len() <= 200 {
            let (x, y) = (x + 7.0, y + 3.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{n}</text>");
        }
    }
    svg.push_str("</svg>\n");
    svg
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
    }
}
