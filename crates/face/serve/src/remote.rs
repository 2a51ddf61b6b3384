//! The table of operations for clients, read from the description of the interface.

use std::sync::LazyLock;

use serde_json::Value;

use crate::api::document;

/// Operation of the interface, as a client needs it.
#[derive(Clone, Debug)]
pub struct RemoteOperation {
    /// Name, such as "launchJob".
    pub id: String,
    /// Name of its command, such as "launch-job".
    pub command: String,
    /// Method in lower case.
    pub method: String,
    /// Path below `/api/v1`, with places in braces.
    pub path: String,
    /// Description in a line.
    pub summary: String,
    /// Places of the path, which are numbers: name, and the same in capitals.
    pub places: Vec<(String, String)>,
    /// Parameters of the query: name, description, and `true` if it must be given.
    pub query: Vec<(String, String, bool)>,
    /// Set if it has a body.
    pub has_body: bool,
    /// Set if the body is the bytes of a file.
    pub is_upload: bool,
    /// Properties of the body.
    pub body: Vec<Property>,
    /// Set if the answer is JSON, or nothing.
    pub is_json: bool,
}

/// Property of a body.
#[derive(Clone, Debug)]
pub struct Property {
    /// Name.
    pub name: String,
    /// Name with "body." before it, which no parameter of the query has.
    pub key: String,
    /// Name of its flag.
    pub flag: String,
    /// Description.
    pub description: String,
    /// Set if it must be given.
    pub required: bool,
    /// Set if it is a text.
    pub is_text: bool,
}

/// Returns all operations.
pub fn remote_operations() -> &'static [RemoteOperation] {
    static ALL: LazyLock<Vec<RemoteOperation>> = LazyLock::new(read_all);
    &ALL
}

fn read_all() -> Vec<RemoteOperation> {
    let document = document();
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(|(method, operation)| read(&document, (method, path), operation)).collect::<Vec<_>>()
    });
    all.collect()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn read(document: &Value, (method, path): (&str, &str), operation: &Value) -> RemoteOperation {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let within = |place: &'static str| parameters.iter().filter(move |parameter| parameter["in"] == place);
    let contents = operation["responses"].as_object().into_iter().flat_map(|all| all.values());
    let is_json = !contents
        .flat_map(|answer| answer["content"].as_object())
        .any(|kinds| kinds.keys().any(|kind| !kind.ends_with("json")));
    let id = text(operation, "operationId");
    let letter =
        |c: char| if c.is_ascii_uppercase() { format!("-{}", c.to_ascii_lowercase()) } else { c.to_string() };
    RemoteOperation {
        command: id.chars().map(letter).collect(),
        id,
        method: method.to_owned(),
        path: path.to_owned(),
        summary: text(operation, "summary"),
        places: within("path").map(|one| (text(one, "name"), text(one, "name").to_uppercase())).collect(),
        query: within("query")
            .map(|one| (text(one, "name"), text(one, "description"), one["required"] == true))
            .collect(),
        is_upload: !operation["requestBody"]["content"]["application/octet-stream"].is_null(),
        has_body: !operation["requestBody"].is_null(),
        body: properties(document, &operation["requestBody"]["content"]["application/json"]["schema"]),
        is_json,
    }
}

fn properties(document: &Value, schema: &Value) -> Vec<Property> {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap_or(schema),
        None => schema,
    };
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let is_text = |one: &Value| {
        one["type"] == "string"
            || one["type"].as_array().is_some_and(|all| all.iter().any(|kind| kind == "string"))
    };
    let all = schema["properties"].as_object().into_iter().flatten();
    all.map(|(name, one)| Property {
        name: name.clone(),
        key: format!("body.{name}"),
        flag: name.replace('_', "-"),
        description: text(one, "description"),
        required: required(name),
        is_text: is_text(one),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_there_with_its_parameters() {
        let all = remote_operations();
        assert_eq!(all.len(), crate::api::operations().len());
        let reserve = all.iter().find(|operation| operation.id == "addReservation").expect("an operation");
        let mut required: Vec<&str> =
            reserve.body.iter().filter(|one| one.required).map(|one| &one.name[..]).collect();
        required.sort_unstable();
        assert_eq!(required, ["end", "purpose", "start"]);
        let file = all.iter().find(|operation| operation.id == "getArtifact").expect("an operation");
        assert_eq!((file.places.len(), file.is_json), (2, false));
        let upload = all.iter().find(|operation| operation.id == "addFile").expect("an operation");
        let required: Vec<&str> =
            upload.query.iter().filter(|(.., required)| *required).map(|(name, ..)| &name[..]).collect();
        assert_eq!((required, upload.is_upload, upload.body.len()), (vec!["name"], true, 0));
    }
}
