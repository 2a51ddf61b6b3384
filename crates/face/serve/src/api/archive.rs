//! Zip files of jobs: made while they are sent, and read when they come.

use std::fs::File;
use std::io::{self, Read, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body as HttpBody, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use rusqlite::Transaction;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::timeout;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::body::Ids;
use super::jobs::found;
use crate::app::App;
use crate::archive::{self, Description, Entry, Input, Prints};
use crate::children::Turn;
use crate::clock::{hex, since_start_ms};
use crate::connections::Connection;
use crate::downloads::Download;
use crate::gone::Gone;
use crate::guard::Caller;
use crate::left;
use crate::log;
use crate::problem::{Problem, Result};
use crate::store::files::{self, Content};
use crate::store::jobs::{self, Artifact, Job, JobState, KindRow};
use crate::store::scenarios;
use crate::whole::{self, Hashes, Sums};

/// Blocks that are ready before a client takes them, and their size.
const BLOCKS: usize = 4;
const BLOCK: usize = 64 << 10;
/// Time between two looks for a download that stalls, while a user waits.
const LOOK: Duration = Duration::from_secs(1);
/// Time in which files are compared with their checksums before an archive begins.
const CHECKED: Duration = Duration::from_secs(20);
/// Endings of files that deflate does not shorten.
const COMPRESSED: [&str; 5] = [".parquet", ".gz", ".png", ".zip", ".mp4"];

pub(crate) async fn archive(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    connection: Option<Extension<Connection>>,
    Ids(id): Ids<i64>,
) -> Result<Response> {
    let job = found(&app, &caller, id).await?;
    let (files, folder, description) =
        app.read(move |db| Ok((jobs::artifacts(db, id)?, jobs::folder(db, id)?, describe(db, job)?))).await?;
    let folder = folder.filter(|_| !files.is_empty()).ok_or_else(Problem::not_found)?;
    let turn = turn(&app, caller.user.id).await?;
    let download = app.downloads.begin(caller.user.id, connection.map(|Extension(own)| own));
    let root =
        app.results(id, &folder).and_then(|root| left::root(&root)).map_err(|_| Problem::not_found())?;
    let kept = app.clone();
    // Both turns are the thread's, also when the request is given up.
    let checked = app.reading(caller.user.id, move |gone| {
        check((&kept.file_hashes, gone), &root, (&files, CHECKED)).map(|()| (root, files, turn))
    });
    let (root, files, turn) = checked.await?;
    let (sender, blocks) = mpsc::channel(BLOCKS);
    std::thread::spawn(move || {
        let mut sink = Sink { block: Vec::with_capacity(BLOCK), sender, download };
        let packed = pack((&root, &app.file_hashes), &format!("job-{id}"), (&files, description), &mut sink);
        if let Err(error) = packed {
            log::often(&format!("note: archive of job {id}: {error}"));
            // The body ends before the archive's directory: no program takes it for whole.
            let _ = sink.sender.blocking_send(Err(error));
        }
        drop(turn);
    });
    let headers = [
        (header::CONTENT_TYPE, "application/zip".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"job-{id}.zip\"")),
    ];
    Ok((headers, HttpBody::from_stream(Blocks(blocks))).into_response())
}

/// Compares files with their checksums for a time. What is left is compared while it is sent.
///
/// # Errors
/// Returns an error that names the first damaged file.
fn check(
    (hashes, gone): (&Hashes, &Gone),
    root: &File,
    (files, time): (&[Artifact], Duration),
) -> Result<()> {
    let (end, mut sums) = (since_start_ms() + time.as_millis() as i64, Sums::new(root));
    for artifact in files {
        match left::file_in(root, &artifact.path) {
            _ if since_start_ms() > end || gone.is_set() => break,
            Ok(mut file) => {
                whole::check((hashes, gone), &mut sums, (&artifact.path, &mut file))
                    .map_err(whole::problem)?;
            }
            // It was removed, or is what only its download refuses.
            Err(_) => {}
        }
    }
    Ok(())
}

/// Waits for a turn of a user. Downloads that stall give way meanwhile.
async fn turn(app: &App, user: i64) -> Result<Turn> {
    let mut asked = pin!(app.archives.turn(user));
    loop {
        match timeout(LOOK, &mut asked).await {
            Ok(turn) => return turn,
            Err(_) => app.downloads.make_room(user, app.archives.is_full()),
        }
    }
}

