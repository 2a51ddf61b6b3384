//! Configurations in the form of scenario files: read, refused, described.

use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::{Framing, channel, link, shaper};
use bentpipe_units::{Bytes, Rate, Span};
use serde_json::{Value, from_value, json};

#[test]
fn a_link_is_read_with_its_defaults() {
    let read: link::Config = from_value(json!({
        "rate": "155.52 Mbit/s", "delay": "270 ms", "mtu": "9180 B",
        "framing": { "kind": "aal5-llc-snap", "sdh": true },
        "queue": { "kind": "drop-tail", "packets": 1000 },
    }))
    .expect("a link");
    let expected = link::Config {
        rate: Some(Rate::from_bps(155_520_000)),
        delay: Span::from_millis(270),
        mtu: Some(Bytes::new(9180)),
        framing: Framing::Aal5LlcSnap { sdh: true },
        queue: Discipline::DropTail(DropTailConfig { packets: Some(1000), bytes: None }),
        delay_changes: Vec::new(),
    };
    assert_eq!(read, expected);
    assert_eq!(from_value::<link::Config>(json!({})).expect("all default"), link::Config::default());
    let written = serde_json::to_value(&read).expect("writes");
    assert_eq!(from_value::<link::Config>(written).expect("reads back"), read);
}

#[test]
fn red_shapers_and_channels_are_read() {
    let red = json!({ "kind": "red", "min": "7500 B", "max": "22500 B", "limit": "60 kB", "rounding": "tc" });
    from_value::<Discipline>(red).expect("a queue").build().expect("possible");
    let tbf = json!({ "rate": "100 Mbit/s", "burst": "125 kB", "limit": "6 MB" });
    from_value::<shaper::Config>(tbf).expect("a shaper");
    let bursts = json!({ "kind": "gilbert-elliott", "p": 0.01, "r": 0.2 });
    let expected = channel::Config::GilbertElliott { p: 0.01, r: 0.2, loss_good: 0.0, loss_bad: 1.0 };
    assert_eq!(from_value::<channel::Config>(bursts).expect("a channel"), expected);
    let jitter = json!({ "kind": "jitter", "law": { "kind": "uniform", "max": "5 ms" } });
    from_value::<channel::Config>(jitter).expect("a channel");
}

#[test]
fn unknown_keys_are_refused() {
    let refused = |error: Result<(), serde_json::Error>| error.expect_err("refused").to_string();
    let link = from_value::<link::Config>(json!({ "dealy": "1 ms" })).map(drop);
    assert!(refused(link).contains("dealy"));
    let queue = from_value::<Discipline>(json!({ "kind": "drop-tail", "size": 3 })).map(drop);
    assert!(refused(queue).contains("size"));
    let channel = from_value::<channel::Config>(json!({ "kind": "packet-errors", "los": 0.1 })).map(drop);
    assert!(refused(channel).contains("los"));
}

/// Every property in a schema that has no description.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    let Value::Object(object) = schema else {
        if let Value::Array(items) = schema {
            items.iter().for_each(|item| undescribed(item, path, found));
        }
        return;
    };
    if let Some(Value::Object(properties)) = object.get("properties") {
        for (name, property) in properties {
            if property.get("description").is_none() && property.get("const").is_none() {
                found.push(format!("{path}/{name}"));
            }
        }
    }
    object.iter().for_each(|(key, value)| undescribed(value, &format!("{path}/{key}"), found));
}

#[test]
fn every_field_is_described() {
    let schemas = [
        schemars::schema_for!(link::Config),
        schemars::schema_for!(shaper::Config),
        schemars::schema_for!(channel::Config),
    ];
    let mut found = Vec::new();
    schemas.iter().for_each(|schema| undescribed(schema.as_value(), "", &mut found));
    assert!(found.is_empty(), "{found:?}");
}
