//! A client among many on one thread: it takes and sends what can be taken and sent now, and never waits.
//!
//! Enters: the readiness of the link, as a poll reports it.  Leaves: deliveries for a handler; sent bytes.
//! Owns:   the calls that a program with many clients makes; heartbeats between them.

use std::time::Duration;

use session::heartbeat::HeartbeatAction;

use crate::client::Client;
use crate::clock::now;
use crate::error::{ClientError, Result};
use crate::limits::{READS_A_TURN_MAX, UNSENT_BYTES_MAX};
use crate::message::Delivery;
use crate::output::ClientOutput;
use crate::pump::{DispatchSummary, ScanEnd};

impl Client {
    /// Sends what the link takes now. Says whether everything went; if not, the link reports when it takes more.
    ///
    /// # Errors
    /// The connection's end.
    pub fn flush_now(&mut self) -> Result<bool> {
        if self.outbound.is_empty() { Ok(true) } else { self.send_some() }
    }

    /// Bytes that are written and not sent.
    pub fn unsent_bytes(&self) -> usize {
        self.outbound.bytes()
    }

    /// As `dispatch` without a wait, not even for room to send: what the link does not take stays written (see
    /// `unsent_bytes` and `flush_now`), and the handler is called no more while that is
    /// `limits::UNSENT_BYTES_MAX`. Call it when the link is ready, again while `drained` is false, and now and then
    /// (a fraction of the heartbeat) when it is not.
    ///
    /// # Errors
    /// As `dispatch`.
    pub fn dispatch_now(
        &mut self,
        mut handler: impl FnMut(&Delivery<'_>, &mut ClientOutput<'_>) -> Result<()>,
    ) -> Result<DispatchSummary> {
        let mut deliveries = self.hand_over_buffered(&mut handler)?;
        let mut reads = 0;
        loop {
            let (handed_over, end) = self.hand_over(UNSENT_BYTES_MAX, &mut handler)?;
            deliveries += handed_over;
            let sent = self.flush_now()?;
            self.check_closed()?;
            self.check_channels()?;
            if end == ScanEnd::Stopped {
                if sent {
                    continue;
                }
                // The link says when it takes more; until then the server is left waiting.
                return Ok(DispatchSummary { deliveries, drained: true });
            }
            let looked = reads > 0 && self.drained;
            if looked || reads == READS_A_TURN_MAX {
                self.send_heartbeat()?;
                return Ok(DispatchSummary { deliveries, drained: looked });
            }
            reads += 1;
            reads += 1;
            self.receive()?;
        }
    }

    /// As `next_delivery` without a wait, not even for room to send: what the link does not take stays written (see
    /// `unsent_bytes` and `flush_now`). With no delivery, `is_drained` says whether the link had nothing more.
    ///
    /// # Errors
    /// As `next_delivery`.
    pub fn next_delivery_now(&mut self) -> Result<Option<Delivery<'_>>> {
        self.next_delivery_by(Self::fill_now)
    }

    /// Takes in what has come without a wait, sends what the link takes, and a heartbeat if one is due: for programs that
    /// have no consumer, since deliveries are set aside. `is_drained` says whether the link had nothing more.
    ///
    /// # Errors
    /// The end of the connection; a channel that the server closed (told once).
    pub fn take_in_now(&mut self) -> Result<()> {
        let mut reads = 0;
        loop {
            self.unbuffer()?;
            self.check_closed()?;
            self.check_channels()?;
            if reads == READS_A_TURN_MAX || !self.fill_now()? {
                return self.send_heartbeat();
            }
            reads += 1;
        }
    }

    /// Whether the link had no more when it was read last, and no delivery is set aside.
    pub fn is_drained(&self) -> bool {
        self.drained && self.aside.is_empty()
    }

    /// Sends what the link takes, and reads once. Says whether there is anything to look at.
    fn fill_now(&mut self) -> Result<bool> {
        self.flush_now()?;
        let mut reads = 0;
        while !self.unlooked && !self.receive()? {
            reads += 1;
            if self.drained || reads == READS_A_TURN_MAX {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends a heartbeat if one is due, without reading: for programs that read by `next_delivery` and never let it wait.
    ///
    /// # Errors
    /// The connection's end; `TimedOut` if the server has been silent for too long.
    pub fn send_heartbeat(&mut self) -> Result<()> {
        let Some(heartbeat) = self.heartbeat else { return Ok(()) };
        let time = now();
        if std::mem::take(&mut self.received_since) {
            self.last_received = time;
        }
        if std::mem::take(&mut self.sent_since) {
            self.last_sent = time;
        }
        match heartbeat.due(time, self.last_received, self.last_sent) {
            HeartbeatAction::Wait { .. } => Ok(()),
            HeartbeatAction::Dead => Err(ClientError::TimedOut { awaited: "heartbeat" }),
            HeartbeatAction::Send => {
                if self.outbound.is_empty() {
                    self.outbound.heartbeat(&self.pool);
                }
                self.sent_since = true;
                self.flush_now().map(drop)
            }
        }
    }

    /// Sends a heartbeat if one is due, and takes in what has come. For programs that are idle for long.
    ///
    /// # Errors
    /// The connection's end.
    pub fn keep_alive(&mut self) -> Result<()> {
        self.buffer_delivery(Duration::ZERO)?;
        self.send_heartbeat()
    }
}
