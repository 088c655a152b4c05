//! Management over HTTP: what the API needs of the daemon.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use qq_core::admin::{Reply, Request};
use qq_core::broker::Now;
use qq_core::face::binary::TOKEN;
use qq_core::face::{Login, LoginAnswer, PeerInfo};
use qq_http::{
    Backend, Credentials, Entry, NodeInfo, Page, Server, Settings, StoreNumbers, TokenInfo,
};
use serde_json::Value;

use crate::config::Config;
use crate::login::{Door, SharedTokens, SharedUsers};
use crate::runtime::{self, Meter, Operators};
use crate::{listen, memory};

/// How long the broker may take for one request: long enough to purge or move millions of messages.
const PATIENCE: Duration = Duration::from_secs(300);

/// Who is let in by a token, and whether anybody is without saying who they are.
pub(crate) struct Doors {
    tokens: SharedTokens,
    is_login_required: bool,
}

impl Doors {
    /// Who asks for a login anywhere asks for one here.
    pub(crate) fn new(config: &Config, tokens: &SharedTokens) -> Self {
        let is_token_required = tokens
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_required();
        Self {
            tokens: Arc::clone(tokens),
            is_login_required: is_token_required || config.auth.users_file.0.is_some(),
        }
    }

    /// Where HTTP is served, if it is.
    ///
    /// # Errors
    /// One line: everybody could reach it without a login.
    pub(crate) fn address(&self, config: &Config) -> Result<Option<SocketAddr>, String> {
        let management = &config.management;
        if !management.enabled {
            return Ok(None);
        }
        let address = SocketAddr::new(management.bind_addr.0, management.port.to());
        if !address.ip().is_loopback() && !self.is_login_required {
            return Err(format!(
                "management.bind_addr = \"{}\": other machines could change everything without a login; \
                 set [auth] users_file or tokens_file, or bind 127.0.0.1",
                address.ip()
            ));
        }
        Ok(Some(address))
    }

    /// Binds the port, if HTTP is served.
    ///
    /// # Errors
    /// One line: the port cannot be had, or everybody could reach it without a login.
    pub(crate) fn bind(&self, config: &Config) -> Result<Option<TcpListener>, String> {
        let Some(address) = self.address(config)? else {
            return Ok(None);
        };
        let socket = listen::bind("management", ("management", "port"), address)?;
        // Its thread waits.
        let waits = socket.set_nonblocking(false);
        waits.map_err(|error| format!("cannot listen on {address} (management): {error}"))?;
        Ok(Some(socket))
    }
}

/// The daemon as the API sees it.
pub(crate) struct Front {
    node: NodeInfo,
    operators: Arc<Operators>,
    users: SharedUsers,
    door: Door,
    tokens: SharedTokens,
    begin: Instant,
    metrics_path: Option<String>,
    /// Of the store, when it has a disk, and its folder.
    disk: Option<(Meter, PathBuf)>,
}

impl Front {
    pub(crate) fn new(
        config: &Config,
        users: &SharedUsers,
        doors: Doors,
        (store, meter): (&str, Option<Meter>),
        operators: Arc<Operators>,
    ) -> Self {
        let mut printed = config.clone();
        let shown: Value = toml::from_str(&printed.print()).unwrap_or_default();
        let started = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let management = &config.management;
        Self {
            node: NodeInfo {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                runtime: runtime::NAME.to_owned(),
                store: store.to_owned(),
                started_at_ms: i64::try_from(started.as_millis()).unwrap_or(0),
                node_id: "node-1".to_owned(),
                limits: shown["limits"].clone(),
                config: shown,
                queue_defaults: config.auto_create_spec(),
                is_login_required: doors.is_login_required,
            },
            operators,
            users: Arc::clone(users),
            door: Door::new(config, users),
            tokens: doors.tokens,
            begin: Instant::now(),
            disk: meter.map(|meter| (meter, config.store_dir())),
            metrics_path: management
                .prometheus_enabled
                .then(|| management.prometheus_path.0.clone().unwrap_or_default()),
        }
    }

