//! The gateway as a program: sends random orders on schedule, and receives the engine's answers.
//!
//! At a rate, it neither waits for answers nor delays orders to batch them.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use client::{Client, ClientChannel, ClientOutput, ConsumeOptions, Publish};
use gauge::clock::now_ns;
use gauge::limits::LATE_SEND_NS;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use serde::{Deserialize, Serialize};

use super::blotter::Blotter;
use super::market_address::{MarketAddress, ORDERS, STATISTICS};
use super::market_options::MarketLoad;
use super::program_results::GatewayResults;
use crate::limits::{MARKET_ANSWER_WAIT, MARKET_LOOK, MARKET_UNCONFIRMED_MAX, MARKET_UNSENT_BYTES_MAX};
use harness::interrupt;
use load::limits::SENDS_PER_TURN_MAX;
use load::workload::pacer::{PacerAction, SendPacer};

/// Poll events of the connection and of the timer.
const LINK: Token = Token(0);
const TIMER: Token = Token(1);

/// Parameters of a gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GatewayTask {
    pub place: MarketAddress,
    /// The number of this gateway.
    pub gateway: u16,
    /// Of all gateways together.
    pub load: MarketLoad,
    /// Its own orders a second; `None`: as fast as possible.
    pub rate: Option<f64>,
}

/// The command to start trading.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct GatewayStart {
    pub begin_ns: u64,
}

/// A running gateway.
pub(crate) struct GatewayProgram {
    client: Client,
    channel: ClientChannel,
    poll: Poll,
    timer: TimerFd,
    pacer: SendPacer,
    /// When the timer wakes it, if it is set.
    alarm_ns: u64,
    task: GatewayTask,
    blotter: Blotter,
    /// Orders to send.
    orders: u64,
    /// Nanoseconds from one order to the next.
    gap_ns: f64,
    begin_ns: u64,
    /// Whether the connection may have more input.
    readable: bool,
}

