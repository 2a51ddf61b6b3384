//! Drawing a [`Plot`] as SVG.

use std::collections::HashMap;
use std::fmt::Write;

use super::axis::Ruler;
use super::data::Data;
use super::decimate::decimate;
use super::escape::escape;
use super::plot::{Curve, Mark, Plot};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 320.0;
/// Room for the labels of the axis upwards, at least; more for long words.
const LEFT: f64 = 58.0;
/// Pixels that a letter of a label takes.
const LETTER: f64 = 7.2;
const RIGHT: f64 = 16.0;
const TOP: f64 = 32.0;
const BOTTOM: f64 = 46.0;
const INNER_HEIGHT: f64 = HEIGHT - TOP - BOTTOM;

/// Pixels that a line of labels is high.
const LINE: f64 = 14.0;

/// Angles of labels of categories in degrees, the first that has room for them.
const ANGLES: [f64; 4] = [0.0, 30.0, 50.0, 90.0];

/// Maximum number of pixels between the marks of two curves at a category.
const DODGE: f64 = 11.0;

/// Maximum share of the room of a category that its marks take.
const DODGED: f64 = 0.7;

/// Growth of a mark for each mark of another curve that covers it.
const GROWTH: f64 = 0.55;

/// Points in a curve's drawing are at most four for each of these.
const COLUMNS: usize = 360;

/// Pixels between the markers that identify a line.
const MARKER_DISTANCE: f64 = 92.0;

/// Number of colours and markers before they repeat.
pub(super) const PALETTE: usize = 8;

/// Style of drawings, in plain colours, as programs for SVG files support few variables.
pub(super) const FILE_STYLE: &str = "svg{font:13px system-ui,\"DejaVu Sans\",sans-serif}text{fill:#59626d}.name{font-weight:bold;\
    fill:#000}.title,.xtitle{fill:#000}.ylab,.xtitle{text-anchor:end}.xlab{text-anchor:middle}.grid path{stroke:#e3e6ea;\
    fill:none}.axis{stroke:#8b949e;fill:none}.line,.dash,.bar{fill:none;stroke-width:1.6}.dash{stroke-dasharray:5 4}\
    .mark{stroke:#fff}.rows{fill:none}.band{fill-opacity:.2}\
    .s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009068}.s3{stroke:#b0478c}\
    .s4{stroke:#b98300}.s5{stroke:#4c4fb8}.s6{stroke:#5b6570}.s7{stroke:#7a4a21}\
    .m0{fill:#0072b2}.m1{fill:#d55e00}.m2{fill:#009068}.m3{fill:#b0478c}\
    .m4{fill:#b98300}.m5{fill:#4c4fb8}.m6{fill:#5b6570}.m7{fill:#7a4a21}";

/// Changes of [`FILE_STYLE`] on dark pages: the colours of their scheme.
const DARK_STYLE: &str = "@media (prefers-color-scheme:dark){.paper{fill:#1b1f24}text{fill:#a3acb7}.name,.title,.xtitle{fill:#e7eaee}\
    .grid path{stroke:#30363d}.axis{stroke:#6f7984}.mark{stroke:#1b1f24}\
    .s0{stroke:#56b4e9}.s1{stroke:#ff8c4a}.s2{stroke:#2ecf9f}.s3{stroke:#e58fc6}\
    .s4{stroke:#f0c04a}.s5{stroke:#a3a5ff}.s6{stroke:#b4bdc8}.s7{stroke:#d3a27a}\
    .m0{fill:#56b4e9}.m1{fill:#ff8c4a}.m2{fill:#2ecf9f}.m3{fill:#e58fc6}\
    .m4{fill:#f0c04a}.m5{fill:#a3a5ff}.m6{fill:#b4bdc8}.m7{fill:#d3a27a}}";

