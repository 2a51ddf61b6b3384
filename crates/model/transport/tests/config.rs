//! Configurations in the form of scenario files: read, refused, described.

use bentpipe_transport::app::{Header, Pattern, SourceConfig};
use bentpipe_units::{Bytes, Span};
use serde_json::{Value, from_value, json};

#[test]
fn sources_are_read_and_unknown_keys_refused() {
    let voice =
        json!({ "pattern": { "kind": "constant", "interval": "20 ms" }, "payload": "45 B", "header": "rtp" });
    let expected = SourceConfig {
        header: Header::Rtp,
        ..SourceConfig::new(Pattern::Constant { interval: Span::from_millis(20) }, Bytes::new(45))
    };
    assert_eq!(from_value::<SourceConfig>(voice).expect("a source"), expected);
    let source =
        from_value::<SourceConfig>(json!({ "pattern": { "kind": "constant" }, "payload": "45 B" })).map(drop);
    assert!(source.expect_err("refused").to_string().contains("interval"));
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
    let mut found = Vec::new();
    undescribed(schemars::schema_for!(SourceConfig).as_value(), "", &mut found);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn an_end_of_a_tcp_connection_is_read() {
    use bentpipe_transport::tcp::{Bulk, Config, LinuxBuffer, ReceiveBuffer, Sink, Source, WindowValidation};
    let read: Config = from_value(json!({
        "controller": "cubic", "initial_window": 2, "frto": true, "window_validation": "validate",
        "receive_buffer": { "rcvbuf": "6 MB" },
        "rto": { "min": "200 ms", "floor": "variation", "max": "120 s" },
    }))
    .expect("an end");
    let linux = LinuxBuffer { rcvbuf: Bytes::new(6_000_000), ..LinuxBuffer::default() };
    assert_eq!((read.initial_window, read.window_validation), (2, WindowValidation::Validate));
    assert_eq!(read.receive_buffer, ReceiveBuffer::Linux(linux));
    read.check().expect("possible");
    let written = serde_json::to_value(&read).expect("writes");
    assert_eq!(from_value::<Config>(written).expect("reads back"), read);
    assert_eq!(from_value::<Config>(json!({})).expect("all default"), Config::default());
    let bulk = from_value::<Source>(json!({ "kind": "bulk", "size": "1 MB" })).expect("a source");
    assert_eq!(bulk, Source::Bulk(Bulk { size: Some(Bytes::new(1_000_000)), duration: None }));
    assert_eq!(from_value::<Sink>(json!("at-once")).expect("a sink"), Sink::AtOnce);
    assert!(from_value::<Config>(json!({ "initial-window": 2 })).is_err());
}
