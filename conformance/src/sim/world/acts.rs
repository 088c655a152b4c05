//! What happens in the troubled part of a run, one act at a time.
//!
//! Each act draws from a stream of its own, so that leaving one out leaves all others as they are.

use super::{Wake, World};
use crate::sim::client::Mode;
use crate::sim::pipe::MS;
use crate::sim::plan::Fault;
use crate::sim::random::Random;
use crate::sim::reference::Input;
use crate::sim::setup::{QWERQ_QUEUES, TEAM};
use qq_core::broker::QueueSpec;

/// Most milliseconds that a disk stands still.
const STALL_MAX_MS: u64 = 30_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Sender,
    Receiver,
    Publish,
    Settle,
    Credit,
    Detach,
    Session,
    Close,
    Reset,
    Silence,
    Exclusive,
    Purge,
    Delete,
    Declare,
    WallJump,
    Room,
    StallDisk,
    BreakDisk,
    SpoilRead,
    Route,
    Transact,
    Extend,
}

impl Act {
    /// Whether a client does it, with links as AMQP has them.
    fn is_of_client(self) -> bool {
        matches!(
            self,
            Self::Sender
                | Self::Receiver
                | Self::Publish
                | Self::Settle
                | Self::Credit
                | Self::Detach
                | Self::Session
                | Self::Exclusive
                | Self::Transact
                | Self::Extend
        )
    }
}

impl World {
    /// The acts of this run with their weights.
    fn choices(&self) -> Vec<(u64, Act)> {
        let with = |fault, weight| if self.plan.has(fault) { weight } else { 0 };
        vec![
            (60, Act::Sender),
            (60, Act::Receiver),
            (300, Act::Publish),
            (300, Act::Settle),
            (150, Act::Credit),
            (with(Fault::Detach, 25), Act::Detach),
            (with(Fault::Detach, 6), Act::Session),
            (with(Fault::Detach, 6), Act::Close),
            (with(Fault::Reset, 12), Act::Reset),
            (with(Fault::Silence, 4), Act::Silence),
            (with(Fault::Exclusive, 20), Act::Exclusive),
            (with(Fault::Purge, 5), Act::Purge),
            (with(Fault::Delete, 3), Act::Delete),
            (with(Fault::Delete, 12), Act::Declare),
            (with(Fault::WallJump, 5), Act::WallJump),
            (with(Fault::NoRoom, 6), Act::Room),
            (with(Fault::StoreStall, 2), Act::StallDisk),
            (with(Fault::SyncFails, 2), Act::BreakDisk),
            (with(Fault::ReadFails, 3), Act::SpoilRead),
            (with(Fault::Exchanges, 40), Act::Route),
            (with(Fault::Transactions, 120), Act::Transact),
            (with(Fault::Locks, 60), Act::Extend),
        ]
    }

    /// Performs the next act, and sets the time of the one after it.
    pub(super) fn act(&mut self) {
        if self.is_healed {
            return;
        }
        let number = self.acts;
        self.acts += 1;
        let mut random = Random::fork(self.plan.seed, 3, u64::from(number));
        let pause = random.within(1, self.plan.pause_max_ms * MS);
        self.wake(self.now + pause, Wake::Act);
        if self.plan.is_skipped(number) {
            return;
        }
        if self.plan.has(Fault::Crash) {
            let every = self.plan.crash_every;
            if number % every == every - 1 {
                // At the disk's next boundaries, where it matters, or else at once.
                self.disk.crash_at = Some(self.disk.boundaries + random.within(1, 5));
                if random.is_lucky(300) {
                    self.crash();
                }
            }
        }
        let client = self.plan.clients[random.index(self.plan.clients.len())];
        if self.clients[client].conn().is_none() {
            return self.connect(client, &mut random);
        }
        let Some(act) = random.weighted(&self.choices()) else {
            return;
        };
        self.perform(act, client, &mut random);
    }

    fn perform(&mut self, act: Act, client: usize, random: &mut Random) {
        match act {
            _ if self.clients[client].is_binary() && act.is_of_client() => {
                self.with_client(client, |client, scene, plan| {
                    client.act(scene, plan, random)
                });
            }
            Act::Sender if self.has_exchanges() && random.is_lucky(500) => {
                let name = self.pick_exchange(random);
                self.with_client(client, |client, scene, plan| {
                    client.attach_poster(scene, plan, random, &name);
                });
            }
            Act::Sender => {
                let spec = self.plan.queues[random.index(self.plan.queues.len())].clone();
                self.open_link(client, random, true, &spec);
            }
            Act::Receiver => self.open_receiver(client, random),
            Act::Publish => {
                self.with_client(client, |client, scene, plan| {
                    client.publish(scene, plan, random)
                });
            }
            Act::Settle => {
                self.with_client(client, |client, scene, plan| {
                    client.settle(scene, plan, random)
                });
            }
            Act::Credit => {
                self.with_client(client, |client, scene, plan| {
                    client.credit(scene, plan, random)
                });
            }
            Act::Detach => {
                self.with_client(client, |client, scene, _| client.detach(scene, random));
            }
            Act::Session => {
                self.with_client(client, |client, scene, _| client.end_session(scene, random));
            }
            Act::Close => self.with_client(client, |client, scene, _| client.close(scene)),
            Act::Reset => self.reset_client(client),
            Act::Silence => self.fall_silent(client),
            Act::Exclusive => self.use_exclusive(client, random),
            Act::Purge | Act::Delete | Act::Declare => {
                let spec = self.plan.queues[random.index(self.plan.queues.len())].clone();
                self.administer(act, spec);
            }
            Act::WallJump => {
                let hour = 3_600_000;
                self.wall_offset_ms += random.within(0, 2 * hour) as i64 - hour as i64;
            }
            Act::Room => self.change_room(random),
            Act::StallDisk => {
                self.disk.stalled_until = self.now + random.within(1, STALL_MAX_MS) * MS;
            }
            Act::BreakDisk => self.break_disk(),
            Act::SpoilRead => self.ledger.damage_next_fetch(),
            Act::Route => self.reroute(random),
            Act::Extend => {
                self.with_client(client, |client, scene, _| client.extend(scene, random));
            }
            Act::Transact => {
                self.with_client(client, |client, scene, _| client.transact(scene, random));
            }
        }
    }

