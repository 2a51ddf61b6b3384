use super::*;

fn shown(name: &str) -> String {
    let descriptions = describe(name).unwrap_or_else(|error| panic!("{error}"));
    descriptions.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_field_says_what_it_is() {
    for entry in index::entries() {
        assert!(!entry.about.is_empty(), "{} is not described", entry.title());
        for description in index::find(std::slice::from_ref(&entry), &entry.name) {
            for field in description.fields {
                assert!(!field.meaning.is_empty(), "{}.{} is not described", entry.at, field.key);
                assert!(!field.value.is_empty(), "{}.{} has no type", entry.at, field.key);
            }
        }
    }
}

/// Adds the keys of all tables in a schema that are chosen by the user, not by the word of a kind.
fn keys_of_schema(schema: &serde_json::Value, keys: &mut std::collections::BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(serde_json::Value::as_object) {
        keys.extend(
            properties.iter().filter(|(_, of)| of.get("const").is_none()).map(|(key, _)| key.clone()),
        );
    }
    match schema {
        serde_json::Value::Object(parts) => parts.values().for_each(|part| keys_of_schema(part, keys)),
        serde_json::Value::Array(parts) => parts.iter().for_each(|part| keys_of_schema(part, keys)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_schema_is_described() {
    let mut keys = std::collections::BTreeSet::new();
    keys_of_schema(schema(), &mut keys);
    let entries = index::entries();
    let known: std::collections::BTreeSet<&str> = entries.iter().flat_map(|entry| entry.keys()).collect();
    // What a sweep has is any key of the file.
    let missing: Vec<&String> = keys.iter().filter(|key| !known.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "not described: {missing:?}");
    assert!(shown("dvb-s2").starts_with("dvb.NAME = { kind = \"dvb-s2\" }"), "{}", shown("dvb-s2"));
    assert!(shown("dvb.NAME.input_streams").contains("\"single\" or \"multiple\""));
}

#[test]
fn sections_kinds_controllers_and_fields_are_found() {
    let link = shown("link");
    assert!(link.starts_with("link.NAME\n"), "{link}");
    assert!(
        link.contains(
            "  delay: time such as \"270 ms\"; optional; changeable\n      Propagation delay, one way."
        ),
        "{link}"
    );
    let queue = shown("drop-tail");
    assert!(queue.starts_with("link.NAME.queue = { kind = \"drop-tail\" }"), "{queue}");
    assert!(shown("cubic").contains("fast_convergence: true or false; default true"), "{}", shown("cubic"));
    let field = shown("send_buffer");
    assert!(
        field.starts_with("flow.NAME.traffic = { kind = \"tcp\" }\n")
            && field.contains("send_buffer: size such as"),
        "{field}"
    );
    assert_eq!(shown("flow.traffic.send_buffer"), field);
    let profiles = shown("link.forward.medium.rohc.profiles");
    assert!(profiles.contains("list of \"rtp\" or \"udp\" or ") && profiles.contains("\"v2\""), "{profiles}");
    let rules = shown("link.medium.filter");
    assert!(
        rules.contains("filter: list of table") && rules.contains("  cid: whole number from 0 to 16383"),
        "{rules}"
    );
    assert!(shown("points").contains("  at: time"), "{}", shown("points"));
    let buffer = shown("receive_buffer");
    assert!(
        buffer.contains("receive_buffer: size or table such as") && buffer.contains("rcvbuf: size"),
        "{buffer}"
    );
}

#[test]
fn unknown_names_get_the_nearest() {
    let error = |name: &str| describe(name).unwrap_err().to_string();
    assert_eq!(error("cubik"), "nothing is called \"cubik\": did you mean \"cubic\"?");
    assert_eq!(error("teapot"), "nothing is called \"teapot\"; `bentpipe list` shows what there is");
}

#[test]
fn the_list_names_elements_and_controllers() {
    let listing = listing(Vec::new(), Vec::new());
    assert!(listing.scenarios.is_empty() && listing.controllers.len() == bentpipe_cc::NAMES.len());
    let text = listing.to_string();
    assert!(text.starts_with("Elements\n") && text.contains("\n  ethernet (link.NAME.framing)"), "{text}");
}

#[test]
fn keys_that_may_change_are_marked_with_all_that_is_in_them() {
    let keys = changeable();
    for key in
        ["link.NAME.rate", "link.NAME.delay", "link.NAME.queue", "link.NAME.channel", "link.NAME.shaper"]
    {
        assert_eq!(keys.iter().filter(|one| *one == key).count(), 1, "{keys:?}");
    }
    for key in ["link.NAME.medium.packing", "atm.line.NAME.channel", "node.NAME.role.rules.mark"] {
        assert!(keys.iter().any(|one| one == key), "{key}: {keys:?}");
    }
    let is_fixed =
        |key: &&String| *key == "link.NAME.mtu" || (key.starts_with("flow") && *key != "flow.NAME.active");
    assert_eq!(keys.iter().find(is_fixed), None);
    assert!(
        shown("link.shaper").contains("burst: size such as \"1500 B\"; required; changeable"),
        "{}",
        shown("link.shaper")
    );
    assert!(shown("link").contains("mtu: size such as \"1500 B\"; optional\n"), "{}", shown("link"));
}

#[test]
fn an_older_spelling_says_the_present_one() {
    let said = |name: &str| describe(name).expect_err(name).to_string();
    assert_eq!(
        said("flow.tcp.mss"),
        "\"flow.tcp.mss\" is an older spelling of \"flow.traffic.mss\" with kind = \"tcp\": see `bentpipe describe tcp`"
    );
    assert!(said("flow.bulk.udp").contains("\"flow.bulk.traffic\" with kind = \"udp\""));
    assert!(said("link.sky.forward.dama.cra").contains("\"link.sky.forward.medium.cra\""));
    assert!(said("flow.tpc").starts_with("nothing is called"));
    for (table, kind) in [("flow", "tcp"), ("flow", "replay"), ("link", "wifi"), ("link", "vc")] {
        assert!(said(&format!("{table}.{kind}")).contains("is an older spelling"), "{table}.{kind}");
        assert!(describe(kind).is_ok(), "{kind}");
    }
}

#[test]
fn numbers_have_bounds_in_the_schema() {
    fn unbounded(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
        let Some(fields) = value.as_object() else {
            value.as_array().into_iter().flatten().for_each(|item| unbounded(item, found));
            return;
        };
        for (name, property) in fields.get("properties").and_then(|it| it.as_object()).into_iter().flatten() {
            let kind = &property["type"];
            let is_number =
                kind == "number" || kind.as_array().is_some_and(|all| all.iter().any(|it| it == "number"));
            let has_bound = ["minimum", "maximum"].iter().any(|bound| property.get(bound).is_some());
            if is_number && !has_bound {
                found.insert(name.clone());
            }
        }
        fields.values().for_each(|value| unbounded(value, found));
    }
    let mut found = std::collections::BTreeSet::new();
    unbounded(schema(), &mut found);
    assert!(found.is_empty(), "{found:?}");
}
