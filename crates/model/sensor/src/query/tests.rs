use super::*;

fn tables(name: &str) -> Option<Vec<String>> {
    (name == "rooms").then(|| vec!["room".to_owned(), "floor".to_owned()])
}

fn parse(text: &str) -> Query {
    Query::parse(text, &tables).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    Query::parse(text, &tables).expect_err("refused").to_string()
}

#[test]
fn a_selection_with_all_its_parts() {
    let query = parse(
        "select light, node from sensors where light > 200 and temperature <= -5.5 sample period 100 ms for 1 h",
    );
    assert_eq!(query.items, [Item::Column(Column::Sensor(Sensor::Light)), Item::Column(Column::Node)]);
    assert_eq!(query.conditions.len(), 2);
    assert!(query.conditions[1].holds(-5.5) && !query.conditions[1].holds(-5.0));
    assert_eq!((query.period, query.duration), (Span::from_millis(100), Some(Span::from_secs(3600))));
    assert_eq!((query.epochs(), query.is_aggregate()), (36_000, false));
    assert_eq!(query.inputs(), [Column::Sensor(Sensor::Light), Column::Sensor(Sensor::Temperature)]);
}

#[test]
fn aggregates_groups_and_tables() {
    let query = parse(
        "SELECT room, AVG(light), COUNT(*), HISTOGRAM(sound, 20, 80, 6) FROM sensors JOIN rooms ON node GROUP BY room SAMPLE PERIOD 30s",
    );
    assert_eq!(query.items[0], Item::Column(Column::Joined(0)));
    assert_eq!(query.items[1], Item::Aggregate(Function::Avg, Column::Sensor(Sensor::Light)));
    assert_eq!(query.table.as_deref(), Some("rooms"));
    assert_eq!(query.group.expect("a group").key(3.0), 3.0);
    assert_eq!(query.epochs(), u32::MAX);
    let by_ten = parse("SELECT min(sound) FROM sensors GROUP BY temperature / 10 SAMPLE PERIOD 2 s");
    assert_eq!(by_ten.group.expect("a group").key(-3.0), -1.0);
}

#[test]
fn a_join_of_motes_has_conditions_of_each_and_between_both() {
    let query = parse(
        "SELECT a.light, b.node FROM sensors a JOIN sensors b ON epoch WHERE a.node = 1 AND a.light > b.light SAMPLE PERIOD 1 s",
    );
    assert!(query.is_pair() && query.table.is_none());
    let light = Input::Sensor(Sensor::Light);
    assert_eq!(
        query.items,
        [Item::Column(Column::Of(Side::Left, light)), Item::Column(Column::Of(Side::Right, Input::Node))]
    );
    assert_eq!(query.conditions[0].column, Column::Of(Side::Left, Input::Node));
    let between = Match {
        left: Column::Of(Side::Left, light),
        comparison: Comparison::Above,
        right: Column::Of(Side::Right, light),
    };
    assert_eq!(query.matches, [between]);
    assert_eq!(query.inputs(), [Column::Sensor(Sensor::Light)]);
}

