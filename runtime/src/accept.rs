//! The accept loop: survives every error of the operating system and never spins.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use qq_core::face::{FaceFactory, PeerInfo};

use crate::admission::Admitted;
use crate::front::{Acceptor, Host, Sleep, Socket};
use crate::peer::Peer;
use crate::quiet::Quiet;
use crate::shared::{Seat, Shared};
use crate::shutdown::Shutdown;
use crate::timer::Timer;

/// Connections accepted before others get their turn.
const TURN_MAX: usize = 32;
/// How long to leave the listener alone when descriptors or places ran out.
const PAUSE: Duration = Duration::from_millis(100);
/// When to see whether strangers got older or left.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// One listener's task.
pub struct AcceptLoop<A, H, T> {
    name: String,
    acceptor: A,
    factory: FaceFactory,
    shared: Arc<Shared>,
    host: Arc<H>,
    shutdown: Shutdown,
    timer: Timer<T>,
    /// Accepted and not yet admitted.
    waiting: Option<(TcpStream, SocketAddr)>,
    paused_until: Duration,
    quiet: Quiet,
}

impl<A: Acceptor, H: Host, T: Sleep> AcceptLoop<A, H, T> {
    /// Accepts for the listener of that name until the node goes down.
    pub fn new(
        name: String,
        acceptor: A,
        factory: FaceFactory,
        shared: Arc<Shared>,
        host: Arc<H>,
        shutdown: Shutdown,
    ) -> Self {
        Self {
            name,
            acceptor,
            factory,
            shared,
            host,
            shutdown,
            timer: Timer::default(),
            waiting: None,
            paused_until: Duration::ZERO,
            quiet: Quiet::default(),
        }
    }

    /// Accepts what waits; ready when the node goes down, which closes the listener.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.shutdown.poll_level(cx) > 0 {
            return Poll::Ready(());
        }
        let now = self.shared.clock.now().mono;
        self.accept(cx, now);
        if self.shared.thin_out(now) {
            self.timer
                .arm(cx, &self.shared.clock, now, now + LOOK_AGAIN);
        }
        Poll::Pending
    }

    fn accept(&mut self, cx: &mut Context<'_>, now: Duration) {
        for _ in 0..TURN_MAX {
            if now < self.paused_until {
                self.timer
                    .arm(cx, &self.shared.clock, now, self.paused_until);
                return;
            }
            let next = match self.waiting.take() {
                Some(waiting) => Poll::Ready(Ok(waiting)),
                None => self.acceptor.poll_accept(cx),
            };
            match next {
                Poll::Pending => return,
                Poll::Ready(Ok((stream, address))) => self.welcome(now, stream, address),
                Poll::Ready(Err(error)) => self.on_error(now, &error),
            }
        }
        cx.waker().wake_by_ref();
    }

    fn welcome(&mut self, now: Duration, stream: TcpStream, address: SocketAddr) {
        let admitted = self.shared.admit(now, address.ip());
        let (conn, mailbox) = match admitted {
            Admitted::In(conn, mailbox) => (conn, mailbox),
            Admitted::Later => {
                self.waiting = Some((stream, address));
                self.paused_until = now + LOOK_AGAIN;
                return;
            }
            Admitted::Refused(limit) => {
                self.shared.operators.note_kept_out();
                return self.say(now, &format!("{address} refused: {limit}"));
            }
        };
        log::debug!("{}: {address} is connection {}", self.name, conn.0);
        let seat = Seat {
            shared: Arc::clone(&self.shared),
            conn,
            ip: address.ip(),
            mailbox,
        };
        let visitor = Visitor {
            seat,
            stream,
            factory: Arc::clone(&self.factory),
            address,
        };
        let thread = usize::try_from(conn.0).unwrap_or(0) % self.host.threads();
        self.host.take_in(thread, visitor);
    }

    fn on_error(&mut self, now: Duration, error: &std::io::Error) {
        // A connection that died in the queue says nothing about the next one.
        if matches!(
            error.kind(),
            std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::Interrupted
        ) {
            return;
        }
        self.paused_until = now + PAUSE;
        self.say(now, &format!("cannot accept: {error}; trying again"));
    }

    fn say(&mut self, now: Duration, text: &str) {
        self.quiet.warn(now, &format!("{}: {text}", self.name));
    }
}

/// A connection that was admitted and is on its way to its thread.
pub struct Visitor {
    // Dropped before the seat is given back.
    stream: TcpStream,
    factory: FaceFactory,
    address: SocketAddr,
    seat: Seat,
}

impl Visitor {
    /// The connection's life, on the thread that its socket belongs to.
    pub async fn stay<S: Socket, T: Sleep>(self) {
        let Self {
            stream,
            factory,
            address,
            seat,
        } = self;
        let socket = match S::new(stream) {
            Ok(socket) => socket,
            Err(error) => return log::debug!("{address}: {error}"),
        };
        let info = PeerInfo {
            address: address.to_string(),
            ip: Some(address.ip()),
        };
        let face = factory(seat.shared.clock.now(), info);
        drop(factory);
        let mut peer = Peer::<S, T>::new(seat, socket, face);
        std::future::poll_fn(|cx| peer.poll(cx)).await;
    }
}
