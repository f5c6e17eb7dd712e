//! Trees of brokers, as the 2009 paper writes them: `B-2B-4B-16C`.
//!
//! Enters: a notation; who sends to whom.  Leaves: brokers, consumers, who is below whom, the routes that make it so; second paths.
//! Owns:   the notation, the numbering of a tree's nodes, what a second path between two brokers is, and whether one message may
//!         go by two keys.
//! Never:  knows an address, starts anything, measures.
//!
//! `B-2B-4B-16C` is a root, two brokers under it, four under those (two each) and sixteen consumers (four on each of the four).
//! The number at a level is how many that whole level has. Where it does not divide evenly among the level above, the first
//! brokers there have one more below them than the others: `B-3B-16C` has leaves with 6, 5 and 5. The publisher is at the root.
#![forbid(unsafe_code)]

pub mod limits;
mod notation;
mod key_matching;
mod broker_graph;
mod tree;

pub use notation::TreeParseError;
pub use key_matching::{KeyMatching, patterns_overlap};
pub use broker_graph::{BrokerGraph, ParallelPaths};
pub use tree::{TreeBroker, DegreeRange, TreeRoute, Tree};