#[test]
fn errors_have_place_and_reason() {
    let table = [
        ("SELECT lihgt FROM sensors SAMPLE PERIOD 1 s", "column 8: expected a column (node, epoch, light"),
        ("SELECT light FROM motes SAMPLE PERIOD 1 s", "column 19: expected sensors, got \"motes\""),
        ("SELECT light FROM sensors", "column 26: expected SAMPLE, got the end"),
        ("SELECT light FROM sensors WHERE light 3 SAMPLE PERIOD 1 s", "column 39: expected a comparison"),
        ("SELECT light FROM sensors SAMPLE PERIOD 1 parsec", "column 43: expected a unit of time"),
        ("SELECT light FROM sensors SAMPLE PERIOD 1 ms", "column 41: expected a period of 10 ms to"),
        ("SELECT light FROM sensors SAMPLE PERIOD 2 s FOR 1 s", "column 49: expected a time of at least"),
        (
            "SELECT light, avg(light) FROM sensors SAMPLE PERIOD 1 s",
            "column 8: a column next to an aggregate",
        ),
        (
            "SELECT light FROM sensors GROUP BY node SAMPLE PERIOD 1 s",
            "column 27: GROUP BY without an aggregate",
        ),
        (
            "SELECT median(light) FROM sensors SAMPLE PERIOD 1 s",
            "column 8: expected avg, min, max, sum, count",
        ),
        (
            "SELECT histogram(light, 5, 5, 2) FROM sensors SAMPLE PERIOD 1 s",
            "column 28: expected a number above 5",
        ),
        (
            "SELECT histogram(light, 0, 5, 99) FROM sensors SAMPLE PERIOD 1 s",
            "column 31: expected 1 to 32 buckets",
        ),
        (
            "SELECT light FROM sensors JOIN flats ON node SAMPLE PERIOD 1 s",
            "column 32: no table is called \"flats\"",
        ),
        ("SELECT light FROM sensors SAMPLE PERIOD 1 s; DROP", "column 44: unexpected character ';'"),
        ("SELECT light FROM sensors SAMPLE PERIOD 1 s please", "column 45: expected the end of the query"),
        (
            "SELECT max(light) FROM sensors GROUP BY node / 0 SAMPLE PERIOD 1 s",
            "column 48: expected a number above zero",
        ),
        (
            "SELECT light FROM sensors WHERE light > 1.2.3 SAMPLE PERIOD 1 s",
            "column 41: \"1.2.3\" is not a number",
        ),
        (
            "SELECT a.light FROM sensors a JOIN sensors a ON epoch SAMPLE PERIOD 1 s",
            "column 44: expected another name",
        ),
        (
            "SELECT c.light FROM sensors a JOIN sensors b ON epoch SAMPLE PERIOD 1 s",
            "column 8: expected a column of \"a\" or \"b\"",
        ),
        (
            "SELECT a.light FROM sensors a JOIN sensors b ON epoch GROUP BY a.node SAMPLE PERIOD 1 s",
            "column 55: expected SAMPLE, as pairs",
        ),
        (
            "SELECT a.light FROM sensors a JOIN sensors b AFTER 1 s SAMPLE PERIOD 1 s",
            "column 46: expected ON epoch or WITHIN and a time, got \"after\"",
        ),
        (
            "SELECT a.light FROM sensors a JOIN sensors b WITHIN 17 s SAMPLE PERIOD 1 s",
            "column 53: expected a window of one to 16 sample periods, 1 s to 16 s, got 17 s",
        ),
        (
            "SELECT a.light FROM sensors a JOIN sensors b WITHIN 500 ms SAMPLE PERIOD 1 s",
            "column 53: expected a window of one to 16 sample periods",
        ),
        (
            "SELECT node FROM sensors SAMPLE PERIOD 30 s FOR 99999999999 h",
            "column 49: expected a time up to 213503 d, got 100000000000 h",
        ),
        ("", "column 1: expected SELECT, got the end"),
    ];
    for (text, expected) in table {
        let found = refused(text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    assert!(refused(&"x".repeat(500)).starts_with("column 401: expected at most 400 bytes"));
}

#[test]
fn conditions_are_ordered_by_cost_and_selectivity() {
    let query = parse(
        "SELECT node FROM sensors WHERE magnetism > 30 AND light < 900 AND light > 500 AND temperature > -90 SAMPLE PERIOD 1 s",
    );
    let order: Vec<(Column, Comparison)> =
        query.plan().iter().map(|condition| (condition.column, condition.comparison)).collect();
    // By rank: light > 500 is 0.5 / 0.5 = 1 µJ, temperature 0.1 / 0.077 = 1.3 µJ, magnetism 540 µJ. After the first
    // condition on light the other one costs nothing.
    let expected = [
        (Column::Sensor(Sensor::Light), Comparison::Above),
        (Column::Sensor(Sensor::Light), Comparison::Below),
        (Column::Sensor(Sensor::Temperature), Comparison::Above),
        (Column::Sensor(Sensor::Magnetism), Comparison::Above),
    ];
    assert_eq!(order, expected);
}
