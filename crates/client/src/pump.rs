//! Moving bytes: reading, waiting, sending, and taking events out of what was read.
//!
//! Enters: bytes of the link, deadlines.  Leaves: events for those who handle them, sent bytes.
//! Owns:   the rule that a blocked sender reads, so that two full pipes never wait for each other.

use std::ops::ControlFlow;
use std::time::Duration;
use wire::ChannelNumber;

use link::{LinkError, ReceiveOutcome, SendOutcome, WaitFor};
use session::heartbeat::HeartbeatAction;
use session::{Body, Event, FaultScope, RepeatedDelivery};

use crate::client::Client;
use crate::clock::now;
use crate::error::{ClientError, Result};
use crate::limits::{ASIDE_BYTES_MAX, INTERRUPT_CHECK_WAIT, WRITTEN_BYTES_MAX};
use crate::message::Delivery;
use crate::options::InterruptCheck;
use crate::output::ClientOutput;
use crate::state::Reply;
use crate::wait_deadline::WaitDeadline;

/// What one look at the events came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanEnd {
    /// All events that had come are taken.
    All,
    /// The handler wants no more now.
    Stopped,
}

impl Client {
    /// Takes events until none is left or a handler stops.
    #[inline]
    pub(crate) fn take_events(
        &mut self,
        mut on_delivery: impl FnMut(Delivery<'_>, &mut ClientOutput<'_>) -> ControlFlow<()>,
    ) -> Result<ScanEnd> {
        loop {
            if self.inbound.may_repeat(&self.repeat) && self.take_repeats(&mut on_delivery).is_break() {
                return Ok(ScanEnd::Stopped);
            }
            if let Some(taken) = self.take_event(&mut on_delivery)? {
                return Ok(taken);
            }
        }
    }

    /// Takes one event; says so if there was none, or a handler stops. By reference: the handler is worth being compiled into
    /// the loop over deliveries that are alike, and not here as well.
    fn take_event(
        &mut self,
        on_delivery: &mut dyn FnMut(Delivery<'_>, &mut ClientOutput<'_>) -> ControlFlow<()>,
    ) -> Result<Option<ScanEnd>> {
        let unread = self.buffer.unread();
        let mut input = unread;
        let before = input.len();
        let begins = self.inbound.is_between_frames();
        let event = self.inbound.next(&mut input, &mut self.outbound, &self.pool);
        if let (true, Ok(Some(event @ Event::Deliver { .. }))) = (begins, &event) {
            self.repeat.learn(&unread[..before - input.len()], event);
        }
        let mut flow = ControlFlow::Continue(());
        let mut fault = None;
        let mut more = true;
        match event {
            Ok(Some(Event::Deliver {
                channel,
                consumer_tag,
                delivery_tag,
                redelivered,
                exchange,
                routing_key,
                properties,
                body,
            })) => {
                let channel = self.state.channels.handle(channel);
                let delivery = Delivery {
                    channel,
                    consumer_tag,
                    delivery_tag,
                    redelivered,
                    exchange,
                    routing_key,
                    properties,
                    body,
                };
                let mut output =
                    ClientOutput { outbound: &mut self.outbound, pool: &self.pool, channels: &mut self.state.channels };
                flow = on_delivery(delivery, &mut output);
            }
            Ok(Some(other)) => self.state.note(other, &mut self.outbound, &self.pool),
            Ok(None) => more = false,
            Err(error) => fault = Some(error),
        }
        let taken = before - input.len();
        self.buffer.take(taken);
        if let Some(fault) = fault {
            self.inbound.fail(&fault, &mut self.outbound, &self.pool);
            if fault.scope != FaultScope::Link {
                // Telling the server is a courtesy; what counts is the fault itself.
                self.send_close_reason();
            }
            return Err(fault.into());
        }
        if flow.is_break() {
            return Ok(Some(ScanEnd::Stopped));
        }
        if !more {
            self.unlooked = false;
            self.buffer.shrink();
            return Ok(Some(ScanEnd::All));
        }
        Ok(None)
    }

