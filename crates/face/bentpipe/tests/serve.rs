//! The controller as a whole: requests over HTTP, jobs as child processes, security of each operation.
#![cfg(feature = "serve")]
#![allow(clippy::disallowed_methods, reason = "waits for a server in real time")]

mod accounts;
mod answers;
mod browser;
mod campaigns;
mod client;
mod confinement;
mod damage;
mod disks;
mod doors;
mod emulation;
mod factor;
mod files;
mod files_of_others;
mod jobs;
mod limits;
mod proxy;
mod removal;
mod schema;
mod searches;
mod security;
mod sites;
mod tatpa;
mod testbed;
mod tls;