/// The plot as an `<svg>` element. `id` is unique in its page.
pub(super) fn draw(plot: &Plot, id: &str) -> String {
    let (Some((x_low, x_high)), Some((y_low, y_high))) = (plot.x_range(), plot.y_range()) else {
        return String::new();
    };
    let canvas = Canvas::new(plot.x.laid_out(x_low, x_high), plot.y.laid_out(y_low, y_high));
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-labelledby=\"{id}t {id}d\" class=\"plot\"{}{}>\
         <title id=\"{id}t\">{}</title><desc id=\"{id}d\">{}</desc>\
         <clipPath id=\"{id}c\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>",
        canvas.height(),
        canvas.data(),
        Data::head(plot),
        escape(&plot.title),
        escape(&described(plot, &canvas)),
        canvas.left - 6.0,
        TOP - 6.0,
        canvas.inner_width() + 12.0,
        INNER_HEIGHT + 12.0,
    );
    canvas.grid(&mut svg);
    let _ = write!(svg, "<g clip-path=\"url(#{id}c)\">");
    let data = Data::of(plot);
    let bands = |curve: &&Curve| curve.mark == Mark::Band;
    plot.curves.iter().filter(bands).for_each(|curve| canvas.band(curve, &data, &mut svg));
    let mut entry = 0;
    for (curve, place) in plot.curves.iter().zip(canvas.places(&plot.curves)) {
        if !bands(&curve) {
            canvas.curve(curve, &place, &data.of_curve(curve, entry), &mut svg);
        }
        entry += usize::from(!curve.name.is_empty());
    }
    svg.push_str("</g></svg>");
    svg
}

impl Plot {
    /// Returns the plot as a separate SVG file with title and legend, dark on white.
    pub fn to_svg(&self) -> String {
        file(self, "")
    }

    /// Returns the plot as a separate SVG file for a page.
    ///
    /// It is light or dark as the reader prefers.
    pub fn to_picture(&self) -> String {
        file(self, DARK_STYLE)
    }
}

/// Returns the plot as a separate SVG file with title and legend, dark on white.
///
/// `more` is style in addition.
fn file(plot: &Plot, more: &str) -> String {
    const ROW: f64 = 18.0;
    let entries = legend(plot);
    let rows = entries.last().map_or(0.0, |(_, (_, row))| f64::from(*row));
    let head = 50.0 + ROW * rows;
    let height = height(plot);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {0}\" width=\"{WIDTH}\" height=\"{0}\">\
         <style>{FILE_STYLE}{more}</style><rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
         <text class=\"name\" x=\"2\" y=\"18\">{1}</text>",
        height + head,
        escape(&plot.title)
    );
    for (curve, (x, row)) in entries {
        let (swatch, name) = (swatch(curve), escape(&curve.name));
        let below = ROW * f64::from(row);
        let _ =
            write!(svg, "<svg x=\"{x}\" y=\"{}\" width=\"34\" height=\"12\">{swatch}</svg>", 28.0 + below);
        let _ = write!(svg, "<text x=\"{}\" y=\"{}\">{name}</text>", x + 40.0, 38.0 + below);
    }
    let _ = write!(
        svg,
        "<svg y=\"{head}\" width=\"{WIDTH}\" height=\"{height}\">{}</svg></svg>",
        draw(plot, "p")
    );
    svg
}

/// Returns the height of the drawing of a plot.
fn height(plot: &Plot) -> f64 {
    let ranges = plot.x_range().zip(plot.y_range());
    ranges.map_or(HEIGHT, |((x_low, x_high), (y_low, y_high))| {
        Canvas::new(plot.x.laid_out(x_low, x_high), plot.y.laid_out(y_low, y_high)).height()
    })
}

/// Returns the curves with a name, each with place and row in the legend.
fn legend(plot: &Plot) -> Vec<(&Curve, (f64, u32))> {
    let (mut x, mut row) = (2.0, 0);
    let mut entries = Vec::new();
    for curve in plot.curves.iter().filter(|curve| !curve.name.is_empty()) {
        let wide = 56.0 + 7.0 * curve.name.chars().count() as f64;
        if x > 2.0 && x + wide > WIDTH + 16.0 {
            (x, row) = (2.0, row + 1);
        }
        entries.push((curve, (x, row)));
        x += wide;
    }
    entries
}

