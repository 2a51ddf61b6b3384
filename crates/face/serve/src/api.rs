//! The interface of programs, `/api/v1`: one table of operations makes routes, access and OpenAPI.

pub(crate) mod access;
mod archive;
pub(crate) mod body;
pub(crate) mod files;
pub(crate) mod import;
pub(crate) mod jobs;
mod openapi;
pub(crate) mod packets;
pub(crate) mod people;
pub(crate) mod presets;
pub(crate) mod queries;
pub(crate) mod queue;
pub(crate) mod removal;
pub(crate) mod reservations;
pub(crate) mod scenarios;
pub(crate) mod second_factor;
pub(crate) mod sites;
mod stream;
mod tail;

pub(crate) use openapi::document;
pub(crate) use people::name_refusal;

use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use schemars::{Schema, SchemaGenerator};

use crate::app::App;
use crate::guard::Access;
use crate::problem::Problem;

/// Returns a refusal as problem details.
pub(crate) fn refuse(problem: &Problem, _: &Method) -> Response {
    problem.clone().into_response()
}

/// Maker of a type's schema.
type Shape = fn(&mut SchemaGenerator) -> Schema;

/// Operation of the interface.
pub(crate) struct Operation {
    /// Name, the same in OpenAPI and in the command line's table.
    pub(crate) id: &'static str,
    /// Method in lower case.
    pub(crate) method: &'static str,
    /// Path below `/api/v1`.
    pub(crate) path: &'static str,
    /// Access that it needs.
    pub(crate) access: Access,
    /// Description in a line.
    pub(crate) summary: &'static str,
    /// Parameters of the query: name and description.
    pub(crate) query: &'static [(&'static str, &'static str)],
    /// Type of the body.
    pub(crate) body: Option<Shape>,
    /// Status and type of the answer.
    pub(crate) answer: (u16, Option<Shape>),
    /// Handler.
    pub(crate) route: fn() -> MethodRouter<App>,
}

fn shape<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Expands to the rows of [`operations`].
macro_rules! rows {
    ($($id:ident $method:ident $path:literal, $access:expr, $summary:literal
        $(, query $query:expr)? $(, body $body:ty)? => $status:literal $($answer:ty)?, $handler:expr;)*) => {
        vec![$(Operation {
            id: stringify!($id),
            method: stringify!($method),
            path: $path,
            access: $access,
            summary: $summary,
            query: rows!(@query $($query)?),
            body: rows!(@shape $($body)?),
            answer: ($status, rows!(@shape $($answer)?)),
            route: || $method($handler),
        }),*]
    };
    (@query) => { &[] };
    (@query $query:expr) => { $query };
    (@shape) => { None };
    (@shape $shape:ty) => { Some(shape::<$shape>) };
}

const PAGE: &[(&str, &str)] =
    &[("after", "Number of the last item of the page before"), ("limit", "Most items, 1 to 1000")];

const SCENARIOS: &[(&str, &str)] = &[
    PAGE[0],
    PAGE[1],
    ("archived", "Set for those that were archived, of the caller or, with level 2, of all"),
];

const PACKETS: &[(&str, &str)] = &[
    ("capture", "Name of the capture, such as NODE-LINK.pcap, or its path; the latest if there is none"),
    ("limit", "Most packets, 1 to 1000; of a stream at most 100 at a time"),
];

const ROWS: &[(&str, &str)] = &[
    ("flow", "Flow of the query; the first one of the newest run if there is none"),
    ("limit", "Most rows, 1 to 1000; of a stream at most 200 at a time"),
];

/// Returns all operations.
pub(crate) fn operations() -> Vec<Operation> {
    [of_server, of_people, of_scenarios, of_jobs, of_testbed, of_results].iter().flat_map(|of| of()).collect()
}

/// Returns the operations on the server itself.
fn of_server() -> Vec<Operation> {
    rows! {
        getOpenapi get "/openapi.json", Access::Public, "Describe this interface" => 200 serde_json::Value, openapi::get_document;
        getHealth get "/health", Access::Entry, "Report that the server answers" => 200 body::Health, people::health;
    }
}

