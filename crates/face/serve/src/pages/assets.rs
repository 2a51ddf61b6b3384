//! Style and script, the same for all pages.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;

/// Style of reports, and what pages have in addition.
const STYLE: &[&str] = &[bentpipe_report::STYLE, include_str!("../../web/serve.css")];
const SCRIPT: &str = include_str!("../../web/serve.js");

/// Kept by browsers for an hour; the address changes with the version.
const CACHE: &str = "private, max-age=3600";

/// Returns the end of an asset's address, which changes with its content.
pub(super) fn tag() -> &'static str {
    static TAG: LazyLock<String> = LazyLock::new(|| {
        use sha2::Digest;
        let hash = sha2::Sha256::digest(STYLE.concat() + SCRIPT);
        crate::clock::hex(&hash[..6])
    });
    &TAG
}

pub(super) async fn style() -> impl IntoResponse {
    static ALL: LazyLock<String> = LazyLock::new(|| STYLE.concat());
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8"), (header::CACHE_CONTROL, CACHE)], &ALL[..])
}

pub(super) async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8"), (header::CACHE_CONTROL, CACHE)], SCRIPT)
}