/// Returns the alternative text of a plot.
fn described(plot: &Plot, canvas: &Canvas) -> String {
    let names: Vec<&str> = plot.curves.iter().map(|curve| curve.name.as_str()).take(12).collect();
    format!(
        "{} from {:.4} to {:.4}, against {}; curves: {}",
        canvas.y.title,
        canvas.y.low,
        canvas.y.high,
        canvas.x.title,
        names.join(", ")
    )
}

/// The line of a legend's entry, with its marker.
pub(super) fn swatch(curve: &Curve) -> String {
    let colour = curve.colour % PALETTE;
    let class = if curve.mark == Mark::Dashed { "dash" } else { "line" };
    let mut svg = String::from("<svg viewBox=\"0 0 34 12\" class=\"swatch\" aria-hidden=\"true\">");
    match curve.mark {
        Mark::Dots => {}
        Mark::Band => {
            let _ = write!(svg, "<path class=\"band m{colour}\" d=\"M1 1H33V11H1Z\"/>");
        }
        Mark::Instants => {
            let _ = write!(svg, "<path class=\"dash s{colour}\" d=\"M17 0V12\"/>");
        }
        _ => {
            let _ = write!(svg, "<path class=\"{class} s{colour}\" d=\"M1 6H33\"/>");
        }
    }
    if !matches!(curve.mark, Mark::Dashed | Mark::Rows | Mark::Band | Mark::Instants) {
        let _ = write!(svg, "<path class=\"mark m{colour}\" d=\"{}\"/>", marker(colour, 17.0, 6.0));
    }
    svg.push_str("</svg>");
    svg
}

struct Canvas {
    x: Ruler,
    y: Ruler,
    /// Horizontal position of the vertical axis.
    left: f64,
    /// Angle of the labels of categories in degrees, and the height that they add.
    turn: (f64, f64),
}

/// Place of a curve among others.
struct Place {
    /// Pixels by which its marks are moved to be next to those of other curves.
    shift: f64,
    /// Number of marks of other curves that cover each of its own.
    covered: Vec<usize>,
}

impl Canvas {
    fn new(x: Ruler, y: Ruler) -> Canvas {
        let longest = y.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let left = (longest as f64 * LETTER + 12.0).clamp(LEFT, WIDTH / 2.0);
        let mut canvas = Canvas { x, y, left, turn: (0.0, 0.0) };
        canvas.turn = canvas.turned();
        canvas
    }

    fn height(&self) -> f64 {
        HEIGHT + self.turn.1
    }

    /// Returns the room of a mark of the horizontal axis.
    fn room(&self) -> f64 {
        self.inner_width() / self.x.ticks.len().max(1) as f64
    }

    /// Returns the angle at which all categories have labels, and the height that these add.
    fn turned(&self) -> (f64, f64) {
        let widths: Vec<f64> =
            self.x.ticks.iter().map(|(_, text)| text.chars().count() as f64 * LETTER).collect();
        let longest = widths.iter().copied().fold(0.0, f64::max);
        let fits = |angle: f64| match angle {
            0.0 => widths.windows(2).all(|pair| (pair[0] + pair[1]) / 2.0 + LETTER <= self.room()),
            // Turned labels end at their mark, so that the first ones go to the left.
            _ => {
                let (sin, cos) = angle.to_radians().sin_cos();
                let starts =
                    widths.iter().enumerate().map(|(n, width)| (n as f64 + 0.5) * self.room() - width * cos);
                self.room() * sin >= LINE && starts.fold(0.0, f64::min) >= -self.left
            }
        };
        if !self.x.has_words {
            return (0.0, 0.0);
        }
        let angle = ANGLES.into_iter().find(|angle| fits(*angle)).unwrap_or(90.0);
        (angle, if angle > 0.0 { longest * angle.to_radians().sin() } else { 0.0 })
    }

