//! What every test does with fe2o3-amqp: open, attach, send, receive, settle, each with a time limit and an error as text.
//!
//! The library's errors are compared by their `Debug` text, because each kind of failure has its own type and they share
//! nothing but the condition inside.
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::{Connection, Receiver, Sendable, Sender, Session};
use fe2o3_amqp_types::definitions::SenderSettleMode;
use fe2o3_amqp_types::messaging::{AmqpValue, Body, Message, Outcome, Source, Target};
use serde_amqp::Value;
use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A result whose error is a sentence for the test's line.
pub type R<T = ()> = Result<T, String>;
/// A message of any body kind.
pub type Msg = Message<Body<Value>>;
/// A received message that can still be settled.
pub type Got = Delivery<Body<Value>>;

/// How long anything that must happen may take before it counts as failed.
pub const WAIT: Duration = Duration::from_secs(8);
/// How long to look for something that must not happen.
pub const QUIET: Duration = Duration::from_millis(300);

static SERIAL: AtomicU64 = AtomicU64::new(0);

/// A name that no other link or container of this run has.
pub fn unique(what: &str) -> String {
    format!(
        "{what}-{}-{}",
        std::process::id(),
        SERIAL.fetch_add(1, Ordering::Relaxed)
    )
}

/// Waits for the future; its error, or running past [`WAIT`], becomes a sentence.
pub async fn within<T, E: Debug>(what: &str, f: impl Future<Output = Result<T, E>>) -> R<T> {
    match tokio::time::timeout(WAIT, f).await {
        Err(_) => Err(format!("timed out: {what}")),
        Ok(r) => r.map_err(|e| format!("{what}: {e:?}")),
    }
}

/// Fails with what was got and wanted unless they are equal.
pub fn eq<T: PartialEq<U> + Debug, U: Debug>(got: T, want: U, what: &str) -> R {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: got {got:?}, want {want:?}"))
    }
}

/// How to log in.
pub enum Login {
    /// SASL ANONYMOUS.
    Anonymous,
    /// SASL PLAIN with user and password.
    Plain(String, String),
}

/// A connection with one session.
pub struct Conn {
    /// The connection.
    pub connection: ConnectionHandle<()>,
    /// Its session.
    pub session: SessionHandle<()>,
}

impl Conn {
    /// Connects and begins a session, with a container id of its own.
    pub async fn open(port: u16, login: Login) -> R<Conn> {
        Self::open_as(port, login, unique("interop-rust"), None).await
    }

    /// The same with a given container id and idle time-out (in ms).
    pub async fn open_as(
        port: u16,
        login: Login,
        container: String,
        idle_ms: Option<u32>,
    ) -> R<Conn> {
        let profile = match login {
            Login::Anonymous => SaslProfile::Anonymous,
            Login::Plain(username, password) => SaslProfile::Plain { username, password },
        };
        let mut builder = Connection::builder()
            .container_id(container)
            .hostname("127.0.0.1")
            .scheme("amqp")
            .sasl_profile(profile);
        if let Some(ms) = idle_ms {
            builder = builder.idle_time_out(ms);
        }
        let stream = within(
            "connect",
            tokio::net::TcpStream::connect(("127.0.0.1", port)),
        )
        .await?;
        let mut connection = within("open", builder.open_with_stream(stream)).await?;
        let session = within("begin", Session::begin(&mut connection)).await?;
        Ok(Conn {
            connection,
            session,
        })
    }

    /// A sender to the address, unsettled.
    pub async fn sender(&mut self, address: &str) -> R<Sender> {
        self.sender_with(Some(address), unique("tx"), SenderSettleMode::Mixed)
            .await
    }

    /// A sender with everything given; no address is the anonymous terminus.
    pub async fn sender_with(
        &mut self,
        address: Option<&str>,
        name: String,
        mode: SenderSettleMode,
    ) -> R<Sender> {
        let target = Target {
            address: address.map(String::from),
            ..Default::default()
        };
        let b = Sender::builder()
            .name(name)
            .target(target)
            .sender_settle_mode(mode);
        within("attach of a sender", b.attach(&mut self.session)).await
    }

