//! What one end of an RDMA connection holds: credits, slots of the send queue, rendezvous.

/// The credits and rendezvous of one end of a connection, now and since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaUsage {
    /// Messages that may be sent, and how many that were at first.
    pub credits_left: u16,
    pub credits_granted: u16,
    /// Credits still to be returned.
    pub credits_owed: u16,
    /// Messages of the peer that occupy a buffer.
    pub unread_messages: u16,
    /// Slots of the send queue in use.
    pub send_slots_used: usize,
    /// Rendezvous offered to the peer and not done, and their bytes.
    pub grants: usize,
    pub granted_bytes: usize,
    /// Rendezvous of the peer that are not read completely.
    pub open_rendezvous: u16,
    /// Bytes of all rendezvous since the connection was made: offered to the peer, and read from it.
    pub offered_bytes: u64,
    pub read_bytes: u64,
}

impl RdmaUsage {
    /// Each number with the name by which it is shown.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("credits_left", self.credits_left.into()),
            ("credits_granted", self.credits_granted.into()),
            ("credits_owed", self.credits_owed.into()),
            ("unread_messages", self.unread_messages.into()),
            ("send_slots_used", self.send_slots_used as u64),
            ("rendezvous_offered", self.grants as u64),
            ("rendezvous_offered_bytes", self.granted_bytes as u64),
            ("rendezvous_to_read", self.open_rendezvous.into()),
            ("rendezvous_sent_bytes_total", self.offered_bytes),
            ("rendezvous_read_bytes_total", self.read_bytes),
        ]
    }

    /// Whether a rendezvous is under way: its end changes these numbers, and no byte of the stream need move for that.
    pub fn is_pending(&self) -> bool {
        self.grants > 0 || self.open_rendezvous > 0
    }
}

#[cfg(test)]
mod tests {
    use super::RdmaUsage;

    #[test]
    fn each_number_has_a_name_of_its_own() {
        let usage = RdmaUsage {
            credits_left: 1,
            credits_granted: 2,
            credits_owed: 3,
            unread_messages: 4,
            send_slots_used: 5,
            grants: 6,
            granted_bytes: 7,
            open_rendezvous: 8,
            offered_bytes: 9,
            read_bytes: 10,
        };
        let named = usage.named();
        assert!(named.iter().map(|(_, value)| *value).eq(1..=10), "{named:?}");
        let names: std::collections::HashSet<_> = named.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), named.len());
        assert!(usage.is_pending() && !RdmaUsage { credits_left: 1, ..RdmaUsage::default() }.is_pending());
    }
}
