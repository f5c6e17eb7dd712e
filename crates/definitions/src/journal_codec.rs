//! Journal records as bytes.
//!
//! Enters: records; bytes of a journal.  Leaves: the same; what is wrong with bytes that are none.
//! Owns:   the tags of the records and the order of their fields, which are part of the format.
//!
//! A record is a tag and its fields: numbers of variable length, texts behind their length, tables as on the wire behind theirs.

use crate::journal_record::{DurableBinding, DurableExchange, DurableQueue, JournalRecord, PasswordHash, StoredUser};
use catalog::{
    ApplyTo, ExchangeKind, Name, Password, Permission, Policy, QueueUid, ResourceKind, TopicPermission, UserLimits,
    VhostLimits,
};
use std::fmt;
use wire::{Table, TableRef};

/// The tags. Part of the format.
mod tag {
    pub const SNAPSHOT_BEGIN: u8 = 1;
    pub const SNAPSHOT_END: u8 = 2;
    pub const PUT_VHOST: u8 = 3;
    pub const DELETE_VHOST: u8 = 4;
    pub const SET_VHOST_LIMITS: u8 = 5;
    pub const PUT_USER: u8 = 6;
    pub const DELETE_USER: u8 = 7;
    pub const SET_USER_LIMITS: u8 = 8;
    pub const SET_PERMISSION: u8 = 9;
    pub const CLEAR_PERMISSION: u8 = 10;
    pub const SET_TOPIC_PERMISSION: u8 = 11;
    pub const CLEAR_TOPIC_PERMISSION: u8 = 12;
    pub const CLEAR_POLICIES: u8 = 13;
    pub const PUT_POLICY: u8 = 14;
    pub const PUT_EXCHANGE: u8 = 15;
    pub const DELETE_EXCHANGE: u8 = 16;
    pub const PUT_QUEUE: u8 = 17;
    pub const DELETE_QUEUE: u8 = 18;
    pub const PUT_BINDING: u8 = 19;
    pub const PUT_OLDER_BINDING: u8 = 20;
    pub const DELETE_BINDING: u8 = 21;
    pub const NEXT_QUEUE_UID: u8 = 22;
}

/// Bytes that are no journal record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFault {
    UnknownTag(u8),
    /// The record ends too early, or a field of it is none: which.
    Field(&'static str),
}

impl fmt::Display for RecordFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFault::UnknownTag(tag) => write!(to, "a record with tag {tag}, which this version does not know"),
            RecordFault::Field(field) => write!(to, "a record with a malformed {field}"),
        }
    }
}

