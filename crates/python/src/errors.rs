//! Faults of the client as Python exceptions.
//!
//! Enters: a client's error, or a misuse of a connection.  Leaves: an exception of `harrier.exceptions`.
//! Owns:   which error is which exception; the exceptions are Python's, so that they can be read and inherited there.

use client::ClientError;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::signals;

/// Why a connection cannot be used here and now.
#[derive(Debug)]
pub(crate) enum Misuse {
    Closed,
    InUse,
    /// A call was interrupted whose answer is still to come.
    Unanswered,
    OtherThread,
    /// This process is a fork of the owner.
    Forked {
        owner: u32,
    },
}

/// An exception of `harrier.exceptions`.
pub(crate) fn raise<'py>(py: Python<'py>, name: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    let made = py
        .import("harrier.exceptions")
        .and_then(|module| module.getattr(name))
        .and_then(|class| class.call1(arguments))
        .map(PyErr::from_value);
    made.unwrap_or_else(|error| error)
}

/// What a call's failure is to Python. A signal's own exception takes the place of `Interrupted`.
pub(crate) fn exception(py: Python<'_>, error: ClientError) -> PyErr {
    let text = error.to_string();
    match error {
        ClientError::Url { .. } => PyValueError::new_err(text),
        ClientError::Link(_) | ClientError::Closed => raise(py, "StreamLostError", (text,)),
        ClientError::ConnectionClosed { code, text } => raise(py, "ConnectionClosedByBroker", (code, text)),
        ClientError::ChannelClosed { channel, code, text } => {
            raise(py, "ChannelClosedByBroker", (code, text, channel.0))
        }
        ClientError::ChannelNotOpen { .. } => raise(py, "ChannelWrongStateError", (text,)),
        ClientError::Protocol(_) | ClientError::Unexpected { .. } => raise(py, "UnexpectedFrameError", (text,)),
        ClientError::TimedOut { awaited: "heartbeat" } => raise(py, "AMQPHeartbeatTimeout", (text,)),
        ClientError::TimedOut { .. } => raise(py, "AnswerTimeout", (text,)),
        ClientError::TooLong { .. } => raise(py, "ShortStringTooLong", (text,)),
        ClientError::TooMuchAside => raise(py, "TooManyDeliveries", (text,)),
        ClientError::NotAnnounced { .. } => raise(py, "MethodNotImplemented", (text,)),
        ClientError::NoChannelLeft => raise(py, "NoFreeChannels", (text,)),
        ClientError::Unanswered => raise(py, "ConnectionWrongStateError", (text,)),
        ClientError::Interrupted | ClientError::Pending => {
            signals::take().unwrap_or_else(|| raise(py, "AMQPConnectionError", (text,)))
        }
    }
}

/// Why no connection could be opened.
pub(crate) fn connect_exception(py: Python<'_>, error: ClientError) -> PyErr {
    let text = error.to_string();
    match error {
        ClientError::ConnectionClosed { code: 403, text } => raise(py, "ProbableAuthenticationError", (403, text)),
        ClientError::ConnectionClosed { code: 530, text } => raise(py, "ProbableAccessDeniedError", (530, text)),
        ClientError::Link(_) | ClientError::Closed => raise(py, "ConnectError", (text,)),
        other => exception(py, other),
    }
}

/// What a misuse is to Python.
pub(crate) fn misuse(py: Python<'_>, misuse: Misuse) -> PyErr {
    match misuse {
        Misuse::Closed => raise(py, "ConnectionWrongStateError", ("the connection is closed",)),
        Misuse::InUse => raise(py, "ConnectionWrongStateError", ("another call on this connection is not over yet",)),
        Misuse::Unanswered => raise(
            py,
            "ConnectionWrongStateError",
            ("a call on this connection was interrupted before its answer came: close it",),
        ),
        Misuse::OtherThread => raise(
            py,
            "WrongThreadError",
            ("a connection belongs to the thread that opened it: open one for each thread",),
        ),
        Misuse::Forked { owner } => raise(
            py,
            "ConnectionForkedError",
            (format!("the connection belongs to process {owner}, of which this is a fork: open another one here"),),
        ),
    }
}
