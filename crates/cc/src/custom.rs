//! Controllers that a program registers while it runs, such as classes in Python.
//!
//! A scenario names one by an identifier, which should change with the controller's source: the hash of a run covers it. No other
//! process knows it, so a file with such a controller is refused where it is not registered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Connection, Controller};

/// Registered controllers, by identifier. They stay for as long as the process: a scenario may name one at any time.
static REGISTERED: RwLock<BTreeMap<&'static str, &'static Entry>> = RwLock::new(BTreeMap::new());

type Build = dyn Fn(&Connection) -> Box<dyn Controller> + Send + Sync;

struct Entry {
    id: String,
    build: Box<Build>,
}

/// Identifier of a registered controller.
#[derive(Clone, Copy)]
pub struct Id(&'static Entry);

/// Parameters of a registered controller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Identifier under which the program registered it.
    #[schemars(with = "String")]
    pub id: Id,
}

impl Params {
    /// Returns a controller of one connection.
    pub fn build(&self, connection: &Connection) -> Box<dyn Controller> {
        (self.id.0.build)(connection)
    }
}

/// Registers a controller under an identifier. If there is one of this identifier, it stays and `build` is dropped.
///
/// A registered controller is never freed.
pub fn register(
    id: &str,
    build: impl Fn(&Connection) -> Box<dyn Controller> + Send + Sync + 'static,
) -> Params {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = registered.get(id) {
        return Params { id: Id(entry) };
    }
    let entry: &'static Entry = Box::leak(Box::new(Entry { id: id.to_owned(), build: Box::new(build) }));
    registered.insert(&entry.id, entry);
    Params { id: Id(entry) }
}

/// Returns the first registered identifier that occurs in `text`, if one does. What names one cannot leave the process.
pub fn named_in(text: &str) -> Option<&'static str> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    registered.keys().copied().find(|id| text.contains(id))
}

impl Id {
    /// Returns the identifier.
    pub fn as_str(self) -> &'static str {
        &self.0.id
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        let id = String::deserialize(deserializer)?;
        let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
        registered.get(id.as_str()).map(|entry| Id(entry)).ok_or_else(|| {
            // The text may be hostile: an error shows at most a line of it.
            let id: String = id.chars().take(60).collect();
            serde::de::Error::custom(format!(
                "no controller \"{id}\" is registered in this process; such controllers are written in Python and run by the process that \
                 registered them: see docs/python.md"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ControllerConfig, cubic};

    const CONNECTION: Connection = Connection {
        smss: 1000,
        initial_window_segments: 3,
        initial_ssthresh: u64::MAX,
        max_window: 1 << 20,
    };

    #[test]
    fn a_registered_controller_is_written_read_and_built() {
        let build = |connection: &Connection| -> Box<dyn Controller> {
            Box::new(cubic::Params::default().build(connection))
        };
        let choice = ControllerConfig::Custom(register("tests@1", build));
        assert_eq!(choice, ControllerConfig::Custom(register("tests@1", build)));
        let text = serde_json::to_string(&choice).unwrap();
        assert_eq!(text, r#"{"name":"custom","id":"tests@1"}"#);
        assert_eq!(serde_json::from_str::<ControllerConfig>(&text).unwrap(), choice);
        assert_eq!((choice.name(), choice.build(&CONNECTION).window()), ("custom", 3000));
        assert_eq!(named_in("controller = \"tests@1\""), Some("tests@1"));
        assert_eq!(named_in("controller = \"cubic\""), None);
    }

    #[test]
    fn other_processes_refuse_it() {
        let read = |text: &str| serde_json::from_str::<ControllerConfig>(text).unwrap_err().to_string();
        let error = read(r#"{"name":"custom","id":"elsewhere@2"}"#);
        assert!(error.contains("no controller \"elsewhere@2\" is registered"), "{error}");
        assert!(read(r#"{"name":"custom"}"#).contains("id"));
        assert!(read("\"custom\"").contains("{ name = \"custom\", id = ... }"));
    }
}
