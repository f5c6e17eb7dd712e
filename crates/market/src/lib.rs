//! A stock exchange without its wires: what gateways and a matching engine say to one another, and what they decide.
//!
//! Enters: messages as bytes, seeds, nanoseconds that somebody else has read.  Leaves: messages, and to whom they go.
//! Owns:   the layout of messages, the order books, who has been answered, the random orders, the checksums.
//! Never:  reads a clock, opens a file or a socket, knows a broker.
//!
//! A gateway takes orders from [`Flow`], numbers and remembers them with [`Outstanding`] and sends what [`Message::encode`] gives. The
//! engine hands each message to [`Engine::take`], writes it into its journal when [`Taken::is_journaled`] says so, and only then sends
//! what came out. What is in the journal builds the same engine again by [`Engine::replay`].
#![forbid(unsafe_code)]

pub mod book;
mod checksum;
mod engine;
mod flow;
mod layout;
mod ledger;
pub mod limits;
mod order_id;
mod outstanding;
mod prices;
mod resting;
mod sample;
mod sequence;
mod show;
mod terms;

pub use checksum::{Checksum, OrdersChecksum};
pub use engine::{Answers, Counts, Engine, NotAJournal, Rules, Taken, To};
pub use flow::{Flow, FlowRules};
pub use layout::{Confirmation, Encoded, End, Malformed, Message, ORDER_BYTES, Order, Quote, Reject, Trade};
pub use ledger::Gap;
pub use order_id::OrderId;
pub use outstanding::{Heard, Outstanding};
pub use sample::{Role, Sample};
pub use sequence::Short;
pub use terms::{Gateway, Lots, Matching, Reason, Side, Symbol, Ticks};
