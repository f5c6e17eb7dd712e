//! A fabric in real time: what several threads need to sleep until their device has something to tell.
//!
//! Enters: calls of devices, from any thread.  Leaves: descriptors that become readable, waits that end.
//! Owns:   the clock of such a fabric, one pair of sockets a device.
//! Never:  is used by a fabric whose runs must be repeatable; there time is the number of steps.

use super::net::Net;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Steps that one call takes at most: what nobody acknowledges is tried again by the next.
const STEPS_A_CALL_MAX: u32 = 64;

/// The clock of a fabric.
pub(super) struct Live {
    began: Instant,
}

impl Live {
    #[expect(clippy::disallowed_methods, reason = "the clock of a device is the device's own, as on a card")]
    pub fn new() -> Self {
        Live { began: Instant::now() }
    }

    #[expect(clippy::disallowed_methods, reason = "the clock of a device is the device's own, as on a card")]
    pub fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.began)
    }
}

/// What stands for a channel of completions and one of events: readable from a notice on until it was looked at.
pub(super) struct Bell {
    reader: UnixStream,
    writer: UnixStream,
}

impl Bell {
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Bell { reader, writer })
    }

    pub fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    fn ring(&mut self) {
        // Full is loud enough, and both ends live as long as this does.
        let _heard = self.writer.write(&[1]);
    }

    fn silence(&mut self) {
        let mut sink = [0; 64];
        while self.reader.read(&mut sink).is_ok_and(|bytes| bytes == sink.len()) {}
    }
}

impl Net {
    /// Lets everything arrive that can, and wakes those it arrives at. Only in real time.
    pub fn settle(&mut self) {
        if self.live.is_none() {
            return;
        }
        for _ in 0..STEPS_A_CALL_MAX {
            if !self.is_moving() {
                break;
            }
            self.step();
        }
        for node in &mut self.nodes {
            if node.is_notified
                && !node.is_rung
                && let Some(bell) = &mut node.bell
            {
                bell.ring();
                node.is_rung = true;
            }
        }
    }

    fn is_moving(&self) -> bool {
        self.nodes.iter().any(|node| {
            let works = |pair: &super::pair::Pair| pair.is_working();
            !node.coming.is_empty() || (!node.is_gone && node.pairs.values().any(works))
        })
    }

    /// The device looks: it need not be told of what is there by now.
    pub fn look(&mut self, node: usize) {
        self.settle();
        let node = &mut self.nodes[node];
        node.is_notified = false;
        if std::mem::take(&mut node.is_rung)
            && let Some(bell) = &mut node.bell
        {
            bell.silence();
        }
    }
}