impl GatewayProgram {
    /// Connects.
    pub(crate) fn start(task: GatewayTask) -> Result<Self, String> {
        let poll = Poll::new().map_err(|error| format!("no poll: {error}"))?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)
            .map_err(|error| format!("no timer: {error}"))?;
        poll.registry()
            .register(&mut SourceFd(&timer.as_fd().as_raw_fd()), TIMER, Interest::READABLE)
            .map_err(|error| format!("no timer: {error}"))?;
        let connect = || -> client::Result<(Client, ClientChannel)> {
            // The pacer decides when orders leave, so the client does not batch.
            let (mut client, channel) = task.place.connect(&format!("gateway {}", task.gateway), usize::MAX)?;
            let queue = task.place.queue(&MarketAddress::trades(task.gateway));
            if task.load.confirms {
                client.confirm_select(channel)?;
            }
            client.consume(
                channel,
                &queue,
                &ConsumeOptions { no_ack: !task.load.confirms, exclusive: true, ..ConsumeOptions::default() },
            )?;
            client.register(poll.registry(), LINK)?;
            Ok((client, channel))
        };
        let (client, channel) = connect().map_err(|error| error.to_string())?;
        let orders = task.load.orders_of(task.gateway);
        Ok(Self {
            client,
            channel,
            poll,
            timer,
            pacer: SendPacer::for_rate(task.rate.unwrap_or(f64::MAX)),
            alarm_ns: 0,
            blotter: Blotter::new(&task)?,
            orders,
            gap_ns: task.rate.map_or(0.0, |rate| 1e9 / rate),
            begin_ns: 0,
            readable: true,
            task,
        })
    }

    /// Trades from `begin_ns` on, until everything is answered.
    pub(crate) fn work(mut self, begin_ns: u64) -> Result<GatewayResults, String> {
        self.begin_ns = begin_ns;
        self.blotter.begin(begin_ns);
        let outcome = self.trade();
        // The connection's own error explains more than the fact that it ended.
        outcome?;
        self.blotter.refused(self.client.take_refused(self.channel).map_or(0, |tags| tags.len() as u64));
        self.client.close().map_err(|error| error.to_string())?;
        Ok(self.blotter.into_results())
    }

    fn trade(&mut self) -> Result<(), String> {
        let mut events = Events::with_capacity(16);
        loop {
            if self.readable {
                self.receive_answers().map_err(|error| error.to_string())?;
            }
            self.send().map_err(|error| error.to_string())?;
            let time_ns = now_ns();
            if self.is_finished() || interrupt::requested() {
                break;
            }
            if self.sent() == self.orders
                && time_ns > self.blotter.last_event_ns() + MARKET_ANSWER_WAIT.as_nanos() as u64
            {
                // Missing answers are reported at the end.
                return Ok(());
            }
            let timeout = if self.readable { Duration::ZERO } else { self.pause(time_ns)? };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other.map_err(|error| format!("the poll failed: {error}"))?,
            }
            if events.iter().any(|event| event.token() == TIMER) {
                self.pacer.woke(now_ns());
            }
            let idle = events.is_empty() && timeout == MARKET_LOOK;
            self.readable |= idle || events.iter().any(|event| event.token() == LINK);
        }
        if interrupt::requested() && !self.is_finished() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        Ok(())
    }

    fn sent(&self) -> u64 {
        self.blotter.sent()
    }

    fn is_finished(&self) -> bool {
        self.sent() == self.orders
            && self.blotter.is_settled()
            && self.client.unsent_bytes() == 0
            && (!self.task.load.confirms || self.client.outstanding(self.channel) == 0)
    }

    /// When the next order is due.
    fn due_ns(&self) -> u64 {
        // A double has 53 bits: far beyond any run's nanoseconds.
        self.begin_ns + (self.sent() as f64 * self.gap_ns) as u64
    }

    /// Whether another order may be written.
    fn has_capacity(&self) -> bool {
        let MarketLoad { confirms, window, .. } = self.task.load;
        self.client.unsent_bytes() < MARKET_UNSENT_BYTES_MAX
            && self.blotter.has_capacity()
            && (!confirms || self.client.outstanding(self.channel) < MARKET_UNCONFIRMED_MAX)
            && (self.task.rate.is_some() || self.blotter.open() < window)
    }

    /// Sends every order that is due.
    fn send(&mut self) -> client::Result<()> {
        let mut time_ns = now_ns();
        let mut count = 0;
        let key = Publish::to(&self.task.place.name, ORDERS);
        while self.sent() < self.orders && count < SENDS_PER_TURN_MAX && self.due_ns() <= time_ns && self.has_capacity()
        {
            let due_ns = if self.task.rate.is_some() { self.due_ns() } else { time_ns };
            let late = time_ns - due_ns > LATE_SEND_NS;
            let order = self.blotter.order(due_ns, time_ns, late);
            self.client.publish(self.channel, &key, &order)?;
            count += 1;
            if count % 16 == 0 {
                time_ns = now_ns();
            }
        }
        if count > 0 && self.sent() == self.orders {
            let end = self.blotter.end();
            self.client.publish(self.channel, &key, &end)?;
        }
        self.client.flush_now().map(drop)
    }

    /// How long to wait for the next order's time, or for input.
    fn pause(&mut self, time_ns: u64) -> Result<Duration, String> {
        if self.sent() == self.orders || !self.has_capacity() {
            return Ok(MARKET_LOOK);
        }
        let due_ns = self.due_ns();
        Ok(match self.pacer.step(time_ns, due_ns) {
            PacerAction::Spin | PacerAction::Send => Duration::ZERO,
            PacerAction::Sleep(until_ns) => {
                // An answer that arrives before the timer leaves it set.
                if self.alarm_ns != until_ns || until_ns <= time_ns {
                    self.alarm_ns = until_ns;
                    let at = TimeSpec::from_duration(Duration::from_nanos(until_ns.max(1)));
                    self.timer
                        .set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
                        .map_err(|error| format!("the timer cannot be set: {error}"))?;
                }
                MARKET_LOOK
            }
        })
    }

    /// Handles all answers that have arrived.
    fn receive_answers(&mut self) -> client::Result<()> {
        let (blotter, task) = (&mut self.blotter, &self.task);
        let mut last = None;
        let came = self.client.dispatch_now(|delivery, output: &mut ClientOutput<'_>| {
            if let Some(sample) = blotter.on_message(delivery.body(), now_ns()) {
                output.publish(delivery.channel, &Publish::to(&task.place.name, STATISTICS), sample)?;
            }
            last = Some(delivery.delivery_tag);
            Ok(())
        })?;
        self.readable = !came.drained;
        if let (true, Some(tag)) = (self.task.load.confirms, last) {
            self.client.ack(self.channel, tag, true)?;
        }
        Ok(())
    }
}
