//! The counters of a port, each with its name in metrics: the one list of them.

/// `field: "name": "what it counts";`.
macro_rules! counters {
    ($($field:ident: $name:literal: $counts:literal;)+) => {
        /// Counters of a port since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PortCounters {
            $(#[doc = concat!($counts, ".")] pub $field: u64,)+
        }

        impl PortCounters {
            /// Each with its name and what it counts.
            pub fn named(&self) -> impl Iterator<Item = NamedCounter> {
                [$(NamedCounter { name: $name, counts: $counts, value: self.$field },)+].into_iter()
            }
        }

        impl std::ops::AddAssign for PortCounters {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

/// One of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedCounter {
    /// A word of metrics: lower case, with underscores.
    pub name: &'static str,
    pub counts: &'static str,
    pub value: u64,
}

counters! {
    doorbells: "doorbells": "Lists of work requests posted to send queues";
    receive_doorbells: "receive_doorbells": "Lists of buffers posted to receive queues";
    messages_sent: "messages_sent": "Messages sent over RDMA";
    messages_received: "messages_received": "Messages received over RDMA";
    reads: "reads": "RDMA READs issued";
    signalled: "completions": "Completions of signalled sends and of READs";
    copied_bytes: "copied_bytes": "Bytes copied out of receive buffers and landing blocks";
    placed_bytes: "placed_bytes": "Bytes read from peers straight into lent memory";
    landed_bytes: "landed_bytes": "Bytes read from peers into landing blocks, because no memory was lent";
    offers: "rendezvous_offers": "Rendezvous offered to peers";
    offered_bytes: "rendezvous_offered_bytes": "Bytes offered to peers by rendezvous";
    large_sent_bytes: "large_sent_bytes":
        "Bytes of bodies above the threshold that were sent without a rendezvous, because a limit of grants was reached";
    faults: "faults": "RDMA connections that failed";
    refusals: "refusals": "Requests for RDMA connections that were refused";
}

#[cfg(test)]
mod tests {
    use super::PortCounters;

    #[test]
    fn counters_add_up_and_have_names_of_their_own() {
        let mut sum = PortCounters { doorbells: 1, refusals: 2, ..PortCounters::default() };
        sum += PortCounters { doorbells: 10, signalled: 5, ..PortCounters::default() };
        let named: Vec<_> = sum.named().collect();
        let value = |name: &str| named.iter().find(|counter| counter.name == name).map(|counter| counter.value);
        assert_eq!(["doorbells", "completions", "refusals", "reads"].map(value), [11, 5, 2, 0].map(Some));
        let names: std::collections::HashSet<_> = named.iter().map(|counter| counter.name).collect();
        assert!(names.len() == named.len() && names.iter().all(|name| !name.contains(' ')));
    }
}
