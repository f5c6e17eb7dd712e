//! A place of a broker: the broker of the moment, if it is there, and its two clients.
//!
//! Enters: a start, a stop.  Leaves: a broker with a client that takes and one that tells.
//! Owns:   what a broker keeps from one life to the next: its name.
//! Never:  knows what is wanted of it.

use crate::client::{Client, Heard};
use crate::terms::Terms;
use crate::world::World;
use link::sim::{SimConnection, SimSide, SimOptions};
use session::SessionLimits;
use slab::Pool;
use std::collections::BTreeMap;

/// A client of a broker: one connection with one channel.
pub struct Seat {
    /// The client.
    pub client: Client,
    /// Its cable.
    pub cable: SimConnection,
    /// Its channel is open.
    pub is_open: bool,
    /// Questions that were answered.
    pub answers: u64,
    /// Publishes so far.
    pub published: u64,
    /// Of them, those that the broker has not answered for, and their messages.
    pub unconfirmed: BTreeMap<u64, u64>,
    /// Its queues are deleted, and it goes.
    pub is_leaving: bool,
    /// Who it is, of all publishers of a run.
    pub uid: u64,
}

/// Where a broker is.
pub struct Place {
    /// The broker, unless it is away.
    pub world: World,
    /// It is there.
    pub is_up: bool,
    /// How often it has been started.
    pub lives: u32,
    /// The client that declares and consumes.
    pub taker: Option<Seat>,
    /// The client that publishes.
    pub teller: Option<Seat>,
}

impl Place {
    /// A broker that begins.
    pub fn new(terms: &Terms) -> Self {
        Place { world: World::new(terms), is_up: true, lives: 1, taker: None, teller: None }
    }

    /// It comes back with nothing but its name.
    pub fn start(&mut self) {
        self.is_up = true;
        self.lives += 1;
    }

    /// Its process is killed: every connection is reset. `next` is the broker that will come back.
    pub fn stop(&mut self, next: World) {
        for wire in &self.world.wires {
            wire.cable.cut(link::sim::SimCut::Reset);
        }
        self.is_up = false;
        (self.taker, self.teller) = (None, None);
        self.world = next;
    }

    /// Where the client that publishes is (`tells`), or the one that takes.
    pub fn seat_mut(&mut self, tells: bool) -> &mut Option<Seat> {
        if tells { &mut self.teller } else { &mut self.taker }
    }

    /// A client connects.
    pub fn seat(&mut self, options: &SimOptions, limits: SessionLimits, uid: u64, pool: &Pool) -> Seat {
        let (link, wire) = self.world.connect(options);
        let cable = self.world.wires[wire].cable.clone();
        let client = Client::new(link, cable.clone(), limits, pool, self.world.now);
        let unconfirmed = BTreeMap::new();
        Seat { client, cable, is_open: false, answers: 0, published: 0, unconfirmed, is_leaving: false, uid }
    }
}

impl Seat {
    /// Takes in what concerns the connection alone. Answers what else was heard, or what must not be.
    pub fn hear(&mut self, heard: Heard, pool: &Pool) -> Result<Option<Heard>, String> {
        match heard {
            Heard::Opened => _ = self.client.open_channel(pool),
            Heard::ChannelOpened(_) => self.is_open = true,
            Heard::Reply(..) => self.answers += 1,
            Heard::Confirm(_, number, multiple, true) => {
                let waits = self.unconfirmed.contains_key(&number);
                if !waits && (!multiple || number > self.published) {
                    return Err(format!("a confirm of {number}, which was not awaited"));
                }
                self.unconfirmed.retain(|&one, _| if multiple { one > number } else { one != number });
            }
            Heard::Deliver(..) => return Ok(Some(heard)),
            Heard::Blocked | Heard::Unblocked => {}
            Heard::CancelledByBroker(..) | Heard::Over if self.is_leaving => {}
            other => return Err(format!("a client heard {other:?}")),
        }
        Ok(None)
    }

    /// Nothing limits it.
    pub fn let_go(&mut self) {
        self.client.paused = false;
        self.cable.limit_rate(SimSide::Left, None);
        self.cable.limit_rate(SimSide::Right, None);
    }
}
