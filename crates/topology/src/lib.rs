//! Trees of brokers in the notation of the 2009 paper (`B-2B-4B-16C`), and second paths in graphs of brokers.
//!
//! `B-2B-4B-16C` is a root, two brokers below it, four below those (two each) and sixteen consumers (four on each of
//! the four). The number at a level counts the whole level. If it does not divide evenly among the level above, the
//! first brokers there have one child more than the others: `B-3B-16C` has leaves with 6, 5 and 5 consumers. The
//! publisher is at the root.
#![forbid(unsafe_code)]

mod broker_graph;
mod key_matching;
pub mod limits;
mod notation;
mod tree;

pub use broker_graph::{BrokerGraph, ParallelPaths};
pub use key_matching::{KeyMatching, patterns_overlap};
pub use notation::TreeParseError;
pub use tree::{DegreeRange, Tree, TreeBroker, TreeRoute};
