//! Validation of a file against the JSON Schema of the declarations, with exact places.
//!
//! serde alone would know the place only roughly: it buffers the content of tagged enums. Only the part of
//! JSON Schema that the declarations use is implemented here; serde decides last.

use bentpipe_units::{Bytes, Rate, Span};
use serde_json::Value as Json;

use super::error::{Diagnostic, Origin};
use super::suggest;
use super::tree::{Node, Table, Value};

/// A schema document: the schema of the root, and the definitions that others refer to.
pub(crate) struct Schema {
    root: Json,
}

impl Schema {
    /// Returns the schema of `T` for deserialisation.
    pub(crate) fn of<T: schemars::JsonSchema>() -> Schema {
        let generator = schemars::generate::SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let mut root: Json = generator.into_root_schema_for::<T>().into();
        let definitions = root.get_mut("$defs").and_then(Json::as_object_mut);
        definitions.into_iter().flatten().for_each(|(_, definition)| allow_shorthand(definition));
        Schema { root }
    }

    /// Returns the whole document.
    pub(crate) fn root(&self) -> &Json {
        &self.root
    }

    /// Returns the target of a schema's reference, or the schema itself.
    pub(crate) fn resolve<'a>(&'a self, schema: &'a Json) -> &'a Json {
        let target = schema.get("$ref").and_then(Json::as_str);
        match target.and_then(|target| self.root.pointer(target.trim_start_matches('#'))) {
            Some(target) => self.resolve(target),
            None => schema,
        }
    }

    /// Returns the alternatives of a choice, nested choices unfolded.
    ///
    /// `null` is left out, as TOML has none.
    pub(crate) fn alternatives<'a>(&'a self, schema: &'a Json) -> Vec<&'a Json> {
        let schema = self.resolve(schema);
        let choices = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Json::as_array);
        let Some(choices) = choices else { return vec![schema] };
        let present = choices.iter().filter(|choice| choice.get("type") != Some(&Json::from("null")));
        present.flat_map(|choice| self.alternatives(choice)).collect()
    }

    /// Returns a table's property, also one from a `$ref` next to the properties.
    pub(crate) fn property<'a>(&'a self, schema: &'a Json, key: &str) -> Option<&'a Json> {
        let own = schema.get("properties").and_then(|properties| properties.get(key));
        own.or_else(|| self.referenced(schema).and_then(|other| self.property(other, key)))
    }

    /// Returns all properties of a table, in the order of their declaration.
    pub(crate) fn properties<'a>(&'a self, schema: &'a Json) -> Vec<(&'a str, &'a Json)> {
        let own = schema.get("properties").and_then(Json::as_object);
        let mut all: Vec<_> = own.into_iter().flatten().map(|(key, schema)| (key.as_str(), schema)).collect();
        all.extend(self.referenced(schema).into_iter().flat_map(|other| self.properties(other)));
        all
    }

    /// Returns the schema that a `$ref` adds to other keywords.
    fn referenced<'a>(&'a self, schema: &'a Json) -> Option<&'a Json> {
        schema.get("$ref").map(|_| self.resolve(schema)).filter(|other| !std::ptr::eq(*other, schema))
    }

    /// Returns `true` if a table may have only declared properties.
    fn closed(&self, schema: &Json) -> bool {
        let is_false = |keyword| schema.get(keyword) == Some(&Json::Bool(false));
        let here = is_false("additionalProperties") || is_false("unevaluatedProperties");
        here || self.referenced(schema).is_some_and(|other| self.closed(other))
    }
}

/// Allows a word in place of a table that the word alone determines.
///
/// An example is `framing = "ethernet"` for `framing = { kind = "ethernet" }`.
fn allow_shorthand(definition: &mut Json) {
    let Some(choices) = definition.get_mut("oneOf").and_then(Json::as_array_mut) else { return };
    let Some(tag) = choices.first().and_then(tag).map(str::to_owned) else { return };
    let alone = choices.iter().filter(|choice| choice["required"] == serde_json::json!([tag]));
    let words: Vec<Json> = alone.map(|choice| choice["properties"][&tag]["const"].clone()).collect();
    if !words.is_empty() {
        choices.insert(0, serde_json::json!({ "type": "string", "enum": words, "x-shorthand": tag }));
    }
}

/// Findings of a check.
pub(crate) struct Findings {
    /// Errors.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Words in place of tables: the table's key, and the word's key in it.
    pub(crate) shorthands: Vec<(String, String)>,
}

/// Checks a file against the schema.
pub(crate) struct Checker<'a> {
    schema: &'a Schema,
    found: Findings,
}