    /// Serves until the answer is stopped.
    pub(crate) fn serve(self, socket: TcpListener) -> Option<Server> {
        let address = socket.local_addr();
        let login = if self.node.is_login_required {
            "required"
        } else {
            "not required"
        };
        let settings = Settings {
            metrics_path: self.metrics_path.clone(),
            ..Settings::default()
        };
        match Server::start(socket, settings, Arc::new(self)) {
            Ok(server) => {
                if let Ok(address) = address {
                    log::info!("HTTP API and dashboard on {address}, login {login}");
                }
                Some(server)
            }
            Err(error) => {
                log::error!("the HTTP API cannot be served: {error}");
                None
            }
        }
    }

    fn login(
        &self,
        peer: IpAddr,
        decide: impl FnOnce(&Login<'_>) -> LoginAnswer,
        mechanism: &str,
        response: &[u8],
    ) -> Entry {
        let peer = PeerInfo {
            address: peer.to_string(),
            ip: Some(peer),
        };
        let login = Login {
            now: Now {
                mono: self.begin.elapsed(),
                wall_ms: 0,
            },
            peer: &peer,
            mechanism,
            response,
        };
        match decide(&login) {
            LoginAnswer::Accepted | LoginAnswer::AcceptedWith { .. } => Entry::Granted,
            LoginAnswer::Denied { delay } => Entry::Denied(delay),
            // Neither a password nor a token takes a second step.
            LoginAnswer::Challenge { .. } => Entry::Denied(Duration::ZERO),
        }
    }
}

impl Backend for Front {
    fn ask(&self, request: Request) -> Option<Reply> {
        self.operators.ask(request, PATIENCE).ok()
    }

    fn node(&self) -> &NodeInfo {
        &self.node
    }

    fn users(&self) -> Vec<String> {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        users.names().map(str::to_owned).collect()
    }

    fn tokens(&self) -> Vec<TokenInfo> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.infos().collect()
    }

    fn admit(&self, credentials: &Credentials, peer: IpAddr) -> Entry {
        match credentials {
            Credentials::None => Entry::Denied(Duration::ZERO),
            Credentials::Basic { user, password } => {
                let response = format!("\0{user}\0{password}");
                self.login(
                    peer,
                    |login| self.door.answer(login),
                    "PLAIN",
                    response.as_bytes(),
                )
            }
            Credentials::Bearer(token) => {
                let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
                self.login(peer, |login| tokens.answer(login), TOKEN, token.as_bytes())
            }
        }
    }

    fn process(&self) -> (u64, u64) {
        memory::of_process()
    }

    fn kept_out(&self) -> u64 {
        self.operators.kept_out()
    }

    fn store(&self) -> Option<StoreNumbers> {
        let (meter, folder) = self.disk.as_ref()?;
        let times = meter.times();
        let (file_bytes, journal_bytes) = bytes_of(folder);
        Some(StoreNumbers {
            commits: times.commits,
            fetches: times.fetches,
            failures: times.failures,
            file_bytes,
            journal_bytes,
        })
    }

    fn page(&self, path: &str, known: Option<&str>) -> Option<Page> {
        let page = qq_dashboard::serve(path, known)?;
        let headers = page.headers.into_iter();
        Some(Page {
            status: page.status,
            headers: headers
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            body: page.body.to_vec(),
        })
    }
}

/// Bytes of the files of a store, and how many of them are the write-ahead log.
fn bytes_of(folder: &Path) -> (u64, u64) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return (0, 0);
    };
    let (mut all, mut journal) = (0, 0);
    for entry in entries.flatten() {
        // What goes away meanwhile takes no room.
        let len = entry.metadata().map_or(0, |about| about.len());
        all += len;
        if entry.file_name().to_string_lossy().ends_with("-wal") {
            journal += len;
        }
    }
    (all, journal)
}
