//! Choice of a congestion controller and its parameters, as in a scenario file.

use std::fmt;
use std::str::FromStr;

use crate::{Connection, Controller, Exit, bbr, cubic, custom, fixed, hybla, new_reno, vegas, westwood};

/// Description of controllers that a program registers.
macro_rules! custom_line {
    () => {
        "a class in Python, for trying ideas; each call takes some 2 µs, a built-in controller's 20 ns"
    };
}

/// Declares the variants of [`ControllerConfig`] once, with all that names, builds, reads and writes them.
macro_rules! choices {
    ($($variant:ident, $module:ident, $name:literal, $line:literal;)*) => {
        /// Name and one-line description of every controller.
        pub const NAMES: &[(&str, &str)] = &[$(($name, $line)),*];

        /// A controller and its parameters. In files a name (`"cubic"`), or a table with the name and what differs
        /// from the defaults (`{ name = "cubic", fast_convergence = false }`).
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
        #[serde(tag = "name")]
        pub enum ControllerConfig {
            $(#[doc = $line] #[serde(rename = $name)] $variant($module::Params),)*
            #[doc = custom_line!()] #[serde(rename = "custom")] Custom(custom::Params),
        }

        /// The table form.
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        #[serde(tag = "name")]
        enum Table {
            $(#[doc = $line] #[serde(rename = $name)] $variant($module::Params),)*
            #[doc = custom_line!()] #[serde(rename = "custom")] Custom(custom::Params),
        }

        impl From<Table> for ControllerConfig {
            fn from(table: Table) -> ControllerConfig {
                match table {
                    $(Table::$variant(params) => ControllerConfig::$variant(params),)*
                    Table::Custom(params) => ControllerConfig::Custom(params),
                }
            }
        }

        impl ControllerConfig {
            /// Returns the controller of one connection.
            pub fn build(&self, connection: &Connection) -> Box<dyn Controller> {
                match self {
                    $(ControllerConfig::$variant(params) => Box::new(params.build(connection)),)*
                    ControllerConfig::Custom(params) => params.build(connection),
                }
            }

            /// Returns the name as in [`NAMES`]; "custom" for one that a program registered.
            pub fn name(&self) -> &'static str {
                match self {
                    $(ControllerConfig::$variant(_) => $name,)*
                    ControllerConfig::Custom(_) => "custom",
                }
            }
        }

        impl FromStr for ControllerConfig {
            type Err = UnknownName;

            /// Returns the controller of that name with its defaults.
            fn from_str(name: &str) -> Result<ControllerConfig, UnknownName> {
                match name {
                    $($name => Ok(ControllerConfig::$variant($module::Params::default())),)*
                    // The text may be hostile: an error shows at most a line of it.
                    _ => Err(UnknownName(name.chars().take(60).collect())),
                }
            }
        }
    };
}

choices! {
    NewReno, new_reno, "newreno", "the standard law (RFC 5681): one segment more in a round trip, half after a loss";
    Westwood, westwood, "westwood+", "New Reno's growth; after a loss the measured bandwidth-delay product (2004)";
    Hybla, hybla, "hybla", "the growth of a 25 ms path on a long one (Caini & Firrincieli 2004)";
    Cubic, cubic, "cubic", "a cubic function of the time since the last loss (RFC 8312)";
    Vegas, vegas, "vegas", "keeps two to four segments queued, estimated from delay (Brakmo & Peterson 1995)";
    Bbr, bbr, "bbr", "paces at the measured rate, ignores loss (BBR version 1, 2016)";
    Fixed, fixed, "fixed", "sends at a given rate, for capacity that is known and not shared (RFC 3135)";
}

impl ControllerConfig {
    /// Returns `true` if delays end its slow start: those of Vegas, or HyStart's.
    pub fn ends_slow_start_by_delays(&self) -> bool {
        let exit = match self {
            ControllerConfig::Vegas(_) => return true,
            ControllerConfig::NewReno(params) => params.slow_start_exit,
            ControllerConfig::Westwood(params) => params.slow_start_exit,
            ControllerConfig::Hybla(params) => params.slow_start_exit,
            ControllerConfig::Cubic(params) => params.slow_start_exit,
            ControllerConfig::Bbr(_) | ControllerConfig::Fixed(_) | ControllerConfig::Custom(_) => {
                return false;
            }
        };
        exit == Exit::Hystart
    }
}

impl Default for ControllerConfig {
    /// Returns New Reno.
    fn default() -> ControllerConfig {
        ControllerConfig::NewReno(new_reno::Params::default())
    }
}

/// A name that is not in [`NAMES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == "custom" {
            return f
                .write_str("a registered controller needs its identifier: { name = \"custom\", id = ... }");
        }
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        write!(f, "unknown congestion controller \"{}\": expected one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownName {}

mod files {
    use std::borrow::Cow;
    use std::fmt;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde::de::value::MapAccessDeserializer;
    use serde::de::{Error, MapAccess, Visitor};
    use serde::{Deserialize, Deserializer};

    use super::{ControllerConfig, NAMES, Table};

    struct NameOrTable;

    impl<'de> Visitor<'de> for NameOrTable {
        type Value = ControllerConfig;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a congestion controller: its name, or a table with \"name\" and parameters")
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<ControllerConfig, E> {
            name.parse().map_err(E::custom)
        }

        fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<ControllerConfig, A::Error> {
            Table::deserialize(MapAccessDeserializer::new(table)).map(ControllerConfig::from)
        }
    }

    impl<'de> Deserialize<'de> for ControllerConfig {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ControllerConfig, D::Error> {
            deserializer.deserialize_any(NameOrTable)
        }
    }

    impl JsonSchema for ControllerConfig {
        fn schema_name() -> Cow<'static, str> {
            "CongestionController".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            let table = Table::json_schema(generator);
            json_schema!({
                "description": "A congestion controller: its name, or a table with the name and what differs from its defaults.",
                "anyOf": [{ "type": "string", "enum": names }, table],
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_build_what_they_say() {
        let connection = Connection {
            smss: 1448,
            initial_window_segments: 3,
            initial_ssthresh: u64::MAX,
            max_window: 1 << 30,
        };
        for (name, _) in NAMES {
            let choice: ControllerConfig = name.parse().unwrap();
            assert_eq!(choice.name(), *name);
            let controller = choice.build(&connection);
            // A fixed rate is bounded by buffers alone.
            let window = if *name == "fixed" { 1 << 30 } else { 3 * 1448 };
            assert_eq!((controller.name(), controller.window()), (*name, window));
            assert_eq!(controller.state().ssthresh, u64::MAX);
        }
        let error = "cubik".parse::<ControllerConfig>().unwrap_err().to_string();
        assert!(error.contains("\"cubik\"") && error.contains("westwood+, hybla, cubic"), "{error}");
    }

    #[test]
    fn files_name_a_controller_or_give_its_parameters() {
        let read = |text: &str| serde_json::from_str::<ControllerConfig>(text).map_err(|e| e.to_string());
        assert_eq!(read("\"cubic\""), Ok(ControllerConfig::Cubic(cubic::Params::default())));
        let params = cubic::Params { fast_convergence: false, ..Default::default() };
        assert_eq!(read(r#"{"name":"cubic","fast_convergence":false}"#), Ok(ControllerConfig::Cubic(params)));
        let params = hybla::Params { slow_start_exit: crate::Exit::Hoe, ..Default::default() };
        assert_eq!(
            read(r#"{"name":"hybla","slow_start_exit":"hoe","rtt0":"25 ms"}"#),
            Ok(ControllerConfig::Hybla(params))
        );
        assert!(read(r#"{"name":"cubic","betta":0.5}"#).unwrap_err().contains("unknown field `betta`"));
        assert!(read(r#"{"beta":0.5}"#).unwrap_err().contains("name"));
        assert!(read("\"bic\"").unwrap_err().contains("expected one of"));
        assert!(read("3").unwrap_err().contains("a congestion controller"));
    }

    #[test]
    fn every_choice_is_written_and_read_back() {
        for (name, _) in NAMES {
            let choice: ControllerConfig = name.parse().unwrap();
            let text = serde_json::to_string(&choice).unwrap();
            assert_eq!(serde_json::from_str::<ControllerConfig>(&text).unwrap(), choice, "{text}");
        }
        let schema = serde_json::to_string(&schemars::schema_for!(ControllerConfig)).unwrap();
        assert!(schema.contains("fast_convergence") && schema.contains("\"westwood+\""), "{schema}");
    }
}
