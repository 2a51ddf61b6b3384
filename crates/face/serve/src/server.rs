//! The server: routes, connections, limits in time and size.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::{Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use bentpipe_agent::Network;
use bentpipe_emu::streams;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tower::ServiceExt;

use crate::api;
use crate::app::{App, Settings};
use crate::children::{Groups, LimitsFile};
use crate::connections::{Connection, Connections, HEAD_TIME, Patient, Shared};
use crate::door;
use crate::forwarded;
use crate::guard::{Access, Guard, Peer, Refuse, guard};
use crate::pace::{Pace, in_time};
use crate::presence::Channel;
use crate::problem::Problem;
use crate::runner::Runner;
use crate::setup::{self, Error};
use crate::store::{Store, jobs, people};
use crate::tls::{self, Certificate, Tls};
use crate::{anchor, audited, bodies, log, pages, reserve};

/// Bytes of the kernel's buffers of a connection, in each direction.
///
/// They are twice as many with what the kernel adds.
const BUFFER: usize = 128 << 10;
/// Longest time for which the kernel keeps what a peer does not take.
const KEPT: Duration = Duration::from_secs(60);
/// Most bytes of a request's head.
const MAX_HEAD: usize = 32 << 10;
/// Number of turns in which a temporary server waits for the end of its jobs.
const LAST_TURNS: u32 = 75;
/// Time of such a turn.
const LAST_TURN: Duration = Duration::from_millis(200);
/// Pause after a connection took the place of another one.
///
/// So it can send its request before it may have to go itself.
const CROWDED: Duration = Duration::from_millis(2);

/// Detail of a request that the interface does not know.
const NO_OPERATION: &str = "no such operation; /api/v1/openapi.json describes all";

/// Address of a server and its settings.
#[derive(Clone, Debug)]
pub struct Address {
    /// Address to listen at. Without TLS of its own it is one of this machine alone.
    pub listen: SocketAddr,
    /// Further names by which browsers reach the server, with the port.
    pub hosts: Vec<String>,
    /// TLS between browsers and the server.
    pub security: Security,
    /// Set if users of level 3 need a second factor.
    ///
    /// Without one they have level 2.
    pub needs_second_factor: bool,
    /// Proxies that are believed when they name the address of a client.
    pub proxies: Vec<Network>,
}

/// TLS between browsers and the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// Clear text, for this machine alone.
    Plain,
    /// A proxy in front ends it.
    BehindProxy,
    /// The server ends it.
    Own(Certificate),
}

/// A server that answers requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Address as browsers take it: `http://127.0.0.1:8080`.
    pub url: String,
    /// SHA-256 of its certificate.
    pub fingerprint: Option<String>,
    /// File that makes programs trust its own certificate.
    pub trust: Option<PathBuf>,
}

/// Settings of jobs.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// Number of jobs that run at a time.
    pub at_once: usize,
    /// Number of runs of a campaign at a time; zero for one per processor.
    pub campaign_runs: usize,
    /// Bytes of the data folder's disk that stay free.
    ///
    /// On a disk with less no job starts and no file is taken.
    pub keep_free: u64,
    /// Most bytes that are stored for a user.
    pub quota: u64,
    /// Program that runs them: this one.
    pub program: PathBuf,
    /// Folder that holds the studies, if there is one.
    pub studies: Option<PathBuf>,
    /// File of the limits of children. Default: `limits.toml` of the data folder, if it is there.
    pub limits: Option<PathBuf>,
    /// User and group of jobs' processes but emulations.
    ///
    /// Only root can have others than its own.
    pub user: Option<(u32, u32)>,
    /// Remover of namespaces whose emulation is gone. It returns their names.
    pub sweep: fn() -> Vec<String>,
    /// Set to make a new key of the audit log if it is missing.
    pub makes_audit_key: bool,
    /// Set for a server of another program, which is its parent.
    ///
    /// When the standard input ends, so do the server, its jobs and the data folder.
    pub is_temporary: bool,
}