/// Returns the description of a job, without its files.
fn describe(db: &Transaction<'_>, job: Job) -> Result<Description> {
    let input = |one: Content| Input { name: one.name, bytes: one.size.unsigned_abs(), sha256: one.sha256 };
    let prints = |(settings, fingerprints): (serde_json::Value, String)| Prints {
        settings: serde_json::from_value(settings).unwrap_or_default(),
        fingerprints: fingerprints.split_whitespace().map(str::to_owned).collect(),
    };
    let scenario = job.kind.version().map(|version| scenarios::text(db, version)).transpose()?;
    let KindRow { kind, study, search, sites, quick, .. } = job.kind.into();
    let JobState::Over(state) = job.state else { return Err(Problem::not_found()) };
    Ok(Description {
        format: archive::FORMAT,
        program: job.origin.map_or_else(|| bentpipe_record::VERSION.to_owned(), |origin| origin.program),
        job: job.id,
        kind,
        name: job.name,
        state,
        message: job.message,
        study,
        quick,
        search,
        sites,
        seeds: job.seeds,
        duration: job.duration,
        note: job.note,
        tags: job.tags,
        runs: job.runs,
        finished: job.finished,
        created: job.created,
        started: job.started,
        ended: job.ended,
        scenario,
        inputs: files::of_job(db, job.id)?.into_iter().map(input).collect(),
        points: jobs::points(db, job.id)?.into_iter().map(prints).collect(),
        files: Vec::new(),
    })
}

/// Returns the SHA-256 that a folder's list, or the job, states of a file.
fn stated(sums: &mut Sums<'_>, description: &Description, path: &str) -> io::Result<Option<String>> {
    let is_named = |input: &&Input| path.strip_prefix("input/") == Some(&input.name);
    match description.inputs.iter().find(is_named) {
        Some(input) => Ok(Some(input.sha256.clone())),
        None => sums.of(path).map_err(io::Error::other),
    }
}

/// Writes an archive of files below `root`, and their list. One that was removed since it was listed is left out.
///
/// It ends with an error at a file that is not as it was written.
fn pack(
    (root, hashes): (&File, &Hashes),
    folder: &str,
    (files, mut description): (&[Artifact], Description),
    sink: &mut Sink,
) -> io::Result<()> {
    let (mut archive, mut sums) = (ZipWriter::new_stream(&mut *sink), Sums::new(root));
    for artifact in files {
        let mut file = match left::file_in(root, &artifact.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let is_compressed = COMPRESSED.iter().any(|ending| artifact.path.ends_with(ending));
        let method = if is_compressed { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .large_file(artifact.bytes > i64::from(u32::MAX) / 2);
        archive.start_file(format!("{folder}/{}", artifact.path), options).map_err(io::Error::other)?;
        let (identity, stated) = (whole::identity(&file)?, stated(&mut sums, &description, &artifact.path)?);
        let (bytes, sha256) = copy(&mut file, &mut archive)?;
        hashes.note(identity, &sha256);
        whole::compare(&artifact.path, stated.as_deref(), &sha256).map_err(io::Error::other)?;
        description.files.push(Entry { path: artifact.path.clone(), bytes, sha256 });
    }
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    archive.start_file(format!("{folder}/{}", archive::NAME), options).map_err(io::Error::other)?;
    archive.write_all(&serde_json::to_vec_pretty(&description)?)?;
    archive.finish().map_err(io::Error::other)?;
    sink.flush()
}

/// Copies a file, and returns its size and hash.
fn copy(from: &mut File, to: &mut impl Write) -> io::Result<(u64, String)> {
    let (mut block, mut hash, mut bytes) = (vec![0; BLOCK], Sha256::new(), 0);
    loop {
        let read = from.read(&mut block)?;
        if read == 0 {
            return Ok((bytes, hex(&hash.finalize())));
        }
        bytes += read as u64;
        hash.update(&block[..read]);
        to.write_all(&block[..read])?;
    }
}

/// Writer into a channel, a block at a time.
struct Sink {
    block: Vec<u8>,
    sender: mpsc::Sender<io::Result<Bytes>>,
    download: Arc<Download>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        let bytes = block.len();
        // A channel without a receiver has lost its client.
        self.sender.blocking_send(Ok(block.into())).map_err(|_| io::ErrorKind::BrokenPipe)?;
        self.download.pass(bytes);
        Ok(())
    }
}

/// Stream of the blocks of an archive.
struct Blocks(mpsc::Receiver<io::Result<Bytes>>);

impl futures_core::Stream for Blocks {
    type Item = io::Result<Bytes>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
