//! Blocks of a page.

use bentpipe_record::{ContactPlan, FirstPackets, NetworkMap, Table};

use super::plot::Plot;

/// A report, before it is HTML.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The headline.
    pub title: String,
    /// A paragraph below it; may be empty.
    pub lead: String,
    /// Short facts below that: name and value.
    pub facts: Vec<(String, String)>,
    /// The rest, from top to bottom.
    pub blocks: Vec<Block>,
}

/// A piece of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// The headline of what follows.
    Heading(String),
    /// Running text.
    Paragraph(String),
    /// A table.
    Table(Table),
    /// Diagrams side by side, where there is room.
    Plots(Vec<Plot>),
    /// A picture.
    Picture(Picture),
    /// Sequence diagram of the first packets of a flow.
    Sequence(FirstPackets),
    /// Drawing of a network that has few enough nodes.
    Network(NetworkMap),
    /// Gantt chart of a contact plan.
    Contacts(ContactPlan),
    /// Text as it is, in a box of its own.
    Verbatim(String),
    /// Collapsed section, always printed.
    Folded(String, Vec<Block>),
}

/// Format of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Points: PNG.
    Png,
    /// Lines and areas: SVG. Browsers run no script of it.
    Svg,
}

impl Format {
    /// Returns the media type.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Format::Png => "image/png",
            Format::Svg => "image/svg+xml",
        }
    }
}

/// A picture in a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Title.
    pub title: String,
    /// Explanatory note; may be empty.
    pub note: String,
    /// Format of the file.
    pub format: Format,
    /// The file.
    pub file: Vec<u8>,
}
