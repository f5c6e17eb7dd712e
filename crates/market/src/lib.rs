//! A stock exchange without I/O: messages of gateways and of the matching engine, order books, and random orders.
//!
//! A gateway takes orders from [`OrderFlow`], numbers and remembers them with [`OutstandingOrders`] and sends the bytes
//! of [`MarketMessage::encode`]. The engine passes each message to [`MatchingEngine::process`], writes it into its
//! journal if [`InputOutcome::is_journaled`] is true, and only then sends the resulting messages.
//! [`MatchingEngine::replay`] rebuilds the same engine from the journal.
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
