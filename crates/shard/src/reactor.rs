//! The reactor: one thread that waits for readiness and ticks its shard.
//!
//! Enters: events of the poll, links accepted elsewhere.  Leaves: ticks.
//! Owns:   the poll, the listeners (on the first shard), the thread's sleep.
//! Never:  looks into a byte.

use crate::household::Household;
use crate::limits::{LOOK_UP, ROUNDS_WITHOUT_POLL_MAX};
use crate::mail::Doorbell;
use crate::ports::Ports;
use crate::rdma::RdmaPoll;
use crate::shard::{Shard, Work};
use crate::spin::Spin;
use crate::ties::{Dial, DialError, Reached, Tell};
use crate::vigil::Vigil;
use broker::{ReplyAddress, ConnectionSlot};
use catalog::{Catalog, Definition, Refusal};
use federation::{LinkStatus, Order};
use link::{Abort, Link, Listeners};
use mio::{Events, Poll, Token};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use verbs::limits::DEADLINES_EVERY;

/// The token of the doorbell.
pub(crate) const BELL: Token = Token(usize::MAX);
/// Listeners count down from here.
const LISTENERS: usize = usize::MAX - 1;
/// Descriptors of RDMA devices.
pub(crate) const PORTS: Token = Token(LISTENERS - 1024);
/// Those of them that tell of rare events.
pub(crate) const NEWS: Token = Token(LISTENERS - 1025);
/// Events taken from the poll at once.
const EVENTS: usize = 1024;

/// How links reach their shards: shard 0 accepts, and hands each to the shard with the fewest.
pub(crate) struct Front {
    pub listeners: Listeners,
    pub shards: Vec<Door>,
}

/// What comes to a shard from outside its own connections and mail.
pub(crate) enum Arrival {
    /// A link that a client opened.
    Link(Box<dyn Link>),
    /// Changes that an operator makes (to shard 0), and where the refusals go.
    Definitions(Vec<Definition>, Sender<Vec<Refusal>>),
    /// An operator looks at the definitions (at shard 0).
    Look(Box<dyn FnOnce(&Catalog) + Send>),
    /// The answer to an administrative request.
    Answer { to: ReplyAddress, properties: Vec<u8>, body: Vec<u8> },
    /// A change of links and routes, and whom to tell that it is taken.
    Federate(Order, Sender<()>),
    /// An operator looks at the links of this shard.
    Links(Sender<Vec<LinkStatus>>),
    /// What became of a dial.
    Dialled(Dial, Result<Reached, DialError>),
}

/// Makes connections to other brokers.
pub trait Dialler: Send + Sync {
    /// Connects to an address as clients write it, on some other thread, and tells what became of it.
    fn dial(&self, url: &str, tell: Tell);
}

/// The way to a shard, and its doorbell.
pub(crate) type Door = (Sender<Arrival>, Arc<Doorbell>);

pub(crate) struct Reactor {
    pub shard: Shard,
    pub id: u16,
    pub poll: Poll,
    pub front: Option<Front>,
    pub incoming: Receiver<Arrival>,
    pub bell: Arc<Doorbell>,
    pub household: Arc<Household>,
    pub spin: Spin,
    /// The same while there are connections over RDMA.
    pub ports_spin: Spin,
    /// Whether processors may sleep.
    pub vigil: Vigil,
    pub drain_timeout: Duration,
    /// Who makes connections to other brokers.
    pub dialler: Option<Arc<dyn Dialler>>,
    /// The way to this shard itself.
    pub door: Door,
    pub ports: Ports,
    /// Rounds since the poll was asked last, while ports kept the shard busy.
    pub rounds_without_poll: u32,
}

