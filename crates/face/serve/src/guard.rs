//! Checks before every request: host, origin, limits, session or token, level.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::answers::Reader;
use crate::app::App;
use crate::audited;
use crate::bodies;
use crate::connections::{Connection, holding};
use crate::devices;
use crate::forwarded;
use crate::limits::{KNOWN, SITE, UNKNOWN, source};
use crate::places::Full;
use crate::presence::Channel;
use crate::problem::{Problem, Result, Shown};
use crate::store::people::{self, TOKEN_PREFIX, User};

/// Name of the session cookie. Over TLS it has the prefix `__Host-`.
pub(crate) const COOKIE: &str = "bentpipe-session";

/// Access that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No session.
    Public,
    /// The way in: the log-in with its page, and `health`.
    ///
    /// It is counted in no bucket, so that a flood of other requests keeps out no user of the same address. A log-in is counted by
    /// account and address (`logins`), and the rest costs no more than a refusal: no session is looked for.
    Entry,
    /// A user of at least this level.
    Level(u8),
    /// A program that may become a site.
    Stranger,
    /// A site that logged in over this connection.
    Site,
}

/// Maker of the answer to a refused request of this method.
pub(crate) type Refuse = fn(&Problem, &Method) -> Response;

/// Address of the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Origin of a request: the user, and how the request proved it.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// User, with the level lowered to the scope of a token.
    pub(crate) user: User,
    /// Number of the session, of a browser.
    pub(crate) session: Option<i64>,
    /// Number of the token, of a program.
    pub(crate) token: Option<i64>,
    /// Address of the client.
    pub(crate) address: String,
    /// Level of the user, and the scope of a token that lowers it.
    pub(crate) granted: (u8, Option<String>),
}

impl Caller {
    /// Returns what a request above the caller's level lacks, with a step that helps.
    fn shortfall(&self, level: u8) -> String {
        let (own, scope) = &self.granted;
        let needed = scope_of(level);
        match scope {
            _ if *own < level => format!("this needs level {level}; yours is {own}"),
            Some(scope) if most_of(scope) < level => {
                format!("this needs a token of scope \"{needed}\"; that of this one is \"{scope}\"")
            }
            _ => format!(
                "this needs level {level}; yours is {} until you set up a second factor on the page Account",
                self.user.level
            ),
        }
    }
}

/// Returns the greatest level of a token's scope.
fn most_of(scope: &str) -> u8 {
    match scope {
        "admin" => 3,
        "run" => 2,
        _ => 0,
    }
}

/// Returns the least scope that has a level.
fn scope_of(level: u8) -> &'static str {
    ["read", "run"].into_iter().find(|scope| most_of(scope) >= level).unwrap_or("admin")
}

/// Guard of one route.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: App,
    pub(crate) access: Access,
    pub(crate) refuse: Refuse,
    /// Parameters of the query that the route has: name and description. `None` for pages and sites.
    pub(crate) query: Option<&'static [(&'static str, &'static str)]>,
    /// Page with a problem: of the caller, with a link to the page before.
    pub(crate) page: fn(&Problem, Option<&Caller>, Option<&str>) -> Response,
}

/// Methods that paths may have.
const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// Passes a request to its handler, or refuses it.
pub(crate) async fn guard(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let checked = check(&guard, &mut request).await;
    let held = match &checked {
        Ok(()) => hold(&guard.app, &request),
        Err(_) => Ok(None),
    };
    let (checked, held) = match held {
        Ok(held) => (checked, held),
        Err(problem) => (Err(problem), None),
    };
    let (caller, from) = (request.extensions().get::<Caller>().cloned(), page_before(&request));
    let (reader, method) = (reader(&request), request.method().clone());
    // Sites may be behind slow links.
    let connection =
        request.extensions().get::<Connection>().filter(|_| guard.access != Access::Site).cloned();
    let checked = match checked {
        Ok(()) => guard.app.answers.room(&reader).await,
        Err(problem) => Err(problem),
    };
    let mut response = match checked {
        Ok(()) => run(&guard, request, caller.as_ref(), next).await,
        Err(problem) => (guard.refuse)(&problem, request.method()),
    };
    if let Some(Shown(problem)) = response.extensions_mut().remove() {
        response = (guard.page)(&problem, caller.as_ref(), from.as_deref());
    }
    let bounded = guard.app.answers.bound((&reader, connection), &method, response);
    let mut response =
        bounded.unwrap_or_else(|problem| refused(&guard, &problem, (caller.as_ref(), &method)));
    add_headers(&guard, response.headers_mut());
    match held {
        Some(held) => response.map(|body| holding(body, held)),
        None => response,
    }
}

/// Returns who reads the answer to a request.
fn reader(request: &Request) -> Reader {
    let (known, peer) = (request.extensions().get::<Caller>(), request.extensions().get::<Peer>());
    known.map_or_else(
        || Reader::Address(peer.map(|peer| source(peer.0)).unwrap_or_default()),
        |caller| Reader::User(caller.user.id),
    )
}