    /// Takes deliveries as long as they are like the last one.
    #[inline(always)]
    fn take_repeats(
        &mut self,
        on_delivery: &mut impl FnMut(Delivery<'_>, &mut ClientOutput<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let RepeatedDelivery { channel, consumer_tag, redelivered, exchange, routing_key, properties } =
            self.repeat.alike();
        let channel = self.state.channels.handle(channel);
        let unread = self.buffer.unread();
        let mut input = unread;
        let mut output =
            ClientOutput { outbound: &mut self.outbound, pool: &self.pool, channels: &mut self.state.channels };
        let mut flow = ControlFlow::Continue(());
        while let Some((delivery_tag, body)) = self.repeat.next(&mut input) {
            let body = Body::Small(body);
            let delivery =
                Delivery { channel, consumer_tag, delivery_tag, redelivered, exchange, routing_key, properties, body };
            flow = on_delivery(delivery, &mut output);
            if flow.is_break() {
                break;
            }
        }
        let taken = unread.len() - input.len();
        if taken > 0 {
            self.buffer.take(taken);
            self.repeat.hit();
            self.inbound.repeated();
        }
        flow
    }

    /// Reads once; all events must have been taken. Says whether bytes came.
    pub(crate) fn receive(&mut self) -> Result<bool> {
        if self.inbound.direct().len() >= self.lend_from_bytes {
            self.lend();
        }
        let room = self.buffer.room();
        let wanted = self.inbound.scratch_bytes_wanted().min(room.len());
        let direct = self.inbound.direct();
        let direct_bytes = direct.len();
        match self.link.receive(direct, &mut room[..wanted]) {
            Ok(ReceiveOutcome::Bytes { bytes, drained }) => {
                let placed = bytes.min(direct_bytes);
                self.inbound.direct_filled(placed);
                self.buffer.filled(bytes - placed);
                // A read that was kept short on purpose does not say that nothing is left.
                self.drained = drained;
                self.received_since = true;
                let taken_back = self.lend_from_bytes < usize::MAX && self.settle(placed);
                Ok(bytes > 0 || taken_back)
            }
            Ok(ReceiveOutcome::Idle) => {
                self.drained = true;
                Ok(false)
            }
            Ok(ReceiveOutcome::Closed) => {
                self.ended = true;
                Err(self.end_reason(LinkError::Closed))
            }
            Err(error) => Err(self.end_reason(error)),
        }
    }

    /// The rest of a frame is to come, and may come by itself.
    #[cold]
    fn lend(&mut self) {
        if let Some((memory, place)) = self.inbound.lend()
            && let Err(memory) = self.link.lend(memory, place)
        {
            self.inbound.not_lent(memory);
        }
    }

    /// After a read of a link that is lent memory: `placed` bytes came otherwise, or what is lent is full. Says whether it was.
    #[cold]
    fn settle(&mut self, placed: usize) -> bool {
        let filled = self.link.take_filled();
        self.copied_bytes += filled.as_ref().map_or(placed, |filled| filled.copied_bytes) as u64;
        filled.is_some_and(|filled| self.inbound.filled(filled.memory) > 0)
    }

    /// Reads without taking events, for a sender that is blocked. Says whether it may be worth waiting for more.
    fn receive_unread(&mut self) -> Result<bool> {
        while !self.ended && !self.buffer.is_full() {
            // While a large body arrives in place nothing is unread, and bytes may still go there.
            let in_place = self.buffer.unread().is_empty();
            if in_place && self.inbound.direct().len() >= self.lend_from_bytes {
                self.lend();
            }
            let direct = if in_place { self.inbound.direct() } else { &mut [] };
            let direct_bytes = direct.len();
            match self.link.receive(direct, self.buffer.room())? {
                ReceiveOutcome::Bytes { bytes, drained } => {
                    let placed = bytes.min(direct_bytes);
                    self.inbound.direct_filled(placed);
                    self.buffer.filled(bytes - placed);
                    self.received_since = true;
                    self.unlooked = true;
                    self.drained = drained;
                    if self.lend_from_bytes < usize::MAX {
                        self.settle(placed);
                    }
                    if drained {
                        return Ok(!self.buffer.is_full());
                    }
                }
                ReceiveOutcome::Idle => return Ok(true),
                ReceiveOutcome::Closed => self.ended = true,
            }
        }
        Ok(false)
    }

    /// Waits for the link as long as `patience` lasts; sends heartbeats meanwhile. Says whether the link is ready.
    fn wait(&mut self, what: WaitFor, patience: &mut WaitDeadline) -> Result<bool> {
        loop {
            let time = now();
            let until = patience.until(time);
            if std::mem::take(&mut self.received_since) {
                self.last_received = time;
            }
            if std::mem::take(&mut self.sent_since) {
                self.last_sent = time;
            }
            let mut wake = until;
            match self.heartbeat.map(|heartbeat| heartbeat.due(time, self.last_received, self.last_sent)) {
                None => {}
                Some(HeartbeatAction::Wait { until: due }) => wake = Some(wake.map_or(due, |wake| wake.min(due))),
                Some(HeartbeatAction::Dead) => return Err(ClientError::TimedOut { awaited: "heartbeat" }),
                Some(HeartbeatAction::Send) => {
                    // Behind unsent bytes a heartbeat says nothing that they do not say.
                    if self.outbound.is_empty() {
                        self.outbound.heartbeat(&self.pool);
                    }
                    self.send_some()?;
                    self.sent_since = true;
                    continue;
                }
            }
            let mut timeout = wake.map(|wake| wake.saturating_duration_since(time));
            if self.options.interrupt.is_some() {
                timeout = Some(timeout.map_or(INTERRUPT_CHECK_WAIT, |timeout| timeout.min(INTERRUPT_CHECK_WAIT)));
            }
            if self.link.wait(what, timeout)? {
                return Ok(true);
            }
            if self.options.interrupt.as_ref().is_some_and(InterruptCheck::is_wanted) {
                return Err(ClientError::Interrupted);
            }
            if until.is_some_and(|until| now() >= until) {
                return Ok(false);
            }
        }
    }

    /// Sends what the link takes now of the reason for the close, and of what is before it.
    fn send_close_reason(&mut self) {
        while !self.outbound.is_empty()
            && let Ok(SendOutcome::Drained) = self.link.send(self.outbound.gather_mut(&self.pool))
        {}
    }

    /// Sends what the link takes now. Says whether all went.
    pub(crate) fn send_some(&mut self) -> Result<bool> {
        loop {
            match self.link.send(self.outbound.gather_mut(&self.pool)) {
                Ok(sent) => {
                    self.sent_since = true;
                    if sent == SendOutcome::Blocked || self.outbound.is_empty() {
                        return Ok(sent == SendOutcome::Drained);
                    }
                }
                Err(error) => return Err(self.end_reason(error)),
            }
        }
    }

    /// Sends everything that is written, and reads meanwhile if the server does not take it.
    ///
    /// # Errors
    /// The connection's end, or no room to send within `Options::answer_wait`.
    #[inline]
    pub fn flush(&mut self) -> Result<()> {
        if self.outbound.is_empty() || self.send_some()? { Ok(()) } else { self.flush_blocked() }
    }

    #[inline(never)]
    fn flush_blocked(&mut self) -> Result<()> {
        loop {
            let before = self.outbound.bytes();
            let mut patience = WaitDeadline::For(self.options.answer_wait);
            while self.outbound.bytes() == before {
                let readable = self.receive_unread()?;
                if self.send_some()? {
                    return Ok(());
                }
                let what = if readable { WaitFor::Either } else { WaitFor::Writable };
                if self.outbound.bytes() == before && !self.wait(what, &mut patience)? {
                    return Err(ClientError::TimedOut { awaited: "room to send" });
                }
            }
        }
    }

    /// Why the link ended, if the server said so before.
    fn end_reason(&mut self, error: LinkError) -> ClientError {
        while let Ok(true) = self.receive_unread() {
            if self.drained {
                break;
            }
        }
        while let Ok(ScanEnd::Stopped) = self.take_events(|_, _| ControlFlow::Break(())) {}
        match self.state.closed.take() {
            Some((code, text)) => ClientError::ConnectionClosed { code, text },
            None if matches!(error, LinkError::Closed) => ClientError::Closed,
            None => ClientError::Link(error),
        }
    }

    /// The server's close, if it has come.
    pub(crate) fn check_closed(&mut self) -> Result<()> {
        let Some((code, text)) = self.state.closed.take() else { return Ok(()) };
        // The session has written close-ok; whether it still arrives is the server's affair.
        self.send_close_reason();
        Err(ClientError::ConnectionClosed { code, text })
    }

    /// Reads until something came or `patience` is over; sends what is written first.
    fn fill(&mut self, patience: &mut WaitDeadline, at_once: bool) -> Result<bool> {
        self.flush()?;
        if self.unlooked {
            return Ok(true);
        }
        if (at_once || !self.drained) && self.receive()? {
            return Ok(true);
        }
        if at_once {
            return Ok(false);
        }
        while self.wait(WaitFor::Readable, patience)? {
            if self.receive()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts every delivery that came aside and takes in all other events; waits up to `timeout` for the first bytes.
    /// Says whether any came.
    pub(crate) fn buffer_delivery(&mut self, timeout: Duration) -> Result<bool> {
        let came = self.fill(&mut WaitDeadline::For(timeout), timeout.is_zero())?;
        self.unbuffer()?;
        self.check_closed()?;
        Ok(came)
    }

    pub(crate) fn unbuffer(&mut self) -> Result<()> {
        let mut aside = std::mem::take(&mut self.aside);
        let mut bytes = self.aside_bytes;
        let outcome = self.take_events(|delivery, _| {
            let message = delivery.to_message();
            bytes += message.bytes();
            aside.push_back(message);
            if bytes > ASIDE_BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.aside = aside;
        self.aside_bytes = bytes;
        match outcome? {
            ScanEnd::All => Ok(()),
            ScanEnd::Stopped => Err(ClientError::TooMuchAside),
        }
    }

    /// Waits for the answer named `awaited` on a channel.
    pub(crate) fn answer(&mut self, channel: ChannelNumber, awaited: &'static str) -> Result<Reply> {
        self.answer_of(channel, &[awaited])
    }

    /// Waits for one of several answers on a channel.
    pub(crate) fn answer_of(&mut self, channel: ChannelNumber, awaited: &[&'static str]) -> Result<Reply> {
        if self.answers_later {
            self.pending_answer = Some((channel, awaited.to_vec()));
            return Err(ClientError::Pending);
        }
        let mut patience = WaitDeadline::For(self.options.answer_wait);
        loop {
            // What is left unread from before comes first.
            self.unbuffer()?;
            if let Some(answer) = self.take_reply(channel, awaited)? {
                return Ok(answer);
            }
            if !self.fill(&mut patience, false)? {
                return Err(ClientError::TimedOut { awaited: awaited[0] });
            }
        }
    }

    /// The answer to what was asked on a channel, if it has come, or why none will come.
    pub(crate) fn take_reply(&mut self, channel: ChannelNumber, awaited: &[&'static str]) -> Result<Option<Reply>> {
        if let Some(answered) = self.state.reply.take().filter(|answered| answered.channel == channel) {
            return match awaited.contains(&answered.name) {
                true => Ok(Some(answered.answer)),
                false => Err(ClientError::Unexpected { awaited: awaited[0], came: answered.name }),
            };
        }
        self.check_closed()?;
        let opened = self.state.channels.handle(channel);
        if opened.serial != 0 && awaited[0] != "channel.close-ok" && awaited[0] != "channel.open-ok" {
            self.state
                .channels
                .open(opened)
                .inspect_err(|_| self.state.channel_closed.retain(|closed| *closed != opened))?;
        }
        Ok(None)
    }

    /// Tells once of each channel that the server closed.
    pub(crate) fn check_channels(&mut self) -> Result<()> {
        while let Some(channel) = self.state.channel_closed.pop_front() {
            self.state.channels.open(channel)?;
        }
        Ok(())
    }

    /// The next delivery, borrowed until the next call; `None` when none came within `timeout`.
    ///
    /// Sends what is written before it waits. With `Duration::ZERO` it only looks.
    ///
    /// # Errors
    /// The end of the connection; a channel that the server closed (told once).
    pub fn next_delivery(&mut self, timeout: Duration) -> Result<Option<Delivery<'_>>> {
        let mut patience = WaitDeadline::For(timeout);
        self.next_delivery_by(|client| client.fill(&mut patience, timeout.is_zero()))
    }

    /// The next delivery; `fill` reads, and says whether anything came.
    #[inline]
    pub(crate) fn next_delivery_by(
        &mut self,
        mut fill: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<Option<Delivery<'_>>> {
        if let Some(parked) = &mut self.parked {
            parked.clear();
        }
        if self.pop_buffered() {
            return Ok(self.shown.as_ref().map(crate::message::ReceivedMessage::view));
        }
        loop {
            let memory = self.buffer.memory().as_ptr_range();
            let memory = memory.start.addr()..memory.end.addr();
            let mut parked = self.parked.take().unwrap_or_default();
            let taken = self.take_events(|delivery, _| {
                parked.buffer(delivery, &memory);
                ControlFlow::Break(())
            });
            self.parked = Some(parked);
            if taken? == ScanEnd::Stopped {
                break;
            }
            self.check_closed()?;
            self.check_channels()?;
            if !fill(self)? {
                return Ok(None);
            }
        }
        Ok(self.parked.as_ref().and_then(|parked| parked.show(self.buffer.memory())))
    }

    pub(crate) fn pop_buffered(&mut self) -> bool {
        self.shown = self.aside.pop_front();
        if let Some(message) = &self.shown {
            self.aside_bytes -= message.bytes();
        }
        self.shown.is_some()
    }

    /// Hands every delivery that has come to `handler`, with an outlet to acknowledge and publish; waits up to
    /// `timeout` for the first. What the handler wrote is sent before the call returns, or earlier when it is much.
    ///
    /// # Errors
    /// As `next_delivery`, and the handler's own errors.
    pub fn dispatch(
        &mut self,
        timeout: Duration,
        mut handler: impl FnMut(&Delivery<'_>, &mut ClientOutput<'_>) -> Result<()>,
    ) -> Result<DispatchSummary> {
        let mut deliveries = self.hand_over_buffered(&mut handler)?;
        let mut patience = WaitDeadline::For(timeout);
        loop {
            let (handed_over, end) = self.hand_over(WRITTEN_BYTES_MAX, &mut handler)?;
            deliveries += handed_over;
            self.flush()?;
            self.check_closed()?;
            self.check_channels()?;
            if end == ScanEnd::Stopped {
                continue;
            }
            if deliveries > 0 && (self.drained || !timeout.is_zero()) {
                return Ok(DispatchSummary { deliveries, drained: self.drained });
            }
            if !self.fill(&mut patience, timeout.is_zero())? {
                return Ok(DispatchSummary { deliveries, drained: true });
            }
        }
    }

    /// Hands over the deliveries that were set aside. Returns how many.
    #[inline]
    pub(crate) fn hand_over_buffered(
        &mut self,
        handler: &mut impl FnMut(&Delivery<'_>, &mut ClientOutput<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut deliveries = 0;
        while self.pop_buffered() {
            if let Some(message) = self.shown.take() {
                deliveries += 1;
                handler(&message.view(), &mut self.output())?;
            }
        }
        Ok(deliveries)
    }

    /// Hands over the deliveries that were received, until so many bytes are written. Returns how many, and whether it stopped.
    #[inline]
    pub(crate) fn hand_over(
        &mut self,
        written_bytes_max: usize,
        handler: &mut impl FnMut(&Delivery<'_>, &mut ClientOutput<'_>) -> Result<()>,
    ) -> Result<(u64, ScanEnd)> {
        let (mut deliveries, mut failed) = (0, None);
        let end = self.take_events(|delivery, output| {
            deliveries += 1;
            if let Err(error) = handler(&delivery, output) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            let is_full = output.outbound.bytes() >= written_bytes_max;
            if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        failed.map_or(Ok((deliveries, end)), Err)
    }
}

/// What `Client::dispatch` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchSummary {
    /// How many deliveries the handler was given.
    pub deliveries: u64,
    /// Whether the link had nothing more.
    pub drained: bool,
}