    fn fall_silent(&mut self, client: usize) {
        let conn = self.clients[client].conn().map(|conn| conn.0);
        if let Some(stream) = conn.and_then(|conn| self.streams.get_mut(&conn)) {
            stream.pipe.fall_silent();
        }
    }

    /// A link that receives from a queue, a group or an exchange.
    fn open_receiver(&mut self, client: usize, random: &mut Random) {
        if self.plan.has(Fault::Subscriptions) && random.is_lucky(250) {
            let name = self.pick_exchange(random);
            return self.with_client(client, |client, scene, plan| {
                client.attach_subscriber(scene, plan, random, &name);
            });
        }
        if self.plan.has(Fault::Groups) && random.is_lucky(250) {
            return self.with_client(client, |client, scene, plan| {
                client.attach_member(scene, plan, random);
            });
        }
        let queues = self.plan.declared();
        let spec = &queues[random.index(queues.len())];
        self.open_link(client, random, false, spec);
    }

    fn open_link(&mut self, client: usize, random: &mut Random, is_sender: bool, spec: &QueueSpec) {
        self.with_client(client, |client, scene, plan| {
            if is_sender {
                client.attach_sender(scene, plan, random, spec);
            } else {
                client.attach_receiver(scene, plan, random, spec, None::<Mode>);
            }
        });
    }

    /// A queue of this connection alone, and a link to it; others try to reach it as well.
    fn use_exclusive(&mut self, client: usize, random: &mut Random) {
        let Some(conn) = self.clients[client].conn() else {
            return;
        };
        let spec = QueueSpec {
            exclusive: true,
            ..crate::sim::setup::lossy("own")
        };
        if self.clients[client].is_open() {
            let mut declared = None;
            let inputs = &mut self.inputs;
            if let Some(node) = &mut self.node {
                let now = qq_core::broker::Now {
                    mono: std::time::Duration::from_nanos(self.now - self.epoch),
                    wall_ms: super::WALL_START_MS + self.wall_offset_ms + (self.now / MS) as i64,
                };
                declared = node
                    .administer(now, |broker| broker.declare_queue(spec.clone(), Some(conn)))
                    .ok();
                if let Some(id) = declared {
                    inputs.push(Input::Declared(Box::new(spec.clone()), id, Some(conn)));
                }
            }
            if declared.is_some() {
                self.recorder.queue(self.now, &spec);
            }
            self.after_node();
        }
        let is_sender = random.is_lucky(500);
        self.open_link(client, random, is_sender, &spec);
    }

    fn administer(&mut self, act: Act, spec: QueueSpec) {
        let now = self.broker_now();
        let Some(node) = &mut self.node else {
            return;
        };
        let is_shared = spec.name == TEAM
            || self.plan.has(Fault::Qwerq) && QWERQ_QUEUES.contains(&spec.name.as_str());
        let is_kept = spec.is_stream() || is_shared && act == Act::Delete;
        if is_kept && act != Act::Declare {
            // Positions of a stream are not given again as long as it is the same, and groups go with their queue.
            return;
        }
        self.operations += 1;
        let name = spec.name.clone();
        match act {
            Act::Purge => {
                let purged = node.administer(now, |broker| broker.purge_queue(&name));
                if let Ok(count) = purged {
                    self.inputs.push(Input::Purged(name.clone(), count));
                    self.recorder.admin(self.now, "purge", &name);
                }
            }
            Act::Delete => {
                let deleted = node.administer(now, |broker| broker.delete_queue(now, &name));
                if deleted.is_ok() {
                    self.inputs.push(Input::Deleted(name.clone()));
                    self.recorder.admin(self.now, "delete", &name);
                }
            }
            _ => {
                let declared =
                    node.administer(now, |broker| broker.declare_queue(spec.clone(), None));
                match declared {
                    Ok(id) => self.inputs.push(Input::Declared(Box::new(spec), id, None)),
                    Err(refusal) => self.broken.push(refusal.text),
                }
            }
        }
        self.after_node();
    }

    fn change_room(&mut self, random: &mut Random) {
        self.is_disk_full = !self.is_disk_full;
        let quota = self.is_disk_full.then(|| {
            let used = self.ledger.used_bytes();
            used / 2 + random.below(used as u64 + 2_000) as usize
        });
        self.set_quota(quota);
    }
}
