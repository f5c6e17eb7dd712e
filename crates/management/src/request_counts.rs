//! Requests of the API: how many, how long they take, and what metrics cost.

use crate::time_counts::TimeCounts;
use std::time::Duration;

/// Classes of times but the last, in microseconds.
const BOUNDS_US: [u64; 9] = [100, 400, 1_600, 6_400, 25_600, 102_400, 409_600, 1_638_400, 6_553_600];

/// Counts since the start of the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestCounts {
    /// By the first digit of the status.
    by_status: [u64; 5],
    times: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
    /// Answers with metrics, and the time in which their text was made.
    pub scrapes: u64,
    pub scrape_time: Duration,
}

impl RequestCounts {
    /// A request was answered so long after its head had come.
    pub fn count(&mut self, status: u16, time: Duration) {
        let digit = usize::from(status / 100).clamp(1, self.by_status.len());
        self.by_status[digit - 1] += 1;
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let class = BOUNDS_US.iter().position(|bound| time_us <= *bound).unwrap_or(BOUNDS_US.len());
        self.times[class] += 1;
        self.sum_us = self.sum_us.saturating_add(time_us);
    }

    /// `2xx` and how many.
    pub fn by_status(&self) -> [(&'static str, u64); 5] {
        let [one, two, three, four, five] = self.by_status;
        [("1xx", one), ("2xx", two), ("3xx", three), ("4xx", four), ("5xx", five)]
    }

    pub fn times(&self) -> TimeCounts {
        TimeCounts { bounds_us: &BOUNDS_US, classes: self.times.to_vec(), sum_us: self.sum_us }
    }
}

#[cfg(test)]
mod tests {
    use super::RequestCounts;
    use std::time::Duration;

    #[test]
    fn requests_are_counted_by_status_and_time() {
        let mut counts = RequestCounts::default();
        for (status, time_us) in [(200, 100), (204, 101), (404, 0), (503, 60_000_000), (0, 1), (999, 1)] {
            counts.count(status, Duration::from_micros(time_us));
        }
        assert_eq!(counts.by_status().map(|(_, count)| count), [1, 2, 0, 1, 2]);
        let times = counts.times();
        assert_eq!((times.classes.len(), times.bounds_us.len(), times.sum_us), (10, 9, 60_000_203));
        assert_eq!((times.classes[0], times.classes[1], times.classes[9]), (4, 1, 1));
    }
}
