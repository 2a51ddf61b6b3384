//! Problem details (RFC 9457) with the words of the checker.

use std::path::PathBuf;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bentpipe_scenario::{Origin, ScenarioError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hidden;
use crate::store::StoreError;

/// Problem with a request.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Problem {
    /// HTTP status code.
    pub(crate) status: u16,
    /// Kind of problem in words.
    pub(crate) title: String,
    /// Explanation of the problem.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
    /// Errors of a scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<Finding>,
    /// Seconds after which a repeated request may succeed.
    #[serde(skip)]
    pub(crate) retry_after_s: Option<i64>,
}

/// Problem that a response shows as a page.
///
/// It is for the guard, which knows more of the request.
#[derive(Clone)]
pub(crate) struct Shown(pub(crate) Problem);

/// Error of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Finding {
    /// Line, from 1; 0 if the error has no place in the text.
    pub(crate) line: usize,
    /// Column in characters, from 1; 0 if the error has no place in the text.
    pub(crate) column: usize,
    /// Key of the value; empty for the file as a whole.
    pub(crate) key: String,
    /// Error: what was expected and what is there.
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        let (detail, problems) = (detail.into(), Vec::new());
        Problem { status: status.as_u16(), title, detail, problems, retry_after_s: None }
    }

    /// Returns the answer for objects that do not exist and for those of other users.
    pub(crate) fn not_found() -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "no such object, or it belongs to another user")
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// Returns the answer to one of which there are too many already.
    pub(crate) fn too_many(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    pub(crate) fn unauthorized() -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, "log in, or send a token as `Authorization: Bearer`")
    }

    pub(crate) fn later(seconds: i64) -> Problem {
        let detail = format!("too many requests: wait {seconds} s");
        Problem { retry_after_s: Some(seconds), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Problem {
        crate::log::often(&format!("error: {error}"));
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed; its log has the reason")
    }

    /// Returns the problem without the paths of folders in its words.
    pub(crate) fn without(mut self, folders: &[PathBuf]) -> Problem {
        self.detail = hidden::without(&self.detail, folders);
        for finding in &mut self.problems {
            finding.message = hidden::without(&finding.message, folders);
        }
        self
    }

    /// Returns the status code.
    pub(crate) fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        Problem::internal(&error)
    }
}

impl From<&ScenarioError> for Problem {
    fn from(error: &ScenarioError) -> Problem {
        Problem { problems: findings(error), ..Problem::bad("the scenario has errors") }
    }
}

/// Returns the errors of a scenario with their places.
pub(crate) fn findings(error: &ScenarioError) -> Vec<Finding> {
    let finding = |diagnostic: &bentpipe_scenario::Diagnostic| {
        let (line, column) = match &diagnostic.origin {
            Origin::File(range) => error.position(range.start),
            Origin::Override(_) => (0, 0),
        };
        Finding { line, column, key: diagnostic.key.clone(), message: diagnostic.problem.clone() }
    };
    error.diagnostics().iter().take(100).map(finding).collect()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, retry) = (self.code(), self.retry_after_s);
        let mut response = (code, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        add_retry(headers, retry);
        response
    }
}

/// Adds the time after which a repeated request may succeed.
pub(crate) fn add_retry(headers: &mut HeaderMap, retry_after_s: Option<i64>) {
    if let Some(seconds) = retry_after_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
}