/// Returns the operations on users, sessions and tokens.
fn of_people() -> Vec<Operation> {
    use crate::store::{audit::Logged, people as p};
    let level = Access::Level;
    rows! {
        logIn post "/session", Access::Entry, "Log in and receive a session cookie", body people::LogIn => 200 p::User, people::start_session;
        logOut delete "/session", level(0), "End this session" => 204, people::log_out;
        getMe get "/me", level(0), "Show the user of this session or token" => 200 p::User, people::me;
        getUsage get "/me/usage", level(0), "Show what is stored for this user, and the quota" => 200 crate::quota::Usage, people::usage;
        setPassword put "/me/password", level(0), "Change the own password and end the own sessions", body people::NewPassword => 204, people::set_password;
        offerSecondFactor post "/me/second-factor", level(0), "Make the secret of a second factor, which counts after its first code", body second_factor::Password => 201 second_factor::Offered, second_factor::post;
        confirmSecondFactor put "/me/second-factor", level(0), "Confirm the second factor by its first code and receive recovery codes", body second_factor::Code => 200 second_factor::RecoveryCodes, second_factor::put;
        endSecondFactor post "/me/second-factor/end", level(0), "End the own second factor", body second_factor::Password => 204, second_factor::post_end;
        listSessions get "/me/sessions", level(0), "List the own sessions" => 200 Vec<p::Session>, people::sessions;
        endSession delete "/me/sessions/{id}", level(0), "End one of the own sessions" => 204, people::end_session;
        listTokens get "/me/tokens", level(0), "List the own tokens" => 200 Vec<p::Token>, people::tokens;
        addToken post "/me/tokens", level(0), "Make a token; its secret is shown once", body people::NewToken => 201 people::MadeToken, people::add_token;
        revokeToken delete "/me/tokens/{id}", level(0), "Revoke one of the own tokens" => 204, people::revoke_token;
        listUsers get "/users", level(3), "List users" => 200 Vec<p::User>, people::users;
        addUser post "/users", level(3), "Add a user", body people::NewUser => 201 p::User, people::add_user;
        changeUser patch "/users/{id}", level(3), "Change the level or password of a user, or disable it", body people::UserChange => 200 p::User, people::change_user;
        listAudit get "/audit", level(3), "List the audit log, newest first", query &[("before", "Entries before this number")] => 200 Vec<Logged>, people::audit;
    }
}

/// Returns the operations on scenarios and what they name.
fn of_scenarios() -> Vec<Operation> {
    use crate::store::{files::UserFile, presets::Preset, scenarios as s};
    let level = Access::Level;
    rows! {
        listScenarios get "/scenarios", level(0), "List scenarios", query SCENARIOS => 200 Vec<s::Scenario>, scenarios::list;
        addScenario post "/scenarios", level(1), "Add a scenario", body scenarios::NewScenario => 201 scenarios::ScenarioText, scenarios::add;
        getScenario get "/scenarios/{id}", level(0), "Show a scenario with its text" => 200 scenarios::ScenarioText, scenarios::show;
        saveScenario put "/scenarios/{id}", level(1), "Save a new version; `If-Match` names the version it is based on", body scenarios::Text => 200 scenarios::ScenarioText, scenarios::save;
        renameScenario patch "/scenarios/{id}", level(1), "Rename or share a scenario", body scenarios::Rename => 200 s::Scenario, scenarios::rename;
        archiveScenario delete "/scenarios/{id}", level(1), "Take a scenario out of the list; its jobs stay" => 204, scenarios::archive;
        restoreScenario post "/scenarios/{id}/restore", level(1), "Return an archived scenario to the list" => 200 s::Scenario, scenarios::restore;
        removeScenario delete "/scenarios/{id}/archived", level(1), "Remove an archived scenario for good, with its versions; none of its jobs may be left" => 204, scenarios::remove;
        listVersions get "/scenarios/{id}/versions", level(0), "List the versions of a scenario, newest first" => 200 Vec<s::Version>, scenarios::versions;
        getVersion get "/scenarios/{id}/versions/{version}", level(0), "Show the text of a version" => 200 scenarios::Text, scenarios::version;
        removeVersion delete "/scenarios/{id}/versions/{version}", level(1), "Remove an old version; none of its jobs may be left" => 204, scenarios::remove_version;
        checkScenario post "/check", level(0), "Check a text as `bentpipe check` does", body scenarios::Text => 200 scenarios::Verdict, scenarios::check;
        editScenario post "/edit", level(0), "Set or remove a key of a text and check it; comments stay", body scenarios::Edit => 200 crate::drafts::Edited, scenarios::edit;
        listPresets get "/presets", level(0), "List presets: named settings of entries", query &[("section", "Section, such as link")] => 200 Vec<Preset>, presets::list;
        savePreset post "/presets", level(1), "Save a preset, in place of an own one of that name", body presets::NewPreset => 201 Preset, presets::save;
        getPreset get "/presets/{id}", level(0), "Show a preset with its whole text" => 200 Preset, presets::show;
        removePreset delete "/presets/{id}", level(1), "Remove a preset" => 204, presets::remove;
        listFiles get "/files", level(0), "List files that scenarios can name", query PAGE => 200 Vec<UserFile>, files::list;
        addFile post "/files", level(1), "Upload a file, in place of an own one of that name",
            query &[("name", "Name, as scenarios write it"), ("shared", "Set for the scenarios of all users; needs level 2")], body files::Octets => 201 UserFile, files::add;
        getFile get "/files/{id}", level(0), "Download a file" => 200, files::content;
        removeFile delete "/files/{id}", level(1), "Remove a file; jobs keep what they read" => 204, files::remove;
        getSchema get "/schema", level(0), "Show the JSON Schema of scenarios" => 200 serde_json::Value, scenarios::schema;
    }
}

