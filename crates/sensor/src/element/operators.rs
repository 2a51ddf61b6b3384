//! Operators of a query, by the places in which they run, in words.

use bentpipe_units::Span;
use serde_json::{Value, json};

use super::Collection;
use crate::query::{Column, Comparison, Condition, Group, Input, Pairing, Query, Side};

/// Returns the description of a query: text, period, titles of values, and operators.
///
/// Operators are those of each mote, of a mote with children, and of the base station, in their order.
pub fn describe(text: &str, query: &Query, collection: Collection) -> Value {
    let [mote, relay, base] = match collection {
        Collection::InNetwork => in_network(query),
        Collection::Everything => everything(query),
    };
    json!({
        "query": text,
        "collection": collection,
        "period": query.period.as_secs_f64(),
        "titles": Query::titles(text, &query.items),
        "operators": { "mote": mote, "relay": relay, "base": base },
    })
}

/// Operator: its symbol, and what it does.
type Operator = (&'static str, String);

/// Symbols: those of relational algebra, and "S" of a sample.
const SAMPLE: &str = "S";
const JOIN: &str = "\u{22c8}";
const SELECT: &str = "\u{3c3}";
const PROJECT: &str = "\u{3c0}";
const GROUP: &str = "\u{3b3}";
const FORWARD: &str = "\u{2192}";
const COLLECT: &str = "\u{222a}";

fn in_network(query: &Query) -> [Vec<Operator>; 3] {
    let mut mote = vec![sample(query)];
    mote.extend(query.table.iter().map(|table| (JOIN, format!("join the own row of the table {table}"))));
    let conditions: Vec<String> = query.plan().iter().map(condition).collect();
    mote.extend(conditions.iter().map(|text| (SELECT, format!("stay silent unless {text}"))));
    let (relay, base) = if query.is_aggregate() {
        mote.push((GROUP, format!("begin a partial aggregate{}", grouped(query.group))));
        let base = (GROUP, "merge the partial aggregates, and finish them".to_owned());
        ((GROUP, "merge the partial aggregates of the children".to_owned()), base)
    } else {
        let forward = (FORWARD, "forward rows of the children".to_owned());
        mote.push((PROJECT, "send the selected columns".to_owned()));
        match query.pairing {
            Some(pairing) => (forward, join(pairing, query.period)),
            None => (forward, (COLLECT, "collect rows".to_owned())),
        }
    };
    let mut base = vec![base];
    base.extend(pairs(query));
    base.push((FORWARD, "send rows to Earth as bundles".to_owned()));
    [mote, vec![relay], base]
}

fn everything(query: &Query) -> [Vec<Operator>; 3] {
    let mut base: Vec<Operator> =
        query.table.iter().map(|table| (JOIN, format!("join the table {table}"))).collect();
    base.extend(query.conditions.iter().map(|one| (SELECT, format!("keep samples with {}", condition(one)))));
    base.extend(query.pairing.map(|pairing| join(pairing, query.period)));
    base.extend(pairs(query));
    base.extend(query.is_aggregate().then(|| (GROUP, format!("aggregate{}", grouped(query.group)))));
    base.push((FORWARD, "send rows to Earth as bundles".to_owned()));
    let relay = (FORWARD, "forward samples of the children".to_owned());
    [vec![sample(query), (PROJECT, "send all samples".to_owned())], vec![relay], base]
}

fn join(pairing: Pairing, period: Span) -> Operator {
    let text = match pairing {
        Pairing::Epoch => "pair the motes of an epoch".to_owned(),
        Pairing::Within(epochs) => format!("pair samples at most {} apart", period * u64::from(epochs)),
    };
    (JOIN, text)
}

fn pairs(query: &Query) -> impl Iterator<Item = Operator> {
    query.matches.iter().map(|pair| {
        let [left, right] = [pair.left, pair.right].map(name);
        (SELECT, format!("keep pairs with {left} {} {right}", sign(pair.comparison)))
    })
}

fn sample(query: &Query) -> Operator {
    let sensors: Vec<&str> = query
        .inputs()
        .into_iter()
        .filter_map(|column| match column {
            Column::Sensor(sensor) => Some(sensor.name()),
            _ => None,
        })
        .collect();
    let text = match sensors.is_empty() {
        true => format!("begin an epoch every {}", query.period),
        false => format!("sample {} every {}", sensors.join(", "), query.period),
    };
    (SAMPLE, text)
}

fn grouped(group: Option<Group>) -> String {
    match group {
        None => String::new(),
        Some(Group { column, width: None }) => format!(" by {}", name(column)),
        Some(Group { column, width: Some(width) }) => format!(" by {} / {width}", name(column)),
    }
}

fn condition(condition: &Condition) -> String {
    format!("{} {} {}", name(condition.column), sign(condition.comparison), condition.number)
}

fn name(column: Column) -> String {
    let input = |input: Input| match input {
        Input::Node => "node",
        Input::Epoch => "epoch",
        Input::Sensor(sensor) => sensor.name(),
    };
    match column {
        Column::Node => "node".to_owned(),
        Column::Epoch => "epoch".to_owned(),
        Column::Sensor(sensor) => sensor.name().to_owned(),
        Column::Joined(_) => "a column of the table".to_owned(),
        Column::Of(Side::Left, of) => format!("a.{}", input(of)),
        Column::Of(Side::Right, of) => format!("b.{}", input(of)),
    }
}

const fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Below => "<",
        Comparison::AtMost => "<=",
        Comparison::Above => ">",
        Comparison::AtLeast => ">=",
        Comparison::Equal => "=",
        Comparison::Unequal => "<>",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operators(text: &str, collection: Collection) -> Value {
        let query = Query::parse_anywhere(text).expect("a query");
        describe(text, &query, collection)["operators"].clone()
    }

    #[test]
    fn operators_run_where_the_collection_has_them() {
        let text = "SELECT avg(light), count(*) FROM sensors WHERE magnetism > 6 AND temperature < 0 \
            GROUP BY light / 100 SAMPLE PERIOD 30 s";
        let inside = operators(text, Collection::InNetwork);
        // The cheap sample first: that is the order in which motes take them.
        let silent = [&inside["mote"][1][1], &inside["mote"][2][1]];
        assert_eq!(silent, ["stay silent unless temperature < 0", "stay silent unless magnetism > 6"]);
        assert_eq!(inside["mote"][3][1], "begin a partial aggregate by light / 100");
        assert_eq!(inside["relay"][0][1], "merge the partial aggregates of the children");
        let shipped = operators(text, Collection::Everything);
        assert_eq!(shipped["mote"].as_array().map(Vec::len), Some(2));
        assert_eq!(shipped["base"][2][1], "aggregate by light / 100");
        let pairs = "SELECT a.light, b.light FROM sensors a JOIN sensors b ON epoch WHERE a.light > b.light SAMPLE PERIOD 1 s";
        assert_eq!(
            operators(pairs, Collection::InNetwork)["base"][1][1],
            "keep pairs with a.light > b.light"
        );
        let within = pairs.replace("ON epoch", "WITHIN 3 s");
        for collection in [Collection::InNetwork, Collection::Everything] {
            assert_eq!(operators(&within, collection)["base"][0][1], "pair samples at most 3 s apart");
        }
    }
}
