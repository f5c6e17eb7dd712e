//! Capabilities: what a peer says it understands beyond the specification.
//!
//! Enters: a peer's properties.  Leaves: a set of bits.
//! Owns:   the names (RabbitMQ extension, the table `capabilities` in client and server properties).

use wire::{Table, TableRef, Value, ValueRef};

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u16);

macro_rules! capabilities {
    ($( $(#[$doc:meta])* $bit:literal $constant:ident = $name:literal, )*) => {
        impl Capabilities {
            $( $(#[$doc])* pub const $constant: Self = Self(1 << $bit); )*
            const NAMES: &'static [(Self, &'static str)] = &[ $( (Self::$constant, $name), )* ];
        }
    };
}

capabilities! {
    /// Wants `connection.close` when a login fails, not a closed socket.
    0 AUTHENTICATION_FAILURE_CLOSE = "authentication_failure_close",
    /// Wants `connection.blocked`.
    1 CONNECTION_BLOCKED = "connection.blocked",
    /// Wants `basic.cancel` when its consumer's queue goes.
    2 CONSUMER_CANCEL_NOTIFY = "consumer_cancel_notify",
    /// Understands `basic.nack`.
    3 BASIC_NACK = "basic.nack",
    /// Understands confirms.
    4 PUBLISHER_CONFIRMS = "publisher_confirms",
    /// Understands bindings between exchanges.
    5 EXCHANGE_EXCHANGE_BINDINGS = "exchange_exchange_bindings",
    /// Understands consumer priorities.
    6 CONSUMER_PRIORITIES = "consumer_priorities",
    /// Understands prefetch limits per consumer.
    7 PER_CONSUMER_QOS = "per_consumer_qos",
    /// Will come again over RDMA, by the token that it was greeted with (Harrier extension).
    8 RDMA_TOKEN = "harrier.rdma_token",
    /// Will bring somebody over RDMA by the token that it was greeted with, who logs in by himself (Harrier extension).
    9 RDMA_CARRIER = "harrier.rdma_carrier",
}

impl Capabilities {
    /// Those in a peer's properties.
    pub fn of(properties: TableRef<'_>) -> Self {
        let Some(table) = properties.get("capabilities").and_then(ValueRef::as_table) else {
            return Self::default();
        };
        let claimed = |name: &str| table.get(name).and_then(ValueRef::as_bool) == Some(true);
        Self::NAMES.iter().filter(|(_, name)| claimed(name)).fold(Self::default(), |all, (one, _)| all.with(*one))
    }

    /// Both together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// As the value of `capabilities` in properties.
    pub fn to_table(self) -> Table {
        Self::NAMES
            .iter()
            .filter(|(one, _)| self.has(*one))
            .map(|(_, name)| (wire::ShortStr::literal(name).to_owned(), Value::Bool(true)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Capabilities;
    use wire::{Table, TableRef, Value};

    #[test]
    fn a_set_survives_the_wire_and_false_is_not_there() {
        let set = Capabilities::BASIC_NACK.with(Capabilities::CONNECTION_BLOCKED);
        let capabilities = set.to_table().with("basic.qos", Value::Bool(false)).expect("a short name");
        let properties =
            Table::new().with("capabilities", Value::Table(capabilities)).expect("a short name").to_bytes();
        assert_eq!(Capabilities::of(TableRef::new(&properties)), set);
        assert_eq!(Capabilities::of(TableRef::new(&[])), Capabilities::default());
        assert!(set.has(Capabilities::BASIC_NACK) && !set.has(Capabilities::PUBLISHER_CONFIRMS));
    }
}
