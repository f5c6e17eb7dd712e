//! The ties of a shard: a table, the next look at them, and those that want to be dialled.
//!
//! Enters: ties.  Leaves: dials.
//! Owns:   their numbers.
//! Never:  does anything to a connection; `federate` does.

use crate::federation_link::FederationLink;
use federation::{Direction, LinkKey};
use std::collections::VecDeque;
use std::time::Instant;

/// A connection that is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dial {
    /// For whom: [`Shard::dialled`](crate::Shard::dialled) wants it back.
    pub tie: u32,
    /// Which try of it.
    pub serial: u64,
    /// The address, as clients write it.
    pub url: Box<str>,
}

/// A link to another broker that stands.
pub struct Dialled {
    /// The link.
    pub link: Box<dyn link::Link>,
    /// As whom to log in.
    pub login: federation::Login,
    /// What must last until the connection is open: the one over which a token was given.
    pub first: Option<Box<dyn std::any::Any + Send>>,
}

/// How far a dial has come on the thread of who dials.
pub enum Reached {
    /// To a link that stands, and whose descriptor tells of both: something to receive, and room to send.
    Link(Dialled),
    /// To the way there, by RDMA: the shard asks for the connection itself, by a port of its own.
    Way(Box<Asked>),
}

/// A connection over RDMA that is to be asked for.
pub struct Asked {
    /// Which card leads there, and where that is.
    pub way: verbs::device::ResolvedRoute,
    /// What is shown there.
    pub token: Option<verbs::RdmaToken>,
    /// As whom to log in.
    pub login: federation::Login,
    /// See [`Dialled::first`].
    pub first: Option<Box<dyn std::any::Any + Send>>,
    /// What will do if it cannot be had.
    pub otherwise: Option<Otherwise>,
}

/// Makes another connection, on some other thread, instead of one that could not be had: why, and whom to tell.
pub type Otherwise = Box<dyn FnOnce(&str, Tell) + Send>;

/// Whom to tell what became of a dial.
pub type Tell = Box<dyn FnOnce(Result<Reached, DialError>) + Send>;

/// Why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DialError {
    /// In words.
    pub text: Box<str>,
    /// It will not be different soon.
    pub is_refusal: bool,
}

/// All ties.
#[derive(Default)]
pub(crate) struct FederationLinks {
    ties: Vec<Option<Box<FederationLink>>>,
    /// Changes, so that an answer to an earlier dial is not taken for one to a later.
    serial: u64,
    pub dials: VecDeque<Dial>,
    next_at: Option<Instant>,
}

impl FederationLinks {
    pub fn get(&mut self, number: u32) -> Option<&mut FederationLink> {
        self.ties.get_mut(number as usize)?.as_deref_mut()
    }

    pub fn find_number(&self, number: u32) -> Option<&FederationLink> {
        self.ties.get(number as usize)?.as_deref()
    }

    pub fn find(&self, key: &LinkKey, direction: Direction) -> Option<u32> {
        let is = |tie: &FederationLink| tie.spec.key == *key && tie.direction == direction && !tie.leaves;
        let found = self.ties.iter().position(|tie| tie.as_deref().is_some_and(is));
        found.map(|number| number as u32)
    }

    pub fn add(&mut self, tie: FederationLink) -> u32 {
        let number = self.ties.iter().position(Option::is_none).unwrap_or_else(|| {
            self.ties.push(None);
            self.ties.len() - 1
        });
        self.ties[number] = Some(Box::new(tie));
        number as u32
    }

    pub fn remove(&mut self, number: u32) {
        if let Some(tie) = self.ties.get_mut(number as usize) {
            *tie = None;
        }
    }

    /// The connection that it has ended is over.
    #[cold]
    pub fn ended(&mut self, number: u32) {
        if let Some(tie) = self.get(number) {
            tie.ending = false;
            if tie.leaves {
                self.remove(number);
            }
        }
        self.plan();
    }

    /// Whether one that was removed is not gone yet, and this one is to be in its place.
    pub fn has_forerunner(&self, number: u32) -> bool {
        let Some(Some(tie)) = self.ties.get(number as usize) else { return false };
        let is =
            |other: &FederationLink| other.leaves && other.direction == tie.direction && other.spec.key == tie.spec.key;
        !tie.leaves && self.iter().any(is)
    }

    pub fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.ties.len() as u32
    }

    pub fn iter(&self) -> impl Iterator<Item = &FederationLink> {
        self.ties.iter().flatten().map(|tie| &**tie)
    }

    /// One more dial.
    pub fn dial(&mut self, number: u32) {
        if let Some(Some(tie)) = self.ties.get_mut(number as usize) {
            self.serial += 1;
            tie.serial = self.serial;
            self.dials.push_back(Dial { tie: number, serial: self.serial, url: tie.spec.url.clone() });
        }
    }

    /// Something has changed: when to look next is found anew.
    pub fn plan(&mut self) {
        self.next_at = self.iter().filter_map(FederationLink::due).min();
    }

    /// When to look next.
    pub fn next_at(&self) -> Option<Instant> {
        self.next_at
    }
}
