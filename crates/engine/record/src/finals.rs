//! Values of all metrics at the end of a run.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::{Measure, Totals, subject_and_metric};

/// Final values, by subject and metric. In JSON an object for each subject: `{"flow.cubic.sender": {"cwnd [B]": 12000}}`.
/// Clones share the values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalValues(Arc<Values>);

#[derive(Debug, Default, PartialEq)]
struct Values {
    /// Names and units of metrics; many subjects share them.
    metrics: Vec<Named>,
    subjects: IndexMap<String, Vec<(u32, f64)>>,
}

/// Name and unit of a metric.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Named {
    name: String,
    unit: String,
}

impl Named {
    /// Returns the title of its columns: "cwnd [B]".
    fn title(&self) -> String {
        format!("{} [{}]", self.name, self.unit)
    }

    fn read(title: &str) -> Named {
        let parts = title.strip_suffix(']').and_then(|title| title.rsplit_once(" ["));
        let (name, unit) = parts.unwrap_or((title, ""));
        Named { name: name.to_owned(), unit: unit.to_owned() }
    }
}

impl FinalValues {
    /// Keeps what all parts reported, those values that are finite.
    pub fn of(totals: &Totals) -> FinalValues {
        let (mut places, mut metrics) = (HashMap::new(), Vec::new());
        let mut subjects: IndexMap<String, Vec<(u32, f64)>> = IndexMap::new();
        for (part, path) in totals.parts.iter().enumerate() {
            let mut place = |metric: &'static bentpipe_net::metric::Metric| {
                *places.entry(std::ptr::from_ref(metric)).or_insert_with(|| {
                    metrics.push(Named { name: metric.name.into(), unit: metric.unit.symbol().into() });
                    metrics.len() as u32 - 1
                })
            };
            let of_part = totals.of(part as u32).iter();
            let of_part = of_part.map(|total| (total.metric, total.value().as_f64()));
            let finite = of_part.filter(|(_, value)| value.is_finite());
            let values: Vec<(u32, f64)> = finite.map(|(metric, value)| (place(metric), value)).collect();
            if !values.is_empty() {
                subjects.entry(path.replace('/', ".")).or_default().extend(values);
            }
        }
        FinalValues(Arc::new(Values { metrics, subjects }))
    }

    /// Returns a value by its name, "flow.cubic.sender.cwnd", with its unit.
    pub fn get(&self, name: &str) -> Option<(f64, &str)> {
        let (subject, metric) = subject_and_metric(name)?;
        let values = self.0.subjects.get(subject)?;
        let is_it = |(number, _): &&(u32, f64)| self.0.metrics[*number as usize].name == metric;
        values.iter().find(is_it).map(|(number, value)| (*value, &self.0.metrics[*number as usize].unit[..]))
    }

    /// Returns all values: subject, name, unit and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &str, f64)> {
        self.0.subjects.iter().flat_map(move |(subject, values)| {
            values.iter().map(move |(number, value)| {
                let Named { name, unit } = &self.0.metrics[*number as usize];
                (&subject[..], &name[..], &unit[..], *value)
            })
        })
    }

    /// Returns all values under their full names.
    pub fn measures(&self) -> impl Iterator<Item = Measure> {
        self.iter()
            .filter_map(|(subject, name, unit, value)| Measure::new(format!("{subject}.{name}"), unit, value))
    }
}

impl Serialize for FinalValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let titles: Vec<String> = self.0.metrics.iter().map(Named::title).collect();
        let mut map = serializer.serialize_map(Some(self.0.subjects.len()))?;
        for (subject, values) in &self.0.subjects {
            map.serialize_entry(subject, &OfSubject { titles: &titles, values })?;
        }
        map.end()
    }
}

/// Values of a subject with the titles of all metrics.
struct OfSubject<'a> {
    titles: &'a [String],
    values: &'a [(u32, f64)],
}

impl Serialize for OfSubject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(self.values.iter().map(|(number, value)| (&self.titles[*number as usize], value)))
    }
}

impl<'de> Deserialize<'de> for FinalValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FinalValues, D::Error> {
        deserializer.deserialize_map(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = FinalValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of objects of numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FinalValues, A::Error> {
        let (mut read, mut places) = (Values::default(), HashMap::new());
        while let Some((subject, values)) = map.next_entry::<String, IndexMap<String, f64>>()? {
            let mut place = |title: String| {
                *places.entry(title).or_insert_with_key(|title| {
                    read.metrics.push(Named::read(title));
                    read.metrics.len() as u32 - 1
                })
            };
            let values = values.into_iter().map(|(title, value)| (place(title), value)).collect();
            read.subjects.insert(subject, values);
        }
        Ok(FinalValues(Arc::new(read)))
    }
}
