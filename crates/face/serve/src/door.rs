//! Door of the sites: what they ask the server.

use axum::Extension;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, post};
use bentpipe_agent::digits::from_hex;
use bentpipe_agent::is_signature;
use bentpipe_agent::manifest::{CHUNK, Entry, sha256};
use bentpipe_agent::protocol::{
    self, Enrol, Enrolled, Held, Hello, MAX_MESSAGE, MAX_WAIT_MS, PIECE, Poll, Program, Samples, Turn,
    VERSION, Welcome,
};
use serde::Deserialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use tokio::time::Instant;

use crate::api::body::Search;
use crate::app::{App, blocking};
use crate::audited::{log, refused_from};
use crate::clock::now_us;
use crate::guard::{Access, Peer};
use crate::inputs;
use crate::presence::{Channel, Message};
use crate::problem::{Problem, Result};
use crate::runner::live_file;
use crate::sites::incoming;
use crate::space;
use crate::store::jobs;
use crate::store::sites::{self, Task};

/// Most bytes of a job's live samples.
const MAX_LIVE: u64 = 64 << 20;
/// Most bytes of a name that is logged.
const MAX_SHOWN: usize = 80;

/// Request of sites: path, access and handler.
pub(crate) struct Door {
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) route: fn() -> MethodRouter<App>,
}

/// Returns all requests of sites.
pub(crate) fn doors() -> Vec<Door> {
    vec![
        Door { path: "/site/enrol", access: Access::Stranger, route: || post(enrol) },
        Door { path: "/site/login", access: Access::Stranger, route: || post(log_in) },
        Door { path: "/site/poll", access: Access::Site, route: || post(poll) },
        Door { path: "/site/input", access: Access::Site, route: || post(input) },
        Door { path: "/site/chunk", access: Access::Site, route: || post(chunk) },
        Door { path: "/site/live", access: Access::Site, route: || post(live) },
    ]
}

fn parsed<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    protocol::parse(bytes).map_err(|why| Problem::bad(format!("body: {why}")))
}

/// Refuses another version of the protocol.
fn check_version(version: u32) -> Result<()> {
    let detail = format!(
        "the site speaks version {version} of the protocol, this server {VERSION}: install the same version of bentpipe at both"
    );
    (version == VERSION).then_some(()).ok_or_else(|| Problem::new(StatusCode::CONFLICT, detail))
}

/// Reads only the version of a message, which a later one has too.
fn version_of(body: &[u8]) -> u32 {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    value["version"].as_u64().and_then(|version| u32::try_from(version).ok()).unwrap_or(VERSION)
}

async fn enrol(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    body: Bytes,
) -> Result<Json<Enrolled>> {
    check_version(version_of(&body))?;
    let Enrol { secret, key, .. } = parsed(&body)?;
    let key = from_hex(&key).filter(|key| key.len() == 32);
    let key = key.ok_or_else(|| Problem::bad("key: expected an Ed25519 key, 64 hexadecimal digits"))?;
    let name = app.write(move |db| Ok(sites::enrol(db, &secret, &key)?)).await?;
    match &name {
        Some(name) => log(&app, "", &peer.to_string(), ("enrol site", name, "done")).await?,
        None => refused_from(&app, ("", peer), ("enrol site", "?", "invitation not valid")).await?,
    }
    let detail = "the invitation was used, is over 15 minutes old, or its name is taken: ask for another";
    name.map(|name| Json(Enrolled { name })).ok_or_else(|| Problem::forbidden(detail))
}

async fn log_in(
    State(app): State<App>,
    Extension(channel): Extension<Channel>,
    Extension(Peer(peer)): Extension<Peer>,
    body: Bytes,
) -> Result<Json<Welcome>> {
    check_version(version_of(&body))?;
    let Hello { name, program, last, signature, .. } = parsed(&body)?;
    let binding = channel.binding().ok_or_else(|| {
        Problem::new(
            StatusCode::CONFLICT,
            "sites need TLS 1.3 of the server itself: a proxy cannot stand between",
        )
    })?;
    let asked = name.clone();
    let known = app.read(move |db| Ok(sites::key(db, &asked)?)).await?;
    let signature = from_hex(&signature).unwrap_or_default();
    let found = known.filter(|(_, key)| is_signature(key, &binding, &name, &signature));
    let address = peer.to_string();
    let Some((site, _)) = found else {
        let shown: String = name.chars().take(MAX_SHOWN).collect();
        refused_from(&app, (&shown, peer), ("log in site", &shown, "refused")).await?;
        return Err(Problem::forbidden(
            "no such site, or not its key: it was revoked, or another was enrolled",
        ));
    };
    if channel.site().is_some_and(|before| before != site) {
        return Err(Problem::new(StatusCode::CONFLICT, "another site logged in over this connection"));
    }
    wait_for_turn(&app, site, Message::LogIn).await?;
    let program: String = program.chars().take(MAX_SHOWN).collect();
    let after = app.write(move |db| Ok(sites::log_in(db, site, &program, last)?)).await?;
    app.sites.enter(site, &channel);
    log(&app, &name, &address, ("log in site", &name, "done")).await?;
    Ok(Json(Welcome { version: VERSION, program: env!("CARGO_PKG_VERSION").to_owned(), after }))
}

