//! The channels of one session, by their numbers.
//!
//! Clients number from 1 on and leave few gaps: such channels are found by one index. Those with numbers far beyond the count
//! of channels are in a tree, so that a table is never much longer than the list of what is open.

use crate::ids::ChannelKey;
use crate::limits::CHANNEL_NUMBERS_SPARE;
use std::collections::BTreeMap;
use wire::ChannelNumber;

/// The keys of a session's channels.
#[derive(Default)]
pub(crate) struct SessionChannels {
    /// Channels with low numbers, by number.
    low: Vec<Option<ChannelKey>>,
    /// How many of them are open.
    low_open: usize,
    /// Channels whose numbers are not in `low`.
    high: BTreeMap<ChannelNumber, ChannelKey>,
}

impl SessionChannels {
    #[inline]
    pub fn get(&self, number: ChannelNumber) -> Option<ChannelKey> {
        match self.low.get(number.index()) {
            Some(channel) => *channel,
            None => self.high.get(&number).copied(),
        }
    }

    pub fn len(&self) -> usize {
        self.low_open + self.high.len()
    }

    /// Adds a channel. Returns the one that had this number.
    pub fn insert(&mut self, number: ChannelNumber, key: ChannelKey) -> Option<ChannelKey> {
        if number.index() >= self.low.len() {
            if number.index() >= Self::low_max(self.len() + 1) {
                return self.high.insert(number, key);
            }
            self.extend_low(number.index() + 1);
        }
        let earlier = self.low[number.index()].replace(key);
        self.low_open += usize::from(earlier.is_none());
        earlier
    }

    /// Removes a channel. Returns it if it was there.
    pub fn remove(&mut self, number: ChannelNumber) -> Option<ChannelKey> {
        let removed = match self.low.get_mut(number.index()) {
            Some(channel) => {
                let removed = channel.take()?;
                self.low_open -= 1;
                removed
            }
            None => self.high.remove(&number)?,
        };
        if self.low.len() > 2 * Self::low_max(self.len()) {
            self.shrink_low();
        }
        Some(removed)
    }

    /// All channels in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = ChannelKey> {
        self.low.iter().flatten().chain(self.high.values()).copied()
    }

    /// Numbers that are found by an index while so many channels are open.
    fn low_max(open: usize) -> usize {
        2 * open + CHANNEL_NUMBERS_SPARE
    }

    fn extend_low(&mut self, numbers: usize) {
        self.low.resize(numbers, None);
        while let Some(first) = self.high.first_entry()
            && first.key().index() < numbers
        {
            let (number, key) = first.remove_entry();
            self.low[number.index()] = Some(key);
            self.low_open += 1;
        }
    }

    #[cold]
    fn shrink_low(&mut self) {
        let numbers = Self::low_max(self.len());
        for (number, channel) in (numbers as u16..).zip(self.low.drain(numbers..)) {
            if let Some(key) = channel {
                self.high.insert(ChannelNumber(number), key);
                self.low_open -= 1;
            }
        }
        self.low.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::SessionChannels;
    use crate::ids::ChannelKey;
    use crate::limits::CHANNEL_NUMBERS_SPARE;
    use slotmap::KeyData;
    use std::collections::BTreeMap;
    use wire::ChannelNumber;

    fn key(number: u16) -> ChannelKey {
        KeyData::from_ffi(1 << 32 | u64::from(number)).into()
    }

    /// A channel is opened or closed in both, and both are alike.
    fn toggle(channels: &mut SessionChannels, model: &mut BTreeMap<u16, ChannelKey>, number: u16) {
        if model.remove(&number).is_some() {
            assert_eq!(channels.remove(ChannelNumber(number)), Some(key(number)));
            assert_eq!(channels.remove(ChannelNumber(number)), None);
        } else {
            assert_eq!(channels.insert(ChannelNumber(number), key(number)), None);
            model.insert(number, key(number));
        }
        assert_eq!((channels.get(ChannelNumber(number)), channels.len()), (model.get(&number).copied(), model.len()));
        let places = 4 * (model.len() + 1) + 2 * CHANNEL_NUMBERS_SPARE;
        assert!(channels.low.len() <= places, "{} places for {} channels", channels.low.len(), model.len());
    }

    #[test]
    fn any_numbers_in_any_order_are_found_and_take_as_much_as_there_are_channels() {
        let orders: [&mut dyn Iterator<Item = u16>; 4] = [
            &mut (1..=3_000).chain(1..3_000).chain(1..3_000),
            &mut (62_000..=u16::MAX).rev().chain(62_000..u16::MAX),
            &mut (1..6_000u16).map(|step| step.wrapping_mul(40_503)),
            &mut [u16::MAX, 1, 300, 2, u16::MAX, 300, 0].into_iter(),
        ];
        for numbers in orders {
            let (mut channels, mut model) = (SessionChannels::default(), BTreeMap::new());
            numbers.for_each(|number| toggle(&mut channels, &mut model, number));
            assert!(channels.iter().eq(model.values().copied()), "in the order of their numbers");
            for number in model.keys().copied().collect::<Vec<_>>() {
                toggle(&mut channels, &mut model, number);
            }
            assert!(channels.low.capacity() <= 2 * CHANNEL_NUMBERS_SPARE && channels.high.is_empty());
        }
    }
}
