//! Test controller: web pages and an API over scenarios, jobs and users.
//!
//! People who never touch the testbed configure it, launch a test and read the report in a browser, in the five steps of the
//! UCIT/TATPA controller: system, connections, test, launch, report.
//!
//! - `store` has all SQL: users, sessions, versions of scenarios, jobs with their events, an audit log.
//! - `runner` runs jobs as child processes, `bentpipe run`, and adopts those that outlived a server.
//! - `inputs` keeps the content of users' files, and gives scenarios folders in which they have their names.
//! - `work` has all that is computed from users' input; `children` are the processes that do it, within limits.
//! - `left` opens what children left, and believes nothing of it; `whole` compares results with their checksums.
//! - `launch` checks the settings of a job with its scenario, and `real_time` its length on the clock.
//! - `space` watches the room on the disk, of which `promised` is a part, and removes results from it; `quota` counts what each user has, with the `output` of
//!   running jobs, and `reserve` keeps some room for log-ins and removals.
//! - `backup` copies the database, with a hash.
//! - `archive` reads the archives of jobs that others made, and believes nothing in them.
//! - `captures` reads captures, also those that are being written.
//! - `queries` reads queries to sensor fields and their rows, also while they come.
//! - `hidden` keeps paths of the server out of messages.
//! - `door` answers other machines that dial in, and `sites` advances jobs that run on them.
//! - `api` has one table of operations, of which routes, access and OpenAPI are made; `guard` checks each request.
//! - `threads` keeps the database and passwords apart from other work, which ends with its request (`gone`).
//! - `answers`, `bodies`, `connections`, `devices`, `downloads`, `forwarded`, `logins`, `limits`, `pace` and `places` bound what an address or a user takes from others.
//! - `pages` writes HTML that works without scripts.
//!
//! Without TLS the server binds to loopback addresses alone.

mod anchor;
mod answers;
mod api;
mod app;
mod archive;
mod audited;
mod backup;
mod bodies;
#[cfg(test)]
mod bounds_tests;
mod captures;
mod children;
mod clock;
mod connections;
mod control;
mod devices;
mod diff;
mod door;
mod downloads;
mod drafts;
mod entries;
mod forms;
mod forwarded;
mod gone;
mod guard;
mod hidden;
mod inputs;
mod launch;
mod left;
mod limits;
mod log;
mod logins;
mod nightly;
mod output;
mod pace;
mod pages;
mod password;
mod places;
mod plots;
mod presence;
mod problem;
mod promised;
mod queries;
mod quota;
mod real_time;
mod remote;
mod reserve;
mod runner;
mod server;
mod setup;
mod sites;
mod space;
mod store;
mod studies;
mod threads;
mod tls;
mod totp;
mod url;
mod whole;
mod work;

pub use app::Settings;
pub use archive::unpack_archive;
pub use backup::Proof;
pub use bentpipe_agent::Network;
pub use children::{Limits, LimitsError, LimitsFile, may_make_groups};
pub use remote::{Property, RemoteOperation, remote_operations};
pub use server::{Address, JobSettings, Listening, Security, run};
pub use setup::{Error, Logins, Restored, back_up, init, restore};
pub use store::audit::Lost;
pub use tls::Certificate;
pub use work::work;
