//! What a connection has carried since it was made.

/// Bytes and calls of its link, each direction.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ConnectionTraffic {
    pub received_bytes: u64,
    /// Calls that have brought bytes: what a socket calls packets, about.
    pub receives: u64,
    pub sent_bytes: u64,
    /// Calls by which the link has taken bytes.
    pub sends: u64,
}

impl std::ops::AddAssign for ConnectionTraffic {
    fn add_assign(&mut self, other: Self) {
        self.received_bytes += other.received_bytes;
        self.receives += other.receives;
        self.sent_bytes += other.sent_bytes;
        self.sends += other.sends;
    }
}

impl ConnectionTraffic {
    #[inline]
    pub(crate) fn count_received(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
        self.receives += u64::from(bytes > 0);
    }

    #[inline]
    pub(crate) fn count_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
        self.sends += 1;
    }
}
