//! Bytes on their way, and both ends of every stream.

use bytes::BytesMut;
use qq_core::vocab::ConnId;

use super::{Stream, Wake, World};
use crate::sim::pipe::{Arrival, Pipe, Toward};
use crate::sim::random::Random;
use crate::sim::trace;

impl World {
    /// A client connects, if the node is there.
    pub(super) fn connect(&mut self, number: usize, random: &mut Random) {
        if self.node.is_none() || self.clients[number].conn().is_some() {
            return;
        }
        let conn = self.next_conn;
        self.next_conn += 1;
        let mut pipe = Pipe::new(&self.plan, conn);
        if self.is_healed {
            pipe.heal(self.now);
        }
        let stream = Stream {
            pipe,
            client: number,
            input: BytesMut::new(),
            is_at_broker: true,
            is_at_client: true,
        };
        self.streams.insert(conn, stream);
        self.connect_node(ConnId(conn));
        self.operations += 1;
        self.clients[number].connect(self.now, ConnId(conn), &self.plan, random);
        self.after_client(number);
    }

    /// Carries what a client has to say, and keeps its timer.
    pub(super) fn after_client(&mut self, number: usize) {
        let Some(conn) = self.clients[number].conn().map(|conn| conn.0) else {
            return;
        };
        let bytes = self.clients[number].poll_transmit(self.now);
        let now = self.now;
        self.trace(&bytes, conn, "sends");
        if let Some(stream) = self.streams.get_mut(&conn)
            && !bytes.is_empty()
            && let Some(at) = stream.pipe.write(now, Toward::Broker, &bytes)
        {
            self.wake(at, Wake::ToBroker(conn));
        }
        if self.clients[number].is_done() {
            if let Some(stream) = self.streams.get_mut(&conn) {
                let end = stream.pipe.end(now, Toward::Broker);
                if let Some(at) = end {
                    self.wake(at, Wake::ToBroker(conn));
                }
            }
            self.lose_client(number);
            return;
        }
        if let Some(at) = self.clients[number].poll_timeout()
            && self.client_timers[number].is_none_or(|armed| at < armed)
        {
            self.client_timers[number] = Some(at);
            self.wake(at, Wake::ClientTimer(number));
        }
    }

    pub(super) fn on_client_timer(&mut self, number: usize) {
        if self.client_timers[number].is_some_and(|armed| armed > self.now) {
            return;
        }
        self.client_timers[number] = None;
        self.with_client(number, |client, scene, _| client.handle_timeout(scene));
    }

    /// A client's end of its stream is gone.
    pub(super) fn lose_client(&mut self, number: usize) {
        let Some(conn) = self.clients[number].conn() else {
            return;
        };
        if let Some(stream) = self.streams.get_mut(&conn.0) {
            stream.is_at_client = false;
        }
        self.client_timers[number] = None;
        self.with_client(number, |client, scene, _| client.lose(scene));
        self.forget_stream(conn.0);
    }

    /// A client drops its connection without a word.
    pub(super) fn reset_client(&mut self, number: usize) {
        let Some(conn) = self.clients[number].conn() else {
            return;
        };
        self.operations += 1;
        self.lose_client(number);
        let now = self.now;
        if let Some(stream) = self.streams.get_mut(&conn.0)
            && let Some(at) = stream.pipe.reset(now, Toward::Broker)
        {
            self.wake(at, Wake::ToBroker(conn.0));
        }
    }

    pub(super) fn arrive_at_client(&mut self, conn: u64) {
        let Some(stream) = self.streams.get_mut(&conn) else {
            return;
        };
        let client = stream.client;
        if !stream.is_at_client || self.clients[client].conn() != Some(ConnId(conn)) {
            return;
        }
        match stream.pipe.read(self.now, Toward::Client) {
            None => {}
            Some(Arrival::Bytes(bytes)) => {
                self.with_client(client, |client, scene, _| {
                    client.handle_input(scene, &bytes)
                });
            }
            Some(Arrival::End) => {
                let end = stream.pipe.end(self.now, Toward::Broker);
                if let Some(at) = end {
                    self.wake(at, Wake::ToBroker(conn));
                }
                self.lose_client(client);
            }
            Some(Arrival::Reset) => self.lose_client(client),
        }
        self.wake_again(conn, Toward::Client);
    }

    pub(super) fn arrive_at_broker(&mut self, conn: u64) {
        let Some(stream) = self.streams.get_mut(&conn) else {
            return;
        };
        if !stream.is_at_broker {
            return;
        }
        match stream.pipe.read(self.now, Toward::Broker) {
            None => {}
            Some(Arrival::Bytes(bytes)) => {
                stream.input.extend_from_slice(&bytes);
                self.offer_input(conn);
            }
            Some(Arrival::End) => self.end_at_node(ConnId(conn)),
            Some(Arrival::Reset) => self.disconnect_node(ConnId(conn)),
        }
        self.wake_again(conn, Toward::Broker);
    }

    /// What is under way behind what was read gets its own wake.
    fn wake_again(&mut self, conn: u64, toward: Toward) {
        let next = self
            .streams
            .get_mut(&conn)
            .and_then(|stream| stream.pipe.next_at(toward));
        if let Some(at) = next {
            let what = match toward {
                Toward::Broker => Wake::ToBroker(conn),
                Toward::Client => Wake::ToClient(conn),
            };
            self.wake(at, what);
        }
    }

    fn trace(&self, bytes: &[u8], conn: u64, what: &str) {
        if self.plan.is_traced && self.is_binary(conn) {
            println!("{:>12} {conn} {what} {} bytes", self.now, bytes.len());
        } else if self.plan.is_traced {
            for frame in trace::frames(bytes) {
                println!("{:>12} {conn} {what} {frame}", self.now);
            }
        }
    }

    /// Bytes of the node for a client.
    pub(super) fn carry_to_client(&mut self, conn: u64, bytes: &[u8]) {
        let now = self.now;
        self.trace(bytes, conn, "is sent");
        if let Some(stream) = self.streams.get_mut(&conn)
            && let Some(at) = stream.pipe.write(now, Toward::Client, bytes)
        {
            self.wake(at, Wake::ToClient(conn));
        }
    }

    /// The node closed its end.
    pub(super) fn close_at_broker(&mut self, conn: u64, is_reset: bool) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(&conn) else {
            return;
        };
        stream.is_at_broker = false;
        let at = if is_reset {
            stream.pipe.reset(now, Toward::Client)
        } else {
            stream.pipe.end(now, Toward::Client)
        };
        if let Some(at) = at {
            self.wake(at, Wake::ToClient(conn));
        }
        self.forget_stream(conn);
    }

    fn forget_stream(&mut self, conn: u64) {
        let is_over = self
            .streams
            .get(&conn)
            .is_some_and(|stream| !stream.is_at_broker && !stream.is_at_client);
        if is_over {
            self.streams.remove(&conn);
        }
    }
}
