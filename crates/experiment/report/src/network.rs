//! Drawing of a network: nodes in layers and the links between them.

use std::cmp::Ordering;
use std::fmt::Write as _;

use bentpipe_record::{MappedKind, MappedLink, MappedNode, NetworkMap};

use super::escape::escape;

/// Maximum number of nodes drawn; more cannot be read.
const MAX_NODES: usize = 40;

/// Distance of layers. Half the size of a node follows.
const LAYER: f64 = 344.0;
const HALF: (f64, f64) = (68.0, 19.0);

/// Distance of nodes in a layer, for labels of one line and of two.
///
/// Half way between nodes of two layers, labels of neighbours are half as far from each other.
const ROWS: [f64; 2] = [84.0, 120.0];

/// Space around the drawing.
const MARGIN: f64 = 24.0;

/// Maximum number of letters of a name or label.
const MAX_LETTERS: usize = 28;

/// Maximum shift of the labels of links that fan out, as a share of [`LAYER`].
const FAN: f64 = 0.08;

/// Width of a satellite's panel, and half the width of a letter.
const PANEL: f64 = 16.0;
const HALF_LETTER: f64 = 3.4;

/// Part of a drawing that may lead to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawnPart<'a> {
    /// Node of this name.
    Node(&'a str),
    /// Link of this name.
    Link(&'a str),
}

/// Address of the page that a part of a drawing leads to, if any.
type Target<'a> = dyn Fn(DrawnPart<'_>) -> Option<String> + 'a;

/// Returns the network as an `<svg>` element, or `None`.
///
/// A network without links, or with more nodes than can be read, is not drawn.
pub(super) fn draw(map: &NetworkMap) -> Option<String> {
    draw_with(map, &|_| None)
}

/// Returns the network as an `<svg>` element with links to pages.
///
/// A network without links, or with more nodes than can be read, is not drawn.
pub fn draw_with(map: &NetworkMap, target: &Target<'_>) -> Option<String> {
    if map.links.is_empty() || map.nodes.len() > MAX_NODES {
        return None;
    }
    let layers = layers(map);
    let rows = layers.iter().map(Vec::len).max()?;
    let row = ROWS[usize::from(map.links.iter().any(|link| !lines(&link.label).1.is_empty()))];
    // The margin above and below is part of a row.
    let (width, height) = (
        (layers.len() - 1) as f64 * LAYER + 2.0 * (HALF.0 + MARGIN),
        (rows - 1) as f64 * row + ROWS[0] + MARGIN,
    );
    let places = places(map.nodes.len(), &layers, height, row);
    // Links in a picture are for readers of screens too only if it is a group.
    let role = if map.nodes.iter().any(|node| target(DrawnPart::Node(&node.name)).is_some()) {
        "group"
    } else {
        "img"
    };
    let (mut svg, mut area) = (String::new(), Area { low: (0.0, 0.0), high: (width, height) });
    for (n, link) in map.links.iter().enumerate() {
        let twins = map.links[..n].iter().filter(|other| same_ends(other, link)).count();
        let degrees = link.between.map(|end| neighbours(map, end).count());
        anchored(target(DrawnPart::Link(&link.name)), &mut svg, |svg| {
            draw_link(link, &places, degrees, twins, svg, &mut area);
        });
    }
    for (node, place) in map.nodes.iter().zip(&places) {
        anchored(target(DrawnPart::Node(&node.name)), &mut svg, |svg| {
            draw_node(node, *place, svg);
        });
    }
    let Area { low: (x, y), high } = area;
    let (width, height) = (high.0 - x, high.1 - y);
    Some(format!(
        "<svg viewBox=\"{x:.0} {y:.0} {width:.0} {height:.0}\" role=\"{role}\" class=\"network\" width=\"{width:.0}\" height=\"{height:.0}\">\
         <title>Network: {} nodes, {} links</title>{svg}</svg>",
        map.nodes.len(),
        map.links.len()
    ))
}

/// Part of the plane that a drawing takes.
struct Area {
    low: (f64, f64),
    high: (f64, f64),
}

impl Area {
    /// Extends the area to a text around a point of its base line.
    fn include(&mut self, (x, y): (f64, f64), letters: usize) {
        let half = letters as f64 * HALF_LETTER + MARGIN / 2.0;
        self.low = (self.low.0.min(x - half), self.low.1.min(y - MARGIN));
        self.high = (self.high.0.max(x + half), self.high.1.max(y + MARGIN / 2.0));
    }
}

