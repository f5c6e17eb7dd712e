//! Calls whose answers are awaited elsewhere: what a polled client asks the server for.
//!
//! Enters: a call of the client's, within `begin`.  Leaves: its answer, once it has come.
//! Owns:   what a blocking call would have done with the answer.

use crate::calls::QueueDeclared;
use crate::channel::ClientChannel;
use crate::client::Client;
use crate::error::{ClientError, Result};
use crate::message::ReceivedMessage;
use crate::state::Reply;

/// What a call that was begun came to.
#[derive(Debug)]
pub enum Answer {
    /// It is done; there is nothing to say.
    Done,
    Opened(ClientChannel),
    Queue(QueueDeclared),
    /// How many messages were purged or deleted.
    Messages(u32),
    ConsumerTag(String),
    /// What `get` took.
    Message(Box<ReceivedMessage>),
}

impl Client {
    /// Makes a call without waiting for its answer, which `take_answer` has later. One at a time: what was begun before
    /// must be answered. The call is written, and sent by `flush_now`.
    ///
    /// # Errors
    /// Those that the call has before it waits; `ClientError::Unanswered` if another call is not answered yet.
    pub fn begin<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T>) -> Result<()> {
        if self.pending_answer.is_some() {
            return Err(ClientError::Unanswered);
        }
        self.answers_later = true;
        let outcome = call(self);
        self.answers_later = false;
        match outcome {
            Ok(_) | Err(ClientError::Pending) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The answer to what was begun, if it has come: ask after each `dispatch_now`.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel, or the connection's end.
    pub fn take_answer(&mut self) -> Result<Option<Answer>> {
        let Some((channel, awaited)) = self.pending_answer.take() else { return Ok(Some(Answer::Done)) };
        let Some(reply) = self.take_reply(channel, &awaited)? else {
            self.pending_answer = Some((channel, awaited));
            return Ok(None);
        };
        if awaited[0] == "confirm.select-ok"
            && let Some(record) = self.state.channels.record(channel)
        {
            record.confirming = true;
        }
        Ok(Some(match reply {
            Reply::ChannelOpened => Answer::Opened(self.state.channels.opened(channel)),
            Reply::QueueDeclared { queue: name, messages, consumers } => {
                Answer::Queue(QueueDeclared { name, messages, consumers })
            }
            Reply::Messages(count) => Answer::Messages(count),
            Reply::ConsumerTag(tag) => Answer::ConsumerTag(tag),
            Reply::Got(message) => Answer::Message(message),
            _ => Answer::Done,
        }))
    }
}