/// Returns the answer to a refused request, as the interface or as a page.
fn refused(guard: &Guard, problem: &Problem, (caller, method): (Option<&Caller>, &Method)) -> Response {
    let mut response = (guard.refuse)(problem, method);
    let shown = response.extensions_mut().remove();
    shown.map_or(response, |Shown(problem)| (guard.page)(&problem, caller, None))
}

/// Passes a request to its handler, with a bound on its body.
async fn run(guard: &Guard, request: Request, caller: Option<&Caller>, next: Next) -> Response {
    // Each site sends one file at a time, of the size that it stated.
    if guard.access == Access::Site {
        return next.run(request).await;
    }
    let (method, taken) = (request.method().clone(), Arc::<bodies::Taken>::default());
    let user = caller.map(|caller| (Arc::clone(&guard.app.bodies), caller.user.id));
    let response = next.run(bodies::bound(request, user, &taken)).await;
    taken.problem().map_or(response, |problem| (guard.refuse)(&problem, &method))
}

/// Counts a request of a known caller, until the answer was sent.
fn hold(app: &App, request: &Request) -> Result<Option<impl Send + Unpin + 'static>> {
    let Some(caller) = request.extensions().get::<Caller>() else { return Ok(None) };
    let place = app.requests.take(caller.user.id).map_err(|full| match full {
        Full::OfUser(most) => Problem {
            detail: format!("you have {most} requests that are not answered yet: wait for some"),
            ..Problem::later(1)
        },
        Full::OfAll => Problem::later(1),
    })?;
    let connection = request.extensions().get::<Connection>().map(|one| one.hold(caller.user.id));
    Ok(Some((place, connection)))
}

/// Returns the page of this server from which a request came.
fn page_before(request: &Request) -> Option<String> {
    let text = |name| request.headers().get(name)?.to_str().ok();
    let (_, rest) = text(header::REFERER)?.split_once("://")?;
    let path = rest.strip_prefix(text(header::HOST)?)?;
    let is_path = path.starts_with('/') && !path.starts_with("//") && path.len() <= 2000;
    let is_other = request.uri().path_and_query().is_none_or(|own| own.as_str() != path);
    (is_path && is_other).then(|| path.to_owned())
}

async fn check(guard: &Guard, request: &mut Request) -> Result<()> {
    let Guard { app, access, .. } = guard;
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([127, 0, 0, 1]), |peer| peer.0);
    let peer = forwarded::client(peer, request.headers(), &app.settings.proxies);
    request.extensions_mut().insert(Peer(peer));
    check_host(app, request.headers())?;
    // No path has them, so that 405 follows at each level, and without a login.
    if !METHODS.contains(request.method()) {
        return app.buckets.take(&format!("from {}", source(peer)), UNKNOWN).map_err(Problem::later);
    }
    // Sites have neither cookies nor tokens: no page makes a browser act for one.
    match access {
        Access::Stranger => {
            return app.buckets.take(&format!("site from {}", source(peer)), UNKNOWN).map_err(Problem::later);
        }
        Access::Site => {
            let site = request.extensions().get::<Channel>().and_then(Channel::site);
            let site = site.ok_or_else(|| Problem::forbidden("no site logged in over this connection"))?;
            request.extensions().get::<Connection>().iter().for_each(|connection| connection.keep());
            return app.buckets.take(&format!("site {site}"), SITE).map_err(Problem::later);
        }
        Access::Public | Access::Entry | Access::Level(_) => {}
    }
    let bearer = bearer(request.headers());
    if bearer.is_none() {
        check_origin(request.method(), request.headers())?;
    }
    if *access == Access::Entry {
        return Ok(());
    }
    let caller = match bearer {
        Some(token) => by_token(app, token, peer).await?,
        None => by_cookie(app, request.headers(), peer).await?,
    };
    let caller = caller.map(|caller| with_factor(app, caller));
    let (key, limit) = match &caller {
        Some(caller) => (format!("user {}", caller.user.id), KNOWN),
        None => (format!("from {}", source(peer)), UNKNOWN),
    };
    app.buckets.take(&key, limit).map_err(Problem::later)?;
    if let Access::Level(level) = access {
        let caller = caller.as_ref().ok_or_else(Problem::unauthorized)?;
        if caller.user.level < *level {
            let object = format!("{} {}", request.method(), request.uri().path());
            audited::refused(
                app,
                (&caller.user.name, &caller.address),
                ("request", &object, "level too low"),
            )
            .await?;
            return Err(Problem::forbidden(caller.shortfall(*level)));
        }
    }
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    guard.query.map_or(Ok(()), |known| check_query(request.uri().query().unwrap_or_default(), known))
}

