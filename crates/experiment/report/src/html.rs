//! Writing a [`Page`] as HTML.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use bentpipe_record::{Cell, Table};

use super::escape::escape;
use super::page::{Block, Page, Picture};
use super::plot::{Mark, Plot};
use super::sequence;
use super::svg;
use super::{gantt, network};

/// Style of pages, which the controller's pages share.
pub const STYLE: &str = include_str!("style.css");
/// Behaviour of a page when a pointer is over a plot.
const SCRIPT: &str = include_str!("script.js");

impl Page {
    /// The page as one HTML file that needs no other.
    pub fn to_html(&self) -> String {
        page(self)
    }

    /// Writes the HTML to a file, all of it or nothing.
    ///
    /// # Errors
    /// As the file system gives.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        bentpipe_record::write_whole(path, |file| file.write_all(self.to_html().as_bytes()))
    }
}

pub(super) fn page(page: &Page) -> String {
    let title = escape(&page.title);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title} \u{2013} bentpipe</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<h1>{title}</h1>\n"
    );
    if !page.lead.is_empty() {
        let _ = writeln!(html, "<p class=\"lead\">{}</p>", escape(&page.lead));
    }
    if !page.facts.is_empty() {
        html.push_str("<dl class=\"facts\">");
        for (name, value) in &page.facts {
            let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
        }
        html.push_str("</dl>\n");
    }
    html.push_str("</header>\n");
    let mut writer = Writer { html, plots: 0 };
    writer.blocks(&page.blocks);
    let mut html = writer.html;
    let _ = write!(
        html,
        "<footer>bentpipe {}</footer>\n</main>\n<script>\nconst plotStyle = `{}`;\n{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        svg::FILE_STYLE
    );
    html
}

/// Bytes as text (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |n: usize| u32::from(group.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for n in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * n)) as usize & 63];
            text.push(if n <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

struct Writer {
    html: String,
    /// Number of plots written, which numbers their identifiers.
    plots: usize,
}

impl Writer {
    fn blocks(&mut self, blocks: &[Block]) {
        blocks.iter().for_each(|block| self.block(block));
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading(text) => self.element("h2", text),
            Block::Paragraph(text) => self.element("p", text),
            // What scrolls sideways can be reached by keyboard.
            Block::Verbatim(text) => {
                let _ = writeln!(self.html, "<pre tabindex=\"0\">{}</pre>", escape(text));
            }
            Block::Table(table) => self.table(table),
            Block::Plots(plots) => self.plots(plots),
            Block::Picture(picture) => self.picture(picture),
            Block::Network(map) => {
                if let Some(svg) = network::draw(map) {
                    let _ = writeln!(self.html, "<figure class=\"scroll\" tabindex=\"0\">{svg}</figure>");
                }
            }
            Block::Contacts(plan) => {
                if let Some(svg) = gantt::draw(plan) {
                    let title = escape(&format!("Contact plan of {}", plan.name));
                    let note = "A bar is a contact; pale ones have no range, and no route uses them.";
                    let _ = writeln!(
                        self.html,
                        "<figure class=\"scroll\" tabindex=\"0\"><figcaption><b>{title}</b> <span>{note}</span></figcaption>{svg}</figure>"
                    );
                }
            }
            Block::Sequence(flow) => {
                let title = escape(&format!("First packets of {}", flow.flow.name));
                let note = "Time goes down, and is not to scale. Sequence numbers count from the first of each direction.";
                let _ = writeln!(
                    self.html,
                    "<figure class=\"scroll\" tabindex=\"0\"><figcaption><b>{title}</b> <span>{note}</span></figcaption>{}</figure>",
                    sequence::draw(flow)
                );
            }
            Block::Folded(title, blocks) => {
                let _ = writeln!(self.html, "<details><summary>{}</summary>", escape(title));
                self.blocks(blocks);
                self.html.push_str("</details>\n");
            }
        }
    }

    fn element(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.html, "<{name}>{}</{name}>", escape(text));
    }

    fn table(&mut self, table: &Table) {
        // Outside of the part that scrolls: a caption is never wider than the page.
        self.html.push_str("<div class=\"captioned\">");
        if !table.caption.is_empty() {
            let _ = writeln!(self.html, "<p class=\"caption\">{}</p>", escape(&table.caption));
        }
        self.html.push_str("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
        for (column, title) in table.head.iter().enumerate() {
            let number =
                table.rows.first().is_some_and(|row| matches!(row.get(column), Some(Cell::Number(_))));
            let class = if number { " class=\"num\"" } else { "" };
            let _ = match title.is_empty() {
                true => write!(self.html, "<td></td>"),
                false => write!(self.html, "<th scope=\"col\"{class}>{}</th>", escape(title)),
            };
        }
        self.html.push_str("</tr></thead><tbody>\n");
        for row in &table.rows {
            self.html.push_str("<tr>");
            row.iter().for_each(|cell| self.cell(cell));
            self.html.push_str("</tr>\n");
        }
        self.html.push_str("</tbody></table></div></div>\n");
    }

    fn cell(&mut self, cell: &Cell) {
        let class = match cell {
            Cell::Text(_) => "",
            Cell::Number(_) => " class=\"num\"",
            Cell::Good(_) if cell.is_number() => " class=\"num good\"",
            Cell::Bad(_) if cell.is_number() => " class=\"num bad\"",
            Cell::Good(_) => " class=\"good\"",
            Cell::Bad(_) => " class=\"bad\"",
        };
        let _ = write!(self.html, "<td{class}>{}</td>", escape(cell.text()));
    }

    fn plots(&mut self, plots: &[Plot]) {
        self.html.push_str("<div class=\"plots\">\n");
        plots.iter().filter(|plot| !plot.is_empty()).for_each(|plot| self.plot(plot));
        self.html.push_str("</div>\n");
    }

    fn plot(&mut self, plot: &Plot) {
        self.plots += 1;
        let _ = write!(self.html, "<figure><figcaption><b>{}</b>", escape(&plot.title));
        if !plot.note.is_empty() {
            let _ = write!(self.html, " <span>{}</span>", escape(&plot.note));
        }
        self.html.push_str("</figcaption>");
        self.html.push_str(&svg::draw(plot, &format!("p{}", self.plots)));
        self.legend(plot);
        self.html.push_str("</figure>\n");
    }

    /// The picture is in the page itself, as all else is.
    fn picture(&mut self, picture: &Picture) {
        let (title, note) = (escape(&picture.title), escape(&picture.note));
        let _ = writeln!(
            self.html,
            "<figure><figcaption><b>{title}</b> <span>{note}</span></figcaption>\
             <img alt=\"{title}\" src=\"data:{};base64,{}\"></figure>",
            picture.format.media_type(),
            base64(&picture.file)
        );
    }

    fn legend(&mut self, plot: &Plot) {
        let named = plot.curves.iter().filter(|curve| !curve.name.is_empty());
        self.html.push_str("<ul class=\"legend\">");
        for curve in named {
            let dashed = if curve.mark == Mark::Dashed { " class=\"sub\"" } else { "" };
            let _ = write!(self.html, "<li{dashed}>{}{}</li>", svg::swatch(curve), escape(&curve.name));
        }
        self.html.push_str("</ul>");
    }
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn bytes_are_text_as_in_the_rfc() {
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        vectors.iter().for_each(|(bytes, text)| assert_eq!(base64(bytes.as_bytes()), *text));
    }
}
