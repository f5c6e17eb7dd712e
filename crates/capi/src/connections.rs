//! The connections of a thread: each stays on the thread that opened it, as the client's memory does.
//!
//! Enters: a handle, on any thread.  Leaves: its connection on its own thread, or why it cannot be used.
//! Owns:   the clients. A handle is a number, so that one that is wrong or old reaches nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use client::{Client, ClientChannel, ClientError, LinkWatch, ReceivedMessage, Returned, Slice};

use crate::foreign::forks;
use crate::limits::{FLUSH_BYTES, POLLED_UNSENT_BYTES_MAX, SLOT_BITS, THREAD_BITS, TURN_BITS, UNSENT_BYTES_MAX};
use crate::status::{Failure, Status, of, without_panic};
use crate::types::{ChannelHandle, ConnectionHandle};

/// What the last call has lent to C, beside what lies in the client's buffer.
#[expect(dead_code, reason = "they hold what C reads")]
pub(crate) enum Lent {
    Nothing,
    /// The body of a delivery that came in memory of its own.
    Body(Slice),
    Message(Box<ReceivedMessage>),
    Returned(Box<Returned>),
}

/// A connection, and what C does with it.
pub(crate) struct OpenedConnection {
    client: Option<Client>,
    /// Made when C asks for the descriptor.
    pub(crate) watch: Option<LinkWatch>,
    forks: u32,
    pub(crate) is_polled: bool,
    /// Whether a call was interrupted whose answer is still to come.
    is_unanswered: bool,
    /// Whether there was nothing more when it was read last, so that the descriptor will tell.
    pub(crate) is_idle: bool,
    pub(crate) lent: Lent,
}

impl Drop for OpenedConnection {
    /// In a fork it is the parent's connection: whatever is said on it, or freed of its device, the parent would lose.
    fn drop(&mut self) {
        if self.forks != forks() {
            std::mem::forget(self.client.take());
            std::mem::forget(self.watch.take());
        }
    }
}

impl OpenedConnection {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client: Some(client),
            watch: None,
            forks: forks(),
            is_polled: false,
            is_unanswered: false,
            is_idle: false,
            lent: Lent::Nothing,
        }
    }

    pub(crate) fn client(&mut self) -> Result<&mut Client, Failure> {
        self.client.as_mut().ok_or_else(closed)
    }

    pub(crate) fn take(&mut self) -> Option<Client> {
        self.client.take()
    }

    /// A call that the server answers; nothing if the answer comes later.
    pub(crate) fn ask<T>(&mut self, call: impl FnOnce(&mut Client) -> client::Result<T>) -> Result<Option<T>, Failure> {
        if self.is_unanswered {
            return Err(Failure::new(
                Status::HarrierInUse,
                "a call was interrupted before its answer came: close the connection",
            ));
        }
        self.is_idle = false;
        if self.is_polled {
            let begun = self.client()?.begin(call);
            let sent = begun.and_then(|()| self.client.as_mut().map_or(Ok(true), Client::flush_now));
            return sent.map(|_| None).map_err(|error| self.failed(error));
        }
        let answer = call(self.client()?);
        self.is_unanswered = matches!(answer, Err(ClientError::Interrupted));
        answer.map(Some).map_err(|error| self.failed(error))
    }

    /// The failure of a call. A connection that has ended is let go; its handle remains until it is closed.
    pub(crate) fn failed(&mut self, error: ClientError) -> Failure {
        if error.ends_connection() {
            self.client = None;
            self.lent = Lent::Nothing;
        }
        error.into()
    }

    /// Whether a polled connection takes more to be sent.
    pub(crate) fn check_room(&mut self) -> Result<(), Failure> {
        if self.is_polled && self.client()?.unsent_bytes() >= POLLED_UNSENT_BYTES_MAX {
            return Err(Failure::new(Status::HarrierFull, "too much is written and not sent: wait for the descriptor"));
        }
        Ok(())
    }

    /// Sends what was written, if it is much. What was lent to C is not read any more.
    pub(crate) fn written(&mut self) -> Result<(), Failure> {
        let client = self.client()?;
        if client.unsent_bytes() < FLUSH_BYTES {
            return Ok(());
        }
        let mut sent = client.flush_now().map(drop);
        if !self.is_polled && sent.is_ok() && self.client()?.unsent_bytes() >= UNSENT_BYTES_MAX {
            self.is_idle = false;
            sent = self.client()?.flush();
        }
        sent.map_err(|error| self.failed(error))
    }

    /// Before a look without a wait: takes the edges that the descriptor told of.
    pub(crate) fn begin_look(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_idle)
            && let Some(watch) = &mut self.watch
        {
            watch.wait(Duration::ZERO).map_err(|error| Failure::from(ClientError::from(error)))?;
        }
        Ok(())
    }
}

