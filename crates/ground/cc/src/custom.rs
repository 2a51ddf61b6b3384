//! Controllers that a program registers while it runs, such as classes in Python.
//!
//! A scenario names one by an identifier, which should change with the controller's source: the hash of a run covers it. No other
//! process knows it, so a file with such a controller is refused where it is not registered.

use bentpipe_units::{Id, Registered, Registry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Connection, Controller};

type Make = dyn Fn(&Connection) -> Box<dyn Controller> + Send + Sync;

/// Maker of the controller of each connection.
pub struct Maker(Box<Make>);

impl Registered for Maker {
    const WORD: &str = "controller";

    fn registry() -> &'static Registry<Maker> {
        static REGISTERED: Registry<Maker> = Registry::new();
        &REGISTERED
    }
}

/// Parameters of a registered controller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Identifier under which the program registered it.
    #[schemars(with = "String")]
    pub id: Id<Maker>,
}

impl Params {
    /// Returns a controller of one connection.
    pub fn build(&self, connection: &Connection) -> Box<dyn Controller> {
        (self.id.value().0)(connection)
    }
}

/// Registers a controller under an identifier: see [`Registry::register`].
pub fn register(
    id: &str,
    build: impl Fn(&Connection) -> Box<dyn Controller> + Send + Sync + 'static,
) -> Params {
    Params { id: Maker::registry().register(id, Maker(Box::new(build))) }
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
        let named_in = |text| Maker::registry().named_in(text);
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
