//! Queries to sensor fields: operators by their places, and rows that reached Earth.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::now_ms;
use crate::left;

/// Most rows of a list.
pub(crate) const MAX_ROWS: usize = 1000;
/// Ends of the names of a flow's files.
const QUERY: &str = "-query.jsonl";
const ROWS: &str = "-rows.csv";
/// Most bytes of a description, and of rows that are read at a time.
const MAX_QUERY: u64 = 1 << 20;
const MAX_READ: u64 = 1 << 20;
/// Most motes of a field, and bytes of an operator's text.
const MAX_MOTES: usize = 2501;
const MAX_TEXT: usize = 1000;
/// Most operators in a place.
const MAX_OPERATORS: usize = 30;
/// Time between two looks for another file, in milliseconds.
const LOOK_MS: i64 = 1000;

/// Place of a mote.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Mote {
    /// Metres to the right.
    pub(crate) x: f64,
    /// Metres upwards.
    pub(crate) y: f64,
    /// Mote that gets its rows, if it has a route.
    pub(crate) parent: Option<usize>,
}

/// Operator: its symbol, and what it does in words.
pub(crate) type Operator = (String, String);

/// Operators of a query by the places in which they run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Operators {
    /// Operators of each mote: symbol and words.
    pub(crate) mote: Vec<Operator>,
    /// Further operators of motes with children.
    pub(crate) relay: Vec<Operator>,
    /// Operators of the base station.
    pub(crate) base: Vec<Operator>,
}

/// Query of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct FieldQuery {
    /// Text.
    pub(crate) query: String,
    /// Titles of the values of a row.
    pub(crate) titles: Vec<String>,
    /// Operators by their places.
    pub(crate) operators: Operators,
    /// Motes; the first is the base station. Empty until the first rows have reached it.
    pub(crate) motes: Vec<Mote>,
}

/// Row that reached Earth.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Row {
    /// Time at which it arrived, in seconds.
    pub(crate) received: f64,
    /// Time of the samples in seconds.
    pub(crate) sampled: f64,
    /// Epoch.
    pub(crate) epoch: u64,
    /// Mote that it is from; 0 for one of the base station.
    pub(crate) mote: usize,
    /// Values.
    pub(crate) values: Vec<f64>,
}

/// Query with its last rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Rows {
    /// Flows with queries, which `flow` can name.
    pub(crate) flows: Vec<String>,
    /// Flow of these rows; empty if there is none.
    pub(crate) flow: String,
    /// Query of the flow, if it is new.
    pub(crate) query: Option<FieldQuery>,
    /// Number of rows until now.
    ///
    /// Of a long list that was begun at its end it counts those since.
    pub(crate) total: u64,
    /// The last rows, or those that are new.
    pub(crate) rows: Vec<Row>,
}

/// Lines of a description, as the simulator writes them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Map { map: Vec<(f64, f64, Option<usize>)> },
    Head { query: String, titles: Vec<String>, operators: Operators },
}

impl FieldQuery {
    /// Reads a description. What cannot be one is left out.
    fn parse(text: &str) -> FieldQuery {
        let mut all = FieldQuery::default();
        for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                Line::Head { query, titles, operators } => {
                    let cut = |text: String| text.chars().take(MAX_TEXT).collect::<String>();
                    let cut_all = |all: Vec<String>| all.into_iter().take(300).map(cut).collect::<Vec<_>>();
                    all.query = cut(query);
                    all.titles = cut_all(titles);
                    let cut_operators = |all: Vec<Operator>| -> Vec<Operator> {
                        let short =
                            |(symbol, words): Operator| (symbol.chars().take(2).collect(), cut(words));
                        all.into_iter().take(MAX_OPERATORS).map(short).collect()
                    };
                    let Operators { mote, relay, base } = operators;
                    let [mote, relay, base] = [mote, relay, base].map(cut_operators);
                    all.operators = Operators { mote, relay, base };
                }
                Line::Map { map } => {
                    let mote = |(x, y, parent)| Mote { x, y, parent };
                    all.motes = map.into_iter().take(MAX_MOTES).map(mote).collect();
                    all.motes.retain(|mote| mote.x.is_finite() && mote.y.is_finite());
                    let count = all.motes.len();
                    all.motes.iter_mut().for_each(|mote| mote.parent = mote.parent.filter(|to| *to < count));
                }
            }
        }
        all
    }

    /// Returns the hops of a mote to the base station, if it has a route.
    pub(crate) fn hops(&self, mut mote: usize) -> Option<usize> {
        for hops in 0..self.motes.len() {
            if mote == 0 {
                return Some(hops);
            }
            mote = self.motes.get(mote)?.parent?;
        }
        None
    }
}