impl<'a> Checker<'a> {
    /// Checks `tree` and returns the findings.
    pub(crate) fn check(schema: &'a Schema, tree: &Node) -> Findings {
        let found = Findings { diagnostics: Vec::new(), shorthands: Vec::new() };
        let mut checker = Checker { schema, found };
        checker.node(schema.root(), tree, "", &Origin::File(0..0));
        checker.found
    }

    /// Checks the keys of a part of a file, which may lack others.
    pub(crate) fn check_part(schema: &'a Schema, part: &Table) -> Findings {
        let found = Findings { diagnostics: Vec::new(), shorthands: Vec::new() };
        let mut checker = Checker { schema, found };
        for (key, origin, node) in part.iter() {
            let property = schema.property(schema.root(), key);
            property.into_iter().for_each(|property| checker.node(property, node, key, origin));
        }
        checker.found
    }

    fn report(&mut self, key: &str, origin: &Origin, problem: impl Into<String>) {
        self.found.diagnostics.push(Diagnostic {
            key: key.to_owned(),
            problem: problem.into(),
            origin: origin.clone(),
        });
    }

    /// Checks a node; `named` is the place of its key.
    fn node(&mut self, schema: &Json, node: &Node, key: &str, named: &Origin) {
        let alternatives = self.schema.alternatives(schema);
        match (&node.value, &alternatives[..]) {
            (_, [only]) => self.only(only, node, key, named),
            (Value::Table(table), choices) => self.tagged(choices, table, node, key, named),
            (Value::String(text), choices) => self.one_of_words(choices, text, node, key),
            (_, choices) => match choices.iter().find(|choice| accepts(choice, node)) {
                Some(choice) => self.only(choice, node, key, named),
                None => self.report(key, &node.origin, wrong_type(choices, node)),
            },
        }
    }

    /// Checks a node against a schema without alternatives.
    fn only(&mut self, schema: &Json, node: &Node, key: &str, named: &Origin) {
        if !accepts(schema, node) {
            return self.report(key, &node.origin, wrong_type(&[schema], node));
        }
        match &node.value {
            Value::Table(table) => self.table(schema, table, key, named),
            Value::Array(items) => self.array(schema, items, node, key),
            Value::String(text) => self.text(schema, text, node, key),
            Value::Integer(integer) => self.number(schema, *integer as f64, node, key),
            Value::Float(float) => self.number(schema, *float, node, key),
            Value::Boolean(_) | Value::Datetime => {}
        }
    }

    fn table(&mut self, schema: &Json, table: &Table, key: &str, named: &Origin) {
        let known: Vec<&str> = self.schema.properties(schema).into_iter().map(|(name, _)| name).collect();
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        for (name, origin, node) in table.iter() {
            let inner = join(key, name);
            match (self.schema.property(schema, name), others) {
                (Some(property), _) => self.node(property, node, &inner, origin),
                (None, Some(others)) => self.node(others, node, &inner, origin),
                (None, None) if self.schema.closed(schema) => {
                    self.report(&inner, origin, format!("unknown key: {}", instead(&inner, name, &known)));
                }
                (None, None) => {}
            }
        }
        let required = schema.get("required").and_then(Json::as_array);
        for name in required.into_iter().flatten().filter_map(Json::as_str) {
            if table.find(name).is_none() {
                let sort = self
                    .schema
                    .property(schema, name)
                    .map_or_else(String::new, |p| expected(&self.schema.alternatives(p)));
                self.report(key, named, format!("`{name}` is missing: expected {sort}"));
            }
        }
    }

