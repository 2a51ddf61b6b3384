//! Declarations of recorded metrics: those of the running program, and those read from files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bentpipe_net::Unit;
use bentpipe_net::metric::{End, Kind, Metric, Style};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::definitions::{first, is_first};
use super::subject::{Subject, pattern};

/// Declaration of a column: the running program's own or one from a file.
#[derive(Clone, Debug)]
pub enum Declared {
    /// Declaration of the running program.
    Own(&'static Metric),
    /// Declaration that was read.
    Read(Arc<Declaration>),
}

impl Declared {
    /// Returns the metric's name, such as "cwnd".
    pub fn name(&self) -> &str {
        match self {
            Declared::Own(metric) => metric.name,
            Declared::Read(declaration) => &declaration.name,
        }
    }

    /// Returns the metric's unit.
    pub fn unit(&self) -> Unit {
        match self {
            Declared::Own(metric) => metric.unit,
            Declared::Read(declaration) => declaration.unit,
        }
    }

    /// Returns the style and the diagram's title, if the metric is drawn.
    pub fn drawing(&self) -> Option<(Style, &str)> {
        match self {
            Declared::Own(metric) => metric.draw.drawing(),
            Declared::Read(declaration) => declaration.draw.as_ref().map(|d| (d.style, &d.diagram[..])),
        }
    }

    /// Returns `true` if the metric is drawn of this end of a flow.
    pub(super) fn is_drawn_at(&self, subject: &str) -> bool {
        let end = match self {
            Declared::Own(metric) => metric.drawn_at,
            Declared::Read(declaration) => declaration.draw.as_ref().and_then(|drawing| drawing.at),
        };
        end.is_none_or(|end| Subject::end(subject) == Some(end))
    }

    /// Returns the kind of the metric's values.
    pub fn kind(&self) -> Kind {
        match self {
            Declared::Own(metric) => metric.kind,
            Declared::Read(declaration) => declaration.kind,
        }
    }

    /// Returns the noun phrase for readers: "Congestion window".
    pub fn label(&self) -> &str {
        match self {
            Declared::Own(metric) => metric.label,
            Declared::Read(declaration) => &declaration.label,
        }
    }

    /// Returns `true` if this measure is made of it.
    pub fn makes(&self, measure: &str) -> bool {
        match self {
            Declared::Own(metric) => metric.sums.iter().any(|sum| sum.name == measure),
            Declared::Read(declaration) => declaration.makes(measure),
        }
    }

    /// Returns `true` if it is this declaration of the running program.
    pub fn is(&self, metric: &Metric) -> bool {
        matches!(self, Declared::Own(own) if own.is(metric))
    }
}

impl PartialEq for Declared {
    fn eq(&self, other: &Declared) -> bool {
        (self.name(), self.unit()) == (other.name(), other.unit())
    }
}

/// Declaration of a metric in `metrics.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Declaration {
    /// Name: "cwnd".
    pub name: String,
    /// Unit.
    pub unit: Unit,
    /// Kind.
    pub kind: Kind,
    /// Noun phrase for readers: "Congestion window".
    pub label: String,
    /// Hint how it is drawn over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<Drawing>,
    /// Measures that are made of it: their names, and their labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<DeclaredMeasure>,
    /// Names that it had in earlier releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub once: Vec<String>,
    /// Subjects that report it; `*` stands for numbers of copies.
    pub of: Vec<String>,
}

/// Hint how a metric is drawn over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drawing {
    /// Style of its curve.
    pub style: Style,
    /// Title of the diagram, which metrics share.
    pub diagram: String,
    /// End of a flow that it is drawn of; both if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<End>,
}

/// Measure that is made of a metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclaredMeasure {
    /// Last part of the measure's name: "goodput".
    pub name: String,
    /// Noun phrase for readers.
    pub label: String,
    /// Version of the definitions with which its present meaning began; 1 if it is absent.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub since: u32,
}

impl Declaration {
    /// Returns `true` if it is drawn of this subject.
    pub fn is_drawn_of(&self, subject: &str) -> bool {
        self.draw
            .as_ref()
            .is_some_and(|drawing| drawing.at.is_none_or(|end| Subject::end(subject) == Some(end)))
    }