/// Serves a data folder until SIGINT, SIGTERM or SIGHUP. Running jobs go on, and the next server adopts them.
///
/// `ready` is called once requests are answered.
///
/// # Errors
/// Returns an error if address, certificate or folder cannot be used, or if users are missing.
pub fn run(
    folder: &Path,
    address: &Address,
    jobs: JobSettings,
    ready: impl FnOnce(&Listening),
) -> Result<(), Error> {
    check_address(address)?;
    let open = if jobs.makes_audit_key { setup::open_with_new_key } else { setup::open };
    let data = open(folder)?;
    if data.store.read(people::count)? == 0 {
        return Err(Error::NoUsers(folder.display().to_string()));
    }
    let limits = LimitsFile::read(jobs.limits.as_deref(), folder)?;
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let socket = Socket::open(&folder, address)?;
    let is_temporary = jobs.is_temporary;
    let settings = settings(&folder, (address, &socket), jobs, limits);
    // The lock lasts as long as the jobs are looked after.
    let setup::Data { store, lock } = data;
    let app = prepared(settings, store, socket.tls.as_ref());
    let (wake, woken) = sync_channel(1);
    let runner = Runner::new(app.clone());
    let jobs = std::thread::spawn(move || runner.run(&woken));
    let served = answer(&app, socket, (wake, is_temporary), ready);
    let _ = jobs.join();
    if let Err(error) = app.store.finish() {
        log::line(&format!("note: changes are left in data.sqlite-wal: {error}"));
    }
    drop(lock);
    if is_temporary {
        let _ = std::fs::remove_dir_all(folder);
    }
    served.map_err(|error| wrong_address(address.listen, &error))
}

/// Socket that listens, with the certificate of its connections.
struct Socket {
    listener: StdListener,
    bound: SocketAddr,
    tls: Option<Arc<Tls>>,
}

impl Socket {
    fn open(folder: &Path, address: &Address) -> Result<Socket, Error> {
        let bind = || {
            let listener = StdListener::bind(address.listen)?;
            streams::bound(&listener, BUFFER, KEPT)?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let (bound, listener) = bind().map_err(|error| wrong_address(address.listen, &error))?;
        let tls = match &address.security {
            Security::Own(certificate) => {
                let names = tls::names(&address.hosts, address.listen.ip());
                Some(Arc::new(Tls::new(certificate, folder, &names)?))
            }
            _ => None,
        };
        Ok(Socket { listener, bound, tls })
    }

    fn listening(&self) -> Listening {
        let (bound, tls) = (self.bound, self.tls.as_ref());
        Listening {
            url: format!("{}://{bound}", if tls.is_some() { "https" } else { "http" }),
            fingerprint: tls.map(|tls| tls.fingerprint.clone()),
            trust: tls.and_then(|tls| tls.trust.clone()),
        }
    }
}

fn settings(
    folder: &Path,
    (address, socket): (&Address, &Socket),
    jobs: JobSettings,
    limits: LimitsFile,
) -> Settings {
    Settings {
        folder: folder.to_owned(),
        program: jobs.program,
        studies: jobs.studies.and_then(|folder| std::fs::canonicalize(folder).ok()),
        hosts: hosts(socket.bound, &address.hosts, socket.tls.is_some()),
        jobs: jobs.at_once,
        campaign_runs: jobs.campaign_runs,
        keep_free: jobs.keep_free,
        quota: jobs.quota,
        secure: address.security != Security::Plain,
        limits,
        sweep: jobs.sweep,
        job_user: jobs.user,
        needs_second_factor: address.needs_second_factor,
        proxies: address.proxies.clone(),
    }
}

/// Prepares disk and kernel, and returns the state of a server.
fn prepared(settings: Settings, store: Store, tls: Option<&Arc<Tls>>) -> App {
    if let Err(error) = reserve::make(&settings.folder) {
        log::line(&format!("note: no reserve of the disk: {error}"));
    }
    let groups = Groups::find().map(Groups::swept).unwrap_or_else(|why| {
        log::line(&format!("note: children have limits for each process alone: {why}"));
        Groups::default()
    });
    let app = App::new(settings, store, groups);
    if let Some(tls) = tls.cloned() {
        let _ = app.sites.certificate.set(Box::new(move || tls.hash()));
    }
    app
}

/// Answers requests until the server is to end.
fn answer(
    app: &App,
    socket: Socket,
    (wake, is_temporary): (SyncSender<()>, bool),
    ready: impl FnOnce(&Listening),
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(8)
        .enable_all()
        .build()?;
    let served = runtime.block_on(async {
        // Before the address is printed: a signal that comes at once ends the server in order too.
        let ends = Ends::new(input_end(is_temporary)?)?;
        ready(&socket.listening());
        let over = serve(app.clone(), socket, wake.clone(), ends).await;
        if is_temporary {
            end_jobs(app, &wake).await;
        }
        audited::write(app, true).await;
        anchor::write(app, 0).await;
        over
    });
    // The jobs are looked after until it is dropped.
    drop(wake);
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

fn wrong_address(listen: SocketAddr, error: &std::io::Error) -> Error {
    Error::Address(format!("{listen}: {}", refusal(error)))
}

/// Returns the reason for which an address cannot be listened at, with what helps.
fn refusal(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            format!(
                "{error}: ports below 1024 are for root or CAP_NET_BIND_SERVICE: take another, such as 8443"
            )
        }
        std::io::ErrorKind::AddrInUse => format!("{error}: another program listens there: take another port"),
        _ => error.to_string(),
    }
}

