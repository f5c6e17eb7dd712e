//! A rollback: the operations of a transaction, which are undone in turns.

use crate::ids::ChannelKey;
use crate::transaction::TransactionOperation;

/// A transaction that is rolled back.
pub(crate) struct Rollback {
    pub channel: ChannelKey,
    pub operations: std::vec::IntoIter<TransactionOperation>,
    /// Its client awaits `tx.rollback-ok`; otherwise its channel is closed.
    pub is_asked: bool,
}