impl JournalRecord {
    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        use JournalRecord::*;
        match self {
            SnapshotBegin => out.push(tag::SNAPSHOT_BEGIN),
            SnapshotEnd => out.push(tag::SNAPSHOT_END),
            PutVhost { name } => put_names(out, tag::PUT_VHOST, [name]),
            DeleteVhost { name } => put_names(out, tag::DELETE_VHOST, [name]),
            SetVhostLimits { vhost, limits } => {
                put_names(out, tag::SET_VHOST_LIMITS, [vhost]);
                put_limit(out, limits.connections_max.map(u64::from));
                put_limit(out, limits.queues_max.map(u64::from));
                put_limit(out, limits.queue_bytes_max);
            }
            PutUser { name, user } => {
                put_names(out, tag::PUT_USER, [name]);
                put_bytes(out, user.password.text().as_bytes());
                put_number(out, user.tags.len() as u64);
                user.tags.iter().for_each(|tag| put_bytes(out, tag.as_bytes()));
                out.push(user.loopback_only.into());
            }
            DeleteUser { name } => put_names(out, tag::DELETE_USER, [name]),
            SetUserLimits { user, limits } => {
                put_names(out, tag::SET_USER_LIMITS, [user]);
                put_limit(out, limits.connections_max.map(u64::from));
                put_limit(out, limits.channels_max.map(u64::from));
            }
            SetPermission { user, vhost, permission } => {
                put_names(out, tag::SET_PERMISSION, [user, vhost]);
                let Permission { configure, write, read } = permission;
                [configure, write, read].into_iter().for_each(|pattern| put_bytes(out, pattern.as_bytes()));
            }
            ClearPermission { user, vhost } => put_names(out, tag::CLEAR_PERMISSION, [user, vhost]),
            SetTopicPermission { user, vhost, exchange, permission } => {
                put_names(out, tag::SET_TOPIC_PERMISSION, [user, vhost, exchange]);
                let TopicPermission { write, read } = permission;
                [write, read].into_iter().for_each(|pattern| put_bytes(out, pattern.as_bytes()));
            }
            ClearTopicPermission { user, vhost, exchange } => {
                put_names(out, tag::CLEAR_TOPIC_PERMISSION, [user, vhost, exchange]);
            }
            ClearPolicies => out.push(tag::CLEAR_POLICIES),
            PutPolicy { policy, is_operator } => {
                put_names(out, tag::PUT_POLICY, [&policy.vhost, &policy.name]);
                put_bytes(out, policy.pattern.as_bytes());
                put_bytes(out, policy.apply_to.name().as_bytes());
                out.extend_from_slice(&policy.priority.to_le_bytes());
                put_table(out, &policy.definition);
                out.push((*is_operator).into());
            }
            PutExchange { vhost, name, exchange } => {
                put_names(out, tag::PUT_EXCHANGE, [vhost, name]);
                put_bytes(out, exchange.kind.name().as_bytes());
                out.push(exchange.auto_delete.into());
                out.push(exchange.internal.into());
                put_table(out, &exchange.arguments);
            }
            DeleteExchange { vhost, name } => put_names(out, tag::DELETE_EXCHANGE, [vhost, name]),
            PutQueue { vhost, name, queue } => {
                put_names(out, tag::PUT_QUEUE, [vhost, name]);
                put_number(out, queue.uid.number());
                put_number(out, queue.home.into());
                out.push(queue.auto_delete.into());
                put_table(out, &queue.arguments);
            }
            DeleteQueue { vhost, name } => put_names(out, tag::DELETE_QUEUE, [vhost, name]),
            PutBinding { vhost, binding } => put_binding(out, tag::PUT_BINDING, vhost, binding),
            PutOlderBinding { vhost, binding } => put_binding(out, tag::PUT_OLDER_BINDING, vhost, binding),
            DeleteBinding { vhost, binding } => put_binding(out, tag::DELETE_BINDING, vhost, binding),
            NextQueueUid(uid) => {
                out.push(tag::NEXT_QUEUE_UID);
                put_number(out, uid.number());
            }
        }
    }

    /// Reads a record from the front of `bytes`, which it shortens.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &mut &[u8]) -> Result<JournalRecord, RecordFault> {
        let mut fields = FieldReader(bytes);
        let tag = fields.byte("tag")?;
        let record = match tag {
            tag::SNAPSHOT_BEGIN => JournalRecord::SnapshotBegin,
            tag::SNAPSHOT_END => JournalRecord::SnapshotEnd,
            tag::PUT_VHOST => JournalRecord::PutVhost { name: fields.vhost()? },
            tag::DELETE_VHOST => JournalRecord::DeleteVhost { name: fields.vhost()? },
            tag::SET_VHOST_LIMITS => JournalRecord::SetVhostLimits {
                vhost: fields.vhost()?,
                limits: VhostLimits {
                    connections_max: fields.small_limit()?,
                    queues_max: fields.small_limit()?,
                    queue_bytes_max: fields.limit()?,
                },
            },
            tag::PUT_USER => JournalRecord::PutUser { name: fields.user()?, user: fields.stored_user()? },
            tag::DELETE_USER => JournalRecord::DeleteUser { name: fields.user()? },
            tag::SET_USER_LIMITS => JournalRecord::SetUserLimits {
                user: fields.user()?,
                limits: UserLimits { connections_max: fields.small_limit()?, channels_max: fields.small_limit()? },
            },
            tag::SET_PERMISSION => JournalRecord::SetPermission {
                user: fields.user()?,
                vhost: fields.vhost()?,
                permission: Permission {
                    configure: fields.text("pattern")?.to_owned(),
                    write: fields.text("pattern")?.to_owned(),
                    read: fields.text("pattern")?.to_owned(),
                },
            },
            tag::CLEAR_PERMISSION => JournalRecord::ClearPermission { user: fields.user()?, vhost: fields.vhost()? },
            tag::SET_TOPIC_PERMISSION => JournalRecord::SetTopicPermission {
                user: fields.user()?,
                vhost: fields.vhost()?,
                exchange: fields.exchange()?,
                permission: TopicPermission {
                    write: fields.text("pattern")?.to_owned(),
                    read: fields.text("pattern")?.to_owned(),
                },
            },
            tag::CLEAR_TOPIC_PERMISSION => JournalRecord::ClearTopicPermission {
                user: fields.user()?,
                vhost: fields.vhost()?,
                exchange: fields.exchange()?,
            },
            tag::CLEAR_POLICIES => JournalRecord::ClearPolicies,
            tag::PUT_POLICY => JournalRecord::PutPolicy { policy: fields.policy()?, is_operator: fields.flag()? },
            tag::PUT_EXCHANGE => JournalRecord::PutExchange {
                vhost: fields.vhost()?,
                name: fields.exchange()?,
                exchange: fields.durable_exchange()?,
            },
            tag::DELETE_EXCHANGE => JournalRecord::DeleteExchange { vhost: fields.vhost()?, name: fields.exchange()? },
            tag::PUT_QUEUE => JournalRecord::PutQueue {
                vhost: fields.vhost()?,
                name: fields.queue()?,
                queue: fields.durable_queue()?,
            },
            tag::DELETE_QUEUE => JournalRecord::DeleteQueue { vhost: fields.vhost()?, name: fields.queue()? },
            tag::PUT_BINDING => JournalRecord::PutBinding { vhost: fields.vhost()?, binding: fields.binding()? },
            tag::PUT_OLDER_BINDING => {
                JournalRecord::PutOlderBinding { vhost: fields.vhost()?, binding: fields.binding()? }
            }
            tag::DELETE_BINDING => JournalRecord::DeleteBinding { vhost: fields.vhost()?, binding: fields.binding()? },
            tag::NEXT_QUEUE_UID => JournalRecord::NextQueueUid(fields.uid()?),
            unknown => return Err(RecordFault::UnknownTag(unknown)),
        };
        *bytes = fields.0;
        Ok(record)
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_names<const N: usize>(out: &mut Vec<u8>, tag: u8, names: [&Name; N]) {
    out.push(tag);
    names.into_iter().for_each(|name| put_bytes(out, name.as_bytes()));
}

