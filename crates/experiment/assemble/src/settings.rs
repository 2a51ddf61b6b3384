//! Settings of a running scenario: those of a link apply to both directions.

use bentpipe_scenario::{Document, ScenarioError};
use serde_json::Value;

use crate::checked;

/// Settings made in a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Keys and values in the order in which they were made, those of directions included.
    pub made: Vec<(String, String)>,
    /// Notes on directions whose own value was replaced.
    pub notes: Vec<String>,
}

/// Refusal of a setting, with its key and value.
#[derive(Debug)]
pub struct Refused {
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
    /// Reason.
    pub refusal: ScenarioError,
}

/// Sets keys of a scenario. A key of a link replaces the values that its directions have of their own.
///
/// A direction that the same settings name keeps what they say of it.
///
/// # Errors
/// Returns the setting that is refused. The document may have others by then.
pub fn set_all(document: &mut Document, settings: &[(&str, &str)]) -> Result<Settings, Refused> {
    let before = checked(document).ok().and_then(|scenario| serde_json::to_value(scenario).ok());
    let mut done = Settings::default();
    for &(key, value) in settings {
        set(document, key, value)?;
        done.made.push((key.to_owned(), value.to_owned()));
        for own in before.iter().flat_map(|before| own_values(before, key)) {
            if settings.iter().any(|(other, _)| are_nested(other, &own.key)) {
                continue;
            }
            match own.is_whole {
                true => document.unset(&own.key),
                false => set(document, &own.key, value)?,
            }
            done.notes.push(format!("{} follows the link; its own value was {}", own.key, own.value));
            done.made.push((own.key, value.to_owned()));
        }
    }
    Ok(done)
}

fn set(document: &mut Document, key: &str, value: &str) -> Result<(), Refused> {
    let set = document.set(&format!("{key}={value}"));
    set.map_err(|refusal| Refused { key: key.to_owned(), value: value.to_owned(), refusal })
}

/// Returns `true` if one key is the other or a part of it.
fn are_nested(one: &str, two: &str) -> bool {
    let is_in = |part: &str, whole: &str| {
        part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    is_in(one, two) || is_in(two, one)
}

/// Value that a direction has of its own.
struct OwnValue {
    key: String,
    value: Value,
    /// Set unless the key is a part of the value.
    is_whole: bool,
}

/// Returns the values that directions have of their own for a link's key.
fn own_values(scenario: &Value, key: &str) -> Vec<OwnValue> {
    let parts: Vec<&str> = key.split('.').map(str::trim).collect();
    let ["link", name, first, rest @ ..] = &parts[..] else { return Vec::new() };
    if ["forward", "return"].contains(first) {
        return Vec::new();
    }
    let of = |direction: &&str| {
        let own = scenario["link"][*name][*direction].get(*first).filter(|value| !value.is_null())?;
        let value = rest.iter().try_fold(own, |value, part| value.get(*part)).cloned().unwrap_or_default();
        let tail = parts[2..].join(".");
        let key = format!("link.{name}.{direction}.{tail}");
        Some(OwnValue { key, value, is_whole: rest.is_empty() })
    };
    ["forward", "return"].iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn own_values_of_directions_are_found() {
        let scenario = json!({ "link": {
            "sat": { "channel": "none", "forward": { "channel": { "kind": "packet-errors", "loss": 0.1 } } },
            "lan": { "return": { "delay": null } },
        } });
        let found = |key: &str| {
            let own = own_values(&scenario, key).into_iter();
            own.map(|own| (own.key, own.value.to_string(), own.is_whole)).collect::<Vec<_>>()
        };
        let whole = r#"{"kind":"packet-errors","loss":0.1}"#.to_owned();
        assert_eq!(found("link.sat.channel"), [("link.sat.forward.channel".to_owned(), whole, true)]);
        let part = ("link.sat.forward.channel.loss".to_owned(), "0.1".to_owned(), false);
        assert_eq!(found("link.sat.channel.loss"), [part]);
        for key in ["link.sat.forward.channel", "link.lan.delay", "link.sat", "flow.a.active"] {
            assert!(found(key).is_empty(), "{key}");
        }
    }

    #[test]
    fn a_setting_of_a_link_applies_to_both_directions() {
        let text = "title = \"t\"\nduration = \"1 s\"\nnode.a = {}\nnode.b = {}\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n\
                    queue = { kind = \"drop-tail\", packets = 9 }\n[link.l.forward]\ndelay = \"5 ms\"\nqueue = { kind = \"drop-tail\", packets = 7 }\n\
                    [link.l.return]\nrate = \"2 Mbit/s\"\n";
        let mut document = Document::parse("f.toml", text.as_bytes()).expect("TOML");
        let settings =
            [("link.l.delay", "20 ms"), ("link.l.queue.packets", "30"), ("link.l.return.rate", "3 Mbit/s")];
        let done = set_all(&mut document, &settings).expect("possible");
        assert_eq!(done.notes.len(), 2, "{:?}", done.notes);
        assert!(done.notes[0].starts_with("link.l.forward.delay follows the link; its own value was "));
        let scenario = checked(&document).expect("a scenario");
        let link = &serde_json::to_value(&scenario).expect("JSON")["link"]["l"];
        assert!(link["forward"]["delay"].is_null(), "{link}");
        assert_eq!(
            (&link["forward"]["queue"]["packets"], &link["queue"]["packets"]),
            (&json!(30), &json!(30))
        );
        // What the same settings say of a direction holds, in either order.
        let settings = [("link.l.return.rate", "4 Mbit/s"), ("link.l.rate", "9 Mbit/s")];
        let done = set_all(&mut document, &settings).expect("possible");
        assert!(done.notes.is_empty(), "{:?}", done.notes);
        let scenario = checked(&document).expect("a scenario");
        let link = &serde_json::to_value(&scenario).expect("JSON")["link"]["l"];
        assert!(!link["return"]["rate"].is_null() && link["return"]["rate"] != link["rate"], "{link}");
    }
}