/// Returns the operations on jobs.
fn of_jobs() -> Vec<Operation> {
    use crate::store::jobs as j;
    let level = Access::Level;
    rows! {
        listJobs get "/jobs", level(0), "List jobs, newest first",
            query &[("before", "Jobs before this number"), ("limit", "Most jobs, 1 to 1000"), ("state", "State"), ("search", "Text in the name or the note, or a tag"), ("scenario", "Number of the scenario")] => 200 Vec<j::Job>, jobs::list;
        launchJob post "/jobs", level(1), "Launch a job; a repeated `Idempotency-Key` launches nothing", body jobs::NewJob => 201 j::Job, jobs::launch;
        getJob get "/jobs/{id}", level(0), "Show a job" => 200 j::Job, jobs::show;
        getQueuePlace get "/jobs/{id}/queue", level(0), "Show why a queued job waits, its position and its expected start" => 200 crate::store::queue::QueuePlace, queue::show;
        annotateJob patch "/jobs/{id}", level(1), "Set note and tags of a job", body jobs::Remarks => 200 j::Job, jobs::annotate;
        removeJob delete "/jobs/{id}", level(1), "Remove a job that is over, with its results" => 204, removal::remove;
        importJob post "/jobs/import", level(1), "Import a job with its results from an archive that `getArchive` made", body files::Octets => 201 j::Job, import::import;
        repeatJob post "/jobs/{id}/repeat", level(1), "Launch a job again as it was; its fingerprints are compared at the end" => 201 j::Job, import::repeat;
    }
}

/// Returns the operations on what jobs share: studies, reservations and sites.
fn of_testbed() -> Vec<Operation> {
    use crate::store::{reservations::Reservation, sites::Site};
    let level = Access::Level;
    rows! {
        listStudies get "/studies", level(0), "List studies that a job can reproduce" => 200 Vec<jobs::StudyEntry>, jobs::studies;
        listReservations get "/reservations", level(0), "List reservations of the testbed that are not over" => 200 Vec<Reservation>, reservations::list;
        addReservation post "/reservations", level(1), "Reserve the testbed: only jobs of its owner start in that time", body reservations::NewReservation => 201 Reservation, reservations::add;
        removeReservation delete "/reservations/{id}", level(1), "Remove a reservation" => 204, reservations::remove;
        listSites get "/sites", level(0), "List sites: other machines that run tasks of jobs" => 200 Vec<Site>, sites::list;
        inviteSite post "/sites", level(3), "Make the one-time code with which a machine becomes a site", body sites::NewSite => 201 sites::MadeInvitation, sites::invite;
        revokeSite delete "/sites/{id}", level(3), "Revoke a site: its key is worth nothing from now on" => 204, sites::revoke;
    }
}

/// Returns the operations on running jobs and results.
fn of_results() -> Vec<Operation> {
    use crate::store::jobs as j;
    let level = Access::Level;
    rows! {
        changeJob post "/jobs/{id}/set", level(1), "Change a key of an emulation that runs", body jobs::Change => 200 jobs::Changed, jobs::set;
        cancelJob post "/jobs/{id}/cancel", level(1), "Request the end of a job; finished runs stay" => 200 j::Job, jobs::cancel;
        listEvents get "/jobs/{id}/events", level(0), "List events of a job", query PAGE => 200 Vec<j::Event>, jobs::events;
        followJob get "/jobs/{id}/stream", level(0), "Follow the events of a job as they come (server-sent events), after `Last-Event-ID`", query PAGE => 200, stream::stream;
        listPackets get "/jobs/{id}/packets", level(0), "List the last packets of a capture of a job, also while it runs", query PACKETS => 200 crate::captures::Packets, packets::list;
        followPackets get "/jobs/{id}/packets/stream", level(0), "Follow the packets of a capture as they come (server-sent events)", query PACKETS => 200, packets::stream;
        listRows get "/jobs/{id}/rows", level(0), "List the last rows of a query to a sensor field, also while the job runs" , query ROWS => 200 crate::queries::Rows, queries::list;
        followRows get "/jobs/{id}/rows/stream", level(0), "Follow the rows of a query as they reach Earth (server-sent events)", query ROWS => 200, queries::stream;
        listMeasures get "/jobs/{id}/measures", level(0), "List measures of a finished job", query &[("search", "Text in the name")] => 200 Vec<j::JobMeasure>, jobs::measures;
        getSeries get "/jobs/{id}/series", level(0), "Show series over time of a finished job as CSV, a row for each instant", query &[("select", "Patterns of SUBJECT.METRIC, separated by spaces, such as flow.*.sender.cwnd")] => 200, jobs::series;
        listArtifacts get "/jobs/{id}/artifacts", level(0), "List files of a finished job" => 200 Vec<j::Artifact>, jobs::artifacts;
        getArchive get "/jobs/{id}/archive", level(0), "Download all files of a job as one zip file" => 200, archive::archive;
        getArtifact get "/jobs/{id}/artifacts/{number}", level(0), "Download a file of a job" => 200, jobs::artifact;
    }
}
