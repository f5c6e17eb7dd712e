//! Bytes out: every output that was written to is sent, once per batch.
//!
//! Enters: connections with something to send.  Leaves: bytes on links; consumers that find room again.
//! Owns:   what follows the last byte of a connection.
//! Never:  sends to a link that said it takes no more.

use crate::connection::Farewell;
use crate::serve::tell_of_end;
use crate::shard::Shard;
use broker::ConnectionSlot;
use link::Sent;
use std::time::Instant;

impl Shard {
    /// Sends what has been written.
    pub(crate) fn flush(&mut self, now: Instant) {
        while let Some(slot) = self.desk.next_dirty() {
            self.flush_one(slot, now);
        }
    }

    /// Tells another broker what is safe of what it has sent, while there is more of it to be seen to.
    pub(crate) fn acknowledge_early(&mut self, slot: ConnectionSlot, now: Instant) {
        self.broker.flush_batch(&mut self.desk);
        self.desk.acknowledge(slot, Some(now));
        self.flush_one(slot, now);
    }

    fn flush_one(&mut self, slot: ConnectionSlot, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        let Some(outlet) = self.desk.outlet(slot) else { return };
        if outlet.blocked {
            return;
        }
        if !outlet.out.is_empty() {
            connection.sent_at = now;
            match connection.link.send(outlet.out.gather_mut()) {
                Ok(Sent::Drained) => {}
                Ok(Sent::Blocked) => outlet.blocked = true,
                Err(error) => {
                    tell_of_end(self.options.shard.0, slot, &connection.link.peer().address, &error);
                    self.lose(slot, &error.to_string(), now);
                    self.remove(slot);
                    return;
                }
            }
        }
        if outlet.out.is_empty() && connection.farewell == Farewell::WhenSent {
            connection.link.close_sending();
            connection.farewell = Farewell::Sent;
        }
        let unparsed = connection.unparsed;
        if unparsed && self.may_serve(slot) {
            self.enqueue(slot);
        }
        // Idle consumers fill the output again, which makes it dirty again.
        self.broker.output_ready(slot, &mut self.desk);
    }
}