/// Draws a part as an anchor, if it has an address.
fn anchored(target: Option<String>, svg: &mut String, draw: impl FnOnce(&mut String)) {
    match target {
        Some(target) => {
            let _ = write!(svg, "<a href=\"{}\">", escape(&target));
            draw(svg);
            svg.push_str("</a>");
        }
        None => draw(svg),
    }
}

fn same_ends(first: &MappedLink, second: &MappedLink) -> bool {
    let [a, b] = first.between;
    second.between == [a, b] || second.between == [b, a]
}

/// Returns the nodes by their distance from a node at the edge.
///
/// Unconnected parts are below each other.
fn layers(map: &NetworkMap) -> Vec<Vec<usize>> {
    let mut layers: Vec<Vec<usize>> = Vec::new();
    let mut is_placed = vec![false; map.nodes.len()];
    while let Some(seed) = is_placed.iter().position(|placed| !placed) {
        let part: Vec<usize> = distances(map, seed).iter().flatten().copied().collect();
        // The first of the file that lies at an edge.
        let depth = |node: &usize| distances(map, *node).len();
        let deepest = part.iter().map(depth).max().unwrap_or(1);
        let start = part.iter().copied().filter(|node| depth(node) == deepest).min().unwrap_or(seed);
        for (n, mut layer) in distances(map, start).into_iter().enumerate() {
            if layers.len() == n {
                layers.push(Vec::new());
            }
            layer.iter().for_each(|node| is_placed[*node] = true);
            let before = if n == 0 { Vec::new() } else { layers[n - 1].clone() };
            layer.sort_by(|a, b| middle(map, *a, &before).total_cmp(&middle(map, *b, &before)));
            layers[n].extend(layer);
        }
    }
    layers
}

/// Returns the nodes in reach of `start`, by their number of hops.
fn distances(map: &NetworkMap, start: usize) -> Vec<Vec<usize>> {
    let mut is_seen = vec![false; map.nodes.len()];
    is_seen[start] = true;
    let mut layers = vec![vec![start]];
    loop {
        let mut next: Vec<usize> = Vec::new();
        for node in &layers[layers.len() - 1] {
            for other in neighbours(map, *node) {
                if !std::mem::replace(&mut is_seen[other], true) {
                    next.push(other);
                }
            }
        }
        if next.is_empty() {
            return layers;
        }
        layers.push(next);
    }
}

fn neighbours(map: &NetworkMap, node: usize) -> impl Iterator<Item = usize> {
    map.links.iter().filter_map(move |link| match link.between {
        [a, b] if a == node => Some(b),
        [a, b] if b == node => Some(a),
        _ => None,
    })
}

