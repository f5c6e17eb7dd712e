//! Channel 0: the handshake, the end, and news about the whole connection.
//!
//! Enters: methods on channel 0.  Leaves: events, answers, the next phase.
//! Owns:   which method may come in which phase (AMQP 0-9-1 §2.2.4).
//! Never:  decides who may log in or where to: that is the owner's word.

use super::{Inbound, Phase, Role, Step};
use crate::{Capabilities, Event, Fault, Outbound, fault::numbers, tuning};
use slab::Pool;
use wire::{DecodeError, Method, ReplyCode, method::connection};

impl Inbound {
    /// The method in a payload of at least four bytes, or the fault RabbitMQ makes of it.
    pub(super) fn decode<'a>(&self, channel: u16, payload: &'a [u8]) -> Result<Method<'a>, Fault> {
        let method = Method::decode(payload).map_err(|error| {
            let (id, arguments) = wire::method::split_id(payload).unwrap_or(((0, 0), payload));
            match error {
                DecodeError::UnknownMethod { class_id, method_id } => {
                    let text = format!("unknown method ({class_id},{method_id})");
                    self.fault(ReplyCode::NotImplemented, channel, id, &text)
                }
                DecodeError::Truncated | DecodeError::Trailing { .. } => {
                    let text = format!("cannot decode {}", numbers(arguments));
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
    ) -> Result<Step<'a>, Fault> {
        let method = self.decode(0, payload)?;
        match method {
            Method::ConnectionClose(close) => return Ok(self.peer_closes(&close, out, pool)),
            Method::ConnectionCloseOk(_) if self.phase == Phase::Closing => {
                self.deaf();
                return Ok(Step::Event(Event::CloseOk));
            }
            _ if self.phase == Phase::Closing => return Ok(Step::Taken),
            _ => {}
        }
        match &self.role {
            Role::Server(_) => self.server_control(method, out),
            Role::Client => self.client_control(method),
        }
    }

    fn peer_closes<'a>(&mut self, close: &connection::Close<'a>, out: &mut Outbound, pool: &Pool) -> Step<'a> {
        if self.phase == Phase::Closing {
            // Both sides close at once: the peer's is acknowledged, and its acknowledgement still awaited.
            out.method(pool, 0, &connection::CloseOk {}.into());
            return Step::Taken;
        }
        if !self.owner_answers_close {
            out.method(pool, 0, &connection::CloseOk {}.into());
        }
        self.deaf();
        Step::Event(Event::CloseRequested {
            code: close.reply_code,
            text: close.reply_text,
            class_id: close.class_id,
            method_id: close.method_id,
        })
    }

    fn server_control<'a>(&mut self, method: Method<'a>, out: &mut Outbound) -> Result<Step<'a>, Fault> {
        let event = match (self.phase, method) {
            (Phase::Starting, Method::ConnectionStartOk(start_ok)) => {
                let connection::StartOk { client_properties, mechanism, response, locale } = start_ok;
                self.capabilities = Capabilities::of(client_properties);
                self.phase = Phase::Securing;
                Event::Login { mechanism, response, client_properties, locale, capabilities: self.capabilities }
            }
            (Phase::Securing, Method::ConnectionSecureOk(connection::SecureOk { response })) => {
                Event::LoginResponse { response }
            }
            (Phase::Tuning, Method::ConnectionTuneOk(tune_ok)) => {
                let tuning = tuning::settle(&self.limits, &tune_ok)?;
                self.tuned(&tuning, self.limits.frame_bytes_max, out);
                self.phase = Phase::Opening;
                Event::Tuned(tuning)
            }
            (Phase::Opening, Method::ConnectionOpen(connection::Open { virtual_host: vhost })) => Event::Open { vhost },
            (Phase::Running, Method::ConnectionUpdateSecret(_)) => Event::Method { channel: 0, method },
            _ => return Err(self.out_of_phase(&method)),
        };
        Ok(Step::Event(event))
    }

    fn client_control<'a>(&mut self, method: Method<'a>) -> Result<Step<'a>, Fault> {
        let event = match (self.phase, method) {
            (Phase::Starting, Method::ConnectionStart(start)) => {
                self.capabilities = Capabilities::of(start.server_properties);
                self.phase = Phase::Securing;
                Event::Start(start)
            }
            (Phase::Securing, Method::ConnectionSecure(connection::Secure { challenge })) => {
                Event::Secure { challenge }
            }
            (Phase::Securing, Method::ConnectionTune(tune)) => {
                self.phase = Phase::Tuning;
                Event::Tune(tune)
            }
            (Phase::Opening, Method::ConnectionOpenOk(_)) => {
                self.phase = Phase::Running;
                Event::OpenOk
            }
            (Phase::Running, Method::ConnectionBlocked(connection::Blocked { reason })) => Event::Blocked { reason },
            (Phase::Running, Method::ConnectionUnblocked(_)) => Event::Unblocked,
            (Phase::Running, Method::ConnectionUpdateSecretOk(_)) => Event::Method { channel: 0, method },
            _ => return Err(self.out_of_phase(&method)),
        };
        Ok(Step::Event(event))
    }

    fn out_of_phase(&self, method: &Method<'_>) -> Fault {
        let text = format!("unexpected method in connection state {}", self.phase.name());
        self.fault(ReplyCode::ChannelError, 0, method.id(), &text)
    }
}
