//! Shared state of the controller.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use bentpipe_agent::Network;
use rusqlite::Transaction;
use tokio::sync::{Mutex as Turns, Semaphore, broadcast, watch};
use tokio::task::JoinHandle;

use crate::answers::Answers;
use crate::bodies::BODIES;
use crate::children::{self, Groups, LimitsFile, Pool};
use crate::devices::Devices;
use crate::downloads::Downloads;
use crate::entries::Entries;
use crate::gone::{Gone, Open};
use crate::inputs::{Arriving, Inputs};
use crate::left;
use crate::limits::Buckets;
use crate::logins::Logins;
use crate::output::Outputs;
use crate::password;
use crate::places::Places;
use crate::presence::Sites;
use crate::problem::{Problem, Result};
use crate::promised::Promised;
use crate::store::{Store, files};
use crate::threads::Threads;
use crate::whole::Hashes;

/// Password hashes that are computed at a time; each takes 19 MiB.
const HASHES_AT_ONCE: usize = 2;

/// Password hashes that wait for a turn.
const HASHES_WAITING: usize = 64;

/// Archives that are made at a time. Each takes a thread.
const ARCHIVES: children::Places = children::Places { at_once: 16, per_user: 2, waiting: 2 };

/// Turns at reading what jobs left, or write: captures, live samples, files to be compared.
///
/// A stream takes one at each look.
const READINGS: children::Places = children::Places { at_once: 4, per_user: 2, waiting: 100 };

/// Threads of the database. Each keeps a connection.
const QUERIES: usize = 4;

/// Streams that are open at a time, of a user and in total.
pub(crate) const STREAMS: (usize, usize) = (20, 200);

/// Requests of a user that are answered at a time, streams and downloads included.
const REQUESTS: usize = 64;

/// Events that a slow stream may lag behind before it reads them from the database.
const EVENT_BACKLOG: usize = 256;

/// Folder of results in that of a job.
pub(crate) const RESULTS: &str = "results";

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
    /// Most bytes that are stored for a user.
    pub quota: u64,
    /// Set if browsers reach the server over TLS.
    pub secure: bool,
    /// Limits of children.
    pub limits: LimitsFile,
    /// Remover of namespaces whose emulation is gone. It returns their names.
    pub sweep: fn() -> Vec<String>,
    /// User and group of children, if the server is root. Emulations are root's.
    pub job_user: Option<(u32, u32)>,
    /// Set if users of level 3 need a second factor.
    ///
    /// Without one they have level 2.
    pub needs_second_factor: bool,
    /// Proxies that are believed when they name the address of a client.
    pub proxies: Vec<Network>,
}

impl Settings {
    /// Returns the folders that messages of a job do not name.
    pub(crate) fn folders(&self, job: i64) -> Vec<PathBuf> {
        let above = |path: &Path| path.parent().map(Path::to_owned);
        let all = [Some(self.folder.clone()), self.studies.as_deref().and_then(above), above(&self.program)];
        all.into_iter().flatten().chain([job_folder(&self.folder, job)]).collect()
    }
}

