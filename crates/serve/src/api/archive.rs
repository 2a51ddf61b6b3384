//! Zip file with the results of a job, made while it is sent.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body as HttpBody, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::body::Ids;
use super::jobs::found;
use crate::app::App;
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::store::jobs::{self, Artifact};

/// Blocks that are ready before a client takes them, and their size.
const BLOCKS: usize = 4;
const BLOCK: usize = 64 << 10;
/// Endings of files that deflate does not shorten.
const COMPRESSED: [&str; 5] = [".parquet", ".gz", ".png", ".zip", ".mp4"];

pub(crate) async fn archive(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Response> {
    found(&app, &caller, id).await?;
    let (files, folder) = app.read(move |db| Ok((jobs::artifacts(db, id)?, jobs::folder(db, id)?))).await?;
    let folder = folder.filter(|_| !files.is_empty()).ok_or_else(Problem::not_found)?;
    let Ok(turn) = Arc::clone(&app.archives).try_acquire_owned() else {
        let detail = "other archives are being sent: try again in a minute";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    let root = app.job_folder(id).join("results").join(folder);
    let root = File::open(root).map_err(|_| Problem::not_found())?;
    let (sender, blocks) = mpsc::channel(BLOCKS);
    std::thread::spawn(move || {
        let mut sink = Sink { block: Vec::with_capacity(BLOCK), sender };
        if let Err(error) = pack(&root, &format!("job-{id}"), &files, &mut sink) {
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

/// Writes an archive of files below `root`. One that was removed since it was listed is left out.
fn pack(root: &File, folder: &str, files: &[Artifact], sink: &mut Sink) -> io::Result<()> {
    let mut archive = ZipWriter::new_stream(&mut *sink);
    for artifact in files {
        let mut file = match super::jobs::open_below(root, &artifact.path) {
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
        io::copy(&mut file, &mut archive)?;
    }
    archive.finish().map_err(io::Error::other)?;
    sink.flush()
}

/// Writer into a channel, a block at a time.
struct Sink {
    block: Vec<u8>,
    sender: mpsc::Sender<io::Result<Bytes>>,
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
        // A channel without a receiver has lost its client.
        self.sender.blocking_send(Ok(block.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
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