/// Returns the mean position of a node's neighbours in the layer before.
fn middle(map: &NetworkMap, node: usize, before: &[usize]) -> f64 {
    let places = neighbours(map, node).filter_map(|other| before.iter().position(|n| *n == other));
    let (sum, count) = places.fold((0.0, 0.0), |(sum, count), place| (sum + place as f64, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Returns the centre of each node, layers centred vertically.
fn places(nodes: usize, layers: &[Vec<usize>], height: f64, distance: f64) -> Vec<(f64, f64)> {
    let mut places = vec![(0.0, 0.0); nodes];
    for (n, layer) in layers.iter().enumerate() {
        let top = (height - (layer.len() - 1) as f64 * distance) / 2.0;
        for (row, node) in layer.iter().enumerate() {
            places[*node] = (MARGIN + HALF.0 + n as f64 * LAYER, top + row as f64 * distance);
        }
    }
    places
}

/// Draws a link.
///
/// Those with the same ends bend away from the first one.
/// Where links fan out from a node, names stand nearer to the other ends, which are farther apart.
fn draw_link(
    link: &MappedLink,
    places: &[(f64, f64)],
    [degree, to_degree]: [usize; 2],
    twins: usize,
    svg: &mut String,
    area: &mut Area,
) {
    let [(x, y), (to_x, to_y)] = link.between.map(|end| places[end]);
    let side = if twins % 2 == 1 { 1.0 } else { -1.0 };
    let bend = side * twins.div_ceil(2) as f64 * 128.0;
    let (mut via_x, mut via_y) = ((x + to_x) / 2.0, (y + to_y) / 2.0 + bend);
    if x == to_x {
        // Nodes of one layer: around what stands between them.
        via_x += 2.0 * (HALF.0 + 48.0) + bend.abs();
        via_y -= bend;
    }
    let _ = write!(svg, "<path class=\"link\" d=\"M{x} {y}Q{via_x} {via_y} {to_x} {to_y}\"/>");
    let (first, second) = lines(&link.label);
    let letters = [&link.name[..], first, second].map(|text| text.chars().count().min(MAX_LETTERS));
    let letters = letters.into_iter().max().unwrap_or_default();
    let shift = FAN.min(slack(letters));
    let t = match degree.cmp(&to_degree) {
        Ordering::Less => 0.5 - shift,
        Ordering::Equal => 0.5,
        Ordering::Greater => 0.5 + shift,
    };
    let on_curve = |from: f64, via: f64, to: f64| {
        let (before, after) = (1.0 - t, t);
        before * before * from + 2.0 * before * after * via + after * after * to
    };
    let (x, y) = (on_curve(x, via_x, to_x), on_curve(y, via_y, to_y));
    let lines = [(&link.name[..], "name", y - 7.0), (first, "label", y + 16.0), (second, "label", y + 31.0)];
    for (text, class, y) in lines.into_iter().filter(|(text, ..)| !text.is_empty()) {
        area.include((x, y), letters);
        let text = escape(&shortened(text));
        let _ = write!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    }
}

/// Returns the lines of a label. One that is too long has its delay on a line of its own.
fn lines(label: &str) -> (&str, &str) {
    match label.rsplit_once(", ") {
        Some(lines) if label.chars().count() > MAX_LETTERS => lines,
        _ => (label, ""),
    }
}

/// Returns the possible shift of a label off the middle, as a share of [`LAYER`].
fn slack(letters: usize) -> f64 {
    let room = LAYER / 2.0 - HALF.0 - PANEL - letters as f64 * HALF_LETTER;
    room.max(0.0) / LAYER
}

fn draw_node(node: &MappedNode, (x, y): (f64, f64), svg: &mut String) {
    let (left, top) = (x - HALF.0, y - HALF.1);
    let (width, height) = (2.0 * HALF.0, 2.0 * HALF.1);
    let (class, round) = match node.kind {
        MappedKind::Host => ("host", 4.0),
        MappedKind::Router => ("router", HALF.1),
        MappedKind::Satellite => ("satellite", 4.0),
    };
    let mut frame = |by: f64| {
        let (left, top) = (left + by, top - by);
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"/>"
        );
    };
    if node.copies > 1 {
        frame(6.0);
        frame(3.0);
    }
    frame(0.0);
    if node.kind == MappedKind::Satellite {
        // Solar panels.
        for x in [left - 16.0, left + width + 4.0] {
            let _ = write!(
                svg,
                "<rect class=\"panel\" x=\"{x}\" y=\"{}\" width=\"12\" height=\"24\"/>",
                y - 12.0
            );
        }
    }
    let name = shortened(&node.name);
    let copies = if node.copies > 1 { format!(" \u{d7} {}", node.copies) } else { String::new() };
    let _ = write!(svg, "<text class=\"node\" x=\"{x}\" y=\"{}\">{}{copies}</text>", y + 5.0, escape(&name));
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_LETTERS {
        return text.to_owned();
    }
    text.chars().take(MAX_LETTERS - 1).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(names: &[&str], links: &[[usize; 2]]) -> NetworkMap {
        let node = |name: &&str| MappedNode { name: (*name).to_owned(), kind: MappedKind::Host, copies: 1 };
        let link =
            |between: &[usize; 2]| MappedLink { name: "l".into(), between: *between, label: "1 s".into() };
        NetworkMap { nodes: names.iter().map(node).collect(), links: links.iter().map(link).collect() }
    }

    #[test]
    fn long_labels_stay_between_the_nodes() {
        let mut fan = map(&["hub", "a", "b"], &[[0, 1], [0, 2]]);
        fan.links[0].label = "10.80 Mbit/s / 7.20 Mbit/s".into();
        let svg = draw(&fan).expect("a drawing");
        let before = svg.split("10.80 Mbit").next().expect("a label");
        let x: f64 = before
            .rsplit("x=\"")
            .next()
            .and_then(|x| x.split('"').next())
            .and_then(|x| x.parse().ok())
            .expect("x");
        let (from, to) = (MARGIN + 2.0 * HALF.0, MARGIN + LAYER);
        let half = 26.0 * HALF_LETTER;
        assert!(x - half >= from && x + half <= to, "{x}");
    }

    #[test]
    fn a_chain_is_drawn_from_end_to_end() {
        let chain = map(&["middle", "left", "right"], &[[0, 1], [0, 2]]);
        assert_eq!(layers(&chain), [vec![1], vec![0], vec![2]]);
    }

    #[test]
    fn parts_without_a_link_between_them_are_all_drawn() {
        let parts = map(&["a", "b", "c", "d", "alone"], &[[0, 1], [2, 3]]);
        assert_eq!(layers(&parts), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(draw(&parts).expect("a drawing").matches("class=\"node\"").count(), 5);
    }

    #[test]
    fn loops_and_twins_are_drawn_and_markup_is_escaped() {
        let drawn =
            draw(&map(&["<a>", "b", "c"], &[[0, 1], [1, 2], [2, 0], [0, 1], [1, 1]])).expect("a drawing");
        assert!(drawn.contains("&lt;a&gt;") && !drawn.contains("NaN"));
        assert_eq!(drawn.matches("class=\"link\"").count(), 5);
    }

    #[test]
    fn a_long_label_keeps_its_delay() {
        let mut long = map(&["a", "b"], &[[0, 1]]);
        "10.11 Mbit/s / 1 Mbit/s, 250 ms".clone_into(&mut long.links[0].label);
        let drawn = draw(&long).expect("a drawing");
        assert!(drawn.contains(">10.11 Mbit/s / 1 Mbit/s<") && drawn.contains(">250 ms<"), "{drawn}");
    }

    /// Middle of each text's base line, and the size of the picture.
    fn texts(svg: &str) -> (Vec<(f64, f64)>, [f64; 4]) {
        let number = |text: &str, name: &str| -> f64 {
            let rest = text.split(&format!(" {name}=\"")).nth(1).expect("an attribute");
            rest.split('"').next().and_then(|value| value.parse().ok()).expect("a number")
        };
        let all = svg.split("<text").skip(1).map(|text| (number(text, "x"), number(text, "y"))).collect();
        let view = svg.split("viewBox=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a view");
        let sizes: Vec<f64> = view.split(' ').map(|value| value.parse().expect("a number")).collect();
        (all, sizes.try_into().expect("four numbers"))
    }

    #[test]
    fn labels_of_twins_and_of_neighbours_in_a_layer_are_in_the_picture() {
        for links in [&[[0, 1], [0, 1], [0, 1]][..], &[[0, 1], [0, 2], [1, 2]]] {
            let svg = draw(&map(&["a", "b", "c"][..links[1][1].max(1) + 1], links)).expect("a drawing");
            let (texts, [x, y, width, height]) = texts(&svg);
            for (at, base) in texts {
                assert!(at - 10.0 > x && at + 10.0 < x + width, "{svg}");
                assert!(base - 13.0 > y && base + 4.0 < y + height, "{svg}");
            }
        }
    }

    #[test]
    fn labels_of_a_fan_stand_clear_of_each_other() {
        for label in
            ["1 Mbit/s, 250 ms", "10.80 Mbit/s / 7.20 Mbit/s, 250 ms", "1000 Mbit/s / 10.11 Mbit/s, 250 ms"]
        {
            let mut fan = map(&["hub", "a", "b", "c"], &[[0, 1], [0, 2], [0, 3]]);
            fan.links.iter_mut().for_each(|link| label.clone_into(&mut link.label));
            let svg = draw(&fan).expect("a drawing");
            let of_class = |class: &str| -> Vec<(f64, f64)> {
                let start = format!("<text class=\"{class}\"");
                let texts = svg.split(&start[..]).skip(1);
                let value = |text: &str, name: &str| -> Option<f64> {
                    text.split(&format!(" {name}=\"")[..]).nth(1)?.split('"').next()?.parse().ok()
                };
                texts.map(|text| (value(text, "x").expect("x"), value(text, "y").expect("y"))).collect()
            };
            let (names, labels) = (of_class("name"), of_class("label"));
            // One station is on the other side of the hub; the others are below each other.
            for (x, y) in &names {
                for (_, name_y) in names.iter().filter(|(other, name_y)| other == x && name_y > y) {
                    let above = labels.iter().filter(|(other, label)| other == x && label < name_y);
                    // The letters of a name rise 12 above its line; those of a label go 4 below theirs.
                    let lowest = above.map(|(_, label)| label + 4.0).fold(0.0, f64::max);
                    assert!(lowest <= name_y - 12.0, "{label}: {lowest} and {name_y}");
                }
            }
            assert_eq!(names.iter().filter(|(x, _)| *x == names[2].0).count(), 2);
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_drawn() {
        let many = vec!["n"; MAX_NODES + 1];
        assert_eq!(draw(&map(&many, &[[0, 1]])), None);
        assert_eq!(draw(&map(&["alone"], &[])), None);
    }
}
