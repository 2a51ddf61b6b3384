//! `bentpipe results`: tables of a folder of results.

use std::path::{Path, PathBuf};

use bentpipe_record::stats::{Estimate, running_means, samples_needed};
use bentpipe_record::{Cell, Frame, Selection, StoredResults, Table};
use bentpipe_report::{flow_table, link_table, notes};
use clap::{Args, Subcommand, ValueEnum};

use crate::common::share;
use crate::show;

/// Subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the report's tables of flows and links, with units and 95 % intervals
    #[command(after_help = "\
Examples:
  bentpipe results tables runs/sweep
  bentpipe results tables runs/sweep --point 1 --format latex")]
    Tables {
        /// Folder of results
        results: PathBuf,
        /// Point of the sweep
        #[arg(long, value_name = "N", default_value_t = 0)]
        point: usize,
        /// Form
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Write quantiles over the seeds of series as CSV, at each instant
    #[command(after_help = "\
Examples:
  bentpipe results percentiles runs/sweep --select 'flow.*.cwnd' --out cwnd.csv
  bentpipe results percentiles runs/sweep --select 'link.*.queue*' --shares '10 %,90 %'")]
    Percentiles {
        #[command(flatten)]
        of: Selected,
        /// Quantiles
        #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = share, default_values = ["5 %", "50 %", "95 %"])]
        shares: Vec<f64>,
    },
    /// Write Jain's index over series as CSV, at each instant of each run
    #[command(after_help = "\
Examples:
  bentpipe results fairness runs/sweep --select 'flow.*.receiver.delivered-bytes'")]
    Fairness {
        #[command(flatten)]
        of: Selected,
    },
    /// Write cumulative distributions over all seeds as CSV, such as of one-way delays
    #[command(after_help = "\
Examples:
  bentpipe results distributions runs/sweep --out delays.csv")]
    Distributions {
        /// Folder of results
        results: PathBuf,
        /// File, instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print means over the first seeds, and the number of seeds for an interval
    #[command(after_help = "\
Examples:
  bentpipe results convergence runs/sweep flow.bulk.goodput --within '1 %'")]
    Convergence {
        /// Folder of results
        results: PathBuf,
        /// Measure
        measure: String,
        /// Point of the sweep
        #[arg(long, value_name = "N", default_value_t = 0)]
        point: usize,
        /// Wanted half-width of the 95 % interval, relative to the mean
        #[arg(long, value_name = "SHARE", value_parser = share, default_value = "5 %")]
        within: f64,
        /// Form of the table
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
}

/// Series of a folder of results.
#[derive(Debug, Args)]
pub(crate) struct Selected {
    /// Folder of results
    results: PathBuf,
    /// Pattern of the series; repeatable
    #[arg(long, value_name = "PATTERN", required = true)]
    select: Vec<String>,
    /// File, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Form of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for a terminal
    Text,
    /// CSV
    Csv,
    /// LaTeX
    Latex,
}

impl Format {
    /// Returns a table in this form.
    pub(crate) fn of(self, table: &Table) -> String {
        match self {
            Format::Text => show::table(table),
            Format::Csv => table.to_csv(),
            Format::Latex => table.to_latex(),
        }
    }
}

/// Does what was asked; the exit code.
pub(crate) fn run(command: &Command) -> Result<u8, String> {
    match command {
        Command::Tables { results, point, format } => tables(results, *point, *format),
        Command::Percentiles { of, shares } => {
            let selection = Selection { patterns: of.select.clone(), keeps_constant: false };
            let selected = selection.read(&of.results).map_err(|error| error.to_string())?;
            write(&selected.quantiles(shares), of.out.as_deref())
        }
        Command::Fairness { of } => {
            let selection = Selection { patterns: of.select.clone(), keeps_constant: true };
            write(
                &selection.read(&of.results).map_err(|error| error.to_string())?.fairness(),
                of.out.as_deref(),
            )
        }
        Command::Distributions { results, out } => write(&read(results)?.distributions(), out.as_deref()),
        Command::Convergence { results, measure, point, within, format } => {
            convergence(results, (measure, *point), *within, *format)
        }
    }
}

fn read(path: &Path) -> Result<StoredResults, String> {
    StoredResults::read(path)
}

fn write(frame: &Frame, out: Option<&Path>) -> Result<u8, String> {
    show::write(out, |mut file| frame.write_csv(&mut file))?;
    Ok(0)
}

fn tables(path: &Path, point: usize, format: Format) -> Result<u8, String> {
    let results = read(path)?;
    let found = results.summary.points.get(point);
    let of = found
        .ok_or_else(|| format!("no point {point}: expected 0 to {}", results.summary.points.len() - 1))?;
    let tables = [flow_table(of), link_table(of)];
    let texts = tables.iter().flatten().map(|table| format.of(table));
    show::out(&texts.collect::<Vec<_>>().join("\n"));
    if format == Format::Text {
        notes(of).into_iter().for_each(|note| show::out(&format!("note: {note}\n")));
        show::out(&show::lost(of));
    }
    Ok(0)
}

fn convergence(
    path: &Path,
    (measure, point): (&str, usize),
    within: f64,
    format: Format,
) -> Result<u8, String> {
    let results = read(path)?;
    let found = results.summary.points.get(point).and_then(|point| point.value(measure));
    let unit = found.ok_or_else(|| format!("no measure \"{measure}\" at point {point}"))?.unit;
    let values = results.values(measure, point);
    let means = running_means(&values);
    let number = |value: f64| Cell::Number(format!("{value:.6}"));
    let row = |it: &Estimate| {
        let half = it.ci95.map_or_else(|| Cell::Text(String::new()), number);
        vec![Cell::Number(it.n.to_string()), number(it.mean), half]
    };
    let head = vec!["seeds".to_owned(), format!("mean [{unit}]"), format!("95 % interval, \u{b1} [{unit}]")];
    let rows = means.iter().map(row).collect();
    show::out(&format.of(&Table { caption: String::new(), head, rows }));
    if format != Format::Text {
        return Ok(0);
    }
    let needed = means.last().and_then(|it| samples_needed(&values, within * it.mean.abs()));
    let text = match needed {
        Some(needed) => format!("\n\u{b1} {:.3} % takes {needed} seeds\n", within * 100.0),
        None => format!("\n\u{b1} {:.3} % takes more seeds than these can show\n", within * 100.0),
    };
    show::out(&text);
    Ok(0)
}