    fn array(&mut self, schema: &Json, items: &[Node], node: &Node, key: &str) {
        let bound = |keyword| schema.get(keyword).and_then(Json::as_u64).map(|bound| bound as usize);
        let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap_or(usize::MAX));
        if items.len() < least || items.len() > most {
            let count = if least == most {
                format!("{least}")
            } else if items.len() < least {
                format!("at least {least}")
            } else {
                format!("at most {most}")
            };
            return self.report(key, &node.origin, format!("{} in the list: expected {count}", items.len()));
        }
        let prefix = schema.get("prefixItems").and_then(Json::as_array);
        for (n, item) in items.iter().enumerate() {
            let inner = prefix.and_then(|prefix| prefix.get(n)).or_else(|| schema.get("items"));
            if let Some(inner) = inner.filter(|inner| inner.is_object()) {
                self.node(inner, item, &join(key, &n.to_string()), &item.origin);
            }
        }
    }

    fn text(&mut self, schema: &Json, text: &str, node: &Node, key: &str) {
        let problem = match quantity(schema) {
            Some("Rate") => text.parse::<Rate>().err().map(|error| error.to_string()),
            Some("Span") => text.parse::<Span>().err().map(|error| error.to_string()),
            Some("Bytes") => text.parse::<Bytes>().err().map(|error| error.to_string()),
            _ => {
                let words = words_of(schema);
                (!words.is_empty() && !words.contains(&text)).then(|| unknown_word(text, &words))
            }
        };
        if let Some(problem) = problem {
            self.report(key, &node.origin, problem);
        }
    }

    fn number(&mut self, schema: &Json, number: f64, node: &Node, key: &str) {
        let choice = schema.get("enum").and_then(Json::as_array);
        if let Some(choice) = choice.filter(|choice| !choice.iter().any(|one| one.as_f64() == Some(number))) {
            let choice: Vec<String> = choice.iter().map(Json::to_string).collect();
            return self.report(key, &node.origin, format!("{number} is not one of {}", choice.join(", ")));
        }
        if !in_range(schema, number) {
            self.report(key, &node.origin, format!("{number} is out of range: expected {}", range(schema)));
        }
    }

    /// Checks a table against alternatives distinguished by a key with a fixed word.
    fn tagged(&mut self, choices: &[&Json], table: &Table, node: &Node, key: &str, named: &Origin) {
        let tables: Vec<&Json> = choices.iter().copied().filter(|choice| accepts(choice, node)).collect();
        if let [only] = tables[..] {
            return self.only(only, node, key, named);
        }
        let Some(tag) = tables.first().and_then(|table| tag(table)) else {
            return self.report(key, &node.origin, wrong_type(choices, node));
        };
        let word =
            |choice: &&Json| choice["properties"][tag]["const"].as_str().unwrap_or_default().to_owned();
        let words: Vec<String> = tables.iter().map(word).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some((_, chosen)) = table.find(tag) else {
            return self.report(
                key,
                named,
                format!("`{tag}` is missing: expected one of {}", suggest::list(&words)),
            );
        };
        let inner = join(key, tag);
        match chosen.text() {
            None => self.report(
                &inner,
                &chosen.origin,
                format!("{}: expected one of {}", chosen.kind(), suggest::list(&words)),
            ),
            Some(text) => match words.iter().position(|word| *word == text) {
                Some(n) => self.only(tables[n], node, key, named),
                None => self.report(&inner, &chosen.origin, unknown_word(text, &words)),
            },
        }
    }

    /// Checks a text against several words or kinds of text.
    fn one_of_words(&mut self, choices: &[&Json], text: &str, node: &Node, key: &str) {
        let words: Vec<&str> = choices.iter().flat_map(|choice| words_of(choice)).collect();
        let free = choices.iter().find(|choice| accepts(choice, node) && words_of(choice).is_empty());
        let stands_for = |choice: &&&Json| words_of(choice).contains(&text);
        if let Some(tag) = choices.iter().find(stands_for).and_then(|choice| choice["x-shorthand"].as_str()) {
            self.found.shorthands.push((key.to_owned(), tag.to_owned()));
        }
        match free {
            _ if words.contains(&text) => {}
            Some(free) => self.text(free, text, node, key),
            None if words.is_empty() => self.report(key, &node.origin, wrong_type(choices, node)),
            None => self.report(key, &node.origin, unknown_word(text, &words)),
        }
    }
}

/// Returns a dotted key with one more part.
pub(crate) fn join(key: &str, part: &str) -> String {
    if key.is_empty() { part.to_owned() } else { format!("{key}.{part}") }
}

fn unknown_word(text: &str, words: &[&str]) -> String {
    let shown: String = text.chars().take(60).collect();
    format!("unknown \"{shown}\": {}", suggest::instead(text, words.iter().copied()))
}

/// Returns the key that distinguishes alternatives: the first with a fixed value.
pub(crate) fn tag(choice: &Json) -> Option<&str> {
    let properties = choice.get("properties")?.as_object()?;
    properties.iter().find(|(_, schema)| schema.get("const").is_some()).map(|(name, _)| name.as_str())
}

/// Returns the fixed words that a schema allows.
pub(crate) fn words_of(schema: &Json) -> Vec<&str> {
    let one = schema.get("const").and_then(Json::as_str);
    let many = schema.get("enum").and_then(Json::as_array);
    one.into_iter().chain(many.into_iter().flatten().filter_map(Json::as_str)).collect()
}

/// Returns the quantity of `bentpipe-units` that a text represents, if any.
pub(crate) fn quantity(schema: &Json) -> Option<&str> {
    schema.get("x-quantity").and_then(Json::as_str)
}