    /// Returns the places of curves whose marks would hide one another.
    fn places(&self, curves: &[Curve]) -> Vec<Place> {
        let is_dot = |curve: &Curve| self.x.has_words && curve.mark == Mark::Dots;
        let count = curves.iter().filter(|curve| is_dot(curve)).count();
        let step = (self.room() * DODGED / count.max(1) as f64).min(DODGE);
        let mut dots = 0;
        let shift = |curve: &Curve| {
            dots += usize::from(is_dot(curve));
            if is_dot(curve) { (dots as f64 - (count as f64 + 1.0) / 2.0) * step } else { 0.0 }
        };
        let shifts: Vec<f64> = curves.iter().map(shift).collect();
        // The last curve is drawn over the others.
        let (mut seen, mut places) = (HashMap::<(i64, i64), usize>::new(), Vec::new());
        for (curve, shift) in curves.iter().zip(shifts).rev() {
            let is_marked = matches!(curve.mark, Mark::Points | Mark::Dots);
            let count = |(x, y): &(f64, f64)| {
                let (x, y) = (self.at_x(self.x.place(*x)) + shift, self.at_y(self.y.place(*y)));
                let above = seen.entry((x.round() as i64, y.round() as i64)).or_default();
                *above += 1;
                *above - 1
            };
            let covered = if is_marked { curve.points.iter().map(count).collect() } else { Vec::new() };
            places.push(Place { shift, covered });
        }
        places.reverse();
        places
    }

    fn inner_width(&self) -> f64 {
        WIDTH - self.left - RIGHT
    }

    /// Returns the data that the page's script needs to map pixels to values.
    fn data(&self) -> String {
        format!(
            " data-x=\"{} {} {} {} {}\" data-y=\"{} {TOP} {} {} {}\" data-xname=\"{}\"",
            self.left,
            WIDTH - RIGHT,
            self.x.low,
            self.x.high,
            u8::from(self.x.logarithmic),
            TOP + INNER_HEIGHT,
            self.y.low,
            self.y.high,
            u8::from(self.y.logarithmic),
            escape(&self.x.title),
        )
    }

    fn at_x(&self, place: f64) -> f64 {
        self.left + place * self.inner_width()
    }

    fn at_y(&self, place: f64) -> f64 {
        TOP + (1.0 - place) * INNER_HEIGHT
    }

    fn grid(&self, svg: &mut String) {
        let (left, right, bottom) = (self.left, WIDTH - RIGHT, TOP + INNER_HEIGHT);
        svg.push_str("<g class=\"grid\">");
        for (value, _) in &self.y.ticks {
            let y = self.at_y(self.y.place_scaled(*value));
            let _ = write!(svg, "<path d=\"M{left} {y:.1}H{right}\"/>");
        }
        for (value, _) in &self.x.ticks {
            let x = self.at_x(self.x.place_scaled(*value));
            let _ = write!(svg, "<path d=\"M{x:.1} {bottom}v5\"/>");
        }
        let _ = write!(svg, "</g><path class=\"axis\" d=\"M{left} {bottom}H{right}\"/>");
        self.labels(svg);
    }

    fn labels(&self, svg: &mut String) {
        let bottom = TOP + INNER_HEIGHT;
        svg.push_str("<g class=\"ylab\">");
        for (value, text) in &self.y.ticks {
            let y = self.at_y(self.y.place_scaled(*value)) + 4.5;
            let _ = write!(svg, "<text x=\"{}\" y=\"{y:.1}\">{}</text>", self.left - 7.0, escape(text));
        }
        svg.push_str("</g><g class=\"xlab\">");
        let every = self.every();
        for (i, (value, text)) in self.x.ticks.iter().enumerate() {
            if i % every != 0 {
                continue;
            }
            let (x, y, text) = (self.at_x(self.x.place_scaled(*value)), bottom + 20.0, escape(text));
            let _ = match self.turn.0 {
                0.0 => write!(svg, "<text x=\"{x:.1}\" y=\"{y}\">{text}</text>"),
                angle => write!(
                    svg,
                    "<text x=\"{0:.1}\" y=\"{y}\" text-anchor=\"end\" transform=\"rotate(-{angle} {0:.1} {y})\">{text}</text>",
                    x + 4.0
                ),
            };
        }
        let _ = write!(
            svg,
            "</g><text class=\"title\" x=\"2\" y=\"14\">{}</text><text class=\"xtitle\" x=\"{}\" y=\"{}\">{}</text>",
            escape(&self.y.title),
            WIDTH - RIGHT,
            self.height() - 4.0,
            escape(&self.x.title),
        );
    }