    /// A receiver from the address, without credit.
    pub async fn receiver(&mut self, address: &str) -> R<Receiver> {
        self.receiver_with(from(address), unique("rx"), SenderSettleMode::Mixed)
            .await
    }

    /// A receiver with everything given, without credit.
    pub async fn receiver_with(
        &mut self,
        source: Source,
        name: String,
        mode: SenderSettleMode,
    ) -> R<Receiver> {
        let b = Receiver::builder()
            .name(name)
            .source(source)
            .sender_settle_mode(mode)
            .credit_mode(CreditMode::Manual)
            .auto_accept(false);
        within("attach of a receiver", b.attach(&mut self.session)).await
    }

    /// Ends the session and closes the connection.
    pub async fn close(mut self) -> R {
        within("end", self.session.end()).await?;
        within("close", self.connection.close()).await
    }
}

/// A source of that address.
pub fn from(address: &str) -> Source {
    Source {
        address: Some(address.to_string()),
        ..Default::default()
    }
}

/// A message with one value as its body.
pub fn value(v: impl Into<Value>) -> Msg {
    Message::from(Body::Value(AmqpValue(v.into())))
}

/// Sends unsettled and gives the outcome's name.
pub async fn send(tx: &mut Sender, message: Msg) -> R<String> {
    let s = Sendable {
        message,
        message_format: 0,
        settled: Some(false),
    };
    Ok(match within("outcome", tx.send(s)).await? {
        Outcome::Accepted(_) => "accepted".into(),
        Outcome::Rejected(_) => "rejected".into(),
        Outcome::Released(_) => "released".into(),
        Outcome::Modified(_) => "modified".into(),
        #[allow(unreachable_patterns)]
        other => format!("{other:?}"),
    })
}

/// Sends each value and wants `accepted` for it.
pub async fn send_all(tx: &mut Sender, bodies: impl IntoIterator<Item = Value>) -> R {
    for b in bodies {
        eq(send(tx, value(b)).await?, "accepted", "outcome")?;
    }
    Ok(())
}

/// Sets the credit.
pub async fn credit(rx: &mut Receiver, n: u32) -> R {
    within("credit", rx.set_credit(n)).await
}

/// The next delivery.
pub async fn take(rx: &mut Receiver) -> R<Got> {
    within("delivery", rx.recv::<Body<Value>>()).await
}

/// Whatever comes until nothing does for a while.
pub async fn take_all(rx: &mut Receiver) -> R<Vec<Got>> {
    let mut all = vec![];
    while let Ok(d) = tokio::time::timeout(QUIET, rx.recv::<Body<Value>>()).await {
        all.push(d.map_err(|e| format!("delivery: {e:?}"))?);
    }
    Ok(all)
}

/// Asks for everything there is for a drained credit. (The library's own count of the credit does not follow a drain.)
pub async fn drain(rx: &mut Receiver, n: u32) -> R<Vec<Got>> {
    credit(rx, n).await?;
    within("drain", rx.drain()).await?;
    take_all(rx).await
}

/// Settles as accepted.
pub async fn accept(rx: &Receiver, d: &Got) -> R {
    within("accept", rx.accept(d)).await
}

/// The body when it is one value.
pub fn body(d: &Got) -> Value {
    match &d.message().body {
        Body::Value(v) => v.0.clone(),
        _ => Value::Null,
    }
}

/// How often the header says that delivery was tried before.
pub fn delivery_count(d: &Got) -> u32 {
    d.message().header.as_ref().map_or(0, |h| h.delivery_count)
}

/// What a new consumer finds on the queue (and takes): bodies and delivery-counts.
pub async fn left(c: &mut Conn, address: &str) -> R<Vec<(Value, u32)>> {
    let mut rx = c.receiver(address).await?;
    let got = drain(&mut rx, 50).await?;
    for d in &got {
        accept(&rx, d).await?;
    }
    within("close of the link", rx.close()).await?;
    Ok(got.iter().map(|d| (body(d), delivery_count(d))).collect())
}
