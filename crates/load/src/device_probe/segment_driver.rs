//! Drives both sides of a segment of the verbs baseline.
//!
//! The send window never exceeds the receives that the peer has posted.

use super::endpoint::VerbsEndpoint;
use super::verbs_request::VerbsOperation;
use crate::limits::SEGMENT_WAIT;
use gauge::LatencyHistogram;
use gauge::clock::now_ns;
use harness::role_protocol::TrafficShape;

/// The last byte of write number `turn`: it differs from the initial byte and from that of the previous write.
fn mark(turn: u64) -> u8 {
    (turn % 255) as u8 + 1
}

/// An endpoint with the number of its next turn, which both sides count over all segments.
pub struct SegmentDriver {
    pub end: VerbsEndpoint,
    turn: u64,
    /// Messages waited for so far; more may have arrived.
    consumed: u64,
}

impl SegmentDriver {
    pub fn new(end: VerbsEndpoint) -> Self {
        Self { end, turn: 0, consumed: 0 }
    }

    /// The active side of a segment.
    ///
    /// # Errors
    /// A broken connection, or a peer that does nothing.
    pub fn run_active(&mut self, count: u64, latencies: &mut LatencyHistogram) -> Result<(), String> {
        let request = *self.end.request();
        match (request.shape, request.kind) {
            (TrafficShape::Stream, VerbsOperation::Send) => self.send_all(count),
            (TrafficShape::Stream, _) => self.access_all(count),
            (TrafficShape::PingPong, VerbsOperation::Send) => self.turns(count, latencies, |work| {
                work.post_one(false)?;
                work.await_next()
            }),
            (TrafficShape::PingPong, VerbsOperation::Write) => self.turns(count, latencies, |work| {
                let turn = mark(work.turn);
                work.end.set_last(turn);
                work.post_one(false)?;
                work.await_mark(turn)?;
                work.turn += 1;
                Ok(())
            }),
            (TrafficShape::PingPong, VerbsOperation::Read) => self.turns(count, latencies, |work| {
                work.post_one(true)?;
                work.await_end()
            }),
        }?;
        self.await_end_of_unsignalled()?;
        // With one-sided operations the passive side cannot detect the end.
        if request.is_one_sided() { self.end.send_number(0) } else { Ok(()) }
    }

    /// The passive side of a segment.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn run_passive(&mut self, count: u64) -> Result<(), String> {
        let request = *self.end.request();
        if request.is_one_sided() {
            let usual = std::mem::replace(&mut self.end.patience, SEGMENT_WAIT);
            self.await_next()?;
            self.end.patience = usual;
            return self.end.repost_receives();
        }
        if request.shape == TrafficShape::Stream {
            return self.receive_all(count);
        }
        for _ in 0..count {
            if request.kind == VerbsOperation::Send {
                self.await_next()?;
                self.post_one(false)?;
            } else {
                let turn = mark(self.turn);
                self.await_mark(turn)?;
                self.end.set_last(turn);
                self.post_one(false)?;
                self.turn += 1;
            }
        }
        Ok(())
    }

    fn turns(
        &mut self,
        count: u64,
        latencies: &mut LatencyHistogram,
        turn: impl Fn(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        for _ in 0..count {
            let began_ns = now_ns();
            turn(self)?;
            latencies.record(now_ns() - began_ns);
        }
        Ok(())
    }

    fn post_one(&mut self, signalled: bool) -> Result<(), String> {
        while self.end.capacity() == 0 {
            self.end.await_completion()?;
        }
        self.end.post(1, signalled)
    }

    /// Waits for the next message, which may have arrived already.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn await_next(&mut self) -> Result<(), String> {
        self.consumed += 1;
        while self.end.arrived < self.consumed {
            self.end.await_completion()?;
        }
        Ok(())
    }

    /// A one-sided write has no completion here, so the memory is polled.
    fn await_mark(&mut self, mark: u8) -> Result<(), String> {
        while self.end.last_written() != mark {
            self.end.wait_until(|end| end.last_written() == mark)?;
        }
        Ok(())
    }

    fn await_end(&mut self) -> Result<(), String> {
        while self.end.in_flight() > 0 {
            self.end.await_completion()?;
        }
        Ok(())
    }

    /// Unsignalled requests at the end of a segment are covered by the first completion of the next one.
    fn await_end_of_unsignalled(&mut self) -> Result<(), String> {
        if self.end.request().is_one_sided() { self.await_end() } else { Ok(()) }
    }

    /// Sends within the window: the peer reports how many receives it has posted again.
    fn send_all(&mut self, count: u64) -> Result<(), String> {
        let window = u64::from(self.end.request().window);
        self.end.word = 0;
        let mut posted = 0;
        while self.end.word < count {
            let free = window.saturating_sub(posted - self.end.word).min(count - posted);
            let now = self.end.capacity().min(free as usize);
            if now == 0 {
                self.end.await_completion()?;
                continue;
            }
            posted += now as u64;
            self.end.post(now, posted == count)?;
        }
        // The peer sends nothing more until the next command.
        self.consumed = self.end.arrived;
        Ok(())
    }

    fn receive_all(&mut self, count: u64) -> Result<(), String> {
        let window = u64::from(self.end.request().window);
        let mut reported = 0;
        loop {
            // Messages after the last one belong to the next segment.
            let arrived = (self.end.arrived - self.consumed).min(count);
            if arrived == count || arrived - reported >= window.div_ceil(2) {
                self.end.repost_receives()?;
                self.end.send_number(arrived)?;
                reported = arrived;
            }
            if reported == count {
                self.consumed += count;
                return Ok(());
            }
            self.end.await_completion()?;
        }
    }

    /// Writes or reads within the window; the peer is passive.
    fn access_all(&mut self, count: u64) -> Result<(), String> {
        let window = u64::from(self.end.request().window) as usize;
        let mut posted = 0;
        while posted < count {
            let free = window.saturating_sub(self.end.in_flight());
            let now = self.end.capacity().min(free).min((count - posted) as usize);
            if now == 0 {
                self.end.await_completion()?;
                continue;
            }
            posted += now as u64;
            self.end.post(now, posted == count)?;
        }
        self.await_end()
    }
}