    /// Returns the step between labelled marks on x that keeps labels apart.
    fn every(&self) -> usize {
        if self.x.has_words {
            let needed = if self.turn.0 > 0.0 { LINE } else { 0.0 };
            return (needed / self.room()).ceil().max(1.0) as usize;
        }
        let longest = self.x.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(1);
        let needed = longest as f64 * 9.5 + 12.0;
        (needed / self.room()).ceil().max(1.0) as usize
    }

    /// Draws the area between the edges of a band.
    fn band(&self, curve: &Curve, data: &Data<'_>, svg: &mut String) {
        let edge = |sign: f64| {
            let shifted = curve.points.iter().zip(&curve.errors).map(|(p, half)| (p.0, p.1 + sign * half));
            shifted.filter(|p| p.1.is_finite()).collect::<Vec<(f64, f64)>>()
        };
        let (low, high) = (edge(-1.0), edge(1.0));
        let placed = |(x, y): &(f64, f64)| (self.at_x(self.x.place(*x)), self.at_y(self.y.place(*y)));
        let shown = |edge: &[(f64, f64)]| {
            let placed: Vec<(f64, f64)> = edge.iter().map(placed).filter(|p| finite(&p)).collect();
            decimate(&placed, self.left, WIDTH - RIGHT, COLUMNS)
        };
        let outline: Vec<(f64, f64)> =
            shown(&high).into_iter().chain(shown(&low).into_iter().rev()).collect();
        let colour = curve.colour % PALETTE;
        let _ = write!(svg, "<path class=\"band m{colour}\" d=\"{}\"/>", path(&outline));
        for (name, edge) in [("low", low), ("high", high)] {
            let _ = write!(svg, "<path{}/>", data.of_points(&format!("{}, {name}", curve.name), &edge, &[]));
        }
    }

    /// Draws a curve. `data` has the attributes of its values.
    fn curve(&self, curve: &Curve, place: &Place, data: &str, svg: &mut String) {
        let colour = curve.colour % PALETTE;
        let placed: Vec<(f64, f64)> = curve
            .points
            .iter()
            .map(|(x, y)| (self.at_x(self.x.place(*x)) + place.shift, self.at_y(self.y.place(*y))))
            .collect();
        if curve.mark == Mark::Instants {
            let bottom = TOP + INNER_HEIGHT;
            let lines: String = placed.iter().map(|(x, _)| format!("M{x:.1} {TOP}V{bottom}")).collect();
            let _ = write!(svg, "<path class=\"dash s{colour}\" d=\"{lines}\"/>");
            return;
        }
        if curve.mark == Mark::Rows {
            let row = (self.at_y(self.y.place(0.0)) - self.at_y(self.y.place(1.0))).abs();
            let width = (row * 0.8).clamp(0.8, 18.0);
            let d = path(&placed);
            let _ = write!(svg, "<path class=\"rows s{colour}\" stroke-width=\"{width:.1}\" d=\"{d}\"/>");
            return;
        }
        let shown = decimate(&placed, self.left, WIDTH - RIGHT, COLUMNS);
        if curve.mark != Mark::Dots {
            let class = if curve.mark == Mark::Dashed { "dash" } else { "line" };
            let _ = write!(svg, "<path{data} class=\"{class} s{colour}\" d=\"{}\"/>", path(&shown));
        } else {
            let _ = write!(svg, "<path{data}/>");
        }
        self.error_bars(curve, &placed, svg);
        for ((x, y), above) in
            placed.iter().zip(&place.covered).filter(|(point, above)| finite(point) && **above > 0)
        {
            let (scale, mark) = (1.0 + GROWTH * *above as f64, marker(colour, 0.0, 0.0));
            let _ = write!(
                svg,
                "<path class=\"mark m{colour}\" transform=\"translate({x:.1} {y:.1}) scale({scale:.2})\" d=\"{mark}\"/>"
            );
        }
        let marked = match curve.mark {
            Mark::Dashed | Mark::Rows | Mark::Band | Mark::Instants => Vec::new(),
            Mark::Line => now_and_then(&shown, curve.colour),
            Mark::Points | Mark::Dots => shown,
        };
        let marks: String = marked.iter().filter(finite).map(|(x, y)| marker(colour, *x, *y)).collect();
        if !marks.is_empty() {
            let _ = write!(svg, "<path class=\"mark m{colour}\" d=\"{marks}\"/>");
        }
    }

