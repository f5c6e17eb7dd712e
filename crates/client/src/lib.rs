//! A small AMQP 0-9-1 client for programs: blocking or polled, on the project's own codec and session.
//!
//! Enters: an address, messages.  Leaves: deliveries, borrowed from the receive buffer; confirms; refusals.
//! Owns:   one connection a `Client`, on one thread.
//!
//! ```no_run
//! use std::time::Duration;
//! use client::{Client, ConsumeOptions, Publish, QueueOptions};
//!
//! let mut client = Client::connect("amqp://guest:guest@127.0.0.1:5672/%2F")?;
//! let channel = client.open_channel()?;
//! let queue = client.declare_queue(channel, "", &QueueOptions { exclusive: true, ..QueueOptions::default() })?;
//! client.consume(channel, &queue.name, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
//! client.publish(channel, &Publish::to("", &queue.name), b"hello")?;
//! if let Some(delivery) = client.next_delivery(Duration::from_secs(1))? {
//!     assert_eq!(delivery.body(), b"hello");
//! }
//! client.close()?;
//! # Ok::<(), client::ClientError>(())
//! ```
//!
//! The runnable examples show each use: `hello`, `confirms`, `consumer` (with acknowledgements), `polled`.
//!
//! **Sending.** `publish`, `ack` and their kin write; bytes leave when `Options::flush_bytes` are written, at `flush`,
//! and whenever a call waits. A sender that finds the link full reads meanwhile, so client and broker never wait for
//! each other. A program that sends the same again and again cans it (`can`, `publish_canned`): a load generator.
//!
//! **Receiving.** `next_delivery` shows one delivery at a time, `dispatch` hands all that came to a closure that may
//! answer at once. Bodies below 32 KiB are views of the receive buffer; larger ones come in memory of their own, which
//! can be kept or published again without a copy.
#![forbid(unsafe_code)]

mod answer;
mod buffer;
mod buffered_delivery;
mod calls;
mod channel;
mod client;
mod clock;
mod confirms;
mod dial;
mod error;
pub mod limits;
mod link_watch;
mod message;
mod options;
mod output;
pub mod peer;
mod polled;
mod prepared_batch;
mod pump;
mod rdma;
mod state;
mod url;
mod wait_deadline;

pub use answer::Answer;
pub use calls::{ConsumeOptions, ExchangeOptions, QueueDeclared, QueueOptions};
pub use channel::ClientChannel;
pub use client::Client;
pub use dial::{DialPlan, DialledLink, RdmaDialRequest, dial, prepare};
pub use error::{ClientError, Result};
pub use link::SocketOptions;
pub use link_watch::{LinkWatch, WaitEnd};
pub use message::{Delivery, ReceivedMessage, Returned};
pub use options::{ConnectOptions, InterruptCheck};
pub use output::{ClientOutput, Publish};
pub use prepared_batch::PreparedBatch;
pub use pump::DispatchSummary;
pub use rdma::{CarrierPass, DeviceFinder, RdmaOptions};
pub use session::Capabilities;
pub use slab::{BlockMut, Slice};
pub use state::Cancelled;
pub use url::{TlsFiles, Url};
pub use wire::{DeliveryTag, Properties, RawProperties, Table, Value};
