//! The figures in the text of the 2008 paper (sections 5.2 and 5.3, Table 1), each in the paper's unit. Figures from
//! drawings are not included.

/// The paper's rates, in orders a second.
pub(super) const RATES: &str = "1000,2000,4000,6000,8000";
/// Above this rate the paper's program failed.
pub(super) const RATE_MAX: f64 = 8_000.0;
/// Mean completion over IPoIB at that rate, in microseconds, without Nagle's algorithm at the broker.
pub(super) const COMPLETION_US: f64 = 9_300.0;

/// Printed above a sweep.
pub(super) const ABOUT: [&str; 2] = [
    "the paper: Qpid on four hosts of 2008; full measurements up to 8,000 orders/s, above that the program failed; over IPoIB at 8,000:",
    "completion 9,300 us on the mean, 7,000 us with Nagle's algorithm at the broker; CPU below 35 % on every host. Its other figures are drawings.",
];

/// A row of Table 1: 1,000,000 orders, captured at the broker.
pub(super) struct PacketRow {
    pub nagle: bool,
    pub rate: f64,
    pub packets: u64,
    pub packet_bytes: u64,
    pub gap_us: u64,
}

/// Orders of each run of Table 1.
pub(super) const ORDERS: u64 = 1_000_000;
pub(super) const PACKETS: [PacketRow; 4] = [
    PacketRow { nagle: false, rate: 1_000.0, packets: 5_097_597, packet_bytes: 159, gap_us: 196 },
    PacketRow { nagle: false, rate: 8_000.0, packets: 4_775_966, packet_bytes: 170, gap_us: 26 },
    PacketRow { nagle: true, rate: 1_000.0, packets: 2_269_111, packet_bytes: 359, gap_us: 440 },
    PacketRow { nagle: true, rate: 8_000.0, packets: 2_277_870, packet_bytes: 358, gap_us: 55 },
];

/// The paper's mean completion at a rate, as in tables.
pub(super) fn completion(rate: Option<f64>) -> String {
    match rate {
        Some(rate) if rate == RATE_MAX => format!("{COMPLETION_US:.0} us"),
        Some(rate) if rate < RATE_MAX => "-".to_owned(),
        _ => "failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_ends_at_its_highest_rate() {
        assert_eq!(completion(Some(4_000.0)), "-");
        assert_eq!(completion(Some(8_000.0)), "9300 us");
        assert_eq!((completion(Some(80_000.0)), completion(None)), ("failed".to_owned(), "failed".to_owned()));
        assert!(RATES.split(',').filter_map(|rate| rate.parse().ok()).all(|rate: f64| rate <= RATE_MAX));
    }

    #[test]
    fn the_rows_of_table_1_agree_with_themselves() {
        for PacketRow { rate, packets, gap_us, .. } in PACKETS {
            let elapsed_us = ORDERS as f64 / rate * 1e6;
            let gap = elapsed_us / packets as f64;
            assert!((gap - gap_us as f64).abs() < 2.0, "{packets}: {gap}");
        }
    }
}
