//! Accepts and serves, with one thread for each connection; there are few.
//!
//! A connection's thread moves bytes between its socket and its guard, asks who the request comes from before a body
//! may come, and writes the answer. Shutdown ends idle connections at once and others after their answer.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::admit::refuse_head;
use crate::api::Call;
use crate::backend::Backend;
use crate::guard::{Guard, GuardEvent, Head, Limits};
use crate::live;
use crate::path;
use crate::problem::Problem;
use crate::response::Response;
use crate::routes::Route;
use crate::seats::{Full, Seats};
use crate::target::{Target, path_of};

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of each connection.
    pub limits: Limits,
    /// Connections at a time; more are told to come later.
    pub connections_max: usize,
    /// Of one address; the others must find a place whatever it does.
    pub connections_per_ip_max: usize,
    /// Failed logins that are answered late at a time; beyond them the answer comes at once.
    pub delayed_max: usize,
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
            connections_per_ip_max: 32,
            delayed_max: 8,
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
    connections: Arc<Seats>,
    live: Arc<Seats>,
    pub(crate) delayed: Arc<Seats>,
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
            connections: Seats::new(settings.connections_max, settings.connections_per_ip_max),
            live: Seats::new(settings.live_max, settings.live_max),
            delayed: Seats::new(settings.delayed_max, settings.delayed_max),
            settings,
            is_stopping: AtomicBool::new(false),
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
        while !self.shared.connections.is_empty() && Instant::now() < until {
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

fn admit(mut socket: TcpStream, shared: &Arc<Shared>) {
    let peer = socket
        .peer_addr()
        .map_or(IpAddr::from([127, 0, 0, 1]), |addr| addr.ip());
    let seat = match shared.connections.take(peer) {
        Ok(seat) => seat,
        Err(full) => {
            let detail = match full {
                Full::All => "too many connections; come again later",
                Full::Each => "too many connections of this address; come again later",
            };
            let problem = Problem::new(503, "unavailable", detail);
            let _ = socket.set_nonblocking(true);
            // It fits into the socket's buffer or is not told.
            let _ = socket.write(&problem.response().encode(false, false));
            return;
        }
    };
    let shared = Arc::clone(shared);
    let spawned = std::thread::Builder::new()
        .name("http-conn".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let _seat = seat;
            if let Err(error) = serve(&socket, peer, &shared) {
                log::debug!("HTTP: {peer}: {error}");
            }
        });
    if let Err(error) = spawned {
        log::warn!("HTTP: no thread for a connection: {error}");
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
                    let is_long = path_of(&head) == "/api/v1/definitions";
                    let settings = &shared.settings;
                    guard.admit(if is_long {
                        settings.definitions_max
                    } else {
                        settings.body_max
                    });
                }
                GuardEvent::Body(body) => {
                    let target = std::mem::replace(&mut target, Target::Page);
                    if !answer(socket, peer, shared, &head, target, body)? {
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

/// Whether reading may simply be tried again.
pub(crate) fn is_timeout(error: &std::io::Error) -> bool {
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

/// Answers a whole request; says whether another may follow.
fn answer(
    mut socket: &TcpStream,
    peer: IpAddr,
    shared: &Shared,
    head: &Head,
    target: Target,
    body: Vec<u8>,
) -> std::io::Result<bool> {
    let keeps_alive = head.keeps_alive && !shared.is_stopping();
    let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
    let response = match target {
        Target::Live => {
            let Ok(_seat) = shared.live.take(peer) else {
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
    match shared.backend.page(path, head.header("if-none-match")) {
        Some(page) => Response {
            status: page.status,
            headers: page.headers,
            body: page.body,
        },
        None => Problem::missing("not found", "the dashboard has no such page").response(),
    }
}
