//! Accepts and serves, with one thread for each connection; there are few.
//!
//! A connection's thread moves bytes between its socket and its guard, asks who the request comes from before a body
//! may come, and writes the answer. Shutdown ends idle connections at once and others after their answer.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::api::Call;
use crate::backend::{Backend, Credentials, Entry};
use crate::guard::{Guard, GuardEvent, Head, Limits};
use crate::live;
use crate::path;
use crate::problem::Problem;
use crate::response::Response;
use crate::routes::{self, Found, Route};

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of each connection.
    pub limits: Limits,
    /// Connections at a time; more are told to come later.
    pub connections_max: usize,
    /// How many of them may be live updates.
    pub live_max: usize,
    /// Bytes of a body.
    pub body_max: usize,
    /// Bytes of the body of definitions.
    pub definitions_max: usize,
    /// Where metrics are, besides `/metrics`; none: nowhere, not even there.
    pub metrics_path: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            connections_max: 64,
            live_max: 16,
            body_max: 1 << 20,
            definitions_max: 16 << 20,
            metrics_path: Some("/metrics".to_owned()),
        }
    }
}

/// How long one read waits before it looks whether the server stops.
const TICK: Duration = Duration::from_millis(250);
/// How long a write may make no progress.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stop waits for answers that are being made.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Stack of a connection's thread.
const STACK_BYTES: usize = 512 * 1024;
/// How long accepting rests when it cannot go on.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    settings: Settings,
    is_stopping: AtomicBool,
    connections: AtomicUsize,
    live: AtomicUsize,
    begin: Instant,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// A server that runs.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Server {
    /// Serves a listener until [`Server::stop`].
    ///
    /// # Errors
    /// When the thread cannot be had.
    pub fn start(
        listener: TcpListener,
        settings: Settings,
        backend: Arc<dyn Backend>,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            backend,
            settings,
            is_stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            begin: Instant::now(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("http".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || accept(&listener, &accepting))?;
        Ok(Self { shared, address })
    }

    /// Accepts no more, and waits a little for the answers that are being made.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts; when that fails, it is awake.
        let _ = TcpStream::connect_timeout(&self.address, TICK);
        let until = Instant::now() + STOP_GRACE;
        while self.shared.connections.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut has_told = false;
    for socket in listener.incoming() {
        if shared.is_stopping() {
            return;
        }
        match socket {
            Ok(socket) => {
                has_told = false;
                admit(socket, shared);
            }
            Err(error) => {
                if !std::mem::replace(&mut has_told, true) {
                    log::warn!("HTTP: cannot accept: {error}");
                }
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// A place among the connections or the live updates, given back when it is dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < max).then_some(count + 1)
        });
        taken.ok().map(|_| Self(count))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn admit(mut socket: TcpStream, shared: &Arc<Shared>) {
    let max = shared.settings.connections_max;
    let Some(place) = Place::take(&shared.connections, max) else {
        let problem = Problem::new(503, "unavailable", "too many connections; come again later");
        let _ = socket.set_nonblocking(true);
        // It fits into the socket's buffer or is not told.
        let _ = socket.write(&problem.response().encode(false, false));
        return;
    };
    std::mem::forget(place);
    let shared_by_thread = Arc::clone(shared);
    let spawned = std::thread::Builder::new()
        .name("http-conn".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let _place = Place(&shared_by_thread.connections);
            let peer = socket
                .peer_addr()
                .map_or(IpAddr::from([127, 0, 0, 1]), |addr| addr.ip());
            if let Err(error) = serve(&socket, peer, &shared_by_thread) {
                log::debug!("HTTP: {peer}: {error}");
            }
        });
    if let Err(error) = spawned {
        log::warn!("HTTP: no thread for a connection: {error}");
        drop(Place(&shared.connections));
    }
}

/// One connection from its first byte to its last.
fn serve(mut socket: &TcpStream, peer: IpAddr, shared: &Shared) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
    socket.set_read_timeout(Some(TICK))?;
    let mut guard = Guard::new(shared.settings.limits, shared.now());
    let mut buffer = [0u8; 8192];
    let mut head = Head::default();
    let mut target = Target::Page;
    loop {
        while let Some(event) = guard.poll_event() {
            match event {
                GuardEvent::Head(next) => {
                    head = next;
                    target = Target::of(&head, &shared.settings);
                    if let Some(refusal) = refuse_head(&head, &target, peer, shared) {
                        socket.write_all(&refusal.encode(false, head.method == "HEAD"))?;
                        return linger(socket);
                    }
                    if head.expects_continue && head.body_len > 0 {
                        socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                    }
                    let is_long = head.target.split('?').next() == Some("/api/v1/definitions");
                    let settings = &shared.settings;
                    guard.admit(if is_long {
                        settings.definitions_max
                    } else {
                        settings.body_max
                    });
                }
                GuardEvent::Body(body) => {
                    let target = std::mem::replace(&mut target, Target::Page);
                    if !answer(socket, shared, &head, target, body)? {
                        return linger(socket);
                    }
                    guard.done(shared.now());
                }
                GuardEvent::Refused { status, text } => {
                    let reason = if matches!(status, 413 | 431) {
                        "too-large"
                    } else {
                        "invalid"
                    };
                    let response = Problem::new(status, reason, text).response();
                    socket.write_all(&response.encode(false, false))?;
                    return linger(socket);
                }
                GuardEvent::Closed => return Ok(()),
            }
        }
        if shared.is_stopping() && guard.is_idle() {
            return Ok(());
        }
        match socket.read(&mut buffer) {
            Ok(0) => guard.handle_eof(),
            Ok(len) => guard.handle_input(shared.now(), &buffer[..len]),
            Err(error) if is_timeout(&error) => guard.handle_timeout(shared.now()),
            Err(error) => return Err(error),
        }
        // A peer that sends a byte now and then is as slow as one that is silent.
        guard.handle_timeout(shared.now());
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Reads a little of what still comes, so that the last answer is not lost in a reset.
fn linger(mut socket: &TcpStream) -> std::io::Result<()> {
    socket.shutdown(std::net::Shutdown::Write)?;
    let mut buffer = [0u8; 8192];
    for _ in 0..32 {
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    Ok(())
}

/// What a request is for. It is decided once, so that what is served is what the login was judged by.
enum Target {
    /// The dashboard.
    Page,
    /// Live updates, which never end.
    Live,
    /// A route and the parts of its path.
    Route(&'static Route, Vec<String>),
    /// It is answered already.
    Answer(Response),
}

impl Target {
    fn of(head: &Head, settings: &Settings) -> Self {
        let path = path_of(head);
        let is_get = matches!(head.method.as_str(), "GET" | "HEAD");
        let path = match settings.metrics_path.as_deref() {
            Some(configured) if configured == path => METRICS,
            None if path == METRICS => {
                let problem = Problem::missing("not found", "metrics are switched off");
                return Self::Answer(problem.response());
            }
            _ if is_get && is_page(path) => return Self::Page,
            _ if head.method == "GET" && is_live(path) => return Self::Live,
            _ => path,
        };
        let method = if is_get { "GET" } else { &head.method };
        match routes::find(method, path) {
            Found::Route(route, parts) => Self::Route(route, parts),
            Found::Answer(response) => Self::Answer(response),
        }
    }

    /// Whether nobody has to say who they are for it.
    fn is_open(&self) -> bool {
        match self {
            Self::Page => true,
            Self::Route(route, _) => route.is_open,
            Self::Live | Self::Answer(_) => false,
        }
    }
}

/// Where metrics are, whatever is configured besides.
const METRICS: &str = "/metrics";

/// Whether metrics may be at this path too: one that nothing else is at, as requests write it.
#[must_use]
pub fn is_metrics_path(path: &str) -> bool {
    let is_written = path.starts_with('/')
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && !path.contains(['?', '#']);
    is_written && (path == METRICS || !(is_page(path) || is_live(path) || routes::is_known(path)))
}

fn path_of(head: &Head) -> &str {
    head.target.split('?').next().unwrap_or_default()
}

fn is_page(path: &str) -> bool {
    path == "/" || path == "/dashboard" || path.starts_with("/dashboard/")
}

fn is_live(path: &str) -> bool {
    matches!(path, "/api/v1/events" | "/api/v1/ws")
}

/// What is wrong with a request before its body has come.
fn refuse_head(head: &Head, target: &Target, peer: IpAddr, shared: &Shared) -> Option<Response> {
    let node = shared.backend.node();
    let host = head.header("host").unwrap_or_default();
    let is_change = !matches!(head.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    if let Some(origin) = head.header("origin") {
        let own = [format!("http://{host}"), format!("https://{host}")];
        if !own.iter().any(|own| own.eq_ignore_ascii_case(origin))
            && (is_change || is_live(path_of(head)))
        {
            let detail = "pages of other origins may not do this";
            return Some(Problem::new(403, "not-allowed", detail).response());
        }
    }
    if !node.is_login_required && !is_local_name(host) {
        let detail = "without a login only an address or localhost is taken as host, so that no page can rebind its name to this one";
        return Some(Problem::new(403, "not-allowed", detail).response());
    }
    if !node.is_login_required || target.is_open() {
        return None;
    }
    let Some(credentials) = credentials(head) else {
        return Some(Problem::invalid("the authorization header cannot be read").response());
    };
    match shared.backend.admit(&credentials, peer) {
        Entry::Granted => None,
        Entry::Denied(delay) => {
            std::thread::sleep(delay);
            let response =
                Problem::new(401, "unauthorized", "log in with Basic or Bearer").response();
            Some(response.with(
                "WWW-Authenticate",
                "Basic realm=\"quark-queue\", charset=\"UTF-8\"",
            ))
        }
    }
}

/// Whether a host header names an address or this machine.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => return rest.contains(']'),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.is_empty()
        || name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
}

fn credentials(head: &Head) -> Option<Credentials> {
    let Some(value) = head.header("authorization") else {
        return Some(Credentials::None);
    };
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials::Bearer(rest.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Credentials::Basic {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

/// Answers a whole request; says whether another may follow.
fn answer(
    mut socket: &TcpStream,
    shared: &Shared,
    head: &Head,
    target: Target,
    body: Vec<u8>,
) -> std::io::Result<bool> {
    let keeps_alive = head.keeps_alive && !shared.is_stopping();
    let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
    let response = match target {
        Target::Live => {
            let Some(_place) = Place::take(&shared.live, shared.settings.live_max) else {
                let problem = Problem::new(429, "limit-exceeded", "too many live updates are open");
                socket.write_all(&problem.response().encode(false, false))?;
                return Ok(false);
            };
            live::serve(socket, shared, head, path, query)?;
            return Ok(false);
        }
        Target::Page => page(shared, head, path),
        Target::Route(route, parts) => respond(shared, route, parts, query, body),
        Target::Answer(response) => response,
    };
    socket.write_all(&response.encode(keeps_alive, head.method == "HEAD"))?;
    Ok(keeps_alive)
}

fn respond(
    shared: &Shared,
    route: &Route,
    parts: Vec<String>,
    query: &str,
    body: Vec<u8>,
) -> Response {
    let Some(query) = path::query(query) else {
        return Problem::invalid("the query is not percent-encoded UTF-8").response();
    };
    let call = Call { parts, query, body };
    // A mistake of ours costs its request, not the daemon.
    let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        route.serve(&*shared.backend, &call)
    }));
    served.unwrap_or_else(|_| {
        Problem::new(500, "internal", "this is a fault of the daemon").response()
    })
}

fn page(shared: &Shared, head: &Head, path: &str) -> Response {
    if path == "/" {
        let mut response =
            Response::new(307, "text/plain", Vec::new()).with("Location", "/dashboard/");
        response.headers.remove(0);
        return response;
    }
    match shared.backend.page(path, head.header("if-none-match")) {
        Some(page) => Response {
            status: page.status,
            headers: page.headers,
            body: page.body,
        },
        None => Problem::missing("not found", "the dashboard has no such page").response(),
    }
}
