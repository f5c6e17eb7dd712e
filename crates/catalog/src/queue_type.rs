//! The types of queues: what each demands of a declaration, and which arguments it takes (RabbitMQ extension).
//!
//! A quorum queue has one member here. There is no type for streams.

use crate::refusal::{Refusal, ResourceName};
use wire::{Table, Value};

/// An argument of queues: their type.
pub const QUEUE_TYPE: &str = "x-queue-type";

/// The type of a queue (`x-queue-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueType {
    Classic,
    Quorum,
}

/// What a declaration says of a queue besides its name and arguments.
#[derive(Clone, Copy)]
pub(crate) struct QueueProperties {
    pub durable: bool,
    pub exclusive: bool,
    pub auto_delete: bool,
    /// The server has drawn its name.
    pub server_named: bool,
}

impl QueueType {
    /// The type of a queue with these arguments, which were checked.
    pub fn of(arguments: Option<&Table>) -> Self {
        match arguments.and_then(|arguments| arguments.get(QUEUE_TYPE)).and_then(Value::as_bytes) {
            Some(b"quorum") => QueueType::Quorum,
            _ => QueueType::Classic,
        }
    }

    /// As declarations and definitions files name it.
    pub const fn name(self) -> &'static str {
        match self {
            QueueType::Classic => "classic",
            QueueType::Quorum => "quorum",
        }
    }

    /// As RabbitMQ's refusals name it.
    pub const fn module(self) -> &'static str {
        match self {
            QueueType::Classic => "rabbit_classic_queue",
            QueueType::Quorum => "rabbit_quorum_queue",
        }
    }

    /// Known arguments that only other types take.
    pub(crate) const fn foreign_arguments(self) -> &'static [&'static str] {
        match self {
            QueueType::Classic => &[
                "x-delivery-limit",
                "x-quorum-initial-group-size",
                "x-dead-letter-strategy",
                "x-max-in-memory-length",
                "x-max-in-memory-bytes",
                "x-queue-leader-locator",
                "x-max-age",
                "x-stream-max-segment-size-bytes",
                "x-initial-cluster-size",
            ],
            QueueType::Quorum => &[
                "x-max-priority",
                "x-queue-mode",
                "x-queue-version",
                "x-queue-master-locator",
                "x-max-age",
                "x-stream-max-segment-size-bytes",
                "x-initial-cluster-size",
            ],
        }
    }

    /// Arguments of this type alone in which a queue declared again must be as it is.
    pub(crate) const fn compared_arguments(self) -> &'static [&'static str] {
        match self {
            QueueType::Classic => &[],
            QueueType::Quorum => &[
                "x-delivery-limit",
                "x-quorum-initial-group-size",
                "x-dead-letter-strategy",
                "x-max-in-memory-length",
                "x-max-in-memory-bytes",
                "x-queue-leader-locator",
            ],
        }
    }

    /// Checks that a queue may be of this type, in the order of RabbitMQ.
    pub(crate) fn check_properties(self, what: ResourceName<'_>, queue: QueueProperties) -> Result<(), Refusal> {
        if self == QueueType::Classic {
            return Ok(());
        }
        if queue.server_named {
            let module = self.module();
            return Err(Refusal::precondition(format_args!("Cannot declare a server-named queue for type {module}")));
        }
        let wrong =
            [(queue.auto_delete, "auto-delete"), (queue.exclusive, "exclusive-owner"), (!queue.durable, "non-durable")];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, property)) => Err(Refusal::precondition(format_args!("invalid property '{property}' for {what}"))),
            None => Ok(()),
        }
    }
}
