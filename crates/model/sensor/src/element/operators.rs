//! Operators of a query, by the places in which they run, in words.

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
    let (mut mote, rest) = if query.is_pair() { (of_pairs(query), String::new()) } else { in_order(query) };
    let (relay, base) = if query.is_aggregate() {
        mote.push((GROUP, format!("{rest}begin a partial aggregate{}", grouped(query))));
        let base = (GROUP, "merge the partial aggregates, and finish them".to_owned());
        ((GROUP, "merge the partial aggregates of the children".to_owned()), base)
    } else {
        let forward = (FORWARD, "forward rows of the children".to_owned());
        mote.push((PROJECT, format!("{rest}send the selected columns")));
        match query.pairing {
            Some(pairing) => (forward, join(pairing)),
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
    base.extend(
        query.conditions.iter().map(|one| (SELECT, format!("keep samples with {}", condition(query, one)))),
    );
    base.extend(query.pairing.map(join));
    base.extend(pairs(query));
    base.extend(query.is_aggregate().then(|| (GROUP, format!("aggregate{}", grouped(query)))));
    base.push((FORWARD, "send rows to Earth as bundles".to_owned()));
    let relay = (FORWARD, "forward samples of the children".to_owned());
    [vec![sample(query, &query.inputs()), (PROJECT, "send all samples".to_owned())], vec![relay], base]
}

/// Returns the operators of a mote in their order, without the last.
///
/// A sensor is sampled for the condition that needs it first. The text is of samples for rows that pass all conditions.
fn in_order(query: &Query) -> (Vec<Operator>, String) {
    let (plan, mut left) = (query.plan(), query.inputs());
    let at_once = if plan.is_empty() { std::mem::take(&mut left) } else { Vec::new() };
    let mut operators = vec![sample(query, &at_once)];
    operators
        .extend(query.table.iter().map(|table| (JOIN, format!("join the own row of the table {table}"))));
    for one in plan {
        let (needed, rest) = left.into_iter().partition(|column| *column == one.column.alone());
        left = rest;
        operators.push((SELECT, format!("{}stay silent unless {}", first(&needed), condition(query, &one))));
    }
    (operators, first(&left))
}

/// Returns the beginning of an operator that takes samples.
fn first(columns: &[Column]) -> String {
    let sensors = sensors(columns);
    if sensors.is_empty() { sensors } else { format!("sample {sensors}, ") }
}

/// Returns the operators of a mote that is a part of pairs.
fn of_pairs(query: &Query) -> Vec<Operator> {
    let mut operators = vec![sample(query, &query.inputs())];
    let plan = query.plan();
    let [left, right] = [Side::Left, Side::Right].map(|side| {
        let is_of = |one: &&Condition| matches!(one.column, Column::Of(of, _) if of == side);
        let of_side: Vec<String> = plan.iter().filter(is_of).map(|one| condition(query, one)).collect();
        of_side.join(" and ")
    });
    // With no condition on one of them, each mote can be that one.
    if !left.is_empty() && !right.is_empty() {
        operators.push((SELECT, format!("stay silent unless {left}, or {right}")));
    }
    operators
}

fn join(pairing: Pairing) -> Operator {
    let text = match pairing {
        Pairing::Epoch => "pair the motes of an epoch".to_owned(),
        Pairing::Within(window) => format!("pair samples at most {window} apart"),
    };
    (JOIN, text)
}

fn pairs(query: &Query) -> impl Iterator<Item = Operator> {
    query.matches.iter().map(|pair| {
        let [left, right] = [pair.left, pair.right].map(|column| name(query, column));
        (SELECT, format!("keep pairs with {left} {} {right}", sign(pair.comparison)))
    })
}

fn sample(query: &Query, columns: &[Column]) -> Operator {
    let sensors = sensors(columns);
    let what = if sensors.is_empty() { "begin an epoch".to_owned() } else { format!("sample {sensors}") };
    (SAMPLE, format!("{what} every {}", query.period))
}

fn sensors(columns: &[Column]) -> String {
    let sensors = columns.iter().filter_map(|column| match column {
        Column::Sensor(sensor) => Some(sensor.name()),
        _ => None,
    });
    sensors.collect::<Vec<_>>().join(", ")
}

fn grouped(query: &Query) -> String {
    match query.group {
        None => String::new(),
        Some(Group { column, width: None }) => format!(" by {}", name(query, column)),
        Some(Group { column, width: Some(width) }) => format!(" by {} / {width}", name(query, column)),
    }
}

fn condition(query: &Query, condition: &Condition) -> String {
    let Condition { column, comparison, number } = *condition;
    format!("{} {} {number}", name(query, column), sign(comparison))
}

fn name(query: &Query, column: Column) -> String {
    let input = |input: Input| match input {
        Input::Node => "node",
        Input::Epoch => "epoch",
        Input::Sensor(sensor) => sensor.name(),
    };
    match column {
        Column::Node => "node".to_owned(),
        Column::Epoch => "epoch".to_owned(),
        Column::Sensor(sensor) => sensor.name().to_owned(),
        Column::Joined(number) => query.joined[usize::from(number)].clone(),
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
        // The cheap sample first: that is the order in which motes take them. What no condition needs comes last.
        let steps: Vec<&str> =
            inside["mote"].as_array().expect("operators").iter().filter_map(|one| one[1].as_str()).collect();
        let expected = [
            "begin an epoch every 30 s",
            "sample temperature, stay silent unless temperature < 0",
            "sample magnetism, stay silent unless magnetism > 6",
            "sample light, begin a partial aggregate by light / 100",
        ];
        assert_eq!(steps, expected);
        assert_eq!(inside["relay"][0][1], "merge the partial aggregates of the children");
        let shipped = operators(text, Collection::Everything);
        assert_eq!(shipped["mote"].as_array().map(Vec::len), Some(2));
        assert_eq!(shipped["base"][2][1], "aggregate by light / 100");
        let pairs = "SELECT a.light, b.light FROM sensors a JOIN sensors b ON epoch WHERE a.light > b.light SAMPLE PERIOD 1 s";
        assert_eq!(
            operators(pairs, Collection::InNetwork)["base"][1][1],
            "keep pairs with a.light > b.light"
        );
        let within = pairs.replace("ON epoch", "WITHIN 3500 ms");
        for collection in [Collection::InNetwork, Collection::Everything] {
            assert_eq!(operators(&within, collection)["base"][0][1], "pair samples at most 3.5 s apart");
        }
    }

    #[test]
    fn a_mote_is_silent_if_it_can_be_neither_of_a_pair() {
        let of = |conditions: &str| {
            let text = format!(
                "SELECT a.light, b.light FROM sensors a JOIN sensors b ON epoch WHERE {conditions} SAMPLE PERIOD 1 s"
            );
            operators(&text, Collection::InNetwork)["mote"].clone()
        };
        let both = of("a.node = 1 AND b.node = 2 AND a.light > 5");
        assert_eq!(both[1][1], "stay silent unless a.node = 1 and a.light > 5, or b.node = 2");
        // Any mote can be the other one.
        assert_eq!(of("a.node = 1")[1][1], "send the selected columns");
    }

    #[test]
    fn columns_of_a_table_have_their_names() {
        let columns = |name: &str| (name == "rooms").then(|| vec!["room".to_owned(), "floor".to_owned()]);
        let text =
            "SELECT count(*) FROM sensors JOIN rooms ON node WHERE floor > 1 GROUP BY room SAMPLE PERIOD 1 s";
        let query = Query::parse(text, &columns).expect("a query");
        let mote = &describe(text, &query, Collection::InNetwork)["operators"]["mote"];
        let steps: Vec<&str> =
            mote.as_array().expect("operators").iter().filter_map(|one| one[1].as_str()).collect();
        let expected = [
            "begin an epoch every 1 s",
            "join the own row of the table rooms",
            "stay silent unless floor > 1",
            "begin a partial aggregate by room",
        ];
        assert_eq!(steps, expected);
    }
}
