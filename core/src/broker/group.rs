//! Consumer groups: a named set of consumers of a queue that shares one copy of every message.
//!
//! A group is a queue under a reserved name that gets what its source gets, nothing else; so its cursor, its attempts, its
//! order, its dead letters, recovery and paging are those of queues, and a body is stored once for all of them. It begins
//! with what comes after it was made, lives as long as its source, and its consumers come and go.

use smallvec::SmallVec;

use super::routing::Route;
use super::subscription::escape;
use super::{Broker, GroupSpec, QueueSpec, quoted};
use crate::planted::{Bug, is_planted};
use crate::queue::Clock;
use crate::route::{NAME_LEN_MAX, QueueRef};
use crate::vocab::{QueueId, Reason, Refusal};

const PREFIX: &str = "amq.group-";

/// The name of the queue that a group is.
fn queue_name(group: &GroupSpec) -> String {
    let mut name = String::from(PREFIX);
    escape(group.queue.as_bytes(), &mut name);
    name.push('.');
    escape(group.name.as_bytes(), &mut name);
    name
}

/// Whether a queue can have a group: the name of the group's queue.
///
/// # Errors
/// As [`Broker::join_group`] says.
pub(super) fn check_group(
    source: &QueueSpec,
    is_owned: bool,
    group: &str,
) -> Result<String, Refusal> {
    QueueSpec::check_name(group)?;
    let invalid = |why: &str| {
        Err(Refusal {
            reason: Reason::Invalid,
            text: format!("the queue {} has no groups: {why}", quoted(&source.name)),
        })
    };
    if source.is_stream() {
        return invalid("it is a stream, which every reader gets whole; name the reader");
    }
    if source.exclusive || is_owned {
        return invalid("it belongs to one connection alone");
    }
    if source.group_of.is_some() || source.name.starts_with("amq.") {
        return invalid("it is one of the broker's own");
    }
    let name = queue_name(&GroupSpec {
        queue: source.name.clone(),
        name: group.to_owned(),
    });
    if name.len() > NAME_LEN_MAX {
        return Err(Refusal {
            reason: Reason::LimitExceeded,
            text: format!(
                "queue and group make a name of {} bytes for the group, {NAME_LEN_MAX} are allowed",
                name.len()
            ),
        });
    }
    Ok(name)
}

impl Broker {
    /// The slot of a group's queue; made when there is none.
    ///
    /// # Errors
    /// `Invalid` for a bad name or a source that has no groups, `LimitExceeded` for a name that is too long or when there
    /// are too many queues.
    pub(super) fn join_group(&mut self, source: usize, group: &str) -> Result<usize, Refusal> {
        let spec = &self.queues[source].spec;
        let name = check_group(spec, self.queues[source].owner.is_some(), group)?;
        if let Some(slot) = self.queue_names.get(name.as_str()) {
            return Ok(*slot);
        }
        let of = GroupSpec {
            queue: spec.name.clone(),
            name: group.to_owned(),
        };
        let spec = QueueSpec {
            name,
            auto_delete: false,
            expires_ms: None,
            groups_only: false,
            group_of: Some(Box::new(of)),
            ..QueueSpec::clone(spec)
        };
        let slot = self.make_queue(spec, None)?;
        self.link_group(slot);
        Ok(slot)
    }

    /// Makes a group of a queue that is there, or finds it.
    ///
    /// # Errors
    /// `NotFound` when there is no such queue; as for its first member otherwise.
    pub fn declare_group(&mut self, group: &GroupSpec) -> Result<(), Refusal> {
        let source = self.slot_of(&group.queue)?;
        self.join_group(source, &group.name).map(|_| ())
    }

    /// Lets a group's queue get what its source gets.
    fn link_group(&mut self, slot: usize) {
        let queue = &self.queues[slot];
        let Some(of) = &queue.spec.group_of else {
            return;
        };
        let group = QueueRef { id: queue.id, slot };
        match self.queue_names.get(of.queue.as_str()).copied() {
            Some(source) if source != slot => {
                self.queues[source].groups.push(group);
                self.groups += 1;
            }
            _ => log::error!(
                "the queue {} of the group {} is lost; the group keeps what it has",
                quoted(&of.queue),
                quoted(&of.name)
            ),
        }
    }

    /// After recovery: links all groups.
    pub(super) fn link_groups(&mut self) {
        let all: Vec<usize> = (self.queues.iter())
            .filter(|(_, queue)| queue.spec.group_of.is_some())
            .map(|(slot, _)| slot)
            .collect();
        for slot in all {
            self.link_group(slot);
        }
    }

    /// A group's queue goes: its source does not know it any more.
    pub(super) fn unlink_group(&mut self, slot: usize) {
        let queue = &self.queues[slot];
        let Some(of) = &queue.spec.group_of else {
            return;
        };
        let id = queue.id;
        if let Some(&source) = self.queue_names.get(of.queue.as_str()) {
            let groups = &mut self.queues[source].groups;
            let before = groups.len();
            groups.retain(|group| group.id != id);
            self.groups -= before - groups.len();
        }
    }

    /// Whether a group of the queue has members.
    pub(super) fn has_group_members(&self, slot: usize) -> bool {
        let mut groups = self.queues[slot].groups.iter();
        groups.any(|group| !self.queues[group.slot].consumers.is_empty())
    }

    /// The queue whose group a queue is.
    pub(super) fn source_of_group(&self, slot: usize) -> Option<(usize, QueueId)> {
        let of = self.queues[slot].spec.group_of.as_ref()?;
        let source = *self.queue_names.get(of.queue.as_str())?;
        Some((source, self.queues[source].id))
    }

    /// Deletes the groups of a queue that goes.
    pub(super) fn delete_groups(&mut self, at: Clock, slot: usize) {
        while let Some(group) = self.queues[slot].groups.last().copied() {
            self.delete_slot(at, group.slot);
        }
    }

    /// Adds the groups of the queues on a way, and takes those queues off it that leave messages to their groups.
    #[inline]
    pub(super) fn with_groups(&mut self, route: Route) -> Route {
        if self.groups == 0 {
            return route;
        }
        if let Route::One(slot) = route {
            let queue = &self.queues[slot];
            if queue.groups.is_empty() {
                return route;
            }
            self.route.clear();
            self.route.push(QueueRef { id: queue.id, slot });
        }
        let mut route = std::mem::take(&mut self.route);
        self.add_groups(&mut route);
        self.route = route;
        match &self.route[..] {
            [only] => Route::One(only.slot),
            _ => Route::Many,
        }
    }

    fn add_groups(&self, route: &mut Vec<QueueRef>) {
        let mut groups: SmallVec<[QueueRef; 4]> = SmallVec::new();
        route.retain(|to| {
            let queue = &self.queues[to.slot];
            let served = match is_planted(Bug::GroupLeftOut) {
                true => queue.groups.len().min(1),
                false => queue.groups.len(),
            };
            groups.extend_from_slice(&queue.groups[..served]);
            queue.groups.is_empty() || !queue.spec.groups_only
        });
        route.extend(groups);
    }

    /// The same for a dead letter.
    pub(super) fn with_groups_of(&self, slots: &mut SmallVec<[usize; 1]>) {
        if self.groups == 0 {
            return;
        }
        let mut route: Vec<QueueRef> = (slots.iter())
            .map(|slot| QueueRef {
                id: self.queues[*slot].id,
                slot: *slot,
            })
            .collect();
        self.add_groups(&mut route);
        *slots = route.iter().map(|to| to.slot).collect();
    }
}
