//! Methods on channels.
//!
//! Enters: method frames on channels other than 0.  Leaves: events; answers to opening and closing.
//! Owns:   which method may come on a channel in which state, and from which side.

use super::{EndpointRole, Inbound, ParseStep};
use crate::{Event, Outbound, ProtocolFault, assembly::ContentMethod, channels::ChannelState};
use slab::Pool;
use wire::{
    ChannelNumber, Method, ReplyCode,
    frame::{FRAME_OVERHEAD_BYTES, FrameHead},
    method::channel,
};

impl Inbound {
    /// A method frame on a channel other than 0, whole at the start of the input.
    pub(super) fn method<'a>(
        &mut self,
        head: FrameHead,
        payload: &'a [u8],
        input: &mut &'a [u8],
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        let number = head.channel;
        let frame_bytes = payload.len() + FRAME_OVERHEAD_BYTES;
        self.method_frame_bytes = frame_bytes as u32;
        let Some(channel) = self.channels.get(number) else {
            *input = &input[frame_bytes..];
            let method = self.decode(number, payload)?;
            return self.method_on_unknown(number, &method, out, pool);
        };
        let mut state = channel.state;
        if let Some(assembly) = channel.assembly.as_deref() {
            return Err(self.interrupted(number, assembly));
        }
        let (id, arguments) = wire::method::split_id(payload).unwrap_or(((0, 0), &[]));
        if state == ChannelState::PassingOver {
            // Of a content that is passed over nothing comes behind another method.
            state = ChannelState::Open;
            self.end_passing_over(number);
        }
        if state.drops() {
            *input = &input[frame_bytes..];
            return self.method_on_closing(number, id, out, pool);
        }
        if let (ChannelState::Open, Some(content)) = (state, ContentMethod::of_id(id)) {
            return self.content(content, head, arguments, input);
        }
        *input = &input[frame_bytes..];
        let method = self.decode(number, payload)?;
        if let Method::ChannelClose(close) = method {
            return Ok(self.peer_closes_channel(number, &close, out, pool));
        }
        match (state, &self.role) {
            (ChannelState::Opening, _) => self.method_on_opening(number, &method),
            (_, EndpointRole::Server(_)) => match method {
                Method::ChannelOpen(_) => {
                    Err(self.fault(ReplyCode::ChannelError, number, id, "second 'channel.open' seen"))
                }
                method if is_from_client(&method) => Ok(ParseStep::Event(Event::Method { channel: number, method })),
                _ => Err(self.unimplemented(number, id)),
            },
            (_, EndpointRole::Client) if is_from_server(&method) => {
                Ok(ParseStep::Event(Event::Method { channel: number, method }))
            }
            (_, EndpointRole::Client) => Err(self.unimplemented(number, id)),
        }
    }

    fn unimplemented(&self, number: ChannelNumber, id: (u16, u16)) -> ProtocolFault {
        self.fault(ReplyCode::CommandInvalid, number, id, "unimplemented method")
    }

    /// Refuses a whole content that only the other side may send.
    pub(super) fn check_side(&self, number: ChannelNumber, content: ContentMethod) -> Result<(), ProtocolFault> {
        let of_client = content == ContentMethod::Publish;
        let by_client = matches!(self.role, EndpointRole::Server(_));
        if of_client == by_client { Ok(()) } else { Err(self.unimplemented(number, content.id())) }
    }

    fn method_on_unknown<'a>(
        &mut self,
        number: ChannelNumber,
        method: &Method<'a>,
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        if let EndpointRole::Client = self.role {
            let text = format!("{} on channel {number}, which is not open", method.name());
            return Err(self.fault(ReplyCode::ChannelError, number, method.id(), &text));
        }
        if matches!(method, Method::ChannelCloseOk(_)) {
            // The answer to a `close` that was answered otherwise meanwhile; RabbitMQ does not mind.
            return Ok(ParseStep::Taken);
        }
        // RabbitMQ bounds the count of channels, not their numbers, and counts before it looks at the method.
        let count = self.channels.count();
        if self.channel_max != 0 && count >= usize::from(self.channel_max) {
            let max = self.channel_max;
            let text = format!("number of channels opened ({count}) has reached the negotiated channel_max ({max})");
            return Err(self.fault(ReplyCode::NotAllowed, number, (0, 0), &text));
        }
        if !matches!(method, Method::ChannelOpen(_)) {
            return Err(self.fault(ReplyCode::ChannelError, number, method.id(), "expected 'channel.open'"));
        }
        self.channels.set(number, ChannelState::Open);
        if !self.limits.owner_opens_channels {
            out.method(pool, number, &channel::OpenOk {}.into());
        }
        Ok(ParseStep::Event(Event::ChannelOpened { channel: number }))
    }

    fn method_on_opening<'a>(
        &mut self,
        number: ChannelNumber,
        method: &Method<'a>,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        if !matches!(method, Method::ChannelOpenOk(_)) {
            let text = format!("expected 'channel.open-ok', got {}", method.name());
            return Err(self.fault(ReplyCode::ChannelError, number, method.id(), &text));
        }
        self.channels.set(number, ChannelState::Open);
        Ok(ParseStep::Event(Event::ChannelOpened { channel: number }))
    }

    /// This side sent `channel.close`, and the peer may not have seen it yet.
    fn method_on_closing<'a>(
        &mut self,
        number: ChannelNumber,
        id: (u16, u16),
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        match id {
            channel::CloseOk::ID => {
                self.channels.remove(number);
                Ok(ParseStep::Event(Event::ChannelCloseOk { channel: number }))
            }
            channel::Close::ID => {
                // Both sides close at once: acknowledged, and the acknowledgement still awaited.
                out.method(pool, number, &channel::CloseOk {}.into());
                Ok(ParseStep::Taken)
            }
            _ => Ok(ParseStep::Taken),
        }
    }

    fn peer_closes_channel<'a>(
        &mut self,
        number: ChannelNumber,
        close: &channel::Close<'a>,
        out: &mut Outbound,
        pool: &Pool,
    ) -> ParseStep<'a> {
        self.lending.ahead.take_if(|ahead| *ahead == number);
        self.channels.remove(number);
        if !self.owner_answers_close {
            out.method(pool, number, &channel::CloseOk {}.into());
        }
        ParseStep::Event(Event::ChannelClosed {
            channel: number,
            code: close.reply_code,
            text: close.reply_text,
            class_id: close.class_id,
            method_id: close.method_id,
        })
    }
}