/// Waits until a message of a site has its turn.
async fn wait_for_turn(app: &App, site: i64, message: Message) -> Result<()> {
    let wait = app.sites.turn(site, message, Instant::now());
    let wait = wait.ok_or_else(|| {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "the site sends more messages than the server answers")
    })?;
    tokio::time::sleep(wait).await;
    Ok(())
}

fn displaced() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "another connection took the place of this one")
}

async fn poll(
    State(app): State<App>,
    Extension(channel): Extension<Channel>,
    body: Bytes,
) -> Result<Json<Turn>> {
    let received_us = now_us();
    let site = channel.site().ok_or_else(Problem::unauthorized)?;
    if body.len() > MAX_MESSAGE {
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the message is too long"));
    }
    let poll: Poll = parsed(&body)?;
    protocol::check_poll(&poll).map_err(Problem::bad)?;
    wait_for_turn(&app, site, Message::Poll).await?;
    let due = app.sites.note(site, &channel, &poll).ok_or_else(displaced)?;
    let wait = Duration::from_millis(poll.wait_ms.min(MAX_WAIT_MS).into());
    let is_looked_at = due.note || poll.doctor.is_some();
    if due.apply || is_looked_at || !poll.results.is_empty() {
        let changed = app
            .write(move |db| {
                if is_looked_at {
                    sites::look(db, site, &poll)?;
                }
                Ok::<_, Problem>(sites::apply(db, site, &poll)?)
            })
            .await?;
        changed.into_iter().for_each(|job| app.announce(job));
    }
    let end = tokio::time::Instant::now() + wait;
    loop {
        let news = app.sites.news.notified();
        tokio::pin!(news);
        // Before the query, so that no command falls between.
        news.as_mut().enable();
        let commands = app.read(move |db| Ok(sites::commands(db, site)?)).await?;
        let commands = commands.ok_or_else(|| Problem::forbidden("the site was revoked"))?;
        if !app.sites.is_current(site, &channel) {
            return Err(displaced());
        }
        let is_late = tokio::time::timeout_at(end, async {
            if commands.is_empty() {
                news.await;
            }
        });
        if !commands.is_empty() || is_late.await.is_err() {
            return Ok(Json(Turn { received_us, sent_us: now_us(), commands }));
        }
    }
}

/// Stores live samples of an emulation. Those of the first one of a job are its plots.
async fn live(
    State(app): State<App>,
    Extension(channel): Extension<Channel>,
    body: Bytes,
) -> Result<Json<Held>> {
    let site = channel.site().filter(|site| app.sites.is_current(*site, &channel)).ok_or_else(displaced)?;
    let Samples { task, offset, text } = parsed(&body)?;
    wait_for_turn(&app, site, Message::Live).await?;
    protocol::check_samples(&text).map_err(Problem::bad)?;
    let found = app
        .read(move |db| {
            let Some(task) = sites::task_of(db, site, task)?.filter(|task| !task.is_over()) else {
                return Ok(None);
            };
            let is_emulation = |task: &&Task| matches!(task.program, Some(Program::Emulate { .. }));
            let first = sites::tasks(db, task.job)?.iter().find(is_emulation).map(|task| task.id);
            let attempt = jobs::attempt(db, task.job)?;
            Ok((first == Some(task.id)).then_some((task.job, attempt)))
        })
        .await?;
    let Some((job, attempt)) = found else { return Ok(Json(Held { bytes: 0, wanted: false })) };
    // The site sends them again until there is room.
    let has_room = space::shortage(&app.settings).is_none();
    let path = app.job_folder(job).join(live_file(attempt));
    let held = blocking(move || {
        let wrong = |error: std::io::Error| Problem::internal(&format!("{}: {error}", path.display()));
        std::fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(wrong)?;
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(wrong)?;
        let mut bytes = file.metadata().map_err(wrong)?.len();
        if has_room && bytes == offset && bytes < MAX_LIVE {
            file.write_all(text.as_bytes()).map_err(wrong)?;
            bytes += text.len() as u64;
        }
        Ok(Held { bytes, wanted: bytes < MAX_LIVE })
    })
    .await?;
    Ok(Json(held))
}

/// Place of a piece of a file that a scenario names.
#[derive(Deserialize)]
struct Piece {
    task: u64,
    file: u32,
    piece: u32,
}

