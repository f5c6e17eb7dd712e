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

pub mod order_book;
mod checksum;
mod matching_engine;
mod order_flow;
mod messages;
mod gateway_ledger;
pub mod limits;
mod order_id;
mod outstanding_orders;
mod price_set;
mod resting_orders;
mod sample;
mod sequence;
mod display;
mod terms;

pub use checksum::{TradesChecksum, OrdersChecksum};
pub use matching_engine::{MessageSink, EngineCounts, MatchingEngine, JournalError, EngineRules, InputOutcome, Recipient};
pub use order_flow::{OrderFlow, OrderFlowRules};
pub use messages::{OrderConfirmation, EncodedMessage, EndOfStream, MalformedMessage, MarketMessage, ORDER_BYTES, NewOrder, Quote, OrderReject, Trade};
pub use gateway_ledger::SequenceGap;
pub use order_id::OrderId;
pub use outstanding_orders::{GatewayEvent, OutstandingOrders};
pub use sample::{SampleSource, MarketSample};
pub use sequence::ShortSequence;
pub use terms::{GatewayId, Lots, Matching, RejectReason, OrderSide, Symbol, Ticks};