    fn error_bars(&self, curve: &Curve, placed: &[(f64, f64)], svg: &mut String) {
        let mut bars = String::new();
        for ((point, (x, y)), half) in curve.points.iter().zip(placed).zip(&curve.errors) {
            if !half.is_finite() || *half <= 0.0 || !finite(&&(*x, *y)) {
                continue;
            }
            let (top, bottom) =
                (self.at_y(self.y.place(point.1 + half)), self.at_y(self.y.place(point.1 - half)));
            let bottom = if bottom.is_finite() { bottom } else { TOP + INNER_HEIGHT };
            let _ = write!(bars, "M{:.1} {top:.1}h8m-4 0V{bottom:.1}m-4 0h8", x - 4.0);
        }
        if !bars.is_empty() {
            let _ = write!(svg, "<path class=\"bar s{}\" d=\"{bars}\"/>", curve.colour % PALETTE);
        }
    }
}

fn finite(point: &&(f64, f64)) -> bool {
    point.0.is_finite() && point.1.is_finite()
}

/// A path through points in pixels, with tenths; broken at NaN.
fn path(points: &[(f64, f64)]) -> String {
    let (mut path, mut broken) = (String::new(), true);
    for (x, y) in points {
        if !x.is_finite() || !y.is_finite() {
            broken = true;
            continue;
        }
        path.push(if broken { 'M' } else { 'L' });
        let _ = write!(path, "{} {}", tenths(*x), tenths(*y));
        broken = false;
    }
    path
}

/// A coordinate to a tenth of a pixel, without a needless ".0".
fn tenths(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Points of a curve at even distances, other ones for each colour.
fn now_and_then(points: &[(f64, f64)], colour: usize) -> Vec<(f64, f64)> {
    let mut next = LEFT + MARKER_DISTANCE * (0.35 + (colour % PALETTE) as f64 / PALETTE as f64);
    let mut chosen = Vec::new();
    for point in points.iter().filter(finite) {
        if point.0 >= next {
            chosen.push(*point);
            next = point.0 + MARKER_DISTANCE;
        }
    }
    chosen
}

/// The marker of a colour: circle, square, triangle, diamond, and these turned or hollow.
fn marker(colour: usize, x: f64, y: f64) -> String {
    match colour {
        0 => format!("M{:.1} {y:.1}a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z", x - 3.6),
        1 => format!("M{:.1} {:.1}h6.4v6.4h-6.4z", x - 3.2, y - 3.2),
        2 => format!("M{x:.1} {:.1}l4.4 7.4h-8.8z", y - 4.6),
        3 => format!("M{x:.1} {:.1}l4.6 4.6l-4.6 4.6l-4.6 -4.6z", y - 4.6),
        4 => format!("M{x:.1} {:.1}l4.4 -7.4h-8.8z", y + 4.6),
        5 => format!("M{:.1} {:.1}h3v-3h2.4v3h3v2.4h-3v3h-2.4v-3h-3z", x - 4.2, y - 1.2),
        6 => format!("M{:.1} {:.1}h8.4v3h-8.4z", x - 4.2, y - 1.5),
        _ => format!("M{:.1} {:.1}h3v8.4h-3z", x - 1.5, y - 4.2),
    }
}
