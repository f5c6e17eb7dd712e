//! What the owner decides about the state of a connection.
//!
//! Enters: decisions.  Leaves: the methods that carry them out, and the state that follows.
//! Owns:   nothing more than the rest of `Inbound`.

use super::{EndpointRole, HandshakePhase, Inbound};
use crate::{
    FaultScope, Outbound, ProtocolFault, SessionLimits, Tuning, channels::ChannelState, fault::reply_text, tuning,
};
use slab::Pool;
use wire::{
    ChannelNumber, Method, ReplyCode, ShortStr, TableRef,
    method::{channel, connection},
};

/// Decisions of both sides.
impl Inbound {
    /// Carries out the consequences of a fault: sends `channel.close` or `connection.close`, or nothing. Works for
    /// faults of this crate and for refusals of a broker alike; one that comes when the channel or the connection has
    /// ended already is dropped. Whether the link must end as soon as what is written is sent: otherwise the peer's
    /// `close-ok` is awaited, for as long as the owner likes.
    ///
    /// A link that ends with bytes unread may take the last words along: read on and drop for a while.
    pub fn fail(&mut self, fault: &ProtocolFault, out: &mut Outbound, pool: &Pool) -> bool {
        let (code, method) = (fault.code.number(), (fault.class_id, fault.method_id));
        match fault.scope {
            FaultScope::Channel => self.end_channel(fault.channel, code, &fault.text, method, out, pool),
            FaultScope::Connection => self.end(code, &fault.text, method, out, pool),
            FaultScope::Link => self.ignore_input(),
        }
        self.is_done()
    }

    /// Ends a channel: sends `close`; `ChannelCloseOk` will follow, and what comes before it is dropped.
    pub fn close_channel(&mut self, channel: ChannelNumber, code: u16, text: &str, out: &mut Outbound, pool: &Pool) {
        self.end_channel(channel, code, text, (0, 0), out, pool);
    }

    /// Ends the connection: sends `close`; `CloseOk` will follow, and what comes before it is dropped.
    pub fn close(&mut self, code: u16, text: &str, out: &mut Outbound, pool: &Pool) {
        self.end(code, text, (0, 0), out, pool);
    }

    fn end_channel(
        &mut self,
        number: ChannelNumber,
        code: u16,
        text: &str,
        method: (u16, u16),
        out: &mut Outbound,
        pool: &Pool,
    ) {
        let gone = self.channels.get(number).is_none_or(|channel| channel.state == ChannelState::Closing);
        if !gone {
            out.channel_close(pool, number, code, text, method);
            self.drop_channel(number, ChannelState::Closing);
        }
    }

    fn end(&mut self, code: u16, text: &str, method: (u16, u16), out: &mut Outbound, pool: &Pool) {
        if !matches!(self.phase, HandshakePhase::Closing | HandshakePhase::Deaf) {
            out.connection_close(pool, code, text, method);
            self.drop_contents();
            // Should the place of the next frame be lost, `next` will notice again, and go deaf.
            self.phase = HandshakePhase::Closing;
        }
    }

    /// Answers `ChannelClosed`, where the owner does that (`owner_answers_close`).
    pub fn answer_channel_close(&mut self, channel: ChannelNumber, out: &mut Outbound, pool: &Pool) {
        out.method(pool, channel, &channel::CloseOk {}.into());
    }

    /// Answers `CloseRequested`, where the owner does that (`owner_answers_close`).
    pub fn answer_close(&mut self, out: &mut Outbound, pool: &Pool) {
        out.method(pool, ChannelNumber::CONNECTION, &connection::CloseOk {}.into());
    }
}

/// Decisions of a server.
impl Inbound {
    /// The login is accepted: proposes limits.
    pub fn login_accepted(&mut self, out: &mut Outbound, pool: &Pool) {
        self.assert_phase(HandshakePhase::Securing);
        self.phase = HandshakePhase::Tuning;
        out.method(pool, ChannelNumber::CONNECTION, &tuning::proposal(&self.limits).into());
    }

    /// The mechanism needs another round; `LoginResponse` will follow.
    pub fn login_challenged(&mut self, challenge: &[u8], out: &mut Outbound, pool: &Pool) {
        self.assert_phase(HandshakePhase::Securing);
        out.method(pool, ChannelNumber::CONNECTION, &connection::Secure { challenge }.into());
    }

