//! Bytes out: every output that was written to is sent, once per batch.
//!
//! Enters: connections with something to send.  Leaves: bytes on links; consumers that find room again.
//! Owns:   what follows the last byte of a connection.
//! Never:  sends to a link that said it takes no more.

use crate::connection::Farewell;
use crate::serve::tell_of_end;
use crate::shard::Shard;
use broker::Slot;
use link::SendOutcome;
use std::time::Instant;

impl Shard {
    /// Sends what has been written.
    pub(crate) fn flush(&mut self, now: Instant) {
        while let Some(slot) = self.effects.next_dirty() {
            self.flush_one(slot, now);
        }
    }

    /// Tells another broker what is safe of what it has sent, while there is more of it to be seen to.
    pub(crate) fn acknowledge_early(&mut self, slot: Slot, now: Instant) {
        self.broker.end_of_batch(&mut self.effects);
        self.effects.acknowledge(slot, Some(now));
        self.flush_one(slot, now);
    }

    fn flush_one(&mut self, slot: Slot, now: Instant) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(output) = self.effects.output(slot) else { return };
        if output.blocked {
            return;
        }
        if !output.out.is_empty() {
            connection.sent_at = now;
            match connection.link.send(output.out.gather_mut()) {
                Ok(SendOutcome::Drained) => {}
                Ok(SendOutcome::Blocked) => output.blocked = true,
                Err(error) => {
                    tell_of_end(self.options.shard.0, slot, &connection.link.peer().address, &error);
                    self.lose(slot, &error.to_string(), now);
                    self.remove(slot);
                    return;
                }
            }
        }
        if output.out.is_empty() && connection.farewell == Farewell::WhenSent {
            connection.link.close_sending();
            connection.farewell = Farewell::Sent;
        }
        let unparsed = connection.unparsed;
        if unparsed && self.may_serve(slot) {
            self.connections.enqueue(slot);
        }
        // Idle consumers fill the output again, which makes it dirty again.
        self.broker.output_ready(slot, &mut self.effects);
    }
}