/// Reads a line of rows. The head of a file is none.
fn row(line: &str) -> Option<Row> {
    let mut fields = line.split(',');
    let mut next = || fields.next()?.trim().parse::<f64>().ok();
    let (received, sampled, epoch, mote) = (next()?, next()?, next()?, next()?);
    let values = fields.map(|field| field.trim().parse().ok()).collect::<Option<Vec<f64>>>()?;
    let is_right = [received, sampled, epoch, mote].iter().all(|value| value.is_finite() && *value >= 0.0);
    (is_right && values.len() <= 300).then_some(Row {
        received,
        sampled,
        epoch: epoch as u64,
        mote: mote as usize,
        values,
    })
}

/// Returns the flow of a file of queries, and `true` if it is being written.
fn flow_of<'a>(path: &'a str, end: &str) -> Option<(&'a str, bool)> {
    let last = path.rsplit('/').next()?;
    let growing = last.strip_prefix('.').and_then(|rest| rest.strip_suffix(".part"));
    let growing = growing.and_then(|rest| rest.rsplit_once('.')).map(|(name, _)| name);
    let flow = growing.unwrap_or(last).strip_suffix(end)?;
    (!flow.is_empty() && !flow.starts_with('.')).then_some((flow, growing.is_some()))
}

/// Rows of a job's flow that are followed.
pub(crate) struct Tail {
    results: PathBuf,
    wanted: String,
    most: usize,
    flow: String,
    /// Paths of the description and the rows that are read.
    current: Option<[String; 2]>,
    offset: u64,
    total: u64,
    /// Length of the description that was read.
    described: u64,
    looked: Option<i64>,
    flows: Vec<String>,
}

impl Tail {
    /// Begins with a flow, or the first one that has a query.
    pub(crate) fn new(results: PathBuf, flow: String, most: usize) -> Tail {
        let (flows, most) = (Vec::new(), most.clamp(1, MAX_ROWS));
        Tail {
            results,
            wanted: flow,
            most,
            flow: String::new(),
            current: None,
            offset: 0,
            total: 0,
            described: 0,
            looked: None,
            flows,
        }
    }

    /// Returns what is new; `None` if nothing is.
    pub(crate) fn step(&mut self) -> Option<Rows> {
        let is_gone = self.current.as_ref().is_some_and(|[_, rows]| !self.results.join(rows).exists());
        let mut is_new = false;
        if (self.current.is_none() || is_gone)
            && self.looked.is_none_or(|looked| now_ms() - looked >= LOOK_MS)
        {
            self.looked = Some(now_ms());
            is_new = self.look();
        }
        let Some([query, rows]) = self.current.clone() else {
            return is_new.then(|| Rows { flows: self.flows.clone(), ..Rows::default() });
        };
        let query = self.description(&query);
        let rows = self.rows(&rows);
        (is_new || query.is_some() || !rows.is_empty()).then(|| Rows {
            flows: self.flows.clone(),
            flow: self.flow.clone(),
            query,
            total: self.total,
            rows,
        })
    }

    /// Returns `true` if it finds the files of another run, or other flows.
    fn look(&mut self) -> bool {
        let files = left::list(&self.results);
        let changed =
            |path: &str| fs::symlink_metadata(self.results.join(path)).and_then(|data| data.modified()).ok();
        let mut found: Vec<(&str, bool, &str)> = files
            .iter()
            .filter_map(|(path, _)| flow_of(path, QUERY).map(|(flow, grows)| (flow, grows, &path[..])))
            .collect();
        found.sort_by_key(|(flow, grows, path)| (std::cmp::Reverse((*grows, changed(path))), *flow));
        let mut flows: Vec<String> = found.iter().map(|(flow, ..)| (*flow).to_owned()).collect();
        flows.sort();
        flows.dedup();
        let has_others = flows != self.flows;
        self.flows = flows;
        let first = self.flows.first().cloned().unwrap_or_default();
        let wanted = if self.wanted.is_empty() { first } else { self.wanted.clone() };
        let chosen = found.iter().find(|(flow, ..)| *flow == wanted).map(|(_, _, path)| (*path).to_owned());
        let rows = chosen.as_ref().map(|path| path.replace(QUERY, ROWS));
        let next = chosen.zip(rows).map(|(query, rows)| [query, rows]);
        if next == self.current {
            return has_others;
        }
        // The files of a run that ended have what was read while they grew.
        let whole = |[query, _]: &[String; 2]| {
            let (folder, _) = query.rsplit_once('/').unwrap_or_default();
            (folder.to_owned(), flow_of(query, QUERY).map(|(flow, _)| flow.to_owned()))
        };
        if self.current.as_ref().map(whole) != next.as_ref().map(whole) {
            (self.offset, self.total, self.described) = (0, 0, 0);
        }
        (self.current, self.flow) = (next, wanted);
        true
    }

    fn open(&self, path: &str) -> Option<File> {
        left::file_in(&left::root(&self.results).ok()?, path).ok()
    }

