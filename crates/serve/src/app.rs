//! Shared state of the controller.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Transaction;
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinHandle;

use crate::children::{Groups, LimitsFile, Pool};
use crate::inputs::Inputs;
use crate::limits::Buckets;
use crate::password;
use crate::presence::Sites;
use crate::problem::{Problem, Result};
use crate::store::{Store, files};

/// Password hashes that are computed at a time; each takes 19 MiB.
const HASHES_AT_ONCE: usize = 2;

/// Archives that are made at a time; each takes a thread.
const ARCHIVES_AT_ONCE: usize = 4;

/// Archives that are read at a time; each takes memory for its directory.
const IMPORTS_AT_ONCE: usize = 1;

/// Events that a slow stream may lag behind before it reads them from the database.
const EVENT_BACKLOG: usize = 256;

/// Settings of the controller.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Data folder.
    pub folder: PathBuf,
    /// Program that runs jobs: this one.
    pub program: PathBuf,
    /// Names by which browsers reach the server, with the port.
    pub hosts: Vec<String>,
    /// Folder that holds the studies, if there is one.
    pub studies: Option<PathBuf>,
    /// Number of jobs that run at a time.
    pub jobs: usize,
    /// Number of runs of a campaign at a time; zero for one per processor.
    pub campaign_runs: usize,
    /// Bytes of the data folder's disk that stay free.
    ///
    /// On a disk with less no job starts and no file is taken.
    pub keep_free: u64,
    /// Set if browsers reach the server over TLS.
    pub secure: bool,
    /// Limits of children.
    pub limits: LimitsFile,
}

/// State of the controller that all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    /// Limit of requests for each session or address.
    pub(crate) buckets: Buckets,
    /// Turns at hashing passwords.
    pub(crate) hashing: Semaphore,
    /// Turns at making archives.
    pub(crate) archives: Arc<Semaphore>,
    /// Turns at reading archives.
    pub(crate) imports: Arc<Semaphore>,
    /// Turns of children that work on requests.
    pub(crate) pool: Arc<Pool>,
    /// Control groups of children, where the server may make some.
    pub(crate) groups: Groups,
    /// Hash that no password has.
    pub(crate) dummy: password::Dummy,
    /// Numbers of jobs with new events.
    pub(crate) news: broadcast::Sender<i64>,
    /// Sites that are connected.
    pub(crate) sites: Sites,
}

impl std::ops::Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(settings: Settings, store: Store, groups: Groups) -> App {
        App(Arc::new(Inner {
            pool: Arc::new(Pool::new(settings.limits.places)),
            groups,
            settings,
            store,
            buckets: Buckets::default(),
            hashing: Semaphore::new(HASHES_AT_ONCE),
            archives: Arc::new(Semaphore::new(ARCHIVES_AT_ONCE)),
            imports: Arc::new(Semaphore::new(IMPORTS_AT_ONCE)),
            dummy: password::Dummy(password::hash(&crate::clock::secret())),
            news: broadcast::channel(EVENT_BACKLOG).0,
            sites: Sites::default(),
        }))
    }

    /// Runs a query outside of the threads that serve requests.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let app = self.clone();
        blocking(move || app.store.read(query)).await
    }

    /// Runs a change in a transaction, outside of the threads that serve requests.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let app = self.clone();
        blocking(move || app.store.write(change)).await
    }

    /// Returns the files that a user's scenarios can name.
    pub(crate) async fn inputs(&self, user: i64) -> Result<Inputs> {
        let all = self.read(move |db| Ok(files::named_by(db, user)?)).await?;
        Ok(Inputs::new(&self.settings.folder, all))
    }

    /// Returns the hash of a password, after a wait for a turn.
    pub(crate) async fn hash(&self, password: String) -> Result<String> {
        let _turn = self.hashing.acquire().await.map_err(|error| Problem::internal(&error))?;
        blocking(move || Ok(password::hash(&password))).await
    }

    /// Returns `true` if a password fits a hash, after a wait for a turn.
    pub(crate) async fn is_right(&self, password: String, hash: String) -> Result<bool> {
        let _turn = self.hashing.acquire().await.map_err(|error| Problem::internal(&error))?;
        blocking(move || Ok(password::is_right(&password, &hash))).await
    }

    /// Reports that a job has new events.
    pub(crate) fn announce(&self, job: i64) {
        let _ = self.news.send(job);
    }

    /// Returns the folder of a job.
    pub(crate) fn job_folder(&self, job: i64) -> PathBuf {
        job_folder(&self.settings.folder, job)
    }
}

/// Returns the folder of a job in a data folder.
pub(crate) fn job_folder(data: &Path, job: i64) -> PathBuf {
    data.join("jobs").join(job.to_string())
}

/// Runs `work` on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let answer = Arc::new(Mutex::new(None));
    let place = Arc::clone(&answer);
    let work = Box::new(move || *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(work()));
    in_thread(work).await.map_err(|error| Problem::internal(&error))?;
    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
    answer.expect("work that did not panic has an answer")
}

/// Starts work on a thread that may block.
///
/// The box has one type for all callers: a task of tokio is 5 kB of code, which is compiled for each type.
fn in_thread(work: Box<dyn FnOnce() + Send>) -> JoinHandle<()> {
    tokio::task::spawn_blocking(work)
}
