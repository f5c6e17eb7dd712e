//! The routes of one link: what each needs at the other broker, and which channel it has.

use crate::remote_setup::{RemoteSetup, SetupStep};
use crate::{BindingPropagation, RouteSpec};
use session::Outbound;
use slab::Pool;
use wire::ChannelNumber;

/// Identifies a route of one link. The id of a removed route is used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RouteId(u32);

impl RouteId {
    /// The route at this place in a table of its link's routes.
    pub fn at(index: usize) -> Self {
        RouteId(index as u32)
    }

    /// Its place in such a table.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Progress of a route, for operators.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RouteProgress<'a> {
    /// Whether messages flow.
    pub is_running: bool,
    /// Why they do not, if the reason concerns this route alone.
    pub error: Option<&'a str>,
    /// Messages that wait at the source, as of its last answer.
    pub lag: Option<u64>,
}

/// Why a route takes nothing although its link is connected.
const DELAYED: &str = "this broker has just restarted: brokers downstream get the time to request their bindings";

/// The routes of one link.
pub struct RouteTable {
    setups: Vec<Option<RemoteSetup>>,
    by_channel: Vec<Option<RouteId>>,
    output_bytes_max: usize,
}

impl RouteTable {
    pub(crate) fn new(output_bytes_max: usize) -> Self {
        RouteTable { setups: Vec::new(), by_channel: Vec::new(), output_bytes_max }
    }

    /// Adds a route. One that existed before this broker restarted is `delayed`: it takes nothing until
    /// [`end_delays`](crate::LinkSession::end_delays).
    pub fn add(&mut self, spec: RouteSpec, delayed: bool) -> RouteId {
        let setup = Some(RemoteSetup::new(spec, delayed, self.output_bytes_max));
        match self.setups.iter().position(Option::is_none) {
            Some(free) => {
                self.setups[free] = setup;
                RouteId::at(free)
            }
            None => {
                self.setups.push(setup);
                RouteId::at(self.setups.len() - 1)
            }
        }
    }

    /// The route that carries the same messages as `spec`.
    pub fn find(&self, spec: &RouteSpec) -> Option<RouteId> {
        let carries_same = |setup: &Option<RemoteSetup>| setup.as_ref().is_some_and(|it| it.spec.carries_same(spec));
        self.setups.iter().position(carries_same).map(RouteId::at)
    }

    pub fn iter(&self) -> impl Iterator<Item = (RouteId, &RouteSpec)> {
        let all = self.setups.iter().enumerate();
        all.filter_map(|(index, setup)| Some((RouteId::at(index), &setup.as_ref()?.spec)))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.setups.iter().all(Option::is_none)
    }

    /// A route as the operator specified it.
    pub fn spec(&self, route: RouteId) -> Option<&RouteSpec> {
        Some(&self.get(route)?.spec)
    }

    /// The channel of a route, while it has one.
    pub fn channel(&self, route: RouteId) -> Option<ChannelNumber> {
        let channel = self.get(route)?.channel;
        (channel > ChannelNumber::CONNECTION).then_some(channel)
    }

    #[inline]
    pub fn on_channel(&self, channel: ChannelNumber) -> Option<RouteId> {
        self.by_channel.get(channel.index()).copied().flatten()
    }

