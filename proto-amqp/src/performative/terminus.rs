//! Termini of a link: sources and targets (part 3, 3.5) and the coordinator of transactions (part 4, 4.5.1).

use alloc::boxed::Box;

use bytes::{BufMut, BytesMut};

use super::{DeliveryState, descriptor};
use crate::codec::{Field, Reader, code, composite};
use crate::types::{DecodeError, Described, Map, Symbol, Value};

const SESSION_END: Symbol = Symbol::from_static("session-end");

composite! {
    /// Where messages come from (part 3, 3.5.3). Written with all fields: some clients take an empty list for none.
    Source = 0x28, all {
        /// Address of the node; none together with `dynamic`.
        address["address"]: optional Value,
        /// What of the terminus survives: 0 nothing, 1 its configuration, 2 its unsettled deliveries too.
        durable["durable"]: explicit u32 = 0,
        /// From when on `timeout` runs: link-detach, session-end, connection-close or never.
        expiry_policy["expiry-policy"]: explicit Symbol = SESSION_END,
        /// Seconds until the terminus is forgotten.
        timeout["timeout"]: explicit u32 = 0,
        /// The peer is to make a node.
        dynamic["dynamic"]: explicit bool = false,
        /// Properties of the node to make.
        dynamic_node_properties["dynamic-node-properties"]: optional Map,
        /// move or copy.
        distribution_mode["distribution-mode"]: optional Symbol,
        /// Filters by name.
        filter["filter"]: optional Map,
        /// State of deliveries that are settled without one.
        default_outcome["default-outcome"]: optional DeliveryState,
        /// Descriptors of the outcomes that can be chosen; empty: all of the standard's.
        outcomes["outcomes"]: multiple Symbol,
        /// Extensions.
        capabilities["capabilities"]: multiple Symbol,
    }
}

composite! {
    /// Where messages go to (part 3, 3.5.4). Written with all fields, as a source is.
    Target = 0x29, all {
        /// Address of the node; none together with `dynamic` or for the anonymous terminus.
        address["address"]: optional Value,
        /// What of the terminus survives: 0 nothing, 1 its configuration, 2 its unsettled deliveries too.
        durable["durable"]: explicit u32 = 0,
        /// From when on `timeout` runs: link-detach, session-end, connection-close or never.
        expiry_policy["expiry-policy"]: explicit Symbol = SESSION_END,
        /// Seconds until the terminus is forgotten.
        timeout["timeout"]: explicit u32 = 0,
        /// The peer is to make a node.
        dynamic["dynamic"]: explicit bool = false,
        /// Properties of the node to make.
        dynamic_node_properties["dynamic-node-properties"]: optional Map,
        /// Extensions.
        capabilities["capabilities"]: multiple Symbol,
    }
}

composite! {
    /// The target of a link that controls transactions (part 4, 4.5.1).
    Coordinator = 0x30, all {
        /// What the coordinator can do.
        capabilities["capabilities"]: multiple Symbol,
    }
}

/// What may stand in the target of an attach.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetKind {
    /// A node.
    Target(Target),
    /// The coordinator of transactions.
    Coordinator(Coordinator),
    /// A terminus of some extension.
    Other(Box<Described>),
}

impl Default for TargetKind {
    fn default() -> Self {
        Self::Target(Target::default())
    }
}

/// Values above the choices of the standard are refused where the terminus is read.
const fn check_durability(durable: u32) -> Result<(), DecodeError> {
    if durable > 2 {
        Err(DecodeError::FieldRange("durable"))
    } else {
        Ok(())
    }
}

impl Field for Source {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        match descriptor::read(constructor, reader, name)? {
            Some(Self::DESCRIPTOR) => {
                let source = Self::read_fields(reader)?;
                check_durability(source.durable)?;
                Ok(source)
            }
            _ => Err(DecodeError::FieldType(name)),
        }
    }

    fn write(&self, buf: &mut BytesMut) {
        self.encode(buf);
    }
}

impl Field for TargetKind {
    fn read(
        constructor: u8,
        reader: &mut Reader<'_>,
        name: &'static str,
    ) -> Result<Self, DecodeError> {
        let start = reader.at();
        match descriptor::read(constructor, reader, name)? {
            Some(Target::DESCRIPTOR) => {
                let target = Target::read_fields(reader)?;
                check_durability(target.durable)?;
                Ok(Self::Target(target))
            }
            Some(Coordinator::DESCRIPTOR) => {
                Coordinator::read_fields(reader).map(Self::Coordinator)
            }
            // Any described value may be a terminus (2.7.3). Extensions are kept as they are, for the node to refuse
            // the link and no more.
            _ => {
                reader.go_back_to(start);
                match Value::read_data(code::DESCRIBED, reader)? {
                    Value::Described(described) => Ok(Self::Other(described)),
                    _ => Err(DecodeError::FieldType(name)),
                }
            }
        }
    }

    fn write(&self, buf: &mut BytesMut) {
        match self {
            Self::Target(target) => target.encode(buf),
            Self::Coordinator(coordinator) => coordinator.encode(buf),
            Self::Other(described) => {
                buf.put_u8(code::DESCRIBED);
                described.descriptor.encode(buf);
                described.value.encode(buf);
            }
        }
    }
}
