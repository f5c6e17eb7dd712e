//! The queues for a publish: those of the channel's last one, or those that the catalog finds.

use crate::ids::ChannelKey;
use crate::publish_origin::Publisher;
use crate::publish_route::{PublishRouteCache, same};
use crate::publishing::Publishing;
use catalog::{ExchangeId, KeyedRoute, PermissionKind, QueueRoute, Refusal};
use queues::carbon_copies;
use std::sync::Arc;
use wire::RawProperties;

impl Publishing<'_> {
    /// The queues for a publish, by the channel's route cache if it repeats the last one; or the search for them if the budget of
    /// the turn is spent before it has ended.
    #[inline]
    pub fn route(
        &mut self,
        publisher: Publisher,
        key: ChannelKey,
        exchange: &[u8],
        routing_key: &[u8],
        properties: RawProperties<'_>,
    ) -> Result<Result<Arc<QueueRoute>, Box<KeyedRoute>>, Refusal> {
        let version = self.catalog.version();
        let channel = self.data.dispatcher.channels.open_channel(key)?;
        let known = match &mut channel.route_cache {
            Some(cache) if cache.version == version && same(&cache.exchange, exchange) => {
                if let Some(route) = cache.get(routing_key, properties) {
                    return Ok(Ok(route));
                }
                // Next to that, the keys of a publisher that uses a number of them in turn.
                if !self.catalog.restricts_topics()
                    && let Some(route) = self.catalog.known_route(cache.exchange_id, routing_key, properties)
                {
                    cache.set(routing_key, properties, &route);
                    return Ok(Ok(route));
                }
                Some(cache.exchange_id)
            }
            _ => None,
        };
        self.find_route((publisher, key), (exchange, known), routing_key, properties)
    }

    /// The queues for a publish whose route may take a search, or a check of permissions. `known`: the exchange of that one, if this is
    /// published to the same.
    #[inline(never)]
    fn find_route(
        &mut self,
        (publisher, key): (Publisher, ChannelKey),
        (exchange, known): (&[u8], Option<ExchangeId>),
        routing_key: &[u8],
        properties: RawProperties<'_>,
    ) -> Result<Result<Arc<QueueRoute>, Box<KeyedRoute>>, Refusal> {
        let exchange_id = match known {
            Some(id) => id,
            None => self.exchange(publisher, exchange)?,
        };
        if self.catalog.restricts_topics() {
            let user = self.identity(publisher)?.user;
            self.catalog.check_topic(user, exchange_id, PermissionKind::Write, routing_key)?;
        }
        let work = &mut self.data.dispatcher.work;
        let route = match carbon_copies::find(exchange_id, routing_key, properties, self.catalog, work) {
            Ok(route) => route,
            Err(search) => return Ok(Err(search)),
        };
        let channels = &mut self.data.dispatcher.channels;
        if known.is_none() {
            let cache = PublishRouteCache::new(self.catalog.version(), exchange, exchange_id);
            channels.replace_route(key, Box::new(cache));
        }
        let Some(channel) = channels.get_mut(key) else { return Ok(Ok(route)) };
        if let Some(cache) = &mut channel.route_cache {
            cache.set(routing_key, properties, &route);
        }
        Ok(Ok(route))
    }

    /// The queues for a publish with further routing keys, or the search for them if the budget of the turn is spent before it
    /// has ended.
    pub fn route_copies(
        &mut self,
        (publisher, key): (Publisher, ChannelKey),
        name: &[u8],
        routing_key: &[u8],
        further_keys: &[Box<[u8]>],
        properties: RawProperties<'_>,
    ) -> Result<Result<Arc<QueueRoute>, Box<KeyedRoute>>, Refusal> {
        let exchange = self.exchange(publisher, name)?;
        // What is counted for the exchange finds it there.
        let cache = PublishRouteCache::new(self.catalog.version(), name, exchange);
        self.data.dispatcher.channels.replace_route(key, Box::new(cache));
        let mut search = Box::new(carbon_copies::search_all(exchange, routing_key, further_keys));
        let work = &mut self.data.dispatcher.work;
        let route = carbon_copies::continue_search(&mut search, properties, self.catalog, work);
        Ok(route.ok_or(search))
    }
}