/// Methods without content that a client may send on an open channel.
fn is_from_client(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::ChannelFlow(_)
            | Method::AccessRequest(_)
            | Method::ExchangeDeclare(_)
            | Method::ExchangeDelete(_)
            | Method::ExchangeBind(_)
            | Method::ExchangeUnbind(_)
            | Method::QueueDeclare(_)
            | Method::QueueBind(_)
            | Method::QueueUnbind(_)
            | Method::QueuePurge(_)
            | Method::QueueDelete(_)
            | Method::BasicQos(_)
            | Method::BasicConsume(_)
            | Method::BasicCancel(_)
            | Method::BasicGet(_)
            | Method::BasicAck(_)
            | Method::BasicNack(_)
            | Method::BasicReject(_)
            | Method::BasicRecover(_)
            | Method::BasicRecoverAsync(_)
            | Method::ConfirmSelect(_)
            | Method::TxSelect(_)
            | Method::TxCommit(_)
            | Method::TxRollback(_)
    )
}

/// Methods without content that a server may send on an open channel.
fn is_from_server(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::ChannelFlow(_)
            | Method::ChannelFlowOk(_)
            | Method::AccessRequestOk(_)
            | Method::ExchangeDeclareOk(_)
            | Method::ExchangeDeleteOk(_)
            | Method::ExchangeBindOk(_)
            | Method::ExchangeUnbindOk(_)
            | Method::QueueDeclareOk(_)
            | Method::QueueBindOk(_)
            | Method::QueueUnbindOk(_)
            | Method::QueuePurgeOk(_)
            | Method::QueueDeleteOk(_)
            | Method::BasicQosOk(_)
            | Method::BasicConsumeOk(_)
            | Method::BasicCancel(_)
            | Method::BasicCancelOk(_)
            | Method::BasicGetEmpty(_)
            | Method::BasicAck(_)
            | Method::BasicNack(_)
            | Method::BasicRecoverOk(_)
            | Method::ConfirmSelectOk(_)
            | Method::TxSelectOk(_)
            | Method::TxCommitOk(_)
            | Method::TxRollbackOk(_)
    )
}
