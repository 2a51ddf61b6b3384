//! Quantities in files: always a string with its unit, never a bare number.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Bytes, Rate, Span};

macro_rules! quantity {
    ($type:ty, $name:literal, $description:literal, $pattern:literal, $examples:tt) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!($description, ", as a string with its unit"))
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                // "x-quantity" is for readers of the schema that know these types: an error or a form can say more.
                json_schema!({
                    "type": "string", "x-quantity": $name, "pattern": $pattern, "examples": $examples
                })
            }
        }
    };
}

quantity!(
    Span,
    "Span",
    "a time such as \"270 ms\"",
    r"^\s*[0-9][0-9._eE+-]*\s*(ns|us|µs|ms|s|min|h|d)\s*$",
    ["270 ms", "1.5 s"]
);
quantity!(
    Rate,
    "Rate",
    "a rate such as \"155.52 Mbit/s\"",
    r"^\s*[0-9][0-9._eE+-]*\s*[kMG]?bit/s\s*$",
    ["155.52 Mbit/s"]
);
quantity!(
    Bytes,
    "Bytes",
    "a size such as \"6 MB\"",
    r"^\s*[0-9][0-9._eE+-]*\s*([kMG]?B|[kKMG]iB)\s*$",
    ["1500 B", "6 MB", "64 KiB"]
);
