//! A connection on its way from one shard to another: its link, its parser, its encoder and its session.

use crate::connection::Connection;
use broker::{ConnectionSlot, MovedSession};
use catalog::ShardId;
use link::Link;
use session::Outbound;
use std::collections::VecDeque;

/// A connection that is counted for its new shard, and not there yet.
pub struct MovedConnection {
    pub(crate) to: ShardId,
    pub(crate) connection: Box<Connection>,
    pub(crate) out: Outbound,
    pub(crate) copy_threshold_bytes: usize,
    pub(crate) session: MovedSession,
}

impl MovedConnection {
    /// The shard where it goes.
    pub fn to(&self) -> ShardId {
        self.to
    }

    /// Its link, which is to be registered at another poll.
    pub fn link(&mut self) -> &mut dyn Link {
        &mut *self.connection.link
    }
}

/// What became of moves since the start.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MoveStats {
    /// Connections that have left this shard for another.
    pub moved: u64,
    /// Those that were about to, and stayed.
    pub given_up: u64,
}

/// The connections that are about to leave a shard, and those that have left.
#[derive(Default)]
pub(crate) struct ConnectionMoves {
    pub pending: Vec<ConnectionSlot>,
    /// Each with the slot that it had.
    pub departed: VecDeque<(ConnectionSlot, MovedConnection)>,
    pub stats: MoveStats,
}