fn put_table(out: &mut Vec<u8>, table: &Table) {
    put_bytes(out, &table.to_bytes());
}

/// Whether there is a limit, and which.
fn put_limit(out: &mut Vec<u8>, limit: Option<u64>) {
    out.push(limit.is_some().into());
    put_number(out, limit.unwrap_or(0));
}

fn put_binding(out: &mut Vec<u8>, tag: u8, vhost: &Name, binding: &DurableBinding) {
    put_names(out, tag, [vhost, &binding.source, &binding.destination]);
    out.push(binding.is_to_queue.into());
    put_bytes(out, &binding.routing_key);
    put_bytes(out, &binding.arguments);
}

/// Reads the fields of a record.
struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn byte(&mut self, field: &'static str) -> Result<u8, RecordFault> {
        let (&byte, rest) = self.0.split_first().ok_or(RecordFault::Field(field))?;
        self.0 = rest;
        Ok(byte)
    }

    fn flag(&mut self) -> Result<bool, RecordFault> {
        match self.byte("flag")? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RecordFault::Field("flag")),
        }
    }

    fn number(&mut self, field: &'static str) -> Result<u64, RecordFault> {
        let mut number = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte(field)?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(RecordFault::Field(field))
    }

    fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], RecordFault> {
        let len = usize::try_from(self.number(field)?).map_err(|_| RecordFault::Field(field))?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(RecordFault::Field(field))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self, field: &'static str) -> Result<&'a str, RecordFault> {
        std::str::from_utf8(self.bytes(field)?).map_err(|_| RecordFault::Field(field))
    }

    fn name(&mut self, kind: ResourceKind, field: &'static str) -> Result<Name, RecordFault> {
        let bytes = self.bytes(field)?;
        let name = Name::new(kind, bytes).map_err(|_| RecordFault::Field(field))?;
        // A name has no line breaks, which would have been dropped.
        if name.len() == bytes.len() { Ok(name) } else { Err(RecordFault::Field(field)) }
    }

    fn vhost(&mut self) -> Result<Name, RecordFault> {
        self.name(ResourceKind::Vhost, "virtual host")
    }

    fn user(&mut self) -> Result<Name, RecordFault> {
        self.name(ResourceKind::User, "user")
    }

    fn exchange(&mut self) -> Result<Name, RecordFault> {
        self.name(ResourceKind::Exchange, "exchange")
    }

    fn queue(&mut self) -> Result<Name, RecordFault> {
        self.name(ResourceKind::Queue, "queue")
    }

    fn table_bytes(&mut self, field: &'static str) -> Result<(&'a [u8], Table), RecordFault> {
        let bytes = self.bytes(field)?;
        let table = TableRef::new(bytes).to_table().map_err(|_| RecordFault::Field(field))?;
        Ok((bytes, table))
    }

    fn table(&mut self, field: &'static str) -> Result<Table, RecordFault> {
        self.table_bytes(field).map(|(_, table)| table)
    }

    fn limit(&mut self) -> Result<Option<u64>, RecordFault> {
        match (self.flag()?, self.number("limit")?) {
            (true, limit) => Ok(Some(limit)),
            (false, 0) => Ok(None),
            (false, _) => Err(RecordFault::Field("limit")),
        }
    }

    fn small_limit(&mut self) -> Result<Option<u32>, RecordFault> {
        self.limit()?.map(u32::try_from).transpose().map_err(|_| RecordFault::Field("limit"))
    }

    fn uid(&mut self) -> Result<QueueUid, RecordFault> {
        QueueUid::new(self.number("uid")?).ok_or(RecordFault::Field("uid"))
    }

    fn stored_user(&mut self) -> Result<StoredUser, RecordFault> {
        let password = Password::hashed(self.text("password")?).map_err(|_| RecordFault::Field("password"))?;
        let password = PasswordHash::new(&password, || [0; 4]);
        let tags = (0..self.number("tags")?).map(|_| self.user()).collect::<Result<_, _>>()?;
        Ok(StoredUser { password, tags, loopback_only: self.flag()? })
    }

    fn policy(&mut self) -> Result<Policy, RecordFault> {
        let (vhost, name) = (self.vhost()?, self.name(ResourceKind::Vhost, "policy")?);
        let pattern = self.text("pattern")?.into();
        let apply_to = ApplyTo::parse(self.text("policy")?).ok_or(RecordFault::Field("policy"))?;
        let (priority, rest) = self.0.split_first_chunk().ok_or(RecordFault::Field("priority"))?;
        self.0 = rest;
        let priority = i64::from_le_bytes(*priority);
        Ok(Policy { vhost, name, pattern, apply_to, priority, definition: self.table("policy")? })
    }

    fn durable_exchange(&mut self) -> Result<DurableExchange, RecordFault> {
        let kind = self.bytes("exchange type")?;
        let kind = ExchangeKind::parse(kind).map_err(|_| RecordFault::Field("exchange type"))?;
        let (auto_delete, internal) = (self.flag()?, self.flag()?);
        Ok(DurableExchange { kind, auto_delete, internal, arguments: self.table("arguments")? })
    }

    fn durable_queue(&mut self) -> Result<DurableQueue, RecordFault> {
        let uid = self.uid()?;
        let home = u16::try_from(self.number("home")?).map_err(|_| RecordFault::Field("home"))?;
        Ok(DurableQueue { uid, home, auto_delete: self.flag()?, arguments: self.table("arguments")? })
    }

    fn binding(&mut self) -> Result<DurableBinding, RecordFault> {
        let source = self.exchange()?;
        // Whether it is the name of an exchange or of a queue makes no difference.
        let destination = self.queue()?;
        let is_to_queue = self.flag()?;
        let routing_key = self.bytes("routing key")?;
        if routing_key.len() > catalog::limits::NAME_BYTES_MAX {
            return Err(RecordFault::Field("routing key"));
        }
        let (arguments, _) = self.table_bytes("arguments")?;
        let (routing_key, arguments) = (routing_key.into(), arguments.into());
        Ok(DurableBinding { source, destination, is_to_queue, routing_key, arguments })
    }
}
