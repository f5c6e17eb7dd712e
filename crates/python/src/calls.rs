//! The methods of a connection: one a crossing, in the client's words.
//!
//! Enters: calls of the Python sources.  Leaves: answers, deliveries, exceptions.
//! Owns:   which arguments each call has.

use std::os::fd::AsRawFd;
use std::time::Duration;

use client::{
    Answer, Client, ClientError, ConnectOptions, ConsumeOptions, DeliveryTag, ExchangeOptions, InterruptCheck, Publish,
    QueueOptions, RawProperties, Table, Url, WaitEnd,
};
use mio::Waker;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::basic_properties::BasicProperties;
use crate::buffer::Block;
use crate::connection::{ChannelHandle, PythonConnection};
use crate::delivery::Delivery;
use crate::errors::{connect_exception, exception};
use crate::limits::{BATCH_BODIES, BATCH_BYTES, BODY_BYTES_MAX};
use crate::outgoing_body;
use crate::signals;
use crate::thread_clients::{self, ThreadClient};
use crate::values::{dictionary, table};

fn seconds(py_seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(py_seconds).map_err(|error| PyValueError::new_err(format!("{py_seconds} s: {error}")))
}

#[pymethods]
impl PythonConnection {
    #[staticmethod]
    #[pyo3(signature = (url, *, name=None, heartbeat_s=None, frame_bytes_max=None, channel_max=None, timeout_s=None,
        is_polled=false, is_zero_copy=false))]
    #[expect(clippy::too_many_arguments, reason = "one for each option, by name")]
    fn connect(
        py: Python<'_>,
        url: &str,
        name: Option<String>,
        heartbeat_s: Option<u16>,
        frame_bytes_max: Option<u32>,
        channel_max: Option<u16>,
        timeout_s: Option<f64>,
        is_polled: bool,
        is_zero_copy: bool,
    ) -> PyResult<Self> {
        let usual = ConnectOptions::default();
        let options = ConnectOptions {
            name,
            heartbeat_s: heartbeat_s.unwrap_or(usual.heartbeat_s),
            frame_bytes_max: frame_bytes_max.unwrap_or(usual.frame_bytes_max),
            channel_max: channel_max.unwrap_or(usual.channel_max),
            answer_wait: timeout_s.map(seconds).transpose()?.unwrap_or(usual.answer_wait),
            // A publish that waits for room holds Python's lock; `send` does not.
            flush_bytes: usize::MAX,
            interrupt: Some(InterruptCheck::new(signals::is_interrupted)),
            ..usual
        };
        let url = Url::parse(url).map_err(|error| exception(py, error))?;
        let made = py.detach(|| -> client::Result<(u64, i32, Waker)> {
            let (client, waker) = ThreadClient::new(Client::connect_with(&url, options)?)?;
            let fd = client.watch.as_raw_fd();
            Ok((thread_clients::insert(client), fd, waker))
        });
        let (number, fd, waker) = made.map_err(|error| connect_exception(py, error))?;
        let (owner, pid) = (std::thread::current().id(), std::process::id());
        Ok(Self { number, owner, pid, fd, waker, is_polled, is_zero_copy })
    }

    /// Whether the connection is open, and this thread's.
    fn is_usable(&self, py: Python<'_>) -> bool {
        self.now(py, |mine| mine.client().map(drop)).is_ok()
    }

    /// A descriptor that is readable when there is something to do: `take` or `drain`.
    fn fileno(&self) -> i32 {
        self.fd
    }

    /// Ends a wait of `take`, from any thread.
    fn wake(&self) -> PyResult<()> {
        self.waker.wake().map_err(PyErr::from)
    }

    fn transport(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.now(py, |mine| Ok(mine.client()?.transport()))
    }

    /// Why it is TCP, where RDMA was asked for and TCP will do.
    fn used_fallback(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.now(py, |mine| Ok(mine.client()?.used_fallback().map(str::to_owned)))
    }

    /// Why the server does not read from publishers now, if so.
    fn blocked(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.now(py, |mine| Ok(mine.client()?.blocked().map(str::to_owned)))
    }

    /// Channels, bytes of a frame, seconds between heartbeats.
    fn tuning(&self, py: Python<'_>) -> PyResult<(u16, u32, u16)> {
        let tuning = self.now(py, |mine| Ok(mine.client()?.tuning()))?;
        Ok((tuning.channel_max, tuning.frame_bytes_max, tuning.heartbeat_s))
    }

    fn server_properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let properties = self.now(py, |mine| Ok(mine.client()?.server_properties().to_bytes()))?;
        dictionary(py, wire::TableRef::new(&properties))
    }

    /// Ends the connection in order. A polled one is asked to; `drop_client` follows its answer.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_polled {
            return self.ask(py, Client::ask_to_close).map(drop);
        }
        let closed = self.waiting(py, |mine| Ok(mine.take().map_or(Ok(()), Client::close)));
        thread_clients::remove(self.owner, self.number);
        closed
    }

    /// Ends the connection at once.
    fn drop_client(&self, py: Python<'_>) -> PyResult<()> {
        self.check(py)?;
        thread_clients::remove(self.owner, self.number);
        Ok(())
    }

    fn open_channel(&self, py: Python<'_>) -> PyResult<Option<ChannelHandle>> {
        Ok(self.ask(py, Client::open_channel)?.map(|channel| ChannelHandle { channel }))
    }

    fn close_channel(&self, py: Python<'_>, channel: &ChannelHandle) -> PyResult<()> {
        self.ask(py, |client| client.close_channel(channel.channel)).map(drop)
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments of the method")]
    fn declare_exchange(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        name: &str,
        kind: &str,
        passive: bool,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let options = ExchangeOptions { passive, durable, auto_delete, internal, arguments: table(arguments)? };
        self.ask(py, |client| client.declare_exchange(channel.channel, name, kind, &options)).map(drop)
    }

    fn delete_exchange(&self, py: Python<'_>, channel: &ChannelHandle, name: &str, if_unused: bool) -> PyResult<()> {
        self.ask(py, |client| client.delete_exchange(channel.channel, name, if_unused)).map(drop)
    }

    /// Binds (or unbinds) an exchange to another one.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the method")]
    fn bind_exchange(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        is_bound: bool,
        destination: &str,
        source: &str,
        routing_key: &str,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let arguments = table(arguments)?;
        let call = if is_bound { Client::bind_exchange } else { Client::unbind_exchange };
        self.ask(py, |client| call(client, channel.channel, destination, source, routing_key, &arguments)).map(drop)
    }

    /// Binds (or unbinds) a queue to an exchange.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the method")]
    fn bind_queue(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        is_bound: bool,
        queue: &str,
        exchange: &str,
        routing_key: &str,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let arguments: Table = table(arguments)?;
        let call = if is_bound { Client::bind_queue } else { Client::unbind_queue };
        self.ask(py, |client| call(client, channel.channel, queue, exchange, routing_key, &arguments)).map(drop)
    }

    /// Name, ready messages, consumers.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the method")]
    fn declare_queue(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        name: &str,
        passive: bool,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<(String, u32, u32)>> {
        let options = QueueOptions { passive, durable, exclusive, auto_delete, arguments: table(arguments)? };
        let declared = self.ask(py, |client| client.declare_queue(channel.channel, name, &options))?;
        Ok(declared.map(|queue| (queue.name, queue.messages, queue.consumers)))
    }

    fn purge_queue(&self, py: Python<'_>, channel: &ChannelHandle, name: &str) -> PyResult<Option<u32>> {
        self.ask(py, |client| client.purge_queue(channel.channel, name))
    }

    fn delete_queue(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> PyResult<Option<u32>> {
        self.ask(py, |client| client.delete_queue(channel.channel, name, if_unused, if_empty))
    }

    fn qos(&self, py: Python<'_>, channel: &ChannelHandle, prefetch: u16, global: bool) -> PyResult<()> {
        self.ask(py, |client| client.qos(channel.channel, prefetch, global)).map(drop)
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments of the method")]
    fn consume(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        queue: &str,
        consumer_tag: String,
        no_ack: bool,
        exclusive: bool,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<String>> {
        let options = ConsumeOptions { consumer_tag, no_ack, exclusive, arguments: table(arguments)? };
        self.ask(py, |client| client.consume(channel.channel, queue, &options))
    }

    fn cancel(&self, py: Python<'_>, channel: &ChannelHandle, consumer_tag: &str) -> PyResult<()> {
        self.ask(py, |client| client.cancel(channel.channel, consumer_tag)).map(drop)
    }

    fn get(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        queue: &str,
        no_ack: bool,
    ) -> PyResult<Option<Py<Delivery>>> {
        let Some(Some(message)) = self.ask(py, |client| client.get(channel.channel, queue, no_ack))? else {
            return Ok(None);
        };
        let delivery = self.now(py, |mine| Ok(Delivery::of_message(py, &mut mine.names, &message)))??;
        Py::new(py, delivery).map(Some)
    }

    fn recover(&self, py: Python<'_>, channel: &ChannelHandle, requeue: bool) -> PyResult<()> {
        self.ask(py, |client| client.recover(channel.channel, requeue)).map(drop)
    }

    fn confirm_select(&self, py: Python<'_>, channel: &ChannelHandle) -> PyResult<()> {
        self.ask(py, |client| client.confirm_select(channel.channel)).map(drop)
    }

    fn tx_select(&self, py: Python<'_>, channel: &ChannelHandle) -> PyResult<()> {
        self.ask(py, |client| client.tx_select(channel.channel)).map(drop)
    }

    fn tx_commit(&self, py: Python<'_>, channel: &ChannelHandle) -> PyResult<()> {
        self.ask(py, |client| client.tx_commit(channel.channel)).map(drop)
    }

    fn tx_rollback(&self, py: Python<'_>, channel: &ChannelHandle) -> PyResult<()> {
        self.ask(py, |client| client.tx_rollback(channel.channel)).map(drop)
    }

    /// Writes a message, and with `flush` sends it. The answer is its tag for confirms, or 0.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the method")]
    fn publish(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        exchange: &str,
        routing_key: &str,
        body: &Bound<'_, PyAny>,
        properties: Option<&BasicProperties>,
        mandatory: bool,
        flush: bool,
    ) -> PyResult<u64> {
        let encoded = properties.map(|properties| properties.encoded(py)).transpose()?;
        let properties = encoded.as_deref().map_or(RawProperties::EMPTY, RawProperties::new);
        let to = Publish { exchange, routing_key, mandatory, properties };
        let tag = self.now(py, |mine| Ok(outgoing_body::publish(mine.client()?, channel.channel, &to, body)))??;
        if flush {
            self.send(py)?;
        }
        Ok(tag)
    }

    /// Writes one message for each body, and sends them. The answer is the tag of the last.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the method")]
    fn publish_many(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        exchange: &str,
        routing_key: &str,
        bodies: &Bound<'_, PyAny>,
        properties: Option<&BasicProperties>,
        mandatory: bool,
    ) -> PyResult<u64> {
        let encoded = properties.map(|properties| properties.encoded(py)).transpose()?;
        let properties = encoded.as_deref().map_or(RawProperties::EMPTY, RawProperties::new);
        let to = Publish { exchange, routing_key, mandatory, properties };
        let mut bodies = bodies.try_iter()?.fuse();
        let (mut tag, mut fault, mut is_over) = (0, None, false);
        while !is_over {
            // The iterator is Python's and may do anything, so the client is not held while it is asked.
            let batch: Vec<_> = bodies.by_ref().take(BATCH_BODIES).collect();
            is_over = batch.len() < BATCH_BODIES;
            let unsent = self.now(py, |mine| {
                let client = mine.client()?;
                for body in batch {
                    match body.and_then(|body| outgoing_body::publish(client, channel.channel, &to, &body)) {
                        Ok(written) => tag = written,
                        Err(error) => {
                            fault = Some(error);
                            is_over = true;
                            break;
                        }
                    }
                }
                Ok(client.unsent_bytes())
            })?;
            if is_over || unsent >= BATCH_BYTES {
                self.send(py)?;
            }
        }
        fault.map_or(Ok(tag), Err)
    }

    fn ack(&self, py: Python<'_>, channel: &ChannelHandle, tag: u64, multiple: bool, flush: bool) -> PyResult<()> {
        self.settle(py, flush, |client| client.ack(channel.channel, DeliveryTag(tag), multiple))
    }

    fn nack(
        &self,
        py: Python<'_>,
        channel: &ChannelHandle,
        tag: u64,
        multiple: bool,
        requeue: bool,
        flush: bool,
    ) -> PyResult<()> {
        self.settle(py, flush, |client| client.nack(channel.channel, DeliveryTag(tag), multiple, requeue))
    }

    fn reject(&self, py: Python<'_>, channel: &ChannelHandle, tag: u64, requeue: bool, flush: bool) -> PyResult<()> {
        self.settle(py, flush, |client| client.reject(channel.channel, DeliveryTag(tag), requeue))
    }

    /// Sends what is written. Says whether everything went: for a polled connection, what its link takes.
    fn flush(&self, py: Python<'_>) -> PyResult<bool> {
        self.send(py)?;
        Ok(self.unsent_bytes(py)? == 0)
    }

    fn unsent_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.now(py, |mine| Ok(mine.client()?.unsent_bytes()))
    }

    /// Waits until at most so many publishes are unconfirmed.
    fn wait_confirms(&self, py: Python<'_>, channel: &ChannelHandle, outstanding_max: u64) -> PyResult<()> {
        self.waiting(py, |mine| Ok(mine.client()?.wait_confirms(channel.channel, outstanding_max).map(drop)))
    }

    /// The tags that were refused since this was asked last.
    fn take_refused(&self, py: Python<'_>, channel: &ChannelHandle) -> PyResult<Vec<u64>> {
        let refused = self.now(py, |mine| Ok(mine.client()?.take_refused(channel.channel)))?;
        refused.map_err(|error| self.fault(py, error))
    }

    /// Every publish up to this tag is confirmed or refused.
    fn confirmed_up_to(&self, py: Python<'_>, channel: &ChannelHandle) -> PyResult<u64> {
        self.now(py, |mine| Ok(mine.client()?.confirmed_up_to(channel.channel)))
    }

    /// Up to `most` deliveries. If there are none it waits once: for the link, a signal, `wake`, or `wait_s`.
    fn take(&self, py: Python<'_>, most: usize, wait_s: f64) -> PyResult<Vec<Py<Delivery>>> {
        self.send(py)?;
        if wait_s <= 0.0 {
            // Takes the edges, so that the descriptor is readable again only for what comes later.
            self.waiting(py, |mine| Ok(mine.wait(Duration::ZERO).map_err(ClientError::from)))?;
            return self.collect(py, most);
        }
        let found = self.collect(py, most)?;
        if !found.is_empty() {
            return Ok(found);
        }
        let wait = seconds(wait_s)?;
        let ended = self.waiting(py, |mine| Ok(mine.wait(wait).map_err(ClientError::from)))?;
        py.check_signals()?;
        if ended == WaitEnd::Signal { Ok(found) } else { self.collect(py, most) }
    }

    /// What has come to a polled connection: all deliveries, without a wait; sends what the link takes. With them, whether
    /// the link has nothing more now.
    fn drain(&self, py: Python<'_>) -> PyResult<(Vec<Py<Delivery>>, bool)> {
        let mut found = Vec::new();
        let outcome = self.now(py, |mine| {
            if let Some(fault) = mine.fault.take() {
                return Ok(Err(fault));
            }
            // Takes the edges, so that the descriptor is readable again only for what comes later.
            let waited = mine.wait(Duration::ZERO);
            let (client, names) = mine.parts()?;
            let summary = client.dispatch_now(|delivery, _| {
                found.push(Delivery::of_delivery(py, names, delivery, self.is_zero_copy));
                Ok(())
            });
            Ok(waited.map_err(ClientError::from).and(summary))
        })?;
        let is_drained = outcome.as_ref().is_ok_and(|summary| summary.drained);
        Ok((self.handed_out(py, found, outcome.map(drop))?, is_drained))
    }

    /// Whether what was asked of a polled connection is answered, and the answer.
    fn take_answer(&self, py: Python<'_>) -> PyResult<(bool, Py<PyAny>)> {
        let answer = self.now(py, |mine| Ok(mine.client()?.take_answer()))?;
        let Some(answer) = answer.map_err(|error| self.fault(py, error))? else { return Ok((false, py.None())) };
        let object = match answer {
            Answer::Done => py.None(),
            Answer::Opened(channel) => Py::new(py, ChannelHandle { channel })?.into_any(),
            Answer::Queue(queue) => {
                (queue.name, queue.messages, queue.consumers).into_pyobject(py)?.into_any().unbind()
            }
            Answer::Messages(count) => count.into_pyobject(py)?.into_any().unbind(),
            Answer::ConsumerTag(tag) => tag.into_pyobject(py)?.into_any().unbind(),
            Answer::Message(message) => {
                let delivery = self.now(py, |mine| Ok(Delivery::of_message(py, &mut mine.names, &message)))??;
                Py::new(py, delivery)?.into_any()
            }
        };
        Ok((true, object))
    }

    /// The messages that came back since this was asked last.
    fn take_returned(&self, py: Python<'_>) -> PyResult<Vec<Py<Delivery>>> {
        let returned = self.now(py, |mine| {
            let (client, names) = mine.parts()?;
            let taken = std::iter::from_fn(|| client.take_returned());
            Ok(taken.map(|returned| Delivery::of_returned(py, names, &returned)).collect::<PyResult<Vec<_>>>())
        })??;
        returned.into_iter().map(|delivery| Py::new(py, delivery)).collect()
    }

    /// The consumers that the server ended since this was asked last: their channel's number, and their tag.
    fn take_cancelled(&self, py: Python<'_>) -> PyResult<Vec<(u16, String)>> {
        self.now(py, |mine| {
            let client = mine.client()?;
            let taken = std::iter::from_fn(|| client.take_cancelled());
            Ok(taken.map(|cancelled| (cancelled.channel.number().0, cancelled.consumer_tag)).collect())
        })
    }

    /// Message memory of so many bytes, to be filled and published.
    fn allocate(&self, py: Python<'_>, bytes: usize) -> PyResult<Block> {
        if bytes > BODY_BYTES_MAX {
            return Err(PyValueError::new_err(format!(
                "a body of {bytes} bytes; at most {BODY_BYTES_MAX} are possible"
            )));
        }
        self.now(py, |mine| Ok(Block::new(mine.client()?.block(bytes))))
    }
}