/// State of the controller that all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    /// Limit of requests for each session or address.
    pub(crate) buckets: Buckets,
    /// Threads that hash passwords.
    pub(crate) hashing: Threads,
    /// Places of password hashes, those that wait included.
    pub(crate) hashes: Semaphore,
    /// Entries of the audit log, which are bounded by client.
    pub(crate) entries: Entries,
    /// Attempts to log in.
    pub(crate) logins: Logins,
    /// Browsers in which users have logged in before.
    pub(crate) devices: Devices,
    /// Bytes of files that users are sending.
    pub(crate) arriving: Arc<Arriving>,
    /// Bytes of archives that users are sending.
    pub(crate) importing: Arc<Arriving>,
    /// Room on the disk for archives that are unpacked.
    pub(crate) promised: Arc<Promised>,
    /// Output of running jobs.
    pub(crate) outputs: Outputs,
    /// Hashes of results that were read.
    pub(crate) file_hashes: Hashes,
    /// Turns at reading what jobs left.
    readings: Arc<Pool>,
    /// Memory of answers until they are sent.
    pub(crate) answers: Arc<Answers>,
    /// Places of requests and of streams.
    pub(crate) requests: Arc<Places>,
    pub(crate) streams: Arc<Places>,
    /// Turns of archives that are made, and those that are being sent.
    pub(crate) archives: Arc<Pool>,
    pub(crate) downloads: Arc<Downloads>,
    /// Memory of bodies that arrive.
    pub(crate) bodies: Arc<Places>,
    /// Turn at changing the database.
    ///
    /// Those that wait for it take none of the threads that others read with.
    writing: Arc<Turns<()>>,
    /// Threads of the database.
    queries: Threads,
    /// Turns of children that work on requests.
    pub(crate) pool: Arc<Pool>,
    /// Control groups of children, where the server may make some.
    pub(crate) groups: Groups,
    /// Hash that no password has.
    pub(crate) dummy: password::Dummy,
    /// Numbers of jobs with new events.
    pub(crate) news: broadcast::Sender<i64>,
    /// Number of times that a right ended: a session, a token, a level.
    pub(crate) rights: watch::Sender<u64>,
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
            pool: Arc::new(Pool::with_short_work(settings.limits.places)),
            groups,
            devices: Devices::of(&settings.folder),
            settings,
            store,
            buckets: Buckets::default(),
            hashing: Threads::new("hashing", HASHES_AT_ONCE),
            hashes: Semaphore::new(HASHES_AT_ONCE + HASHES_WAITING),
            entries: Entries::default(),
            logins: Logins::default(),
            arriving: Arc::default(),
            importing: Arc::default(),
            promised: Arc::default(),
            outputs: Outputs::default(),
            file_hashes: Hashes::default(),
            readings: Arc::new(Pool::new(READINGS)),
            answers: Arc::default(),
            requests: Places::new(REQUESTS, usize::MAX),
            streams: Places::new(STREAMS.0, STREAMS.1),
            archives: Arc::new(Pool::new(ARCHIVES)),
            downloads: Arc::default(),
            bodies: Places::new(BODIES.0, BODIES.1),
            writing: Arc::default(),
            queries: Threads::new("database", QUERIES),
            dummy: password::Dummy(password::hash(&crate::clock::secret())),
            news: broadcast::channel(EVENT_BACKLOG).0,
            rights: watch::channel(0).0,
            sites: Sites::default(),
        }))
    }

    /// Runs a query in a thread of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let app = self.clone();
        self.queries.run(move || app.store.read(query)).await
    }

    /// Runs a change in a transaction, in a thread of the database.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (app, turn) = (self.clone(), Arc::clone(&self.writing).lock_owned().await);
        let change = move || {
            let _turn = turn;
            app.store.write(change)
        };
        self.queries.run(change).await
    }

    /// Waits for a user's turn at reading what jobs left, and reads.
    ///
    /// The turn is the thread's, and `work` ends soon after its request is given up.
    pub(crate) async fn reading<T: Send + 'static>(
        &self,
        user: i64,
        work: impl FnOnce(&Gone) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (turn, open) = (self.readings.turn(user).await?, Open::default());
        let gone = open.gone();
        blocking(move || {
            let _turn = turn;
            work(&gone)
        })
        .await
    }

    /// Returns the files that a user's scenarios can name.
    pub(crate) async fn inputs(&self, user: i64) -> Result<Inputs> {
        let all = self.read(move |db| Ok(files::named_by(db, user)?)).await?;
        Ok(Inputs::new(&self.settings.folder, all))
    }

    /// Returns the hash of a password, after a wait for a turn.
    pub(crate) async fn hash(&self, password: String) -> Result<String> {
        self.hashing.run(move || Ok(password::hash(&password))).await
    }

    /// Refuses a password that is weak, or among those of the operator's list.
    pub(crate) async fn check_new_password(&self, name: &str, password: &str) -> Result<()> {
        if let Some(reason) = password::refusal(name, password) {
            return Err(Problem::bad(reason));
        }
        let (folder, password) = (self.settings.folder.clone(), password.to_owned());
        let listed = blocking(move || {
            password::is_listed(&folder, &password).map_err(|error| Problem::internal(&error))
        });
        match listed.await? {
            true => Err(Problem::bad("password is in the server's list of known ones: choose another")),
            false => Ok(()),
        }
    }

    /// Returns `true` if a password fits a hash, after a wait for a turn.
    ///
    /// # Errors
    /// Returns "service unavailable" if too many wait already.
    pub(crate) async fn is_right(&self, password: String, hash: String) -> Result<bool> {
        let busy = |_| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many people log in: try again");
        let _place = self.hashes.try_acquire().map_err(busy)?;
        self.hashing.run(move || Ok(password::is_right(&password, &hash))).await
    }

    /// Reports that a right ended, so that streams look whether it was theirs.
    pub(crate) fn right_ended(&self) {
        self.rights.send_modify(|count| *count += 1);
    }

    /// Reports that a job has new events.
    pub(crate) fn announce(&self, job: i64) {
        let _ = self.news.send(job);
    }

    /// Returns the folder of a job.
    pub(crate) fn job_folder(&self, job: i64) -> PathBuf {
        job_folder(&self.settings.folder, job)
    }

    /// Returns a folder below the results of a job. A link on the way is refused.
    ///
    /// # Errors
    /// Returns an error if it is not there.
    pub(crate) fn results(&self, job: i64, path: &str) -> std::io::Result<PathBuf> {
        let folder = self.job_folder(job);
        left::folder(&folder, &format!("{RESULTS}/{path}"))?;
        Ok(folder.join(RESULTS).join(path))
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
