//! A run's results as a page to read: one self-contained HTML file.
//!
//! A [`Page`] is made of [`Block`]s: paragraphs, tables, plots, texts. Plots are inline SVG that follows the reader's
//! light or dark scheme, prints in black on white, and tells its lines apart by colour and by markers. Nothing is
//! fetched, and nothing in the page depends on the machine or the time, so the same results give the same page.

mod axis;
mod decimate;
mod html;
mod numbers;
mod page;
mod plan;
mod plot;
mod results;
mod svg;
pub(crate) mod swept;
mod timed;

pub use axis::{Axis, Scale};
pub use numbers::{number, quantity};
pub use page::{Block, Cell, Page, Picture, Table};
pub use plot::{Curve, Mark, Plot};

pub use results::{flow_table, link_table, results_page};

#[cfg(test)]
mod tests;
