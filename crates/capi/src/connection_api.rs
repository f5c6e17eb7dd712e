//! Connections to C: opening, closing, waiting for them.
//!
//! Enters: addresses, options, handles.  Leaves: connections, their descriptor, the texts of failures.
//! Owns:   which functions a connection has.

#![allow(unsafe_code)]

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

use client::{Client, ClientError, ConnectOptions, InterruptCheck, LinkWatch, Url};

use crate::connections::{self, Lent, OpenedConnection, with};
use crate::foreign::{LentText, wanted};
use crate::status::{self, Status, guarded};
use crate::types::{ConnectionHandle, ConnectionOptions};

/// This library's version.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Why the last call of this thread that failed did so: a text until the next failure. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_error_text() -> *const c_char {
    status::last(|last| last.text.as_ptr())
}

/// The server's reply code (404: not found, 403: access refused), if it was a HARRIER_CONNECTION_CLOSED or
/// HARRIER_CHANNEL_CLOSED; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_reply_code() -> u16 {
    status::last(|last| last.reply_code)
}

/// The server's own text with harrier_reply_code.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_reply_text() -> *const c_char {
    status::last(|last| last.reply_text.as_ptr())
}

/// Connects: amqp://, amqps://, amqp+rdma:// or amqp+unix:, with the parameters of an address behind its `?`. `options` may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_connect(
    url: LentText,
    options: Option<&ConnectionOptions>,
    connection: Option<&mut MaybeUninit<ConnectionHandle>>,
) -> Status {
    guarded(|| {
        let connection = wanted(connection, "connection")?;
        let mut wanted = ConnectOptions { flush_bytes: usize::MAX, ..ConnectOptions::default() };
        if let Some(options) = options {
            wanted.name = options.name.optional("name")?.map(str::to_owned);
            let set = |value: u32| Some(value).filter(|value| *value != 0);
            wanted.answer_wait =
                set(options.timeout_ms).map_or(wanted.answer_wait, |ms| Duration::from_millis(ms.into()));
            wanted.heartbeat_s = Some(options.heartbeat_s).filter(|s| *s != 0).unwrap_or(wanted.heartbeat_s);
            wanted.channel_max = Some(options.channel_max).filter(|max| *max != 0).unwrap_or(wanted.channel_max);
            wanted.frame_bytes_max = set(options.frame_bytes_max).unwrap_or(wanted.frame_bytes_max);
            wanted.interrupt = options.is_interrupted.map(|asked| InterruptCheck::new(move || asked()));
        }
        let client = Client::connect_with(&Url::parse(url.get("url")?)?, wanted)?;
        connection.write(connections::insert(OpenedConnection::new(client))?);
        Ok(Status::HarrierOk)
    })
}

/// Ends a connection in order: what is written is sent first. The handle is gone, whatever this returns.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_close(connection: ConnectionHandle) -> Status {
    close(connection, |client| client.close())
}

/// As harrier_close, and tells the server why.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_close_with(connection: ConnectionHandle, code: u16, text: LentText) -> Status {
    let Ok(text) = text.get("text") else { return guarded(|| text.get("text").map(|_| Status::HarrierOk)) };
    close(connection, |client| client.close_with(code, text))
}

fn close(handle: ConnectionHandle, closed: impl FnOnce(Client) -> client::Result<()>) -> Status {
    let status = with(handle, |connection| {
        // One that has ended before is only forgotten.
        connection.take().map_or(Ok(()), closed)?;
        Ok(Status::HarrierOk)
    });
    if !matches!(status, Status::HarrierWrongThread | Status::HarrierForked | Status::HarrierInUse) {
        connections::remove(handle);
    }
    status
}

/// What carries the connection: "tcp", "tls", "unix", "rdma"; NULL if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_transport(connection: ConnectionHandle) -> *const c_char {
    let mut name: *const c_char = std::ptr::null();
    with(connection, |connection| {
        name = match connection.client()?.transport() {
            "tcp" => c"tcp",
            "tls" => c"tls",
            "unix" => c"unix",
            "rdma" => c"rdma",
            _ => c"other",
        }
        .as_ptr();
        Ok(Status::HarrierOk)
    });
    name
}

/// Whether the server has asked publishers to wait (connection.blocked).
#[unsafe(no_mangle)]
pub extern "C" fn harrier_is_blocked(connection: ConnectionHandle) -> bool {
    let mut is_blocked = false;
    with(connection, |connection| {
        is_blocked = connection.client()?.blocked().is_some();
        Ok(Status::HarrierOk)
    });
    is_blocked
}

/// Sends what is written. Of a polled connection: what is taken now.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_flush(connection: ConnectionHandle) -> Status {
    with(connection, |connection| {
        let is_polled = connection.is_polled;
        connection.is_idle &= is_polled;
        let client = connection.client()?;
        let sent = if is_polled { client.flush_now().map(drop) } else { client.flush() };
        sent.map_err(|error| connection.failed(error))?;
        Ok(Status::HarrierOk)
    })
}

/// Has no call on the connection wait from now on: calls that the server answers return HARRIER_PENDING, one at a time, and
/// harrier_take_answer has their answer; what is not taken at once is sent by harrier_process and harrier_next.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_set_polled(connection: ConnectionHandle, is_polled: bool) -> Status {
    with(connection, |connection| {
        connection.client()?;
        connection.is_polled = is_polled;
        Ok(Status::HarrierOk)
    })
}

/// A descriptor to poll for POLLIN: it is readable when something came, or more can be sent. Before a wait, call harrier_next
/// (with 0) until it returns HARRIER_NONE, or harrier_process, and wait no longer than harrier_timeout_ms. It is closed with the
/// connection; -1 after a failure.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_fd(connection: ConnectionHandle) -> i32 {
    let mut fd = -1;
    with(connection, |connection| {
        if connection.watch.is_none() {
            let watch = LinkWatch::new(connection.client()?).map_err(ClientError::from)?;
            connection.watch = Some(watch);
            connection.is_idle = false;
        }
        fd = connection.watch.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        Ok(Status::HarrierOk)
    });
    fd
}

/// How long to wait for the descriptor at most, in milliseconds: 0 if there may be more already; else so that no heartbeat is
/// late.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_timeout_ms(connection: ConnectionHandle) -> i32 {
    let mut timeout_ms = 0;
    with(connection, |connection| {
        let is_idle = connection.is_idle;
        let wait = connection.client()?.wait_max();
        timeout_ms = if is_idle { i32::try_from(wait.as_millis()).unwrap_or(i32::MAX) } else { 0 };
        Ok(Status::HarrierOk)
    });
    timeout_ms
}

/// Takes in what has come (confirms, answers, heartbeats), sends what is taken now and a heartbeat if one is due, and never
/// waits. Deliveries are set aside with a copy of small bodies: harrier_next without a wait does the same without one. A program
/// that is busy for long calls it at least twice in an interval of heartbeats.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_process(connection: ConnectionHandle) -> Status {
    with(connection, |connection| {
        connection.lent = Lent::Nothing;
        connection.begin_look()?;
        let client = connection.client()?;
        let outcome = client.take_in_now();
        let is_drained = client.is_drained();
        connection.is_idle = is_drained && outcome.is_ok();
        outcome.map_err(|error| connection.failed(error))?;
        Ok(Status::HarrierOk)
    })
}
