//! The memory of the unit tests. There is no store: everything is durable at once.

use crate::ids::QueuePosition;
use crate::message::{BodyRef, Content, Message};
use crate::message_storage::{AppendResult, MessageStorage};
use catalog::{Name, QueueDefinition, QueueUid, ShardId, VhostId};
use slab::{Pool, PoolOptions};
use wire::Table;

pub struct TestStorage {
    pool: Pool,
}

impl Default for TestStorage {
    fn default() -> Self {
        TestStorage { pool: Pool::new(PoolOptions::default()) }
    }
}

impl MessageStorage for TestStorage {
    fn pool(&self) -> &Pool {
        &self.pool
    }
    fn append(&mut self, _: QueueUid, _: QueuePosition, _: Message) -> AppendResult {
        AppendResult::Durable
    }
    fn append_run(&mut self, _: QueueUid, _: QueuePosition, _: &[Message]) -> AppendResult {
        AppendResult::Durable
    }
    fn forget(&mut self, _: QueueUid, _: QueuePosition, _count: u32) {}
    fn mark_delivered(&mut self, _: QueueUid, _: QueuePosition, _: u32) {}
    fn mark_returned(&mut self, _: QueueUid, _: QueuePosition, _times: u32) {}
    fn begin_commit(&mut self) {}
    fn end_commit(&mut self) -> AppendResult {
        AppendResult::Durable
    }
    fn settled(&mut self) -> AppendResult {
        AppendResult::Durable
    }
    fn await_durable(&mut self, _ticket: u64) {}
    fn drop_queue(&mut self, _: QueueUid) {}
    fn page_out(&mut self, _: QueueUid, _: &mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool {
        false
    }
    fn page_in(&mut self, _: QueueUid, _first: QueuePosition, _end: QueuePosition) {}
    fn forget_paged(&mut self, _: QueueUid, _first: QueuePosition, _end: QueuePosition) {}
}

pub fn body_text(content: &Content<'_>) -> String {
    match content.body {
        BodyRef::Small(body) => String::from_utf8_lossy(body).into_owned(),
        BodyRef::Large(slice) => format!("{} bytes", slice.len()),
    }
}

/// A queue of virtual host 0 on shard 0.
pub fn queue_definition(name: &str, arguments: Table) -> QueueDefinition {
    QueueDefinition {
        name: Name::from(name),
        vhost: VhostId(0),
        uid: None,
        auto_delete: false,
        home: ShardId(0),
        exclusive: None,
        arguments: Some(Box::new(arguments)),
        policy: None,
    }
}