async fn input(
    State(app): State<App>,
    Extension(channel): Extension<Channel>,
    Search(Piece { task, file, piece }): Search<Piece>,
) -> Result<Vec<u8>> {
    let site = channel.site().filter(|site| app.sites.is_current(*site, &channel)).ok_or_else(displaced)?;
    let hash = app.read(move |db| Ok(sites::given(db, site, (task, file))?)).await?;
    let (data, hash) = (app.settings.folder.clone(), hash.ok_or_else(Problem::not_found)?);
    blocking(move || {
        let mut bytes = vec![0; PIECE as usize];
        let file = inputs::open(&data, &hash).map_err(|_| Problem::not_found())?;
        let read = file.read_at(&mut bytes, u64::from(piece) * PIECE);
        bytes.truncate(read.map_err(|error| Problem::internal(&error))?);
        Ok(bytes)
    })
    .await
}

/// Place of a chunk.
#[derive(Deserialize)]
struct Place {
    task: u64,
    file: u32,
    chunk: u32,
}

async fn chunk(
    State(app): State<App>,
    Extension(channel): Extension<Channel>,
    Extension(Peer(peer)): Extension<Peer>,
    Search(place): Search<Place>,
    request: axum::extract::Request,
) -> Result<StatusCode> {
    // First, as a connection ends with an answer to half a request.
    let too_long = |_| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "a chunk has at most 4 MiB");
    let bytes = axum::body::to_bytes(request.into_body(), CHUNK as usize).await.map_err(too_long)?;
    let site = channel.site().filter(|site| app.sites.is_current(*site, &channel)).ok_or_else(displaced)?;
    let Place { task, file, chunk } = place;
    let asked = app.read(move |db| Ok(sites::asked_for(db, site, (task, file, chunk))?)).await?;
    let unasked = || Problem::new(StatusCode::CONFLICT, "the server did not ask for this");
    let (task, entry) = asked.ok_or_else(unasked)?;
    if let Some(why) = lie(&entry, chunk, &bytes) {
        let object = format!("job {} task {}", task.job, task.name);
        refused_from(&app, (&task.site_name, peer), ("send file", &object, why)).await?;
        let job = task.job;
        let why = format!("file {:?}: {why}", entry.path);
        let detail = why.clone();
        app.write(move |db| Ok(sites::fail(db, &task, &why)?)).await?;
        app.announce(job);
        return Err(Problem::bad(detail));
    }
    if let Some(why) = space::shortage(&app.settings) {
        let (job, why) = (task.job, format!("file {:?}: {why}", entry.path));
        let detail = why.clone();
        app.write(move |db| Ok(sites::fail(db, &task, &why)?)).await?;
        app.announce(job);
        return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail));
    }
    store(&app, &task, (file, chunk), bytes).await?;
    app.announce(task.job);
    Ok(StatusCode::NO_CONTENT)
}

/// Returns how a chunk differs from what its site stated before.
fn lie(entry: &Entry, chunk: u32, bytes: &[u8]) -> Option<&'static str> {
    match entry.chunk_hash(chunk) {
        _ if bytes.len() as u64 != entry.chunk_bytes(chunk) => Some("not the size that the site stated"),
        Some(hash) if sha256(bytes).eq_ignore_ascii_case(hash) => None,
        _ => Some("not the hash that the site stated"),
    }
}

/// Writes a chunk; it is on disk before the database has it.
async fn store(app: &App, task: &Task, (file, chunk): (u32, u32), bytes: Bytes) -> Result<()> {
    let (path, id) = (incoming(app, task, file), task.id);
    blocking(move || {
        let write = || {
            std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
            let file = OpenOptions::new().create(true).write(true).truncate(false).open(&path)?;
            file.write_all_at(&bytes, u64::from(chunk) * CHUNK)?;
            file.sync_data()
        };
        write().map_err(|error: std::io::Error| Problem::internal(&format!("{}: {error}", path.display())))
    })
    .await?;
    app.write(move |db| Ok(sites::add_chunk(db, id, file, chunk)?)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_the_size_and_hash_of_the_list() {
        let entry = Entry { path: "a".to_owned(), bytes: 3, sha256: sha256(b"abc"), chunks: Vec::new() };
        assert_eq!(lie(&entry, 0, b"abc"), None);
        assert_eq!(lie(&entry, 0, b"abd"), Some("not the hash that the site stated"));
        assert_eq!(lie(&entry, 0, b"ab"), Some("not the size that the site stated"));
        assert!(lie(&entry, 1, b"abc").is_some());
    }

    #[test]
    fn versions_of_the_protocol_are_read_first() {
        assert!(check_version(version_of(br#"{"version": 3, "other": 5}"#)).is_err());
        assert!(check_version(version_of(br#"{"version": 2}"#)).is_ok());
    }
}
