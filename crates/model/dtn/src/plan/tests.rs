use super::*;

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

const START: f64 = 1_767_225_600.0;

#[test]
fn a_plan_in_the_form_of_ion() {
    let text = "1 1 \"\"\n^ 1\nm horizon +0\n# Earth and its orbiter\n@ +100\na contact +0 +3600 1 2 100000 0.9 # pass\n\
        @ +50\na contact +0 +60.5 2 1 8000\na range +0 +3600 1 2 324\na contact 2026/01/01-01:00:00 2026/01/01-02:00:00.500 1 3 10\ns\n";
    let plan = Plan::parse(text, START).unwrap();
    let [first, second, third] = plan.contacts[..] else { panic!("{plan:?}") };
    assert_eq!((first.from, first.to, first.start, first.end), (1, 2, at(100.0), at(3700.0)));
    assert_eq!((first.rate, first.confidence), (Rate::from_bps(800_000), 0.9));
    assert_eq!((second.start, second.end), (at(150.0), at(210.5)));
    assert_eq!(second.light_time, Some(Span::from_secs_f64(324.0)), "of the lower to the higher: both ways");
    assert_eq!((third.start, third.end, third.light_time), (at(3600.0), at(7200.5), None));
    assert_eq!(first.light_time, None, "before the range begins");
    assert_eq!(Plan::parse(&plan.to_ion(), START), Ok(plan));
}

#[test]
fn a_range_from_the_higher_number_is_one_way() {
    let text = "a contact +0 +9 1 2 5\na contact +0 +9 2 1 5\na range +0 +9 2 1 7\n";
    let plan = Plan::parse(text, 0.0).unwrap();
    let times: Vec<_> = plan.contacts.iter().map(|contact| contact.light_time).collect();
    assert_eq!(times, [None, Some(Span::from_secs_f64(7.0))]);
}

#[test]
fn a_plan_in_the_form_of_hdtn() {
    let text = r#"{"contacts": [{"contact": 0, "source": 1, "dest": 2, "startTime": 0, "endTime": 60,
        "rateBitsPerSec": 1000000, "owlt": 1}]}"#;
    let plan = Plan::parse(text, 0.0).unwrap();
    assert_eq!(plan.contacts[0].light_time, Some(Span::from_secs_f64(1.0)));
    assert_eq!(Plan::parse(&plan.to_hdtn().0, 0.0), Ok(plan.clone()));
    assert_eq!(Plan::parse(&plan.to_ion(), 0.0), Ok(plan));
}

#[test]
fn errors_name_the_line() {
    let cases = [
        ("\na contact +0 +0 1 2 5", 2, "end"),
        ("a contact +0 +9 1 1 5", 1, "two nodes"),
        ("a contact +0 +9 1 2", 1, "BYTES_PER_SECOND"),
        ("a contact +0 +9 1 2 5\na contact +5 +19 1 2 5", 2, "overlaps"),
        ("a contact 2026/13/01-00:00:00 +9 1 2 5", 1, "expected a time"),
        ("a contact 2026/02/30-00:00:00 +9 1 2 5", 1, "expected a time"),
        ("a contact +1e300 +1e301 1 2 5", 1, "expected a time"),
        ("a contact +0 +9 1 2 99999999999999999999", 1, "bytes per second"),
        ("^ 2", 1, "region"),
        ("x y", 1, "`a contact`"),
        ("{\"contacts\": [\n{}]}", 2, "missing field"),
    ];
    for (text, line, words) in cases {
        let error = Plan::parse(text, 0.0).unwrap_err();
        assert!(error.line == line && error.problem.contains(words), "{text}: {error}");
    }
    let fractions = r#"{"contacts": [{"contact": 3, "source": 1, "dest": 2, "startTime": 0.5, "endTime": 60, "rateBitsPerSec": 1}]}"#;
    assert!(Plan::parse(fractions, 0.0).unwrap_err().problem.contains("whole seconds"));
}

#[test]
fn capacity_is_rate_times_time() {
    let plan = Plan::parse("a contact +0 +10 1 2 100\na contact +20 +30.5 1 2 200\n", 0.0).unwrap();
    assert_eq!(plan.capacity(1, 2), 1000 + 2100);
    assert_eq!(plan.at(1, 2, at(10.0)), None);
    assert!(plan.at(1, 2, at(20.0)).is_some());
}

#[test]
fn fractions_are_rounded_within_the_contact_for_hdtn() {
    let text = "a contact +0.5 +10.7 1 2 100\na contact +20.2 +20.9 1 2 100\na contact +30 +40 2 3 100\n\
        a range +0 +50 1 2 0.3\na range +0 +50 2 3 1\n";
    let (written, rounded) = Plan::parse(text, 0.0).unwrap().to_hdtn();
    let plan = Plan::parse(&written, 0.0).unwrap();
    let times: Vec<_> = plan.contacts.iter().map(|contact| (contact.start, contact.end)).collect();
    assert_eq!((times, rounded), (vec![(at(1.0), at(10.0)), (at(30.0), at(40.0))], 2));
    assert_eq!(plan.contacts[0].light_time, Some(Span::from_secs(1)));
}

#[test]
fn errors_in_json_name_the_line_of_their_contact() {
    let contact = |number: u32, start: f64| {
        format!(
            "{{\"contact\": {number}, \"source\": 1, \"dest\": 2,\n\"startTime\": {start}, \"endTime\": 60, \"rateBitsPerSec\": 1}}"
        )
    };
    let text = format!("{{\"contacts\": [\n{},\n{}]}}", contact(0, 50.0), contact(1, 0.5));
    assert_eq!(Plan::parse(&text, 0.0).unwrap_err().line, 4);
    let text = format!("{{\"contacts\": [\n{},\n{}]}}", contact(0, 0.0), contact(1, 5.0));
    let error = Plan::parse(&text, 0.0).unwrap_err();
    assert!(error.line == 4 && error.problem.contains("overlaps"), "{error}");
}
