//! A rollback: the operations of a transaction are undone in turns.

use crate::control_plane::ControlPlane;
use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::ids::ChannelKey;
use crate::transaction::TransactionOperation;
use wire::method::{Method, tx};

/// A transaction that is rolled back.
pub(crate) struct Rollback {
    pub channel: ChannelKey,
    pub operations: std::vec::IntoIter<TransactionOperation>,
    /// Its client awaits `tx.rollback-ok`; otherwise its channel is closed.
    pub is_asked: bool,
}

impl ControlPlane<'_> {
    /// Undoes operations of a transaction as far as the budget of the turn allows: what it would have settled is unsettled again,
    /// what it would have published is dropped. Returns whether all is undone; then the client is told.
    pub fn roll_back<E: Effects>(&mut self, rollback: &mut Rollback, fx: &mut E) -> bool {
        let Dispatcher { channels, work, .. } = &mut self.data.dispatcher;
        let Some(channel) = channels.get_mut(rollback.channel) else { return true };
        while !work.is_spent() {
            match rollback.operations.next() {
                Some(TransactionOperation::Settle { deliveries, .. }) => {
                    work.draw(deliveries.len());
                    channel.ledger.restore(deliveries);
                }
                Some(TransactionOperation::Publish { message, .. }) => {
                    work.draw(1);
                    drop(message);
                }
                None => {
                    if rollback.is_asked && !channel.closing {
                        fx.reply(channel.slot, channel.number, Method::TxRollbackOk(tx::RollbackOk {}));
                    }
                    return true;
                }
            }
        }
        false
    }
}
