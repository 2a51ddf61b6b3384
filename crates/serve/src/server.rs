//! The server: routes, connections, limits in time and size.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::{Extension, Router, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::api::{self, body};
use crate::app::{App, Settings};
use crate::guard::{Access, Guard, Peer, Refuse, guard};
use crate::runner::Runner;
use crate::setup::{self, Error};
use crate::store::people;
use crate::{log, pages};

/// Time in which a client sends the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time in which a client sends the rest of a request, and the server answers. Streams have their own.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// Most bytes of a request's head.
const MAX_HEAD: usize = 32 << 10;
/// Most connections.
const MAX_CONNECTIONS: usize = 512;

/// Address of a server and its settings.
#[derive(Clone, Debug)]
pub struct Address {
    /// Address to listen at, of this machine alone.
    pub listen: SocketAddr,
    /// Further names by which a proxy or tunnel reaches the server, with the port.
    pub hosts: Vec<String>,
    /// Set if a proxy in front ends TLS.
    pub behind_tls: bool,
}

/// Settings of jobs.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// Number of jobs that run at a time.
    pub at_once: usize,
    /// Number of runs of a campaign at a time; zero for one per processor.
    pub campaign_runs: usize,
    /// Program that runs them: this one.
    pub program: PathBuf,
    /// Folder that holds the studies, if there is one.
    pub studies: Option<PathBuf>,
}

/// Serves a data folder until SIGINT or SIGTERM. Running jobs go on, and the next server adopts them.
///
/// `ready` is called with the address once requests are answered.
///
/// # Errors
/// Returns an error if the address or the folder cannot be used, or if users are missing.
pub fn run(
    folder: &Path,
    address: &Address,
    jobs: JobSettings,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    if !address.listen.ip().is_loopback() {
        let detail = "bentpipe serve has no TLS of its own: listen at 127.0.0.1, and let a proxy that ends TLS, or an SSH \
                      tunnel, lead there";
        return Err(Error::Address(format!("{}: {detail}", address.listen)));
    }
    let data = setup::open(folder)?;
    if data.store.read(people::count)? == 0 {
        return Err(Error::NoUsers(folder.display().to_string()));
    }
    let wrong = |error: std::io::Error| Error::Address(format!("{}: {error}", address.listen));
    let listener = StdListener::bind(address.listen).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let settings = Settings {
        folder,
        program: jobs.program,
        studies: jobs.studies.and_then(|folder| std::fs::canonicalize(folder).ok()),
        hosts: hosts(bound.port(), &address.hosts),
        jobs: jobs.at_once,
        campaign_runs: jobs.campaign_runs,
        secure: address.behind_tls,
    };
    // The lock lasts as long as the jobs are looked after.
    let setup::Data { store, lock } = data;
    let app = App::new(settings, store);
    let (wake, woken) = sync_channel(1);
    let runner = Runner::new(app.clone());
    let jobs = std::thread::spawn(move || runner.run(&woken));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .map_err(wrong)?;
    ready(bound);
    let served = runtime.block_on(serve(app, listener, wake)).map_err(wrong);
    runtime.shutdown_timeout(Duration::from_secs(1));
    let _ = jobs.join();
    drop(lock);
    served
}

fn hosts(port: u16, further: &[String]) -> Vec<String> {
    let local = [IpAddr::from(Ipv4Addr::LOCALHOST).to_string(), "localhost".to_owned(), "[::1]".to_owned()];
    local.into_iter().map(|name| format!("{name}:{port}")).chain(further.iter().cloned()).collect()
}

/// Returns the routes of the interface and of the pages, each behind its guard.
pub(crate) fn router(app: &App) -> Router {
    let guarded = |access, refuse: Refuse| {
        middleware::from_fn_with_state(Guard { app: app.clone(), access, refuse }, guard)
    };
    let mut router = Router::new();
    for operation in api::operations() {
        let path = format!("/api/v1{}", operation.path);
        router = router.route(&path, (operation.route)().layer(guarded(operation.access, api::refuse)));
    }
    for page in pages::pages() {
        router = router.route(page.path, (page.route)().layer(guarded(page.access, pages::refuse)));
    }
    let nowhere = axum::routing::any(|| async { pages::problem(&crate::problem::Problem::not_found()) });
    router
        .fallback_service(nowhere.layer(guarded(Access::Public, pages::refuse)).with_state(app.clone()))
        .layer(DefaultBodyLimit::max(body::MAX_BYTES))
        .layer(middleware::from_fn(in_time))
        .with_state(app.clone())
}

async fn serve(app: App, listener: StdListener, wake: SyncSender<()>) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let router = router(&app);
    let places = std::sync::Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut news = app.news.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Ok(place) = std::sync::Arc::clone(&places).try_acquire_owned() else { continue };
                    let router = router.clone();
                    tokio::spawn(async move {
                        connection(stream, peer, router).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    log::line(&format!("error: accept: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            // A launch or a cancellation does not wait for the next turn.
            _ = news.recv() => drop(wake.try_send(())),
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, router: Router) {
    let router = router.layer(Extension(Peer(peer.ip())));
    let service = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_HEAD);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

/// Limits the time until an answer begins; streams go on after that.
async fn in_time(request: axum::extract::Request, next: middleware::Next) -> axum::response::Response {
    use axum::response::IntoResponse;
    match tokio::time::timeout(REQUEST_TIME, next.run(request)).await {
        Ok(response) => response,
        Err(_) => axum::http::StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}
