//! One connection to a broker: the client machine of the protocol crate over a blocking socket.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use qq_proto_binary::connection::{CloseReason, Config, Connection, Event, Side};
use qq_proto_binary::message::Message;
use qq_proto_binary::reply::Reply;
use qq_proto_binary::request::Request;

use crate::Failure;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a read waits before the machine's deadlines are looked at.
const TICK: Duration = Duration::from_millis(250);

pub(crate) struct Client {
    machine: Connection,
    socket: TcpStream,
    input: BytesMut,
    broker: String,
    began: Instant,
    /// Deliveries that came while something else was waited for.
    messages: VecDeque<Message>,
}

impl Client {
    /// Connects, and shows the token if there is one.
    ///
    /// # Errors
    /// There is no broker, or it does not take the token.
    pub(crate) fn connect(broker: &str, token: Option<String>) -> Result<Self, Failure> {
        let socket = TcpStream::connect(broker)
            .and_then(|socket| {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(TICK))?;
                socket.set_write_timeout(Some(ANSWER))?;
                Ok(socket)
            })
            .map_err(|error| Failure::Unreachable(format!("no broker at {broker}: {error}")))?;
        let config = Config {
            token,
            ..Config::default()
        };
        let mut client = Self {
            machine: Connection::new(Side::Client, config, Duration::ZERO),
            socket,
            input: BytesMut::new(),
            broker: broker.to_owned(),
            began: Instant::now(),
            messages: VecDeque::new(),
        };
        loop {
            match client.event(ANSWER)? {
                Some(Event::Opened) => return Ok(client),
                Some(_) => {}
                None => return Err(client.gone("it says nothing")),
            }
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// The broker refuses, or goes away.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        let id = self
            .machine
            .request(request, true)
            .map_err(|error| Failure::Usage(error.to_string()))?;
        loop {
            match self.event(ANSWER)? {
                Some(Event::Replied { request, reply }) if request == id => return Ok(reply),
                Some(Event::Refused { request, error }) if request.is_none_or(|of| of == id) => {
                    return Err(Failure::Refused(error.message));
                }
                Some(Event::Delivered(message)) => self.messages.push_back(*message),
                Some(_) => {}
                None => return Err(self.gone("it does not answer")),
            }
        }
    }

    /// The next delivery; none when nothing came for so long. No patience is for ever.
    ///
    /// # Errors
    /// The broker goes away, or ends the consumer.
    pub(crate) fn message(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<Option<Message>, Failure> {
        if let Some(message) = self.messages.pop_front() {
            return Ok(Some(message));
        }
        let until = patience.map(|patience| Instant::now() + patience);
        loop {
            let left = until.map_or(ANSWER, |until| {
                until.saturating_duration_since(Instant::now())
            });
            match self.event(left)? {
                Some(Event::Delivered(message)) => return Ok(Some(*message)),
                Some(Event::ConsumerClosed(closed)) => {
                    return Err(Failure::Refused(closed.message));
                }
                Some(_) => {}
                None if until.is_some_and(|until| until <= Instant::now()) => return Ok(None),
                None => {}
            }
        }
    }

    fn event(&mut self, patience: Duration) -> Result<Option<Event>, Failure> {
        let until = Instant::now() + patience;
        loop {
            match self.machine.poll_event() {
                Some(Event::Closed { reason }) => {
                    return Err(match reason {
                        CloseReason::TokenRefused(text) => Failure::Refused(text),
                        other => self.gone(&format!("{other:?}")),
                    });
                }
                Some(event) => return Ok(Some(event)),
                None => {}
            }
            self.write()?;
            if Instant::now() >= until {
                return Ok(None);
            }
            self.read()?;
        }
    }

    fn write(&mut self) -> Result<(), Failure> {
        let now = self.began.elapsed();
        self.machine.handle_timeout(now);
        let mut out: VecDeque<Bytes> = VecDeque::new();
        while self.machine.poll_transmit(now, &mut out, 64 << 10) > 0 {}
        for bytes in out {
            if let Err(error) = self.socket.write_all(&bytes) {
                return Err(self.gone(&error.to_string()));
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Failure> {
        let mut chunk = [0; 16 << 10];
        match self.socket.read(&mut chunk) {
            Ok(0) => self.machine.handle_eof(self.began.elapsed()),
            Ok(len) => {
                self.input.extend_from_slice(&chunk[..len]);
                let now = self.began.elapsed();
                self.machine.handle_input(now, &mut self.input);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => return Err(self.gone(&error.to_string())),
            },
        }
        Ok(())
    }

    fn gone(&self, why: &str) -> Failure {
        Failure::Unreachable(format!("the broker at {} is gone: {why}", self.broker))
    }
}
