//! A connection to Python: whose it is, and where Python's lock is released.
//!
//! Enters: uses of the client, on the thread that opened it.  Leaves: their results, and exceptions.
//! Owns:   the rule that the lock is released wherever a call waits, and nowhere else.

use std::thread::ThreadId;
use std::time::Duration;

use client::{Client, ClientChannel, ClientError};
use mio::Waker;
use pyo3::prelude::*;

use crate::delivery::Delivery;
use crate::errors::{Misuse, exception, misuse};
use crate::thread_clients::{self, ThreadClient};

/// A channel that was opened; it does not reach a later one of the same number.
#[pyclass(frozen, module = "harrier._harrier")]
pub(crate) struct ChannelHandle {
    pub(crate) channel: ClientChannel,
}

#[pymethods]
impl ChannelHandle {
    #[getter]
    fn number(&self) -> u16 {
        self.channel.number().0
    }
}

/// A connection; `is_polled` has its calls return before they are answered (`take_answer`).
#[pyclass(frozen, name = "Connection", module = "harrier._harrier")]
pub(crate) struct PythonConnection {
    pub(crate) number: u64,
    pub(crate) owner: ThreadId,
    pub(crate) pid: u32,
    pub(crate) fd: i32,
    pub(crate) waker: Waker,
    pub(crate) is_polled: bool,
    /// Whether bodies in memory of their own are handed out as that memory.
    pub(crate) is_zero_copy: bool,
}

impl Drop for PythonConnection {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            thread_clients::remove(self.owner, self.number);
        }
    }
}

impl PythonConnection {
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.pid != std::process::id() {
            return Err(misuse(py, Misuse::Forked { owner: self.pid }));
        }
        if self.owner != std::thread::current().id() {
            return Err(misuse(py, Misuse::OtherThread));
        }
        Ok(())
    }

    /// Uses the client; other threads of Python wait.
    pub(crate) fn now<T>(
        &self,
        py: Python<'_>,
        used: impl FnOnce(&mut ThreadClient) -> Result<T, Misuse>,
    ) -> PyResult<T> {
        self.check(py)?;
        thread_clients::with(self.number, used).map_err(|error| misuse(py, error))
    }

    /// Uses the client for what may wait; other threads of Python run meanwhile.
    pub(crate) fn waiting<T: Send>(
        &self,
        py: Python<'_>,
        used: impl FnOnce(&mut ThreadClient) -> Result<client::Result<T>, Misuse> + Send,
    ) -> PyResult<T> {
        self.check(py)?;
        match py.detach(|| thread_clients::with(self.number, used)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.fault(py, error)),
            Err(error) => Err(misuse(py, error)),
        }
    }

    /// A call that the server answers; `None` if the answer comes later.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Client) -> client::Result<T> + Send,
    ) -> PyResult<Option<T>> {
        if self.is_polled {
            let begun = self.now(py, |mine| Ok(mine.client()?.begin(call)))?;
            return begun.map(|()| None).map_err(|error| self.fault(py, error));
        }
        let answered = |mine: &mut ThreadClient| {
            if mine.is_unanswered {
                return Err(Misuse::Unanswered);
            }
            let answer = call(mine.client()?);
            mine.is_unanswered = matches!(answer, Err(ClientError::Interrupted));
            Ok(answer)
        };
        self.waiting(py, answered).map(Some)
    }

    /// The exception of a failed call. A connection that has ended is let go.
    pub(crate) fn fault(&self, py: Python<'_>, error: ClientError) -> PyErr {
        if error.ends_connection() {
            thread_clients::remove(self.owner, self.number);
        }
        exception(py, error)
    }

    /// Sends what is written: a polled connection what its link takes, and others everything.
    pub(crate) fn send(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_polled {
            let sent = self.now(py, |mine| Ok(mine.client()?.flush_now()))?;
            return sent.map(drop).map_err(|error| self.fault(py, error));
        }
        self.waiting(py, |mine| Ok(mine.client()?.flush()))
    }

    /// Writes an acknowledgement or its like.
    pub(crate) fn settle(
        &self,
        py: Python<'_>,
        flush: bool,
        written: impl FnOnce(&mut Client) -> client::Result<()>,
    ) -> PyResult<()> {
        let outcome = self.now(py, |mine| Ok(written(mine.client()?)))?;
        outcome.map_err(|error| self.fault(py, error))?;
        if flush { self.send(py) } else { Ok(()) }
    }

    /// The deliveries that have come, up to `most`; a heartbeat if one is due.
    pub(crate) fn collect(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Py<Delivery>>> {
        let mut found = Vec::new();
        let outcome = self.now(py, |mine| {
            if let Some(fault) = mine.fault.take() {
                return Ok(Err(fault));
            }
            let (client, names) = mine.parts()?;
            while found.len() < most {
                match client.next_delivery(Duration::ZERO) {
                    Ok(Some(delivery)) => {
                        found.push(Delivery::of_delivery(py, names, &delivery, self.is_zero_copy));
                    }
                    Ok(None) => break,
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(client.send_heartbeat())
        })?;
        self.handed_out(py, found, outcome)
    }

    /// The deliveries that were found. A fault behind them is the next call's.
    pub(crate) fn handed_out(
        &self,
        py: Python<'_>,
        found: Vec<PyResult<Delivery>>,
        outcome: client::Result<()>,
    ) -> PyResult<Vec<Py<Delivery>>> {
        match outcome {
            Err(error) if found.is_empty() => return Err(self.fault(py, error)),
            Err(error) => self.now(py, |mine| {
                mine.fault = Some(error);
                Ok(())
            })?,
            Ok(()) => {}
        }
        found.into_iter().map(|delivery| Py::new(py, delivery?)).collect()
    }
}