    /// Whether messages flow on a route, and if not, why.
    pub fn progress(&self, route: RouteId) -> RouteProgress<'_> {
        match self.get(route) {
            Some(setup) if setup.is_delayed() => {
                RouteProgress { is_running: false, error: Some(DELAYED), lag: setup.lag }
            }
            Some(setup) => {
                let is_running = setup.step == SetupStep::Running;
                RouteProgress { is_running, error: setup.error.as_deref(), lag: setup.lag }
            }
            None => RouteProgress::default(),
        }
    }

    /// How many bindings the route has requested of the source.
    pub fn requested_bindings(&self, route: RouteId) -> u64 {
        let propagation = self.get(route).and_then(|setup| setup.requests.propagation.as_ref());
        propagation.map_or(0, |propagation| propagation.requested())
    }

    /// Notes why a route could not begin at this broker.
    pub fn set_error(&mut self, route: RouteId, text: &str) {
        if let Some(setup) = self.get_mut(route) {
            setup.error = Some(text.into());
        }
    }

    /// What a dynamic route requests of its source. Whoever changes it calls
    /// [`send_bindings`](Self::send_bindings) afterwards.
    pub fn propagation(&mut self, route: RouteId) -> Option<&mut BindingPropagation> {
        self.get_mut(route)?.requests.propagation.as_deref_mut()
    }

    /// Starts the propagation of bindings on a dynamic route.
    pub fn set_propagation(&mut self, route: RouteId, propagation: BindingPropagation) {
        if let Some(setup) = self.get_mut(route) {
            setup.requests.propagation = Some(Box::new(propagation));
        }
    }

    /// Of a static route: whether messages of its exchange here go where they may come twice, so that they are to be stamped.
    /// [`send_bindings`](Self::send_bindings) sends a change to the source.
    pub fn set_wants_stamps(&mut self, route: RouteId, wants_stamps: bool) {
        if let Some(setup) = self.get_mut(route) {
            setup.requests.wants_stamps = wants_stamps;
        }
    }

    /// Gives the route that carries the same other terms, from the next connection on. Returns whether there is one.
    pub fn change(&mut self, spec: RouteSpec) -> bool {
        let found = self.find(&spec).and_then(|route| self.get_mut(route));
        found.map(|setup| setup.spec = spec).is_some()
    }

    /// A federated queue wants messages, or does not any more.
    pub fn set_wanting(&mut self, route: RouteId, is_wanting: bool, writer: Option<(&mut Outbound, &Pool)>) {
        if let Some(setup) = self.get_mut(route) {
            setup.set_wanting(is_wanting, writer);
        }
    }

    /// Sends changes of what a route requests of its source.
    pub fn send_bindings(&mut self, route: RouteId, out: &mut Outbound, pool: &Pool) {
        if let Some(setup) = self.get_mut(route)
            && matches!(setup.step, SetupStep::Bind | SetupStep::Running)
        {
            setup.send_bindings(out, pool);
        }
    }

    /// Asks the source of each route how many messages wait.
    pub fn request_lags(&mut self, out: &mut Outbound, pool: &Pool) {
        self.setups_mut().for_each(|(_, setup)| setup.request_lag(out, pool));
    }

    pub(crate) fn get(&self, route: RouteId) -> Option<&RemoteSetup> {
        self.setups.get(route.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, route: RouteId) -> Option<&mut RemoteSetup> {
        self.setups.get_mut(route.index())?.as_mut()
    }

    pub(crate) fn setups(&self) -> impl Iterator<Item = &RemoteSetup> {
        self.setups.iter().flatten()
    }

    pub(crate) fn setups_mut(&mut self) -> impl Iterator<Item = (RouteId, &mut RemoteSetup)> {
        let all = self.setups.iter_mut().enumerate();
        all.filter_map(|(index, setup)| Some((RouteId::at(index), setup.as_mut()?)))
    }

    /// Takes a route out of the table; its channel is free.
    pub(crate) fn remove(&mut self, route: RouteId) -> Option<RemoteSetup> {
        let setup = self.setups.get_mut(route.index())?.take()?;
        self.release_channel(setup.channel);
        Some(setup)
    }

    pub(crate) fn assign_channel(&mut self, route: RouteId, channel: ChannelNumber) {
        let index = channel.index();
        if self.by_channel.len() <= index {
            self.by_channel.resize(index + 1, None);
        }
        self.by_channel[index] = Some(route);
        if let Some(setup) = self.get_mut(route) {
            setup.channel = channel;
        }
    }

    /// Forgets whose a channel is; 0 is nobody's.
    pub(crate) fn release_channel(&mut self, channel: ChannelNumber) {
        if let Some(route) = self.by_channel.get_mut(channel.index()) {
            *route = None;
        }
    }

    /// The connection is gone, and all channels with it.
    pub(crate) fn disconnect(&mut self) {
        self.by_channel.clear();
        self.setups.iter_mut().flatten().for_each(RemoteSetup::disconnect);
    }
}

#[cfg(test)]
mod tests {
    use super::RouteTable;
    use crate::{AckMode, RouteDirection, RouteKind, RouteSpec};
    use wire::ChannelNumber;

    fn spec(key: &str) -> RouteSpec {
        RouteSpec {
            exchange: "x".into(),
            kind: RouteKind::Static { key: key.into() },
            direction: RouteDirection::Pull,
            ack: AckMode::Confirm,
            credit: 10,
            hops_max: 3,
            durable: false,
            forced: false,
            dead_letter_exchange: None,
            options: Default::default(),
        }
    }

    #[test]
    fn a_route_keeps_its_id_and_loses_its_channel_with_the_connection() {
        let mut routes = RouteTable::new(1_000);
        let (a, b) = (routes.add(spec("a"), false), routes.add(spec("b"), false));
        assert_eq!((routes.find(&spec("b")), routes.find(&spec("c"))), (Some(b), None));
        routes.assign_channel(b, ChannelNumber(7));
        assert_eq!(
            (routes.on_channel(ChannelNumber(7)), routes.channel(b), routes.channel(a)),
            (Some(b), Some(ChannelNumber(7)), None)
        );
        assert_eq!(routes.on_channel(ChannelNumber(8)), None);
        routes.disconnect();
        assert_eq!((routes.on_channel(ChannelNumber(7)), routes.channel(b)), (None, None));
        assert_eq!(routes.iter().map(|(route, _)| route).collect::<Vec<_>>(), [a, b]);
    }

    #[test]
    fn the_id_of_a_removed_route_is_used_again_without_its_channel() {
        let mut routes = RouteTable::new(1_000);
        let (a, b) = (routes.add(spec("a"), false), routes.add(spec("b"), false));
        routes.assign_channel(a, ChannelNumber(3));
        assert!(routes.remove(a).is_some() && routes.remove(a).is_none());
        assert_eq!((routes.on_channel(ChannelNumber(3)), routes.spec(a)), (None, None));
        assert_eq!(routes.add(spec("c"), false), a);
        assert_eq!((routes.channel(a), routes.spec(a)), (None, Some(&spec("c"))));
        assert!(routes.remove(a).is_some() && routes.remove(b).is_some() && routes.is_empty());
    }
}
