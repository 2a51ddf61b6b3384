//! The controller as a whole: requests over HTTP, jobs as child processes, security of each operation.
#![cfg(feature = "serve")]
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]
#![allow(clippy::disallowed_methods, reason = "waits for a server in real time")]

#[path = "serve/browser.rs"]
mod browser;
#[path = "serve/campaigns.rs"]
mod campaigns;
#[path = "serve/client.rs"]
mod client;
#[path = "serve/jobs.rs"]
mod jobs;
#[path = "serve/security.rs"]
mod security;
#[path = "serve/tatpa.rs"]
mod tatpa;
#[path = "serve/testbed.rs"]
mod testbed;
#[path = "serve/tls.rs"]
mod tls;
