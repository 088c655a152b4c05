//! The configuration: what it holds, where it comes from, and what is said about it.
//!
//! Values come from the defaults, then the file, then the environment. Nothing is guessed: a key, a unit or a value
//! that is not known ends the start with one line per problem. Keys of features that this build does not have are
//! accepted and checked, and reported when they are set.

mod amount;
mod declare;
mod key;
mod limits;
mod load;
mod nearest;
mod print;
mod problem;
mod raw;
#[cfg(test)]
mod reference;
mod sections;
mod setting;
mod stream;
mod topology;

use std::net::SocketAddr;
#[cfg(feature = "sqlite")]
use std::path::PathBuf;

use qq_core::broker::{GroupSpec, QueueSpec};
use qq_core::route::{BindingSpec, ExchangeSpec};

use key::Section;
use limits::Limits;
use sections::{Auth, Cluster, Defaults, Management, Sasl, Server, Storage};
use stream::Stream;
use topology::{Binding, Exchange, Queue};

pub(crate) use amount::Size;
pub(crate) use key::variable;
pub(crate) use load::{Source, load};
pub(crate) use problem::{Origin, Problem};
pub(crate) use sections::Logging;

/// Everything that can be configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) server: Server,
    pub(crate) storage: Storage,
    pub(crate) logging: Logging,
    pub(crate) sasl: Sasl,
    pub(crate) auth: Auth,
    pub(crate) defaults: Defaults,
    pub(crate) limits: Limits,
    pub(crate) management: Management,
    cluster: Cluster,
    queues: Vec<Queue>,
    streams: Vec<Stream>,
    exchanges: Vec<Exchange>,
    bindings: Vec<Binding>,
    /// What the user should know, one line each: features that are missing, variables that are not known.
    pub(crate) remarks: Vec<String>,
}

impl Config {
    /// The sections with all their keys.
    fn sections(&mut self) -> Vec<Section<'_>> {
        vec![
            Section {
                name: "server",
                keys: self.server.keys(),
            },
            Section {
                name: "storage",
                keys: self.storage.keys(),
            },
            Section {
                name: "logging",
                keys: self.logging.keys(),
            },
            Section {
                name: "sasl",
                keys: self.sasl.keys(),
            },
            Section {
                name: "auth",
                keys: self.auth.keys(),
            },
            Section {
                name: "defaults",
                keys: self.defaults.keys(),
            },
            Section {
                name: "limits",
                keys: self.limits.keys(),
            },
            Section {
                name: "management",
                keys: self.management.keys(),
            },
            Section {
                name: "cluster",
                keys: self.cluster.keys(),
            },
        ]
    }

    /// Where AMQP is served.
    pub(crate) fn amqp_address(&self) -> SocketAddr {
        SocketAddr::new(self.server.bind_addr.0, self.server.amqp_port.to())
    }

    /// Where QWER-Q is served, if it is.
    pub(crate) fn binary_address(&self) -> Option<SocketAddr> {
        let address = SocketAddr::new(self.server.bind_addr.0, self.server.binary_port.to());
        self.server.binary_enabled.then_some(address)
    }

    /// The queues and streams that exist from the start.
    pub(crate) fn queue_specs(&self) -> Vec<QueueSpec> {
        let queues = self.queues.iter().map(Queue::spec);
        queues
            .chain(self.streams.iter().map(Stream::spec))
            .collect()
    }

    /// The consumer groups that exist from the start.
    pub(crate) fn group_specs(&self) -> Vec<GroupSpec> {
        self.queues.iter().flat_map(Queue::group_specs).collect()
    }

    /// The exchanges that exist from the start.
    pub(crate) fn exchange_specs(&self) -> Vec<ExchangeSpec> {
        self.exchanges.iter().map(Exchange::spec).collect()
    }

    /// The bindings that exist from the start.
    pub(crate) fn binding_specs(&self) -> Vec<BindingSpec> {
        self.bindings.iter().map(Binding::spec).collect()
    }

    /// What a queue made for a link is like.
    pub(crate) fn auto_create_spec(&self) -> QueueSpec {
        Queue::new(&self.defaults).spec()
    }

    /// Bytes of queued messages above which publishes are refused.
    pub(crate) fn memory_max_bytes(&self) -> usize {
        match self.limits.memory_max.value() {
            Some(size) => size.to(),
            None => crate::memory::share_of_available(),
        }
    }
}

/// What the durable store needs to know.
#[cfg(feature = "sqlite")]
impl Config {
    /// Where the durable store is.
    pub(crate) fn store_dir(&self) -> PathBuf {
        PathBuf::from(self.storage.path.0.as_deref().unwrap_or_default())
    }

    /// Free bytes of the store's file system below which durable publishes are refused; 0 when never.
    pub(crate) fn disk_free_min_bytes(&self) -> u64 {
        match self.limits.disk_free_min.value() {
            Some(size) => size.value(),
            None => crate::disk::free_min(&self.store_dir()),
        }
    }

    /// Bytes of memory for pages of the store: a quarter of its cache.
    pub(crate) fn page_cache_bytes(&self) -> usize {
        self.cache_bytes() / 4
    }

    /// Bytes of memory for messages that are on disk as well: the rest of the cache.
    pub(crate) fn body_cache_bytes(&self) -> usize {
        self.cache_bytes() - self.page_cache_bytes()
    }

    fn cache_bytes(&self) -> usize {
        self.storage
            .cache_size_mb
            .to::<usize>()
            .saturating_mul(1 << 20)
    }
}
