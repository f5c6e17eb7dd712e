//! What a call came to, and why: codes for programs, texts for people.
//!
//! Enters: errors of the client, misuse.  Leaves: a status; the thread's last failure.
//! Owns:   which error is which status; panics end here.

use std::cell::RefCell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use client::ClientError;

/// What a call came to. Above HARRIER_PENDING it has failed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "C has no namespaces")]
pub(crate) enum Status {
    /// It is done.
    HarrierOk = 0,
    /// There is none: no delivery in time, an empty queue, no returned message, no answer yet.
    HarrierNone = 1,
    /// Of a polled connection: it was asked, and harrier_take_answer has the answer later.
    HarrierPending = 2,
    /// A pointer that must not be NULL is, a text is no UTF-8 or too long, a number is out of range.
    HarrierInvalidArgument = 3,
    /// The address is not understood, or its certificates cannot be read.
    HarrierInvalidUrl = 4,
    /// No such connection: closed before, or never opened.
    HarrierNoConnection = 5,
    /// The connection belongs to another thread.
    HarrierWrongThread = 6,
    /// The connection belongs to the process of which this one is a fork.
    HarrierForked = 7,
    /// Another call on the connection is not over, or was interrupted before its answer came (close it).
    HarrierInUse = 8,
    /// No connection could be made, or it was lost.
    HarrierLost = 9,
    /// The server closed the connection: harrier_reply_code.
    HarrierConnectionClosed = 10,
    /// The server closed the channel: harrier_reply_code. The connection goes on.
    HarrierChannelClosed = 11,
    /// The channel is not open.
    HarrierChannelNotOpen = 12,
    /// The server broke the protocol.
    HarrierProtocolError = 13,
    /// No answer, no heartbeat or no room to send in time.
    HarrierTimedOut = 14,
    /// Too much is written and not sent (polled), or too many deliveries came while an answer was awaited.
    HarrierFull = 15,
    /// The server does not offer this.
    HarrierNotOffered = 16,
    /// is_interrupted wanted the call to end.
    HarrierInterrupted = 17,
    /// All channels that were agreed on, or all connections of a thread, are in use.
    HarrierNoneLeft = 18,
    /// The server refused messages that were published (basic.nack): harrier_take_refused.
    HarrierRefused = 19,
    /// A fault of this library. The connection is gone.
    HarrierInternalError = 20,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    text: String,
    reply: Option<(u16, String)>,
}

impl Failure {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), reply: None }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(Status::HarrierInvalidArgument, text)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let status = match &error {
            ClientError::Url { .. } => Status::HarrierInvalidUrl,
            ClientError::Link(_) | ClientError::Closed => Status::HarrierLost,
            ClientError::ConnectionClosed { .. } => Status::HarrierConnectionClosed,
            ClientError::ChannelClosed { .. } => Status::HarrierChannelClosed,
            ClientError::ChannelNotOpen { .. } => Status::HarrierChannelNotOpen,
            ClientError::Protocol(_) => Status::HarrierProtocolError,
            ClientError::Unanswered => Status::HarrierInUse,
            ClientError::Unexpected { .. } => Status::HarrierProtocolError,
            ClientError::TimedOut { .. } => Status::HarrierTimedOut,
            ClientError::TooLong { .. } => Status::HarrierInvalidArgument,
            ClientError::TooMuchAside => Status::HarrierFull,
            ClientError::NotAnnounced { .. } => Status::HarrierNotOffered,
            ClientError::Interrupted => Status::HarrierInterrupted,
            ClientError::Pending => Status::HarrierPending,
            ClientError::NoChannelLeft => Status::HarrierNoneLeft,
        };
        let text = error.to_string();
        let reply = match error {
            ClientError::ConnectionClosed { code, text } | ClientError::ChannelClosed { code, text, .. } => {
                Some((code, text))
            }
            _ => None,
        };
        Self { status, text, reply }
    }
}

/// The last failure of a thread, as C reads it.
#[derive(Default)]
pub(crate) struct LastFailure {
    pub(crate) text: CString,
    pub(crate) reply_code: u16,
    pub(crate) reply_text: CString,
}

thread_local! {
    static LAST: RefCell<LastFailure> = RefCell::default();
}

/// Looks at the thread's last failure.
pub(crate) fn last<T>(look: impl FnOnce(&LastFailure) -> T) -> T {
    LAST.with_borrow(look)
}

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// The status of a call's outcome, whose failure becomes the thread's last one.
pub(crate) fn of(outcome: Result<Status, Failure>) -> Status {
    match outcome {
        Ok(status) => status,
        Err(Failure { status, text, reply }) => {
            let (reply_code, reply_text) = reply.unwrap_or_default();
            let (text, reply_text) = (c_text(&text), c_text(&reply_text));
            LAST.set(LastFailure { text, reply_code, reply_text });
            status
        }
    }
}

/// A panic as a failure: it would end the program if it met a caller of C.
pub(crate) fn without_panic<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(Failure::new(Status::HarrierInternalError, format!("a fault of the library: {what}")))
    })
}

/// A call without a connection.
pub(crate) fn guarded(call: impl FnOnce() -> Result<Status, Failure>) -> Status {
    of(without_panic(call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_status() {
        let status = guarded(|| panic!("no slot {}", 7));
        assert_eq!(status, Status::HarrierInternalError);
        assert_eq!(last(|last| last.text.clone()).to_str(), Ok("a fault of the library: no slot 7"));
    }

    #[test]
    fn what_the_server_said_is_apart_from_the_text() {
        let error = ClientError::ConnectionClosed { code: 403, text: "ACCESS\0REFUSED".to_owned() };
        assert_eq!(guarded(|| Err(error.into())), Status::HarrierConnectionClosed);
        last(|last| {
            assert_eq!((last.reply_code, last.reply_text.to_str()), (403, Ok("ACCESS\u{fffd}REFUSED")));
        });
        assert_eq!(guarded(|| Err(ClientError::Closed.into())), Status::HarrierLost);
        assert_eq!(last(|last| last.reply_code), 0, "of another failure");
    }
}