/// Refuses parameters of a query that the route does not have.
fn check_query(query: &str, known: &[(&str, &str)]) -> Result<()> {
    let names = query.split('&').filter_map(|pair| pair.split('=').next());
    let is_unknown = |name: &&str| !name.is_empty() && known.iter().all(|(known, _)| known != name);
    let Some(name) = names.into_iter().find(is_unknown) else { return Ok(()) };
    let name: String = name.chars().take(40).collect();
    let all: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
    let expected = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    Err(Problem::bad(format!("unknown parameter \"{name}\": expected {expected}")))
}

/// Lowers the level of an administrator without a second factor, where one is required.
fn with_factor(app: &App, mut caller: Caller) -> Caller {
    if app.settings.needs_second_factor && !caller.user.second_factor {
        caller.user.level = caller.user.level.min(2);
    }
    caller
}

/// Refuses names that a foreign page may have pointed at this address.
fn check_host(app: &App, headers: &HeaderMap) -> Result<()> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if app.settings.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    let detail = "the server does not answer to this name: add it with `bentpipe serve --host NAME`";
    Err(Problem::new(axum::http::StatusCode::MISDIRECTED_REQUEST, detail))
}

/// Refuses changes that a page of another origin asks a browser for.
fn check_origin(method: &Method, headers: &HeaderMap) -> Result<()> {
    // Methods that change nothing, and those that no path has: they are answered by 405.
    if !matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE) {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let same = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some() && host == text("host")
        }
        (None, None) => false,
    };
    let detail = "request of another origin, or of a program without a token";
    same.then_some(()).ok_or_else(|| Problem::forbidden(detail))
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    Some(value.strip_prefix("Bearer ")?.trim().to_owned())
}

async fn by_token(app: &App, token: String, peer: IpAddr) -> Result<Option<Caller>> {
    if !token.starts_with(TOKEN_PREFIX) {
        return Err(Problem::unauthorized());
    }
    let found = app.read(move |db| Ok(people::token(db, &token)?)).await?;
    let (mut user, scope, id, is_stale) = found.ok_or_else(Problem::unauthorized)?;
    if is_stale {
        app.write(move |db| Ok(people::touch_token(db, id)?)).await?;
    }
    let level = user.level;
    user.level = level.min(most_of(&scope));
    let granted = (level, Some(scope));
    Ok(Some(Caller { user, session: None, token: Some(id), address: peer.to_string(), granted }))
}

pub(crate) async fn by_cookie(app: &App, headers: &HeaderMap, peer: IpAddr) -> Result<Option<Caller>> {
    let Some(secret) = cookie(headers, &cookie_name(app)) else { return Ok(None) };
    let found = app.read(move |db| Ok(people::session(db, &secret)?)).await?;
    let Some((user, id, is_stale)) = found else { return Ok(None) };
    if is_stale {
        app.write(move |db| Ok(people::touch_session(db, id)?)).await?;
    }
    let granted = (user.level, None);
    Ok(Some(Caller { user, session: Some(id), token: None, address: peer.to_string(), granted }))
}

/// Returns the name of the session cookie.
pub(crate) fn cookie_name(app: &App) -> String {
    name_of(app, COOKIE)
}

fn name_of(app: &App, cookie: &str) -> String {
    let prefix = if app.settings.secure { "__Host-" } else { "" };
    format!("{prefix}{cookie}")
}

/// Returns the value of a cookie.
pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

/// Returns the cookie that starts a session, or ends it if `secret` is empty.
pub(crate) fn session_cookie(app: &App, secret: &str) -> String {
    let age = if secret.is_empty() { "; Max-Age=0" } else { "" };
    set_cookie(app, (COOKIE, secret), age)
}

/// Returns the cookie of a device on which a user has logged in.
pub(crate) fn device_cookie(app: &App, value: &str) -> String {
    set_cookie(app, (devices::COOKIE, value), &format!("; Max-Age={}", devices::LIFE_S))
}

/// Returns the devices that a client states, and that are still to be proved.
pub(crate) fn stated_devices(app: &App, headers: &HeaderMap) -> String {
    cookie(headers, &name_of(app, devices::COOKIE)).unwrap_or_default()
}

fn set_cookie(app: &App, (cookie, value): (&str, &str), age: &str) -> String {
    let secure = if app.settings.secure { "; Secure" } else { "" };
    format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{age}", name_of(app, cookie))
}

/// Policy of pages: what the server itself serves, nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'";

fn add_headers(guard: &Guard, headers: &mut HeaderMap) {
    let mut set = |name: &'static str, value: &'static str| {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    };
    set("content-security-policy", POLICY);
    set("x-content-type-options", "nosniff");
    set("referrer-policy", "same-origin");
    set("cross-origin-opener-policy", "same-origin");
    set("cross-origin-resource-policy", "same-origin");
    set("cache-control", "no-store");
    if guard.app.settings.secure {
        set("strict-transport-security", "max-age=31536000");
    }
}