/// Returns `true` if the value is of a type that the schema allows.
fn accepts(schema: &Json, node: &Node) -> bool {
    let types = types(schema);
    let is = |name| types.contains(&name);
    types.is_empty()
        || match node.value {
            Value::String(_) => is("string"),
            Value::Integer(_) => is("integer") || is("number"),
            Value::Float(_) => is("number"),
            Value::Boolean(_) => is("boolean"),
            Value::Datetime => false,
            Value::Array(_) => is("array"),
            Value::Table(_) => is("object"),
        }
}

/// Returns the JSON types that a schema allows.
pub(crate) fn types(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(one)) => vec![one],
        Some(Json::Array(many)) => {
            many.iter().filter_map(Json::as_str).filter(|name| *name != "null").collect()
        }
        _ if schema.get("properties").is_some() => vec!["object"],
        _ if !words_of(schema).is_empty() => vec!["string"],
        _ => Vec::new(),
    }
}

fn wrong_type(choices: &[&Json], node: &Node) -> String {
    let number = matches!(node.value, Value::Integer(_) | Value::Float(_));
    let no_unit = if number && choices.iter().any(|choice| quantity(choice).is_some()) {
        " without a unit"
    } else {
        ""
    };
    format!("{}{no_unit}: expected {}", node.kind(), expected(choices))
}

/// Returns the allowed values in words.
pub(crate) fn expected(choices: &[&Json]) -> String {
    let words: Vec<&str> = choices.iter().flat_map(|choice| words_of(choice)).collect();
    let mut sorts = Vec::new();
    if !words.is_empty() {
        sorts.push(if words.len() == 1 {
            format!("\"{}\"", words[0])
        } else {
            format!("one of {}", suggest::list(&words))
        });
    }
    for choice in choices.iter().filter(|choice| words_of(choice).is_empty()) {
        let sort = sort(choice);
        if !sorts.contains(&sort) {
            sorts.push(sort);
        }
    }
    sorts.join(" or ")
}

fn sort(schema: &Json) -> String {
    if quantity(schema).is_some() {
        let example = schema["examples"][0].as_str().unwrap_or("1 s");
        return format!("a text with number and unit such as \"{example}\"");
    }
    match types(schema).first().copied() {
        Some("string") => "a text".to_owned(),
        Some("integer") if schema.get("enum").is_some() => schema["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Json::to_string)
            .collect::<Vec<_>>()
            .join(" or "),
        Some("integer") => join_words("a whole number", &range(schema)),
        Some("number") => join_words("a number", &range(schema)),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => "a list".to_owned(),
        _ => match tag(schema) {
            Some(tag) => format!("a table with `{tag}`"),
            None => "a table".to_owned(),
        },
    }
}

fn join_words(first: &str, then: &str) -> String {
    if then.is_empty() { first.to_owned() } else { format!("{first} {then}") }
}

fn bounds(schema: &Json) -> [Option<f64>; 4] {
    ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"]
        .map(|keyword| schema.get(keyword).and_then(Json::as_f64))
}

fn in_range(schema: &Json, number: f64) -> bool {
    let [least, above, most, below] = bounds(schema);
    least.is_none_or(|least| number >= least)
        && above.is_none_or(|above| number > above)
        && most.is_none_or(|most| number <= most)
        && below.is_none_or(|below| number < below)
}

/// Returns the range of a number in words; empty if there is none.
pub(crate) fn range(schema: &Json) -> String {
    let [least, above, most, below] = bounds(schema);
    let lower = least.map(|n| format!("at least {n}")).or(above.map(|n| format!("above {n}")));
    let upper = most.map(|n| format!("at most {n}")).or(below.map(|n| format!("below {n}")));
    match (lower, upper, least, most) {
        (_, _, Some(least), Some(most)) => format!("from {least} to {most}"),
        (Some(lower), Some(upper), ..) => format!("{lower} and {upper}"),
        (lower, upper, ..) => lower.or(upper).unwrap_or_default(),
    }
}
/// Returns the text after an unknown key: a substitute, or the known keys.
fn instead(key: &str, name: &str, known: &[&str]) -> String {
    // What only streams with contents have.
    let is_of_contents = ["model", "recovery", "sizes", "pcr", "mpcr", "pts"].contains(&name);
    let is_of_cells = key.starts_with("atm.stream.");
    let is_of_rates = known.contains(&"deviation") && !key.contains(".model.");
    let is_of_video = known.contains(&"ts_packets") && !known.contains(&"model");
    if is_of_contents && (is_of_cells || is_of_rates || is_of_video) {
        let carried = if is_of_cells { "these cells" } else { "the datagrams of a video source" };
        return format!(
            "{carried} have no contents, so no clock references and time stamps. Expected a flow of traffic \
             {{ kind = \"stream\", model = {{ rate = .. }} }}, which has both and a `recovery`, over UDP or in cells of a `vc`"
        );
    }
    suggest::instead(name, known.iter().copied())
}
