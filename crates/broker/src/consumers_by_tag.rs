//! The consumers of one channel by their tags.
//!
//! A channel may have tens of thousands, and each that comes or goes draws a constant on the budget: only [`iter`] looks at all of
//! them, and tests count what it has shown.
//!
//! [`iter`]: ConsumersByTag::iter

use queues::ConsumerKey;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Consumers, each under its tag.
#[derive(Default)]
pub(crate) struct ConsumersByTag {
    keys: BTreeMap<Arc<[u8]>, ConsumerKey>,
    #[cfg(test)]
    pub shown: std::cell::Cell<usize>,
}

impl ConsumersByTag {
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    #[inline]
    pub fn get(&self, tag: &[u8]) -> Option<ConsumerKey> {
        self.keys.get(tag).copied()
    }

    pub fn first(&self) -> Option<ConsumerKey> {
        self.keys.first_key_value().map(|(_, &key)| key)
    }

    pub fn insert(&mut self, tag: Arc<[u8]>, key: ConsumerKey) {
        self.keys.insert(tag, key);
    }

    pub fn remove(&mut self, tag: &[u8]) {
        self.keys.remove(tag);
    }

    /// All of them: whoever looks at them draws on the budget for each.
    pub fn iter(&self) -> impl Iterator<Item = ConsumerKey> {
        let keys = self.keys.values().copied();
        #[cfg(test)]
        let keys = keys.inspect(|_| self.shown.set(self.shown.get() + 1));
        keys
    }
}

#[cfg(test)]
mod tests {
    use crate::channels::Channels;
    use crate::consumer::Consumer;
    use crate::ids::ConnectionSlot;
    use crate::test_effects::RecordedEffects;
    use catalog::ShardId;
    use wire::ChannelNumber;

    #[test]
    fn a_consumer_that_comes_or_goes_looks_at_no_other_of_its_channel() {
        let mut channels = Channels::new(ShardId(0));
        let mut fx = RecordedEffects::default();
        let channel = channels.open(ConnectionSlot::new(4), ChannelNumber(1));
        let tags: Vec<_> = (0..1_000).map(|number: u32| number.to_string()).collect();
        let shown = |channels: &Channels| channels.get(channel).map(|channel| channel.consumers.shown.get());
        for tag in &tags {
            channels.add_consumer(Consumer::new(channel, tag.as_bytes()));
        }
        for tag in &tags {
            let key = channels.consumer_by_tag(channel, tag.as_bytes()).expect("it has come");
            channels.remove_consumer(key, &mut fx);
            assert!(channels.check_tag_is_new(channel, tag.as_bytes()).is_ok());
            assert_eq!(shown(&channels), Some(0), "tag {tag}");
        }
        // Whoever looks at all of them is counted.
        channels.add_consumer(Consumer::new(channel, b"tag"));
        assert_eq!((channels.widen_windows(channel), shown(&channels)), (1, Some(1)));
    }
}