impl Reactor {
    /// Runs until the broker stops and its connections are gone, or the time for that is over.
    #[expect(clippy::disallowed_methods, reason = "the reactor is where time enters")]
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut accept_again = self.register_listeners()?;
        self.ports.register(self.poll.registry())?;
        let mut stop_at: Option<Instant> = None;
        loop {
            let now = Instant::now();
            while let Ok(arrival) = self.incoming.try_recv() {
                match arrival {
                    Arrival::Link(link) => self.adopt(link, now),
                    Arrival::Definitions(definitions, refused) => {
                        // An operator who has gone does not mind.
                        let _heard = refused.send(self.shard.operate(definitions, now));
                    }
                    Arrival::Look(look) => look(self.shard.broker().catalog()),
                    Arrival::Answer { to, properties, body } => self.shard.answer(to, &properties, &body, now),
                    Arrival::Federate(order, taken) => {
                        self.shard.federate(order, now);
                        let _heard = taken.send(());
                    }
                    Arrival::Links(seen) => {
                        let _heard = seen.send(self.shard.links(now));
                    }
                    Arrival::Dialled(dial, outcome) => self.dialled(dial, outcome, now),
                }
            }
            if accept_again {
                accept_again = self.accept(now);
            }
            let ports_came = !self.ports.is_empty() && self.ports.look(&mut self.shard, &self.household, now);
            if self.household.is_stopping() {
                self.front = None;
                self.ports.stop();
                self.shard.drain(now);
                let stop_at = *stop_at.get_or_insert(now + self.drain_timeout);
                // Connections over RDMA that the shard has let go say their last words yet.
                let over = self.household.connections() == 0 && self.ports.connections() == 0;
                if over || now >= stop_at {
                    self.shard.tick(now);
                    self.shard.note_copied();
                    self.ports.counters().into_iter().for_each(|counters| self.household.note_ports(counters));
                    return Ok(());
                }
            }
            let work = self.shard.tick(now);
            while let Some(dial) = self.shard.next_dial() {
                self.dial(dial, now);
            }
            let mut wait = match work {
                Work::More => Some(Duration::ZERO),
                Work::Idle { until } => until.map(|until| until.saturating_duration_since(now)),
            };
            let counters = self.shard.broker().counters();
            if let Some(until) = self.vigil.look(counters.published + counters.delivered, now) {
                wait = Some(wait.unwrap_or(Duration::MAX).min(until.saturating_duration_since(now)));
            }
            if accept_again || stop_at.is_some() || self.household.is_stopping() {
                wait = Some(wait.unwrap_or(LOOK_UP).min(LOOK_UP));
            }
            if self.ports.is_empty() {
                self.wait(&mut events, wait)?;
            } else {
                self.ports.flush(self.poll.registry(), &self.household);
                self.wait_for_ports_too(&mut events, wait, ports_came)?;
            }
            for event in &events {
                match event.token() {
                    // Whoever is awake looks at all ports.
                    BELL | PORTS => {}
                    NEWS => self.ports.heed_news(),
                    Token(token) if token > LISTENERS - 1024 => accept_again = true,
                    Token(slot) => {
                        let closed = event.is_read_closed() || event.is_error();
                        self.shard.edge(slot as u32, event.is_readable(), event.is_writable(), closed);
                    }
                }
            }
        }
    }

    /// Waits for events: spinning first while that pays, sleeping then.
    #[expect(clippy::disallowed_methods, reason = "the reactor is where time enters")]
    fn wait(&mut self, events: &mut Events, wait: Option<Duration>) -> io::Result<()> {
        if wait == Some(Duration::ZERO) {
            return poll(&mut self.poll, events, wait);
        }
        if !self.spin.is_on() {
            return self.sleep(events, wait);
        }
        let began = Instant::now();
        let window = self.spin.window();
        while began.elapsed() < window {
            poll(&mut self.poll, events, Some(Duration::ZERO))?;
            if !events.is_empty() || self.shard.has_mail() {
                self.spin.waited(began.elapsed());
                return Ok(());
            }
        }
        self.sleep(events, wait)?;
        self.spin.waited(began.elapsed());
        Ok(())
    }

    /// Waits for events without looking for them.
    fn sleep(&mut self, events: &mut Events, wait: Option<Duration>) -> io::Result<()> {
        self.bell.will_sleep();
        let wait = if self.shard.has_mail() { Some(Duration::ZERO) } else { wait };
        let outcome = poll(&mut self.poll, events, wait);
        self.bell.is_awake();
        outcome
    }

    /// Waits for events and for what devices tell: looking first as long as that is wanted, sleeping then.
    #[expect(clippy::disallowed_methods, reason = "the reactor is where time enters")]
    fn wait_for_ports_too(&mut self, events: &mut Events, wait: Option<Duration>, ports_came: bool) -> io::Result<()> {
        events.clear();
        self.rounds_without_poll += 1;
        let is_soon = wait == Some(Duration::ZERO);
        if is_soon && ports_came && self.rounds_without_poll < ROUNDS_WITHOUT_POLL_MAX {
            return Ok(());
        }
        self.rounds_without_poll = 0;
        if is_soon {
            return poll(&mut self.poll, events, wait);
        }
        // Deadlines of connections are looked at even if nobody says anything.
        let has_connections = self.ports.connections() > 0;
        let wait = if has_connections { Some(wait.unwrap_or(DEADLINES_EVERY).min(DEADLINES_EVERY)) } else { wait };
        let longest = wait.unwrap_or(Duration::MAX);
        let spin = if has_connections { &mut self.ports_spin } else { &mut self.spin };
        let began = Instant::now();
        let window = match self.ports.how() {
            RdmaPoll::Busy if has_connections => longest,
            RdmaPoll::Event if has_connections => Duration::ZERO,
            _ => spin.window().min(longest),
        };
        let mut looks: u32 = 0;
        loop {
            let waited = began.elapsed();
            if waited >= window {
                break;
            }
            let came = self.ports.look(&mut self.shard, &self.household, began + waited);
            self.ports.flush(self.poll.registry(), &self.household);
            if looks.is_multiple_of(ROUNDS_WITHOUT_POLL_MAX) {
                poll(&mut self.poll, events, Some(Duration::ZERO))?;
            }
            if came || !events.is_empty() || self.shard.has_mail() {
                spin.waited(began.elapsed());
                return Ok(());
            }
            looks += 1;
            // A device of software needs a core as well, and there may be few.
            std::thread::yield_now();
        }
        if self.ports.how() == RdmaPoll::Busy && has_connections {
            return Ok(());
        }
        self.bell.will_sleep();
        let now = began + began.elapsed();
        let rests = self.ports.may_sleep(&mut self.shard, &self.household, self.poll.registry(), now);
        let wait = if !rests || self.shard.has_mail() { Some(Duration::ZERO) } else { wait };
        let outcome = poll(&mut self.poll, events, wait);
        self.bell.is_awake();
        spin.waited(began.elapsed());
        outcome
    }

    fn register_listeners(&mut self) -> io::Result<bool> {
        let Some(front) = &mut self.front else { return Ok(false) };
        front.listeners.register(self.poll.registry(), Token(LISTENERS))?;
        Ok(true)
    }

    /// Accepts what waits. Answers whether to try again later: the system had no room for another connection.
    fn accept(&mut self, now: Instant) -> bool {
        let Some(Front { listeners, shards }) = &mut self.front else { return false };
        let mut mine = Vec::new();
        let mut again = false;
        listeners.accept(|found| match found {
            Ok(mut link) => match self.household.place_connection() {
                Some(shard) if shard == self.id => mine.push(link),
                Some(shard) => {
                    let (sender, bell) = &shards[shard as usize];
                    if sender.send(Arrival::Link(link)).is_ok() {
                        bell.wake();
                    }
                }
                None => {
                    tracing::warn!(peer = &*link.peer().address, "too many connections: one more is refused");
                    link.abort(Abort::Limit);
                }
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                again = true;
            }
        });
        for link in mine {
            self.adopt(link, now);
        }
        again
    }

    fn adopt(&mut self, link: Box<dyn Link>, now: Instant) {
        let slot = self.shard.accept(link, now);
        self.register(slot, now);
    }

    /// Has a connection made by whoever dials here, who tells this shard what became of it.
    fn dial(&mut self, dial: Dial, now: Instant) {
        let Some(dialler) = &self.dialler else {
            let error = DialError { text: "this broker dials nobody".into(), is_refusal: true };
            self.shard.dialled(&dial, Err(error), now);
            return;
        };
        let url = dial.url.clone();
        dialler.dial(&url, self.teller(dial));
    }

    /// Tells this shard what became of a dial, from any thread.
    fn teller(&self, dial: Dial) -> Tell {
        let (sender, bell) = self.door.clone();
        Box::new(move |outcome| {
            // A shard that has ended needs no connection.
            if sender.send(Arrival::Dialled(dial, outcome)).is_ok() {
                bell.wake();
            }
        })
    }

    fn dialled(&mut self, dial: Dial, outcome: Result<Reached, DialError>, now: Instant) {
        let outcome = match outcome {
            Ok(Reached::Way(asked)) => {
                let tell = self.teller(dial.clone());
                return self.ports.ask(dial, *asked, tell, &self.household, self.poll.registry());
            }
            Ok(Reached::Link(dialled)) => Ok(dialled),
            Err(error) => Err(error),
        };
        if let Some(slot) = self.shard.dialled(&dial, outcome, now) {
            self.register(slot, now);
        }
    }

    fn register(&mut self, slot: ConnectionSlot, now: Instant) {
        let registered = self.shard.link(slot).map(|link| link.register(self.poll.registry(), Token(slot as usize)));
        if let Some(Err(error)) = registered {
            tracing::warn!(%error, "cannot wait for a new connection");
            self.shard.give_up(slot, now);
        }
    }
}

/// One wait; a signal is no reason to end.
fn poll(poll: &mut Poll, events: &mut Events, wait: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, wait) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        outcome => outcome,
    }
}
