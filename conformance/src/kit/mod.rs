//! What a script works with: peers on a bed, addresses in the broker's own form, time.

mod link;
pub mod manage;
mod peer;

pub use link::{Delivery, modified, rejected, unsupported};
pub use peer::Peer;

use crate::bed::Bed;
use crate::script::{Done, Failure};
use crate::wire::message;
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes of cases that many scripts share.
pub mod known {
    /// open(container-id "c1")
    pub const OPEN: &str = "0000001202000000005310c00501a1026331";
    /// begin(next-outgoing-id 0, incoming-window 2048, outgoing-window 2048) on channel 0
    pub const BEGIN: &str = "0000001a02000000005311c00d04404370000008007000000800";
    /// attach sender "s1", handle 0, target "q1"
    pub const SND: &str =
        "0000002702000000005312c01a0aa10273314342404000532845005329c00501a1027131404043";
    /// attach receiver "r1", handle 1, source "q1"
    pub const RCV: &str =
        "0000002502000000005312c01807a10272315201414040005328c00501a102713100532945";
    /// transfer(handle 0, delivery-id 0, tag 00) with one data section "hello"
    pub const XFER: &str = "0000001e02000000005314c007044343a0010043005375a00568656c6c6f";
    /// end
    pub const END: &str = "0000000c0200000000531745";
    /// close
    pub const CLOSE: &str = "0000000c0200000000531845";
}

/// How the broker wants its peers to come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// The AMQP header first, no SASL.
    None,
    /// SASL ANONYMOUS.
    Anonymous,
    /// SASL PLAIN with user and password.
    Plain(String, String),
}

/// What a script has to know about the broker under test.
#[derive(Debug, Clone)]
pub struct Env {
    /// How peers come in.
    pub login: Login,
    /// Form of an address; `{}` stands for the queue's name.
    pub template: String,
    /// An address that does not exist, if the operator of the run knows one.
    pub missing: Option<String>,
    /// Part of every queue name, so that runs do not meet. Empty: names are used as they stand,
    /// which suits a broker that lives for one script.
    pub run: String,
    /// True when the broker takes ANONYMOUS in a SASL layer.
    pub anonymous: bool,
}

impl Env {
    /// A broker that takes plain names, creates queues by itself and is thrown away afterwards.
    pub fn fresh() -> Self {
        Self {
            login: Login::None,
            template: "{}".into(),
            missing: None,
            run: String::new(),
            anonymous: true,
        }
    }
}

/// The shared handle on a bed.
pub type SharedBed = Rc<RefCell<Box<dyn Bed>>>;

/// The tools of one run of one script.
pub struct Kit {
    pub(crate) bed: SharedBed,
    pub(crate) env: Rc<Env>,
    script: &'static str,
    /// What went over the wire, newest last; shown when the script fails.
    pub trace: Rc<RefCell<Vec<String>>>,
    peers: usize,
}

impl Kit {
    /// Tools for the script with this id.
    pub fn new(bed: SharedBed, env: Rc<Env>, script: &'static str) -> Self {
        Self {
            bed,
            env,
            script,
            trace: Rc::default(),
            peers: 0,
        }
    }

    /// The broker's address for a queue that this script calls `name`.
    pub fn addr(&self, name: &str) -> String {
        address(&self.env, self.script, name)
    }

    /// Lets time pass.
    pub fn wait(&mut self, ms: u64) {
        self.bed.borrow_mut().wait(ms);
    }

    /// True when waiting costs nothing.
    pub fn is_virtual(&self) -> bool {
        self.bed.borrow().is_virtual()
    }

    /// How the broker is to be entered.
    pub fn login(&self) -> &Login {
        &self.env.login
    }

    /// A connected byte stream, nothing sent.
    pub fn peer(&mut self) -> Done<Peer> {
        let conn = self
            .bed
            .borrow_mut()
            .connect()
            .map_err(Failure::Unreachable)?;
        self.peers += 1;
        Ok(Peer::new(self, self.script, conn, self.peers))
    }

    /// A peer with the protocol headers exchanged, SASL included where the broker wants it.
    pub fn hello(&mut self) -> Done<Peer> {
        let mut peer = self.peer()?;
        peer.hello()?;
        Ok(peer)
    }

    /// A peer with open exchanged (container `c1`).
    pub fn open(&mut self) -> Done<Peer> {
        let mut peer = self.hello()?;
        peer.hex(known::OPEN);
        peer.opened = Some(peer.want("open")?);
        Ok(peer)
    }

    /// A peer with open exchanged in another container's name.
    pub fn open_as(&mut self, container: &str) -> Done<Peer> {
        let mut peer = self.hello()?;
        peer.send(0, crate::wire::perf("open").with("container-id", container));
        peer.opened = Some(peer.want("open")?);
        Ok(peer)
    }

    /// A peer with open and one begin exchanged on channel 0.
    pub fn session(&mut self) -> Done<Peer> {
        let mut peer = self.open()?;
        peer.hex(known::BEGIN);
        peer.want("begin")?;
        Ok(peer)
    }

    /// A session in another container's name.
    pub fn session_as(&mut self, container: &str) -> Done<Peer> {
        let mut peer = self.open_as(container)?;
        peer.hex(known::BEGIN);
        peer.want("begin")?;
        Ok(peer)
    }

    /// Publishes these payloads to a queue over a connection of its own; each must be accepted.
    pub fn fill(&mut self, queue: &str, payloads: &[Vec<u8>]) -> Done {
        let mut peer = self.session_as("filler")?;
        peer.sender("filler", 0, queue)?;
        for (id, payload) in payloads.iter().enumerate() {
            peer.credit_wait(0)?;
            peer.publish(0, id as u32, payload);
            let outcome = peer.outcome(id as u32)?;
            crate::same!(outcome, "accepted", "outcome of message {id} of the set-up");
        }
        peer.close()
    }

    /// Publishes `count` messages with the bodies `m0`, `m1`, ...
    pub fn fill_count(&mut self, queue: &str, count: usize) -> Done {
        let payloads: Vec<_> = (0..count)
            .map(|i| message::data(format!("m{i}").as_bytes()))
            .collect();
        self.fill(queue, &payloads)
    }

    /// Takes everything out of a queue over a connection of its own; returns the payloads.
    pub fn empty(&mut self, queue: &str) -> Done<Vec<Vec<u8>>> {
        let mut peer = self.session_as("emptier")?;
        peer.receiver("emptier", 0, queue)?;
        peer.credit(0, 1_000);
        let mut out = vec![];
        while let Some(delivery) = peer.delivery("emptier", 400)? {
            peer.settle(delivery.id, "accepted");
            out.push(delivery.payload);
        }
        peer.close()?;
        Ok(out)
    }

    /// The bodies of the first data sections of everything in a queue, taken out.
    pub fn bodies(&mut self, queue: &str) -> Done<Vec<String>> {
        let payloads = self.empty(queue)?;
        Ok(payloads.iter().map(|p| body_text(p)).collect())
    }
}

/// First data section as text, lossy.
pub fn body_text(payload: &[u8]) -> String {
    String::from_utf8_lossy(&message::data_of(payload).unwrap_or_default()).into_owned()
}

/// The form an address takes on the wire for this broker and script.
pub(crate) fn address(env: &Env, script: &str, name: &str) -> String {
    match &env.missing {
        Some(missing) if name == "nope" => missing.clone(),
        _ if env.run.is_empty() => env.template.replace("{}", name),
        _ => env
            .template
            .replace("{}", &format!("conform-{}-{script}-{name}", env.run)),
    }
}