    /// Reads the description, if it has become longer.
    fn description(&mut self, path: &str) -> Option<FieldQuery> {
        let file = self.open(path)?;
        let length = file.metadata().ok()?.len();
        if length <= self.described {
            return None;
        }
        let mut text = String::new();
        file.take(MAX_QUERY).read_to_string(&mut text).ok()?;
        self.described = length;
        Some(FieldQuery::parse(&text))
    }

    /// Reads new rows. Of many the last ones are kept.
    fn rows(&mut self, path: &str) -> Vec<Row> {
        let Some(mut file) = self.open(path) else { return Vec::new() };
        let length = file.metadata().map_or(0, |data| data.len());
        // Of a long file only its end is read.
        let skipped = length.saturating_sub(MAX_READ).max(self.offset);
        let mut bytes = Vec::new();
        let read =
            file.seek(SeekFrom::Start(skipped)).and_then(|_| file.take(MAX_READ).read_to_end(&mut bytes));
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if read.is_err() || whole == 0 {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        // A line whose start was skipped is none.
        let text =
            if skipped > self.offset { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        self.offset = skipped + whole as u64;
        let mut rows: Vec<Row> = text.lines().filter_map(row).collect();
        self.total += rows.len() as u64;
        rows.drain(..rows.len().saturating_sub(self.most));
        rows
    }
}

/// Returns `true` if a job's files have a query.
pub(crate) fn has_query<'a>(mut paths: impl Iterator<Item = &'a str>) -> bool {
    paths.any(|path| flow_of(path, QUERY).is_some())
}

/// Returns `true` if a folder of results has a query, finished or not.
pub(crate) fn is_there(results: &Path) -> bool {
    has_query(left::list(results).iter().map(|(path, _)| &path[..]))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const HEAD: &str = r#"{"query":"SELECT light FROM sensors SAMPLE PERIOD 1 s","collection":"in-network","period":1.0,"titles":["light"],"operators":{"mote":[["S","sample light"]],"relay":[["r","forward"]],"base":[["c","collect"]]}}"#;

    #[test]
    fn rows_are_followed_while_they_come_and_after_the_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("plan");
        fs::create_dir(&run).expect("made");
        let mut tail = Tail::new(folder.path().to_owned(), String::new(), 2);
        assert_eq!(tail.step(), None);
        let (query, rows) = (run.join(".q-query.jsonl.7.part"), run.join(".q-rows.csv.7.part"));
        fs::write(&query, format!("{HEAD}\n")).expect("written");
        fs::write(&rows, "received [s],sampled [s],epoch,mote,light\n1,0,0,3,100\n2,1,1,3,1")
            .expect("written");
        tail.looked = None;
        let news = tail.step().expect("a query");
        assert_eq!((&news.flow[..], news.total, news.rows.len()), ("q", 1, 1));
        assert_eq!(news.query.expect("a query").operators.base[0].1, "collect");
        assert_eq!(tail.step(), None);
        let mut file = fs::OpenOptions::new().append(true).open(&rows).expect("there");
        writeln!(file, "01\n3,2,2,4,7.5").expect("written");
        fs::write(&query, format!("{HEAD}\n{{\"map\":[[0,0,null],[1,2,0],[3,4,9]]}}\n")).expect("written");
        let news = tail.step().expect("rows");
        assert_eq!(news.rows.iter().map(|row| row.values[0]).collect::<Vec<_>>(), [101.0, 7.5]);
        let field = news.query.expect("a map");
        assert_eq!((field.hops(1), field.hops(2), field.motes[2].parent), (Some(1), None, None));
        fs::rename(&query, run.join("q-query.jsonl")).expect("renamed");
        fs::rename(&rows, run.join("q-rows.csv")).expect("renamed");
        tail.looked = None;
        assert_eq!(tail.step().map(|news| news.rows), Some(vec![]), "all were read");
        let after = Tail::new(folder.path().to_owned(), "q".to_owned(), 2).step().expect("rows");
        assert_eq!((after.total, after.rows.len()), (3, 2));
    }

    #[test]
    fn hostile_files_are_bounded() {
        for bad in ["", "x", "{}", "{\"map\":3}", "{\"map\":[[1,2]]}", "[[", "{\"query\":1}"] {
            assert_eq!(FieldQuery::parse(bad), FieldQuery::default(), "{bad}");
        }
        let circle = FieldQuery::parse("{\"map\":[[0,0,null],[0,0,2],[0,0,1]]}");
        assert_eq!(circle.hops(1), None);
        for bad in ["", "1,2,3", "1,2,3,x", "NaN,1,1,1", "-1,1,1,1", "1,2,3,4,x"] {
            assert_eq!(row(bad), None, "{bad}");
        }
        assert_eq!(flow_of(".q-query.jsonl.7.part", QUERY), Some(("q", true)));
        assert_eq!(flow_of("-query.jsonl", QUERY), None);
    }
}
