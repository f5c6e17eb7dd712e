//! Publisher confirms of one channel: what is published and not yet confirmed.
//!
//! Enters: publishes, and the server's acks and nacks.  Leaves: how many are outstanding, and which were refused.
//! Owns:   the lowest tag not confirmed, and what was confirmed out of order beyond it.

use std::collections::VecDeque;
use wire::DeliveryTag;

use crate::limits::REFUSED_TAGS_MAX;

/// Confirms of one channel.
#[derive(Debug, Default)]
pub(crate) struct Confirms {
    /// Tag of the last publish.
    published: u64,
    /// Every tag up to this one is confirmed.
    settled: u64,
    /// Whether the tags after `settled` are confirmed; ends with a confirmed one.
    beyond: VecDeque<bool>,
    confirmed_beyond: u64,
    refused: u64,
    refused_tags: Vec<u64>,
}

impl Confirms {
    /// The tag of one more publish.
    #[inline]
    pub(crate) fn published(&mut self) -> u64 {
        self.published += 1;
        self.published
    }

    /// Publishes without a confirm.
    #[inline]
    pub(crate) fn outstanding(&self) -> u64 {
        self.published - self.settled - self.confirmed_beyond
    }

    /// Every tag up to this one is confirmed or refused.
    #[inline]
    pub(crate) fn settled(&self) -> u64 {
        self.settled
    }

    /// How many were refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether any was refused since they were asked for last.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused_tags.is_empty()
    }

    /// The tags refused since this was asked last.
    pub(crate) fn take_refused_tags(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.refused_tags)
    }

    /// The server confirmed (`ack`) or refused (`nack`) one tag, or all up to it. Tags never published are ignored;
    /// `multiple` with tag 0 means all (AMQP 0-9-1 §1.8.3.13).
    pub(crate) fn settle(&mut self, tag: DeliveryTag, multiple: bool, refused: bool) {
        let tag = if tag == DeliveryTag::ALL && multiple { self.published } else { tag.0 };
        if tag > self.published || tag <= self.settled {
            return;
        }
        if refused {
            self.refuse(tag, multiple);
        }
        if multiple || tag == self.settled + 1 {
            self.settle_up_to(tag);
        } else {
            let index = (tag - self.settled - 1) as usize;
            if self.beyond.len() <= index {
                self.beyond.resize(index + 1, false);
            }
            if !std::mem::replace(&mut self.beyond[index], true) {
                self.confirmed_beyond += 1;
            }
        }
    }

    fn settle_up_to(&mut self, tag: u64) {
        while self.settled < tag || self.beyond.front() == Some(&true) {
            self.confirmed_beyond -= u64::from(self.beyond.pop_front() == Some(true));
            self.settled += 1;
            if self.beyond.is_empty() && self.settled < tag {
                self.settled = tag;
            }
        }
    }

    fn refuse(&mut self, tag: u64, multiple: bool) {
        let first = if multiple { self.settled + 1 } else { tag };
        for tag in first..=tag {
            let confirmed = self.beyond.get((tag - self.settled - 1) as usize) == Some(&true);
            if !confirmed {
                self.refused += 1;
                if self.refused_tags.len() < REFUSED_TAGS_MAX {
                    self.refused_tags.push(tag);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Confirms;
    use wire::DeliveryTag;

    /// `p5` publishes five, `a3` acks tag 3, `a3+` all up to 3, `n` likewise refuses; expected: outstanding, refused tags.
    fn check(script: &str, outstanding: u64, refused: &[u64]) {
        let mut confirms = Confirms::default();
        for step in script.split(' ') {
            let (verb, rest) = step.split_at(1);
            let multiple = rest.ends_with('+');
            let number: u64 = rest.trim_end_matches('+').parse().expect("a number");
            match verb {
                "p" => (0..number).for_each(|_| _ = confirms.published()),
                "a" => confirms.settle(DeliveryTag(number), multiple, false),
                _ => confirms.settle(DeliveryTag(number), multiple, true),
            }
        }
        assert_eq!(confirms.outstanding(), outstanding, "{script}");
        assert_eq!(confirms.take_refused_tags(), refused, "{script}");
        if outstanding == 0 {
            assert!(confirms.beyond.is_empty(), "{script}");
        }
    }

    #[test]
    fn every_order_of_confirms_counts_once() {
        check("p5", 5, &[]);
        check("p5 a1 a2 a3 a4 a5", 0, &[]);
        check("p5 a5 a4 a3 a2 a1", 0, &[]);
        check("p5 a2 a4", 3, &[]);
        check("p5 a2 a4 a4 a3+", 1, &[]);
        check("p5 a2 a5+", 0, &[]);
        check("p5 a3+ a3 a1", 2, &[]);
        check("p5 a0+", 0, &[]);
        check("p2 a9 a9+", 2, &[]);
        check("p5 n2 a5+", 0, &[2]);
        check("p5 a2 n3+ a4", 1, &[1, 3]);
        check("p3 a3 p3 a2+", 3, &[]);
    }
}
