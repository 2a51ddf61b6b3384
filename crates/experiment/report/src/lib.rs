//! A run's results as a page to read: one self-contained HTML file.
//!
//! A [`Page`] is made of [`Block`]s: paragraphs, tables, plots, texts. Plots are inline SVG that follows the reader's
//! light or dark scheme, prints in black on white, and distinguishes its lines by colour and by markers. Nothing is
//! fetched, and nothing in the page depends on the machine or the time, so the same results give the same page.

mod accounts;
pub mod amount;
mod axis;
mod captures;
mod cdf;
mod comparison;
mod data;
mod decimate;
mod escape;
mod gantt;
mod html;
pub mod losses;
mod network;
mod numbers;
mod page;
mod plan;
mod plot;
mod points;
mod results;
mod savings;
mod seeds;
mod sequence;
mod svg;
pub mod swept;
mod tables;
mod timed;

pub use accounts::interval;
pub use axis::{Axis, Scale};
pub use bentpipe_record::{Cell, Table};
pub use gantt::contact_chart;
pub use html::STYLE;
pub use network::{DrawnPart, draw_with};
pub use numbers::{number, quantity, with_interval};
pub use page::{Block, Format, Page, Picture};
pub use plot::{Curve, Mark, Plot};

pub use cdf::plot as delay_plot;
pub use comparison::comparison_page;
pub use results::results_page;
pub use savings::Savings;
pub use tables::{difference_table, flow_notes, flow_table, group_table, link_table, notes};
pub use timed::run_plots;

#[cfg(test)]
mod tests;
