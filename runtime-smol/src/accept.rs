//! The accept loop: survives every error of the operating system and never spins.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use qq_core::face::{FaceFactory, PeerInfo};
use qq_runtime::{Admitted, Listener, Quiet, Seat, Shared, Shutdown};

use crate::acceptor::Acceptor;
use crate::io::Spawner;
use crate::peer::Peer;
use crate::socket::Socket;
use crate::timer::Timer;

/// Connections accepted before others get their turn.
const TURN_MAX: usize = 32;
/// How long to leave the listener alone when descriptors or places ran out.
const PAUSE: Duration = Duration::from_millis(100);
/// When to see whether strangers got older or left.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// One listener.
struct AcceptLoop {
    name: String,
    acceptor: Acceptor,
    factory: FaceFactory,
    shared: Arc<Shared>,
    spawner: Arc<Spawner>,
    shutdown: Shutdown,
    timer: Timer,
    /// Accepted and not yet admitted.
    waiting: Option<(TcpStream, SocketAddr)>,
    paused_until: Duration,
    quiet: Quiet,
}

/// Accepts until the node goes down. To be called on the first IO thread.
pub(crate) fn accept_loop(
    listener: Listener,
    shared: Arc<Shared>,
    spawner: Arc<Spawner>,
    shutdown: Shutdown,
) -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut accept = AcceptLoop {
        name: listener.name,
        acceptor: Acceptor::new(listener.socket)?,
        factory: listener.factory,
        shared,
        spawner,
        shutdown,
        timer: Timer::default(),
        waiting: None,
        paused_until: Duration::ZERO,
        quiet: Quiet::default(),
    };
    Ok(std::future::poll_fn(move |cx| accept.poll(cx)))
}

impl AcceptLoop {
    /// Accepts what waits; ready when the node goes down, which closes the listener.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
        let factory = Arc::clone(&self.factory);
        let thread = usize::try_from(conn.0).unwrap_or(0) % self.spawner.threads();
        self.spawner
            .spawn(thread, run_peer(seat, stream, factory, address));
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

/// A connection's life, on the thread that its socket belongs to.
async fn run_peer(seat: Seat, stream: TcpStream, factory: FaceFactory, address: SocketAddr) {
    let socket = match Socket::new(stream) {
        Ok(socket) => socket,
        Err(error) => return log::debug!("{address}: {error}"),
    };
    let info = PeerInfo {
        address: address.to_string(),
        ip: Some(address.ip()),
    };
    let face = factory(seat.shared.clock.now(), info);
    drop(factory);
    let mut peer = Peer::new(seat, socket, face);
    std::future::poll_fn(|cx| peer.poll(cx)).await;
}
