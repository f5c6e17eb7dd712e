//! The route cache of a channel.

use crate::message_stats::ExchangeStats;
use catalog::{ExchangeId, QueueRoute, RouteDependence};
use std::sync::Arc;
use wire::{ListRef, RawProperties};

/// The route of a channel's last publish: a publisher that repeats itself looks nothing up.
pub struct PublishRouteCache {
    /// The catalog's version when the route was found.
    pub version: u64,
    pub exchange: Box<[u8]>,
    /// The exchange, whose permission was checked.
    pub exchange_id: ExchangeId,
    pub routing_key: Vec<u8>,
    /// `None` when the route depends on more than the routing key and the trace.
    pub route: Option<Arc<QueueRoute>>,
    /// The brokers that the message had come through, if the route depends on them.
    pub trace: Option<Box<[u8]>>,
    /// What the channel has published to the exchange, and nobody has counted elsewhere.
    routed: ExchangeStats,
    /// Routes to let pass before the next is kept, and how many it will be if that one is not repeated.
    pause: u8,
    pause_next: u8,
}

/// Routes that are not kept on end, at most. A publisher whose keys alternate would pay for keeping each.
const PAUSE_MAX: u8 = 15;

impl PublishRouteCache {
    /// An empty cache for an exchange.
    pub fn new(version: u64, exchange: &[u8], exchange_id: ExchangeId) -> Self {
        Self {
            version,
            exchange: exchange.into(),
            exchange_id,
            routing_key: Vec::new(),
            route: None,
            trace: None,
            routed: ExchangeStats::default(),
            pause: 0,
            pause_next: 0,
        }
    }

    /// The route of a message with this key and these properties, if it is the cached one.
    #[inline(always)]
    pub fn get(&mut self, routing_key: &[u8], properties: RawProperties<'_>) -> Option<Arc<QueueRoute>> {
        let route = self.route.as_ref()?;
        let is_alike = same(&self.routing_key, routing_key)
            && (route.decided == RouteDependence::ByKey
                || self.trace.as_deref() == catalog::trace(properties).map(ListRef::as_bytes));
        if !is_alike {
            return None;
        }
        (self.pause, self.pause_next) = (0, 0);
        Some(Arc::clone(route))
    }

    /// So many messages were published along this route.
    #[inline]
    pub fn count(&mut self, route: &QueueRoute, messages: u64) {
        let publish_out = messages * route.queues.len() as u64;
        self.routed += ExchangeStats { publish_in: messages, publish_out };
    }

    /// What was counted since this was last asked.
    pub fn take_routed(&mut self) -> ExchangeStats {
        std::mem::take(&mut self.routed)
    }

    /// A route that was just found for a publish, which the next may repeat.
    #[inline]
    pub fn set(&mut self, routing_key: &[u8], properties: RawProperties<'_>, route: &Arc<QueueRoute>) {
        match self.pause.checked_sub(1) {
            Some(pause) => self.pause = pause,
            None => self.keep(routing_key, properties, route),
        }
    }

    fn keep(&mut self, routing_key: &[u8], properties: RawProperties<'_>, route: &Arc<QueueRoute>) {
        self.pause = self.pause_next;
        self.pause_next = (self.pause_next * 2 + 1).min(PAUSE_MAX);
        self.routing_key.clear();
        self.routing_key.extend_from_slice(routing_key);
        self.route = (route.decided < RouteDependence::ByMessage).then(|| Arc::clone(route));
        self.trace = match route.decided {
            RouteDependence::ByKeyAndTrace => catalog::trace(properties).map(|trace| trace.as_bytes().into()),
            RouteDependence::ByKey | RouteDependence::ByMessage => None,
        };
    }
}

/// Compares short names word by word, inline. The default exchange's name is empty, an empty box dangles, and a vectorised
/// `memcmp` of nothing at a dangling address costs a microcode assist: two fifths of a publish, measured.
#[inline]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let (words_a, rest_a) = a.as_chunks::<8>();
    let (words_b, rest_b) = b.as_chunks::<8>();
    words_a.iter().zip(words_b).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b))
        && rest_a.iter().zip(rest_b).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::{PAUSE_MAX, PublishRouteCache, same};
    use catalog::{ExchangeId, QueueRoute, RouteDependence};
    use std::sync::Arc;
    use wire::RawProperties;

    /// Publishes a key as a channel does. Returns whether its route was known.
    fn publish(cache: &mut PublishRouteCache, key: &str) -> bool {
        let properties = RawProperties::EMPTY;
        if cache.get(key.as_bytes(), properties).is_some() {
            return true;
        }
        let (queues, held) = (Box::default(), Box::default());
        let route = QueueRoute { queues, held, decided: RouteDependence::ByKey, stamped: false };
        cache.set(key.as_bytes(), properties, &Arc::new(route));
        false
    }

    fn cache() -> PublishRouteCache {
        PublishRouteCache::new(1, b"exchange", ExchangeId { index: 0, serial: 1 })
    }

    #[test]
    fn a_route_is_known_from_the_second_publish_on() {
        let mut cache = cache();
        for key in ["a", "b", "c"] {
            assert_eq!([0; 4].map(|_| publish(&mut cache, key)), [false, true, true, true], "{key}");
        }
    }

    #[test]
    fn routes_that_nobody_repeats_are_seldom_kept_until_one_is_repeated() {
        let mut cache = cache();
        let mut kept = 0;
        for number in 0..1000 {
            let key = format!("key.{number}");
            assert!(!publish(&mut cache, &key), "{key}");
            kept += usize::from(cache.routing_key == key.as_bytes());
        }
        assert!((1000 / (usize::from(PAUSE_MAX) + 1)..=70).contains(&kept), "{kept} kept");
        let missed = (0..100).filter(|_| !publish(&mut cache, "again")).count();
        assert!((1..=usize::from(PAUSE_MAX) + 1).contains(&missed), "{missed} missed");
        assert_eq!([0; 3].map(|_| publish(&mut cache, "another")), [false, true, true]);
    }

    #[test]
    fn names_are_the_same_in_length_and_bytes() {
        for name in ["", "a", "12345678", "123456789", "0123456789abcdef!"] {
            assert!(same(name.as_bytes(), name.as_bytes()));
            assert!(!same(name.as_bytes(), format!("{name}x").as_bytes()));
            let mut other = name.as_bytes().to_vec();
            if let Some(last) = other.last_mut() {
                *last += 1;
                assert!(!same(name.as_bytes(), &other));
            }
        }
    }
}
