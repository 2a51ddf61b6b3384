//! `bentpipe dtn status`, `list`, `delete`, `contacts`, `routes` and `neighbours`: operation of a running node.

use std::path::PathBuf;

use bentpipe_bundles::node::NodeFile;
use bentpipe_bundles::node::control::{Request, ask};
use clap::Args;
use serde_json::Value;

use crate::show::{note, out};

/// Bundles that the node lists at a time.
const PAGE: usize = 1000;

/// Node that is asked.
#[derive(Debug, Args)]
struct Place {
    /// Node file, or the folder of the store
    node: PathBuf,
    /// Print the node's answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    place: Place,
    /// Maximum number of bundles for neighbours, and as many for applications
    #[arg(long, value_name = "N", default_value_t = PAGE)]
    most: usize,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    place: Place,
    /// Numbers in the list
    #[arg(required = true, num_args = 1..=1000)]
    ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ContactsArgs {
    #[command(flatten)]
    place: Place,
    /// Add a line of a plan in ION's form; repeatable
    #[arg(long, value_name = "LINE")]
    add: Vec<String>,
    /// Remove contacts from a node to another
    #[arg(long, value_name = "FROM,TO", value_parser = pair)]
    remove: Option<(u64, u64)>,
    /// Remove the contact at this second of the plan alone
    #[arg(long, value_name = "SECONDS", requires = "remove")]
    at: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct RoutesArgs {
    #[command(flatten)]
    place: Place,
    /// Add or replace a route; repeatable
    #[arg(long, value_name = "NODE=NEIGHBOUR")]
    add: Vec<String>,
    /// Remove the route to a node, or `default`; repeatable
    #[arg(long, value_name = "NODE")]
    remove: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct NeighboursArgs {
    #[command(flatten)]
    place: Place,
    /// Add a neighbour: keys of [[neighbour]], as TOML
    #[arg(long, value_name = "TOML")]
    add: Option<String>,
    /// Remove a neighbour
    #[arg(long, value_name = "NODE", conflicts_with = "add")]
    remove: Option<String>,
}

/// Reads the pair of nodes of a contact.
fn pair(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once(',').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    numbers.ok_or_else(|| format!("expected two node numbers as 1,2, got \"{text}\""))
}

impl Place {
    fn ask(&self, request: &Request) -> Result<Value, String> {
        let store = match self.node.is_dir() {
            true => self.node.clone(),
            false => NodeFile::read(&self.node)?.store,
        };
        ask(&store, request)
    }

    /// Prints an answer: as JSON, or in words.
    fn show(&self, answer: &Value, words: impl FnOnce(&Value) -> String) {
        out(&if self.json { format!("{answer:#}\n") } else { words(answer) });
    }
}

/// Returns a field as text, without quotes.
fn field(row: &Value, key: &str) -> String {
    match &row[key] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Returns a table of the rows' fields, with headings.
fn table(rows: &Value, columns: &[(&str, &str)]) -> String {
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<Vec<String>> =
        vec![columns.iter().map(|(_, heading)| (*heading).to_owned()).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|(key, _)| field(row, key)).collect()));
    let width = |n: usize| lines.iter().map(|line| line[n].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(text, width)| format!("{text:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}

const NEIGHBOURS: [(&str, &str); 7] = [
    ("node", "neighbour"),
    ("layer", "layer"),
    ("at", "address"),
    ("connected", "connected"),
    ("open", "in contact"),
    ("waiting", "waiting"),
    ("waiting_bytes", "bytes"),
];

pub(super) fn status(args: &StatusArgs) -> Result<u8, String> {
    let answer = args.place.ask(&Request::Status)?;
    args.place.show(&answer, |answer| {
        let counters = answer["counters"].as_object().into_iter().flatten();
        let counters =
            counters.filter(|(_, value)| **value != 0).map(|(key, value)| format!("  {key} {value}\n"));
        let disk = if answer["disk_full"] == true { "no room on the disk\n" } else { "" };
        format!(
            "{} up {:.0} s, storage {} B\n{disk}{}{}",
            field(answer, "eid"),
            answer["up_s"].as_f64().unwrap_or(0.0),
            answer["storage_bytes"],
            counters.collect::<String>(),
            table(&answer["neighbours"], &NEIGHBOURS)
        )
    });
    Ok(0)
}

pub(super) fn list(args: &ListArgs) -> Result<u8, String> {
    let mut rows = Vec::new();
    for local in [false, true] {
        rows.extend(pages(args, local)?);
    }
    let count = rows.len();
    let columns = [
        ("id", "number"),
        ("source", "source"),
        ("destination", "destination"),
        ("size", "bytes"),
        ("priority", "priority"),
        ("left_s", "seconds left"),
        ("state", "state"),
    ];
    args.place.show(&Value::Array(rows), |rows| format!("{}{count} bundles\n", table(rows, &columns)));
    Ok(0)
}

/// Asks for the bundles, a page at a time.
fn pages(args: &ListArgs, local: bool) -> Result<Vec<Value>, String> {
    let (mut rows, mut first) = (Vec::new(), 0);
    while rows.len() < args.most {
        let most = (args.most - rows.len()).min(PAGE);
        let answer = args.place.ask(&Request::List { first, most, local })?;
        let page = answer["bundles"].as_array().cloned().unwrap_or_default();
        let last = page.last().and_then(|row| field(row, "id").trim_start_matches('a').parse::<u64>().ok());
        let is_last = page.len() < most;
        rows.extend(page);
        match last {
            Some(last) if !is_last => first = last + 1,
            _ => break,
        }
    }
    Ok(rows)
}

pub(super) fn delete(args: &DeleteArgs) -> Result<u8, String> {
    let answer = args.place.ask(&Request::Delete { ids: args.ids.clone() })?;
    let count = answer["deleted"].as_array().map_or(0, Vec::len);
    args.place.show(&answer, |_| format!("{count} of {} deleted\n", args.ids.len()));
    Ok(u8::from(count < args.ids.len()))
}

pub(super) fn contacts(args: &ContactsArgs) -> Result<u8, String> {
    if !args.add.is_empty() {
        let lines = args.add.iter().map(|line| format!("{line}\n")).collect();
        let answer = args.place.ask(&Request::AddContacts { lines })?;
        note(&format!("{} contacts added", answer["added"]));
    }
    let mut is_missing = false;
    if let Some((from, to)) = args.remove {
        let answer = args.place.ask(&Request::RemoveContacts { from, to, at: args.at })?;
        is_missing = answer["removed"] == 0;
        let at = args.at.map_or(String::new(), |at| format!(" at {at} s"));
        note(&match is_missing {
            true => format!("no contact from {from} to {to}{at}: none removed"),
            false => format!("{} contacts removed", answer["removed"]),
        });
    }
    let answer = args.place.ask(&Request::Contacts)?;
    let columns = [
        ("from", "from"),
        ("to", "to"),
        ("start_s", "start"),
        ("end_s", "end"),
        ("bps", "bit/s"),
        ("light_s", "light time"),
        ("state", "state"),
    ];
    args.place.show(&answer, |answer| {
        let rows = &answer["contacts"];
        let shown = rows.as_array().map_or(0, Vec::len);
        let now = answer["now_s"].as_f64().unwrap_or(0.0);
        format!(
            "{}{shown} of {} contacts, at {now:.3} s of the plan\n",
            table(rows, &columns),
            answer["count"]
        )
    });
    Ok(u8::from(is_missing))
}

pub(super) fn routes(args: &RoutesArgs) -> Result<u8, String> {
    for route in &args.add {
        let expected = || format!("--add: expected NODE=NEIGHBOUR as 7=2, got \"{route}\"");
        let (to, via) = route.rsplit_once('=').ok_or_else(expected)?;
        args.place.ask(&Request::AddRoute { to: to.to_owned(), via: via.to_owned() })?;
    }
    for to in &args.remove {
        args.place.ask(&Request::RemoveRoute { to: to.clone() })?;
    }
    let answer = args.place.ask(&Request::Routes)?;
    args.place.show(&answer, |answer| {
        let routes = answer["routes"].as_object().into_iter().flatten();
        let routes = routes.map(|(to, via)| format!("{to} by {}\n", via.as_str().unwrap_or_default()));
        let direct = answer["direct"].as_array().into_iter().flatten();
        let direct = direct.map(|node| format!("{} directly\n", node.as_str().unwrap_or_default()));
        routes.chain(direct).collect()
    });
    Ok(0)
}

pub(super) fn neighbours(args: &NeighboursArgs) -> Result<u8, String> {
    if let Some(table) = &args.add {
        args.place.ask(&Request::AddNeighbour { table: table.clone() })?;
    }
    if let Some(node) = &args.remove {
        args.place.ask(&Request::RemoveNeighbour { node: node.clone() })?;
    }
    let answer = args.place.ask(&Request::Status)?;
    args.place.show(&answer["neighbours"], |rows| table(rows, &NEIGHBOURS));
    Ok(0)
}
