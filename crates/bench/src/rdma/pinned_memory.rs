//! Memory that a broker has pinned for its device per idle connection.

use super::{POLLS, RdmaGoals};
use harness::role_client::connect;
use load::perf_table::GoalBound;

const PINNED_BYTES_MAX: f64 = 65_536.0;

impl RdmaGoals {
    pub(super) fn pinned(&mut self) -> Result<(), String> {
        harness::open_files::raise_for(8 * self.connections)?;
        let broker = self.broker(POLLS[0])?;
        let make = || connect(&broker.url, "idle").map_err(|error| error.to_string());
        // The first connection allocates what all of them share.
        let first = make()?;
        let before = pinned_bytes(broker.pid())?;
        let mut clients = Vec::new();
        for _ in 0..self.connections {
            clients.push(make()?);
        }
        let after = pinned_bytes(broker.pid())?;
        let each = after.saturating_sub(before) as f64 / self.connections as f64;
        self.row(
            "pinned memory of an idle connection, bytes",
            GoalBound::AtMost(PINNED_BYTES_MAX),
            Some(each),
            format!("{} connections; shared by all: {before} bytes", self.connections),
        )?;
        clients.push(first);
        drop(clients);
        Ok(())
    }
}

fn pinned_bytes(pid: u32) -> Result<u64, String> {
    gauge::pinned_bytes(pid).ok_or_else(|| format!("/proc/{pid}/status has no VmPin, or is not readable"))
}