    /// The login is refused: the fault to log. A client that can hear it is told, without the reason; others find the
    /// link closed, as with RabbitMQ. End the link when what is written is sent, better after a pause of some seconds.
    pub fn login_refused(
        &mut self,
        mechanism: ShortStr<'_>,
        reason: &str,
        out: &mut Outbound,
        pool: &Pool,
    ) -> ProtocolFault {
        if self.capabilities.has(crate::Capabilities::AUTHENTICATION_FAILURE_CLOSE) {
            let told = format!(
                "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            );
            let text = reply_text(ReplyCode::AccessRefused, &told);
            out.connection_close(pool, ReplyCode::AccessRefused.number(), &text, (0, 0));
        }
        self.ignore_input();
        ProtocolFault::link(ReplyCode::AccessRefused, &format!("{mechanism} login refused: {reason}"))
    }

    /// Limits are settled: both halves obey them. `whole_bytes` is this end's own bound of frames that are no bodies.
    pub(super) fn tuned(&mut self, tuning: &Tuning, whole_bytes: u32, out: &mut Outbound) {
        self.channel_max = tuning.channel_max;
        self.set_frame_bytes_max(tuning.frame_bytes_max, whole_bytes);
        out.set_frame_bytes_max(tuning.frame_bytes_max);
    }

    /// The virtual host may be used: the connection runs.
    pub fn open_accepted(&mut self, out: &mut Outbound, pool: &Pool) {
        self.assert_phase(HandshakePhase::Opening);
        self.phase = HandshakePhase::Running;
        out.method(pool, ChannelNumber::CONNECTION, &connection::OpenOk {}.into());
    }

    fn assert_phase(&self, phase: HandshakePhase) {
        assert!(
            matches!(self.role, EndpointRole::Server(_)) && self.phase == phase,
            "a server's decision for {} in {}",
            phase.name(),
            self.phase.name()
        );
    }
}

/// Decisions of a client.
impl Inbound {
    /// Answers `Start`. See `sasl` for responses.
    pub fn log_in(
        &mut self,
        mechanism: &'static str,
        response: &[u8],
        client_properties: TableRef<'_>,
        out: &mut Outbound,
        pool: &Pool,
    ) {
        let mechanism = ShortStr::literal(mechanism);
        let locale = ShortStr::literal("en_US");
        let start_ok = connection::StartOk { client_properties, mechanism, response, locale };
        out.method(pool, ChannelNumber::CONNECTION, &start_ok.into());
    }

    /// Answers `Secure`.
    pub fn answer_challenge(&mut self, response: &[u8], out: &mut Outbound, pool: &Pool) {
        out.method(pool, ChannelNumber::CONNECTION, &connection::SecureOk { response }.into());
    }

    /// Answers `Tune` with the lower of what is proposed and what is wanted.
    pub fn tune(
        &mut self,
        proposed: &connection::Tune,
        wanted: &SessionLimits,
        out: &mut Outbound,
        pool: &Pool,
    ) -> Tuning {
        let wanted = wanted.clamped();
        let tuning = tuning::answer(proposed, &wanted);
        let Tuning { channel_max, frame_bytes_max: frame_max, heartbeat_s: heartbeat } = tuning;
        out.method(pool, ChannelNumber::CONNECTION, &connection::TuneOk { channel_max, frame_max, heartbeat }.into());
        self.tuned(&tuning, wanted.frame_bytes_max, out);
        tuning
    }

    /// Chooses a virtual host; `OpenOk` or `CloseRequested` will follow.
    pub fn open(&mut self, virtual_host: ShortStr<'_>, out: &mut Outbound, pool: &Pool) {
        assert!(matches!(self.role, EndpointRole::Client), "a server opens no connection");
        self.phase = HandshakePhase::Opening;
        out.method(pool, ChannelNumber::CONNECTION, &Method::from(connection::Open { virtual_host }));
    }

    /// Opens the channel of the lowest free number; `ChannelOpened` will follow. `None` if `channel_max` are open.
    pub fn open_channel(&mut self, out: &mut Outbound, pool: &Pool) -> Option<ChannelNumber> {
        let number_max = if self.channel_max == 0 { u16::MAX } else { self.channel_max };
        let number = self.channels.lowest_free(number_max)?;
        self.channels.set(number, ChannelState::Opening);
        self.passed_over.end(number);
        out.method(pool, number, &channel::Open {}.into());
        Some(number)
    }
}
