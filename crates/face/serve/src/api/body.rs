//! Bodies and queries of requests, whose errors are problem details.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bodies::MAX_BYTES;
use crate::problem::Problem;

/// JSON body of a request.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Body<T>, Problem> {
        let bytes = axum::body::to_bytes(request.into_body(), MAX_BYTES).await.map_err(|_| {
            Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a body, and so a scenario, has at most {MAX_BYTES} bytes: this one has more, or ended early"),
            )
        })?;
        // `serde` reads the fields of an object from a list too.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(Problem::bad("body: expected an object"));
        }
        serde_json::from_slice(&bytes).map(Body).map_err(|error| Problem::bad(format!("body: {error}")))
    }
}

/// Parameters of a query.
pub(crate) struct Search<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Search<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Search<T>, Problem> {
        let found = axum::extract::Query::try_from_uri(&parts.uri);
        found.map(|query| Search(query.0)).map_err(|error| Problem::bad(error.body_text()))
    }
}

/// Number in a path. Anything else answers "not found".
pub(crate) struct Ids<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Ids<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Ids<T>, Problem> {
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        found.map(|path| Ids(path.0)).map_err(|_| Problem::not_found())
    }
}

/// Answer of a server that works.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Version of bentpipe.
    pub(crate) version: &'static str,
}