    /// Returns `true` if this measure is made of it.
    pub fn makes(&self, measure: &str) -> bool {
        self.measures.iter().any(|made| made.name == measure)
    }

    fn of(metric: &Metric) -> Declaration {
        let measure = |sum: &bentpipe_net::metric::Sum| DeclaredMeasure {
            name: sum.name.to_owned(),
            label: sum.label.to_owned(),
            since: sum.since,
        };
        let drawing = |(style, diagram): (Style, &str)| Drawing {
            style,
            diagram: diagram.to_owned(),
            at: metric.drawn_at,
        };
        Declaration {
            name: metric.name.to_owned(),
            unit: metric.unit,
            kind: metric.kind,
            label: metric.label.to_owned(),
            draw: metric.draw.drawing().map(drawing),
            measures: metric.sums.iter().map(measure).collect(),
            once: metric.once.iter().map(|name| (*name).to_owned()).collect(),
            of: Vec::new(),
        }
    }
}

/// Declarations of all metrics of a run: what `metrics.json` has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Catalogue {
    /// Declarations, in the order in which they are first reported.
    pub metrics: Vec<Declaration>,
    /// Starts of flows that begin behind the start of the run, in seconds. Null of those that never begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<BTreeMap<String, Option<f64>>>,
}

impl Catalogue {
    /// Collects the declarations of what these subjects report, given by their paths.
    pub fn of<'a>(reported: impl Iterator<Item = (&'a str, &'static Metric)>) -> Catalogue {
        let mut made = Maker::default();
        let mut last: Option<(&str, usize)> = None;
        for (path, metric) in reported {
            let number = match last {
                Some((known, number)) if std::ptr::eq(known, path) => number,
                _ => made.pattern(path),
            };
            last = Some((path, number));
            made.add(path, number, metric);
        }
        made.catalogue
    }

    /// Returns the declarations by subject and name.
    pub fn index(self) -> Index {
        let mut by_name: HashMap<String, HashMap<String, Arc<Declaration>>> = HashMap::new();
        for declaration in self.metrics.into_iter().map(Arc::new) {
            let of_name = by_name.entry(declaration.name.clone()).or_default();
            of_name.extend(declaration.of.iter().map(|of| (of.clone(), Arc::clone(&declaration))));
        }
        Index { by_name }
    }
}

/// Declarations by name and subject.
#[derive(Clone, Debug, Default)]
pub struct Index {
    by_name: HashMap<String, HashMap<String, Arc<Declaration>>>,
}

impl Index {
    /// Returns the declaration of a subject's metric.
    pub fn find(&self, subject: &str, name: &str) -> Option<&Arc<Declaration>> {
        let of_name = self.by_name.get(name)?;
        of_name.get(subject).or_else(|| of_name.get(&pattern(subject)))
    }
}

/// Collects declarations.
#[derive(Default)]
struct Maker {
    catalogue: Catalogue,
    places: HashMap<*const Metric, usize>,
    patterns: HashMap<String, usize>,
    /// Metrics by pattern and name: copies of one name are alike as a rule.
    known: HashMap<(usize, &'static str), usize>,
    literal: HashSet<(String, usize)>,
}

impl Maker {
    fn pattern(&mut self, path: &str) -> usize {
        let next = self.patterns.len();
        *self.patterns.entry(pattern(path)).or_insert(next)
    }

    fn add(&mut self, path: &str, pattern: usize, metric: &'static Metric) {
        let metrics = &mut self.catalogue.metrics;
        let place = *self.places.entry(metric).or_insert_with(|| {
            metrics.push(Declaration::of(metric));
            metrics.len() - 1
        });
        match self.known.insert((pattern, metric.name), place) {
            Some(known) if known == place => {}
            None => metrics[place].of.push(self::pattern(path)),
            Some(known) => {
                // The pattern keeps its first meaning; this subject differs from it.
                self.known.insert((pattern, metric.name), known);
                if self.literal.insert((path.to_owned(), place)) {
                    metrics[place].of.push(path.to_owned());
                }
            }
        }
    }
}
