//! Channel 0: the handshake, the end, and news about the whole connection.
//!
//! Enters: methods on channel 0.  Leaves: events, answers, the next phase.
//! Owns:   which method may come in which phase (AMQP 0-9-1 §2.2.4).

use super::{EndpointRole, HandshakePhase, Inbound, ParseStep};
use crate::{Capabilities, Event, Outbound, ProtocolFault, fault::numbers, tuning};
use slab::Pool;
use wire::{ChannelNumber, DecodeError, Method, ReplyCode, method::connection};

impl Inbound {
    /// The method in a payload of at least four bytes, or the fault RabbitMQ makes of it.
    pub(super) fn decode<'a>(&self, channel: ChannelNumber, payload: &'a [u8]) -> Result<Method<'a>, ProtocolFault> {
        let method = Method::decode(payload).map_err(|error| {
            let (id, arguments) = wire::method::split_id(payload).unwrap_or(((0, 0), payload));
            match error {
                DecodeError::UnknownMethod { class_id, method_id } => {
                    let text = format!("unknown method ({class_id},{method_id})");
                    self.fault(ReplyCode::NotImplemented, channel, id, &text)
                }
                DecodeError::Truncated | DecodeError::Trailing { .. } => {
                    // Those of a login may hold a password, and the text is logged.
                    let text = match id {
                        connection::StartOk::ID | connection::SecureOk::ID | connection::UpdateSecret::ID => {
                            format!("cannot decode {} bytes", arguments.len())
                        }
                        _ => format!("cannot decode {}", numbers(arguments)),
                    };
                    self.fault(ReplyCode::FrameError, channel, id, &text)
                }
                error => self.fault(ReplyCode::SyntaxError, channel, id, &error.to_string()),
            }
        })?;
        if super::text::is_text(&method) {
            Ok(method)
        } else {
            Err(self.fault(ReplyCode::FrameError, channel, (0, 0), "Malformed UTF-8 in shortstr"))
        }
    }

    pub(super) fn control<'a>(
        &mut self,
        payload: &'a [u8],
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        let method = self.decode(ChannelNumber::CONNECTION, payload)?;
        match method {
            Method::ConnectionClose(close) => return Ok(self.peer_closes(&close, out, pool)),
            Method::ConnectionCloseOk(_) if self.phase == HandshakePhase::Closing => {
                self.ignore_input();
                return Ok(ParseStep::Event(Event::CloseOk));
            }
            _ if self.phase == HandshakePhase::Closing => return Ok(ParseStep::Taken),
            _ => {}
        }
        match &self.role {
            EndpointRole::Server(_) => self.server_control(method, out),
            EndpointRole::Client => self.client_control(method),
        }
    }

    fn peer_closes<'a>(&mut self, close: &connection::Close<'a>, out: &mut Outbound, pool: &Pool) -> ParseStep<'a> {
        if self.phase == HandshakePhase::Closing {
            // Both sides close at once: the peer's is acknowledged, and its acknowledgement still awaited.
            out.method(pool, ChannelNumber::CONNECTION, &connection::CloseOk {}.into());
            return ParseStep::Taken;
        }
        if !self.owner_answers_close {
            out.method(pool, ChannelNumber::CONNECTION, &connection::CloseOk {}.into());
        }
        self.ignore_input();
        ParseStep::Event(Event::CloseRequested {
            code: close.reply_code,
            text: close.reply_text,
            class_id: close.class_id,
            method_id: close.method_id,
        })
    }

    fn server_control<'a>(&mut self, method: Method<'a>, out: &mut Outbound) -> Result<ParseStep<'a>, ProtocolFault> {
        let event = match (self.phase, method) {
            (HandshakePhase::Starting, Method::ConnectionStartOk(start_ok)) => {
                let connection::StartOk { client_properties, mechanism, response, locale } = start_ok;
                self.capabilities = Capabilities::of(client_properties);
                self.phase = HandshakePhase::Securing;
                Event::Login { mechanism, response, client_properties, locale, capabilities: self.capabilities }
            }
            (HandshakePhase::Securing, Method::ConnectionSecureOk(connection::SecureOk { response })) => {
                Event::LoginResponse { response }
            }
            (HandshakePhase::Tuning, Method::ConnectionTuneOk(tune_ok)) => {
                let tuning = tuning::settle(&self.limits, &tune_ok)?;
                self.tuned(&tuning, self.limits.frame_bytes_max, out);
                self.phase = HandshakePhase::Opening;
                Event::Tuned(tuning)
            }
            (HandshakePhase::Opening, Method::ConnectionOpen(connection::Open { virtual_host: vhost })) => {
                Event::Open { vhost }
            }
            (HandshakePhase::Running, Method::ConnectionUpdateSecret(_)) => {
                Event::Method { channel: ChannelNumber::CONNECTION, method }
            }
            _ => return Err(self.out_of_phase(&method)),
        };
        Ok(ParseStep::Event(event))
    }

    fn client_control<'a>(&mut self, method: Method<'a>) -> Result<ParseStep<'a>, ProtocolFault> {
        let event = match (self.phase, method) {
            (HandshakePhase::Starting, Method::ConnectionStart(start)) => {
                self.capabilities = Capabilities::of(start.server_properties);
                self.phase = HandshakePhase::Securing;
                Event::Start(start)
            }
            (HandshakePhase::Securing, Method::ConnectionSecure(connection::Secure { challenge })) => {
                Event::Secure { challenge }
            }
            (HandshakePhase::Securing, Method::ConnectionTune(tune)) => {
                self.phase = HandshakePhase::Tuning;
                Event::Tune(tune)
            }
            (HandshakePhase::Opening, Method::ConnectionOpenOk(_)) => {
                self.phase = HandshakePhase::Running;
                Event::OpenOk
            }
            (HandshakePhase::Running, Method::ConnectionBlocked(connection::Blocked { reason })) => {
                Event::Blocked { reason }
            }
            (HandshakePhase::Running, Method::ConnectionUnblocked(_)) => Event::Unblocked,
            (HandshakePhase::Running, Method::ConnectionUpdateSecretOk(_)) => {
                Event::Method { channel: ChannelNumber::CONNECTION, method }
            }
            _ => return Err(self.out_of_phase(&method)),
        };
        Ok(ParseStep::Event(event))
    }

    fn out_of_phase(&self, method: &Method<'_>) -> ProtocolFault {
        let text = format!("unexpected method in connection state {}", self.phase.name());
        self.fault(ReplyCode::ChannelError, ChannelNumber::CONNECTION, method.id(), &text)
    }
}
