//! The channels of a connection.
//!
//! Enters: channel numbers.  Leaves: what may happen on them.
//! Owns:   the state of each channel, and the content that is arriving on it.

use crate::assembly::ContentAssembly;
use wire::ChannelNumber;

/// Where a channel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelState {
    /// `open` is sent and unanswered (client).
    Opening,
    /// In use.
    Open,
    /// In use, and the rest of the content that has begun there is dropped as it comes.
    PassingOver,
    /// A fault was reported and `close` is to be sent: everything is dropped.
    Failed,
    /// This side sent `close`: until `close-ok` everything else is dropped.
    Closing,
}

impl ChannelState {
    /// Whether what comes on it is dropped.
    #[inline]
    pub const fn drops(self) -> bool {
        matches!(self, Self::Failed | Self::Closing)
    }
}

/// A channel. Idle, it costs these 16 bytes.
#[derive(Debug)]
pub(crate) struct ChannelEntry {
    pub number: ChannelNumber,
    pub state: ChannelState,
    /// The content that is arriving in pieces.
    pub assembly: Option<Box<ContentAssembly>>,
}

const _: () = assert!(size_of::<ChannelEntry>() == 16);

/// The channels, by number. Clients number from 1 and rarely leave gaps, so the place is nearly always number - 1.
#[derive(Debug, Default)]
pub(crate) struct ChannelTable {
    sorted: Vec<ChannelEntry>,
}

impl ChannelTable {
    #[inline]
    fn place(&self, number: ChannelNumber) -> Result<usize, usize> {
        let likely = number.index().wrapping_sub(1);
        if self.sorted.get(likely).is_some_and(|channel| channel.number == number) {
            return Ok(likely);
        }
        self.sorted.binary_search_by_key(&number, |channel| channel.number)
    }

    #[inline]
    pub fn get(&self, number: ChannelNumber) -> Option<&ChannelEntry> {
        self.place(number).ok().and_then(|place| self.sorted.get(place))
    }

    #[inline]
    pub fn get_mut(&mut self, number: ChannelNumber) -> Option<&mut ChannelEntry> {
        self.place(number).ok().and_then(|place| self.sorted.get_mut(place))
    }

    /// Whether a new content may begin there.
    #[inline]
    pub fn is_free_for_content(&self, number: ChannelNumber) -> bool {
        self.get(number).is_some_and(|channel| channel.state == ChannelState::Open && channel.assembly.is_none())
    }

    /// Adds a channel, or sets the state of one that is there.
    pub fn set(&mut self, number: ChannelNumber, state: ChannelState) {
        match self.place(number) {
            Ok(place) => self.sorted[place] = ChannelEntry { number, state, assembly: None },
            Err(place) => self.sorted.insert(place, ChannelEntry { number, state, assembly: None }),
        }
    }

    /// Whether it was there.
    pub fn remove(&mut self, number: ChannelNumber) -> bool {
        match self.place(number) {
            Ok(place) => {
                self.sorted.remove(place);
                if self.sorted.len() < self.sorted.capacity() / 4 {
                    self.sorted.shrink_to(2 * self.sorted.len());
                }
                true
            }
            Err(_) => false,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &ChannelEntry> {
        self.sorted.iter()
    }

    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    pub fn clear(&mut self) {
        self.sorted = Vec::new();
    }

    /// The lowest number that is free and at most `number_max`.
    pub fn lowest_free(&self, number_max: u16) -> Option<ChannelNumber> {
        let gap = self.sorted.iter().zip(1u16..).find(|(channel, number)| channel.number != ChannelNumber(*number));
        let number = match gap {
            Some((_, number)) => number,
            None => u16::try_from(self.sorted.len() + 1).ok()?,
        };
        (number <= number_max).then_some(ChannelNumber(number))
    }
}

#[cfg(test)]
mod tests {
    use super::{ChannelState, ChannelTable};
    use wire::ChannelNumber;

    #[test]
    fn the_table_shrinks_while_channels_are_open() {
        let mut channels = ChannelTable::default();
        (1..=u16::MAX).for_each(|number| channels.set(ChannelNumber(number), ChannelState::Open));
        (2..=u16::MAX).rev().for_each(|number| assert!(channels.remove(ChannelNumber(number))));
        assert!(channels.get(ChannelNumber(1)).is_some() && channels.sorted.capacity() <= 8);
        assert!(channels.remove(ChannelNumber(1)));
        assert_eq!(channels.sorted.capacity(), 0);
    }

    #[test]
    fn numbers_are_found_in_any_order_and_with_gaps() {
        let mut channels = ChannelTable::default();
        for number in [3, 1, 65_535, 2, 700] {
            channels.set(ChannelNumber(number), ChannelState::Open);
        }
        assert_eq!(channels.lowest_free(2047), Some(ChannelNumber(4)));
        assert!(
            channels.remove(ChannelNumber(2))
                && !channels.remove(ChannelNumber(2))
                && !channels.remove(ChannelNumber::CONNECTION)
        );
        assert_eq!(channels.lowest_free(2047), Some(ChannelNumber(2)));
        for number in 0..=u16::MAX {
            let there = matches!(number, 1 | 3 | 700 | 65_535);
            assert_eq!(
                channels.get(ChannelNumber(number)).map(|channel| channel.number),
                there.then_some(ChannelNumber(number))
            );
            assert_eq!(channels.is_free_for_content(ChannelNumber(number)), there);
        }
        assert_eq!((channels.count(), channels.lowest_free(1)), (4, None));
    }
}