fn closed() -> Failure {
    Failure::new(Status::HarrierNoConnection, "the connection has ended")
}

struct Slot {
    turn: u32,
    connection: Option<Rc<RefCell<OpenedConnection>>>,
}

struct ThreadConnections {
    thread: u32,
    slots: Vec<Slot>,
}

static THREADS: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static CONNECTIONS: RefCell<ThreadConnections> =
        RefCell::new(ThreadConnections { thread: THREADS.fetch_add(1, Ordering::Relaxed), slots: Vec::new() });
}

fn place(handle: ConnectionHandle) -> (u32, usize, u32) {
    let part = |from: u32, bits: u32| (handle.id >> from & ((1 << bits) - 1)) as u32;
    (part(SLOT_BITS + TURN_BITS, THREAD_BITS), part(TURN_BITS, SLOT_BITS) as usize, part(0, TURN_BITS))
}

/// Notes a connection of this thread.
pub(crate) fn insert(connection: OpenedConnection) -> Result<ConnectionHandle, Failure> {
    CONNECTIONS.with_borrow_mut(|mine| {
        let free = mine.slots.iter().position(|slot| slot.connection.is_none()).unwrap_or(mine.slots.len());
        if free >= 1 << SLOT_BITS || mine.thread >= 1 << THREAD_BITS {
            return Err(Failure::new(Status::HarrierNoneLeft, "too many connections of a thread, or too many threads"));
        }
        if free == mine.slots.len() {
            mine.slots.push(Slot { turn: 0, connection: None });
        }
        let slot = &mut mine.slots[free];
        slot.turn = (slot.turn + 1) & ((1 << TURN_BITS) - 1);
        slot.connection = Some(Rc::new(RefCell::new(connection)));
        let thread = u64::from(mine.thread) << (SLOT_BITS + TURN_BITS);
        Ok(ConnectionHandle { id: thread | (free as u64) << TURN_BITS | u64::from(slot.turn) })
    })
}

fn find(handle: ConnectionHandle) -> Result<Rc<RefCell<OpenedConnection>>, Failure> {
    let (thread, slot, turn) = place(handle);
    let found = CONNECTIONS.with_borrow(|mine| {
        if mine.thread != thread && thread != 0 {
            return Err(Failure::new(
                Status::HarrierWrongThread,
                "a connection belongs to the thread that opened it: open one for each thread",
            ));
        }
        let found = mine.slots.get(slot).filter(|slot| slot.turn == turn && mine.thread == thread);
        found.and_then(|slot| slot.connection.clone()).ok_or_else(closed)
    })?;
    let is_forked = found.try_borrow().is_ok_and(|connection| connection.forks != forks());
    if is_forked {
        return Err(Failure::new(
            Status::HarrierForked,
            "the connection belongs to the process that this is a fork of",
        ));
    }
    Ok(found)
}

/// Uses a connection of this thread. What was lent before may be given to the call, and is taken back at its end.
pub(crate) fn with(
    handle: ConnectionHandle,
    used: impl FnOnce(&mut OpenedConnection) -> Result<Status, Failure>,
) -> Status {
    of(without_panic(|| {
        let found = find(handle)?;
        let mut connection = found
            .try_borrow_mut()
            .map_err(|_| Failure::new(Status::HarrierInUse, "another call on the connection is not over yet"))?;
        let outcome = without_panic(|| used(&mut connection));
        if matches!(&outcome, Err(failure) if failure.status == Status::HarrierInternalError) {
            // Nobody knows its state.
            connection.client = None;
        }
        outcome
    }))
}

/// Uses the connection of a channel.
pub(crate) fn with_channel(
    handle: ChannelHandle,
    used: impl FnOnce(&mut OpenedConnection, ClientChannel) -> Result<Status, Failure>,
) -> Status {
    with(handle.connection, |connection| used(connection, ClientChannel::from_bits(handle.id)))
}

/// Forgets a connection.
pub(crate) fn remove(handle: ConnectionHandle) {
    let (_, slot, _) = place(handle);
    let removed = CONNECTIONS.with_borrow_mut(|mine| mine.slots.get_mut(slot).and_then(|slot| slot.connection.take()));
    // Its end may take a while, and needs no table.
    drop(removed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_that_was_never_given_reaches_nothing() {
        let status = |id| with(ConnectionHandle { id }, |_| Ok(Status::HarrierOk));
        assert_eq!(status(0), Status::HarrierNoConnection);
        assert_eq!(status(77), Status::HarrierNoConnection);
        assert_eq!(status(u64::MAX), Status::HarrierWrongThread);
    }
}