/// Returns what reports the end of the standard input, if the server ends with it.
fn input_end(is_awaited: bool) -> std::io::Result<oneshot::Receiver<()>> {
    let (sender, receiver) = oneshot::channel();
    if !is_awaited {
        // Nothing is ever reported.
        std::mem::forget(sender);
        return Ok(receiver);
    }
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        // A parent that was killed closes its end of the pipe, too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = sender.send(());
    })?;
    Ok(receiver)
}

/// Cancels all jobs, and waits some time for their ends.
async fn end_jobs(app: &App, wake: &SyncSender<()>) {
    for _ in 0..LAST_TURNS {
        let open = app.write(|db| {
            let open = jobs::unfinished(db)?;
            open.iter().try_for_each(|job| jobs::cancel(db, *job).map(drop))?;
            Ok(open.len())
        });
        if !matches!(open.await, Ok(1..)) {
            return;
        }
        let _ = wake.try_send(());
        tokio::time::sleep(LAST_TURN).await;
    }
}

/// Refuses addresses at which passwords would be sent in the clear.
fn check_address(address: &Address) -> Result<(), Error> {
    let (listen, refused) =
        (address.listen, |detail: &str| Error::Address(format!("{}: {detail}", address.listen)));
    if listen.ip().is_loopback() {
        return Ok(());
    }
    if !matches!(address.security, Security::Own(_)) {
        return Err(refused(
            "other machines need TLS: give --certificate and --key, or --self-signed; or listen at 127.0.0.1, and let a \
             proxy that ends TLS, or an SSH tunnel, lead there",
        ));
    }
    if listen.ip().is_unspecified() && address.hosts.is_empty() {
        return Err(refused("name the server as browsers reach it, such as --host lab.example.org"));
    }
    Ok(())
}

/// Returns the names that requests may have, with and without port as browsers send them.
fn hosts(bound: SocketAddr, further: &[String], has_tls: bool) -> Vec<String> {
    let (port, default) = (bound.port(), if has_tls { 443 } else { 80 });
    let local = [IpAddr::from(Ipv4Addr::LOCALHOST).to_string(), "localhost".to_owned(), "[::1]".to_owned()];
    let own = SocketAddr::new(bound.ip(), 0).to_string();
    let own = own.trim_end_matches(":0").to_owned();
    let mut all: Vec<String> = local.into_iter().chain([own]).map(|name| format!("{name}:{port}")).collect();
    all.extend(further.iter().cloned());
    // A proxy has a port of its own, which is not known here.
    if has_tls {
        let bare = |host: &&String| tls::without_port(host) == **host && !host.contains(':');
        all.extend(further.iter().filter(bare).map(|host| format!("{host}:{port}")));
    }
    let short: Vec<String> =
        all.iter().filter_map(|host| host.strip_suffix(&format!(":{default}"))).map(str::to_owned).collect();
    all.extend(short);
    all
}

/// Returns the routes of the interface and of the pages, each behind its guard.
pub(crate) fn router(app: &App) -> Router {
    let guard_of = |access, refuse: Refuse, query| {
        middleware::from_fn_with_state(
            Guard { app: app.clone(), access, refuse, query, page: pages::problem_page },
            guard,
        )
    };
    let guarded = |access, refuse| guard_of(access, refuse, None);
    let mut router = Router::new();
    for operation in api::operations() {
        let path = format!("/api/v1{}", operation.path);
        let guard = guard_of(operation.access, api::refuse, Some(operation.query));
        router = router.route(&path, (operation.route)().layer(guard));
    }
    for page in pages::pages() {
        router = router.route(page.path, (page.route)().layer(guarded(page.access, pages::refuse)));
    }
    for door in door::doors() {
        router = router.route(door.path, (door.route)().layer(guarded(door.access, api::refuse)));
    }
    let nowhere = axum::routing::any(async |uri: Uri| unknown(&uri, &Problem::not_found()));
    let method = async |uri: Uri| {
        unknown(&uri, &Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the path has other methods"))
    };
    router
        .method_not_allowed_fallback(method)
        .fallback_service(nowhere.layer(guarded(Access::Public, pages::refuse)).with_state(app.clone()))
        .layer(DefaultBodyLimit::max(bodies::MAX_BYTES))
        .layer(middleware::from_fn(|request: axum::extract::Request, next: middleware::Next| {
            in_time(request, next, Pace::USUAL)
        }))
        .with_state(app.clone())
}

/// Returns the answer for an unknown path or method: problem details or a page.
fn unknown(uri: &Uri, problem: &Problem) -> Response {
    let path = uri.path();
    match path.starts_with("/api/") {
        true => Problem { detail: format!("{path}: {NO_OPERATION}"), ..problem.clone() }.into_response(),
        false => pages::problem(problem),
    }
}

/// Events that end a server.
struct Ends {
    signals: [Signal; 3],
    input: oneshot::Receiver<()>,
}

impl Ends {
    fn new(input: oneshot::Receiver<()>) -> std::io::Result<Ends> {
        let signals = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        Ok(Ends { signals, input })
    }

    /// Waits for the first of them.
    async fn come(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = &mut self.input => {}
        }
    }
}

