//! The controller as a whole: requests over HTTP, jobs as child processes, security of each operation.
#![cfg(feature = "serve")]
#![allow(clippy::disallowed_methods, reason = "waits for a server in real time")]

#[path = "serve/accounts.rs"]
mod accounts;
#[path = "serve/browser.rs"]
mod browser;
#[path = "serve/campaigns.rs"]
mod campaigns;
#[path = "serve/client.rs"]
mod client;
#[path = "serve/disks.rs"]
mod disks;
#[path = "serve/doors.rs"]
mod doors;
#[path = "serve/emulation.rs"]
mod emulation;
#[path = "serve/factor.rs"]
mod factor;
#[path = "serve/files.rs"]
mod files;
#[path = "serve/jobs.rs"]
mod jobs;
#[path = "serve/limits.rs"]
mod limits;
#[path = "serve/removal.rs"]
mod removal;
#[path = "serve/schema.rs"]
mod schema;
#[path = "serve/searches.rs"]
mod searches;
#[path = "serve/security.rs"]
mod security;
#[path = "serve/sites.rs"]
mod sites;
#[path = "serve/tatpa.rs"]
mod tatpa;
#[path = "serve/testbed.rs"]
mod testbed;
#[path = "serve/tls.rs"]
mod tls;
