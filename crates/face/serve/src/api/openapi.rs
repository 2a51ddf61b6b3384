//! Description of the interface, OpenAPI 3.1, made of the table of operations.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{Operation, operations};
use crate::guard::Access;
use crate::problem::Problem;

pub(crate) async fn get_document() -> impl IntoResponse {
    // It needs no session, and takes thousands of times as long to make as to send.
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_string());
    ([(header::CONTENT_TYPE, "application/json")], &TEXT[..])
}

/// Returns the whole description.
pub(crate) fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>();
    let mut paths = Map::new();
    for operation in operations() {
        let described = describe(&operation, &mut generator);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described;
    }
    let mut schemas = generator.take_definitions(true);
    schemas.sort_keys();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "bentpipe serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The test controller of bentpipe. Errors are problem details (RFC 9457).",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" }
        },
        "servers": [{ "url": "/api/v1" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": { "Problem": {
                "description": "Problem",
                "content": { "application/problem+json": { "schema": problem } }
            } },
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": crate::guard::COOKIE }
            }
        }
    })
}

fn describe(operation: &Operation, generator: &mut schemars::SchemaGenerator) -> Value {
    let (status, answer) = operation.answer;
    let mut ok = json!({ "description": "Success" });
    if let Some(answer) = answer {
        ok["content"] = json!({ "application/json": { "schema": answer(generator) } });
    } else if status == 200 {
        let kind = match operation.id {
            "followJob" | "followPackets" | "followRows" => "text/event-stream",
            "getSeries" => "text/csv",
            "getArchive" => "application/zip",
            _ => "application/octet-stream",
        };
        ok["content"] = json!({ kind: {} });
    }
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters(operation),
        "responses": {
            status.to_string(): ok,
            "default": { "$ref": "#/components/responses/Problem" }
        }
    });
    if let Some(body) = operation.body {
        let schema = body(generator);
        let is_binary = schema.get("format").is_some_and(|format| format == "binary");
        let kind = if is_binary { "application/octet-stream" } else { "application/json" };
        let content = json!({ kind: { "schema": schema } });
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    match operation.access {
        Access::Public | Access::Entry | Access::Stranger | Access::Site => described["security"] = json!([]),
        Access::Level(level) => {
            described["security"] = json!([{ "token": [] }, { "session": [] }]);
            described["x-level"] = json!(level);
        }
    }
    described
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let names = operation.path.split(['{', '}']).skip(1).step_by(2);
    let integer = json!({ "type": "integer", "format": "int64" });
    let in_path =
        names.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": integer }));
    let in_query = operation.query.iter().map(|(name, description)| {
        let schema = match *name {
            "state" | "search" | "section" | "select" | "name" | "capture" | "flow" => json!({ "type": "string" }),
            "shared" | "archived" => json!({ "type": "boolean" }),
            _ => integer.clone(),
        };
        let required = *name == "name";
        json!({ "name": name, "in": "query", "required": required, "description": description, "schema": schema })
    });
    in_path.chain(in_query).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_committed_description_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let text = serde_json::to_string_pretty(&document()).expect("JSON") + "\n";
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(path, &text).expect("written");
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == text,
            "openapi.json is out of date: run with UPDATE_OPENAPI=1 and review the change"
        );
    }

    #[test]
    fn names_and_routes_are_unique_and_references_lead_somewhere() {
        let operations = operations();
        let ids: HashSet<&str> = operations.iter().map(|operation| operation.id).collect();
        let routes: HashSet<(&str, &str)> = operations.iter().map(|o| (o.method, o.path)).collect();
        assert_eq!((ids.len(), routes.len()), (operations.len(), operations.len()));
        let document = document();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(document.pointer(reference).is_some(), "{reference}");
        }
    }
}