async fn serve(app: App, socket: Socket, wake: SyncSender<()>, mut ends: Ends) -> std::io::Result<()> {
    let Socket { listener, tls, .. } = socket;
    if let Some(tls) = &tls {
        tokio::spawn(Arc::clone(tls).renew());
    }
    let listener = TcpListener::from_std(listener)?;
    tokio::spawn(anchor::keep(app.clone()));
    tokio::spawn(audited::keep(app.clone()));
    let router = router(&app);
    let connections = Connections::default();
    let mut news = app.news.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let is_proxy = forwarded::is_one_of(peer.ip(), &app.settings.proxies);
                    let Some((own, is_crowded)) = connections.enter(peer.ip(), is_proxy) else { continue };
                    let client = Client { peer: Peer(peer.ip()), own, router: router.clone() };
                    tokio::spawn(attend(stream, client, app.clone(), tls.clone()));
                    if is_crowded {
                        tokio::time::sleep(CROWDED).await;
                    }
                }
                Err(error) => {
                    log::often(&format!("error: accept: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            // A launch or a cancellation does not wait for the next turn.
            _ = news.recv() => drop(wake.try_send(())),
            () = ends.come() => return Ok(()),
        }
    }
}

/// First byte of a TLS connection: a handshake record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// Answer to a request without TLS.
const NEEDS_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n\
    This server speaks TLS: its address begins with https://\n";

/// Label of the exporter value of a TLS session (RFC 9266).
const BINDING: &[u8] = b"EXPORTER-Channel-Binding";

/// Returns the exporter value of a session of TLS 1.3.
fn binding(session: &rustls::ServerConnection) -> Option<[u8; 32]> {
    let is_new = session.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3);
    is_new.then(|| session.export_keying_material([0; 32], BINDING, Some(&[])).ok()).flatten()
}

/// Serves a connection until it ends or has to make room.
async fn attend(stream: TcpStream, client: Client, app: App, tls: Option<Arc<Tls>>) {
    let (own, shared) = (client.own.clone(), Shared::new(stream));
    let served = async {
        match tls {
            Some(tls) => secured(&shared, client, &app, &tls).await,
            None => connection(Patient::new(shared.clone()), client, Channel::new(None)).await,
        }
    };
    tokio::select! {
        () = own.ended() => shared.reset(),
        () = served => shared.finish(&own).await,
    }
}

/// Client of a connection, and what serves it.
struct Client {
    peer: Peer,
    own: Connection,
    router: Router,
}

async fn secured(shared: &Shared, client: Client, app: &App, tls: &Tls) {
    let handshake = async {
        let (mut first, mut stream) = ([0], Patient::new(shared.clone()));
        if shared.stream().peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
            stream.write_all(NEEDS_TLS).await?;
            return Ok(None);
        }
        tls.acceptor.accept(stream).await.map(Some)
    };
    let accepted: Result<std::io::Result<Option<_>>, _> = tokio::time::timeout(HEAD_TIME, handshake).await;
    if let Ok(Ok(Some(stream))) = accepted {
        let channel = Channel::new(binding(stream.get_ref().1));
        connection(stream, client, channel.clone()).await;
        app.sites.leave(&channel);
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, client: Client, channel: Channel) {
    let Client { peer, own, router } = client;
    let leaving = own.clone();
    let service = router.map_request(move |mut request: Request<Incoming>| {
        let known = request.extensions_mut();
        known.insert(peer);
        known.insert(own.clone());
        known.insert(channel.clone());
        request
    });
    let service = TowerToHyperService::new(service);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_HEAD);
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = served.as_mut() => {}
        () = leaving.ended_in_order() => {
            served.as_mut().graceful_shutdown();
            // A request that came meanwhile is answered.
            let _ = tokio::time::timeout(HEAD_TIME, served).await;
        }
    }
}
