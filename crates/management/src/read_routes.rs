//! What is read: each route that changes nothing, from the source's own memory.

use crate::answer::Answer;
use crate::api_error::ApiError;
use crate::broker_views;
use crate::changes::names::{CLUSTER_NAME, CLUSTER_TAGS, cluster_name, cluster_tags};
use crate::definition_views::{self, DEFAULT_EXCHANGE};
use crate::definitions_file;
use crate::health;
use crate::json_object::JsonObject;
use crate::list_request::ListRequest;
use crate::live::{LiveChannel, LiveConnection, LiveConsumer};
use crate::live_views;
use crate::masked_uris::masked;
use crate::metrics_request;
use crate::query::{Columns, Query};
use crate::queue_view::{QueueDetail, queue};
use crate::request_counts::RequestCounts;
use crate::route::Handler;
use crate::route_path::RouteMatch;
use crate::row_list::{Row, RowList};
use crate::sample_range::SampleRanges;
use crate::sampled_object::SampledObject;
use crate::shovel_view;
use crate::source::Source;
use crate::statistics_history::SharedHistory;
use crate::viewer::Viewer;
use catalog::{BindingDestination, BindingView, ExchangeId, Name, QueueId, User, VhostId};
use definitions::Json;

/// What answers a GET: the source, the request, and who asks.
pub struct Reader<'a> {
    pub source: &'a dyn Source,
    pub matched: &'a RouteMatch,
    pub query: &'a Query,
    /// `None` for routes that ask for no login.
    pub viewer: Option<&'a Viewer>,
    /// Of the digests that stand for passwords.
    pub key: &'a [u8; 32],
    pub history: &'a SharedHistory,
    pub requests: RequestCounts,
    /// Of a page of a list.
    pub page_rows_max: usize,
}

type Read = Result<Answer, ApiError>;

impl Reader<'_> {
    /// Answers; `None` for a route that is no reading.
    ///
    /// # Errors
    /// What is asked for is not there, or the request is malformed.
    pub fn read(&self) -> Option<Read> {
        use Handler as H;
        let ranges = match SampleRanges::of(self.query) {
            Ok(ranges) => ranges,
            Err(error) => return Some(Err(error)),
        };
        let sampled = |value, object| self.object(self.with_samples(value, &object, &ranges));
        let answer = match self.matched.route.handler {
            H::Overview => sampled(broker_views::overview(self.source, self.sees_others()), SampledObject::Broker),
            H::Whoami => self.whoami(),
            H::AuthSettings => self.object(auth_settings()),
            H::Extensions | H::FeatureFlags | H::DeprecatedFeatures => self.object(Json::List(Vec::new())),
            H::ClusterName => self.object(JsonObject::new().text("name", cluster_name(self.source)).build()),
            H::Nodes => self.list(vec![Row::Ready(self.node(&ranges))]),
            H::Node => self.of_node(|_| self.node(&ranges)),
            H::Memory => self.of_node(broker_views::memory),
            H::AuthAttempts => self.of_node(|source| broker_views::auth_attempts(&source.counts())),
            H::Definitions => definitions_file::whole(self.source, self.query, self.key),
            H::DefinitionsOfVhost => {
                self.vhost_id().and_then(|vhost| definitions_file::of_vhost(self.source, vhost, self.query, self.key))
            }
            H::Parameters => self.scope().and_then(|_| self.list(self.parameters())),
            H::Parameter => self.one(self.parameters()),
            H::GlobalParameters => self.list(self.global_parameters()),
            H::GlobalParameter => self.one(self.global_parameters()),
            H::Policies => self.policies(false).and_then(|rows| self.list(rows)),
            H::Policy => self.policies(false).and_then(|rows| self.one(rows)),
            H::OperatorPolicies => self.policies(true).and_then(|rows| self.list(rows)),
            H::OperatorPolicy => self.policies(true).and_then(|rows| self.one(rows)),
            H::VhostLimits => self.vhost_limits().and_then(|rows| self.list(rows)),
            H::UserLimits => self.user_limits().and_then(|rows| self.list(rows)),
            H::Connections => self.scope().and_then(|scope| self.list(self.connections(|of| scope.has(&of.vhost)))),
            H::ConnectionsOfUser => self.list(self.connections(|of| of.user == self.matched.at("user"))),
            H::Connection => self.one_connection(&ranges),
            H::ConnectionSessions => self.object(Json::List(Vec::new())),
            H::Channels => self.scope().and_then(|scope| self.list(self.channels(|of| scope.has(&of.vhost)))),
            H::ChannelsOfConnection => self.channels_of_connection(),
            H::Channel => self.channel(&ranges),
            H::Consumers => self.consumers(),
            H::Exchanges => self.exchanges(),
            H::Exchange => self.exchange_id().and_then(|id| {
                let exchange = definition_views::exchange(self.source, id);
                exchange.map_or_else(missing, |exchange| {
                    sampled(with_lists(exchange, ["incoming", "outgoing"]), SampledObject::Exchange(id))
                })
            }),
            H::Queues => self.queues(),
            H::Queue => self.queue_id().and_then(|id| self.queue(id, &ranges)),
            H::Bindings => self.bindings(),
            H::BindingsFrom => self.exchange_id().and_then(|id| self.list(self.bindings_from(id))),
            H::BindingsTo => self
                .exchange_id()
                .and_then(|id| self.list(self.ready_bindings(self.source.catalog().bindings_to_exchange(id)))),
            H::BindingsOfQueue => self.queue_id().and_then(|id| self.list(self.bindings_of_queue(id))),
            H::BindingsBetween => self.bindings_between().and_then(|rows| self.list(rows)),
            H::Binding => self.bindings_between().and_then(|rows| self.binding(rows)),
            H::Vhosts => self.vhosts(),
            H::Vhost => self
                .vhost_id()
                .and_then(|id| sampled(definition_views::vhost(self.source, id), SampledObject::Vhost(id))),
            H::PermissionsOfVhost | H::Permissions => self.permissions().and_then(|rows| self.list(rows)),
            H::PermissionsOfUser => self.user().and_then(|_| self.permissions()).and_then(|rows| self.list(rows)),
            H::Permission => self.permissions().and_then(|rows| self.one(rows)),
            H::TopicPermissionsOfVhost | H::TopicPermissions => {
                self.topic_permissions().and_then(|rows| self.list(rows))
            }
            H::TopicPermissionsOfUser => {
                self.user().and_then(|_| self.topic_permissions()).and_then(|rows| self.list(rows))
            }
            H::TopicPermission => self.topic_permissions().and_then(|rows| match rows.is_empty() {
                true => missing(),
                false => self.list(rows),
            }),
            H::Users => self.list(self.users(|_| true)),
            H::UsersWithoutPermissions => self.list(self.users(|user| user.permissions().next().is_none())),
            H::User => self.user().and_then(|user| self.object(definition_views::user(user, self.key))),
            H::Alarms => {
                let alarms = self.source.alarms().entries(&self.source.facts().node);
                self.list(alarms.map(Row::Ready).collect())
            }
            H::CheckAlarms => self.check_alarms(),
            H::CheckSingleNode => Ok(health::single_node()),
            H::CheckVhosts => Ok(health::vhosts()),
            H::CheckInService => Ok(health::in_service(self.source)),
            H::CheckPortListener => health::port_listener(self.source, self.matched),
            H::CheckProtocolListener => health::protocol_listener(self.source, self.matched),
            H::CheckCertificate => health::certificate_expiration(self.source, self.matched),
            H::FederationLinks => self.federation_links(),
            H::Shovels => self.shovels().and_then(|rows| self.list(rows)),
            H::Shovel => self.shovels().and_then(|rows| self.one(rows)),
            H::Streams => self.scope().and_then(|_| self.list(Vec::new())),
            H::MetricsAggregated | H::MetricsPerObject | H::MetricsDetailed => {
                Ok(metrics_request::answer(self.matched.route.handler, self.query, self.requests))
            }
            _ => return None,
        };
        Some(answer)
    }

    fn object(&self, value: Json) -> Read {
        Ok(Answer::json(value, &Columns::of(self.query)?))
    }

    /// An object with samples in its details, if some are asked for.
    fn with_samples(&self, value: Json, object: &SampledObject, ranges: &SampleRanges) -> Json {
        if ranges.is_none() {
            return value;
        }
        let mut history = self.history.borrow_mut();
        history.look(self.source, std::slice::from_ref(object));
        history.add_samples(value, object, ranges)
    }

    fn list(&self, rows: Vec<Row>) -> Read {
        let (request, ranges) = (ListRequest::of(self.query, self.page_rows_max)?, SampleRanges::of(self.query)?);
        Ok(Answer::rows(RowList::new(self.source, rows, &request, self.history, ranges)?))
    }

    /// The first of some rows; 404 if there is none.
    fn one(&self, rows: Vec<Row>) -> Read {
        let first = rows.first().and_then(|row| row.render(self.source));
        first.map_or_else(missing, |object| self.object(object))
    }

    fn sees_others(&self) -> bool {
        self.viewer.is_some_and(|viewer| viewer.tags.sees_others())
    }

    fn sees_in(&self, vhost: VhostId) -> bool {
        self.viewer.is_some_and(|viewer| viewer.sees_in(self.source, vhost))
    }

    fn whoami(&self) -> Read {
        let Some(viewer) = self.viewer else { return Err(ApiError::login_failed()) };
        self.object(broker_views::whoami(self.source, viewer))
    }

    fn node(&self, ranges: &SampleRanges) -> Json {
        self.with_samples(broker_views::node(self.source), &SampledObject::Node, ranges)
    }

    fn of_node(&self, view: impl Fn(&dyn Source) -> Json) -> Read {
        match self.matched.at("node") == self.source.facts().node {
            true => self.object(view(self.source)),
            false => missing(),
        }
    }

    /// Of the node of the path, if it names one.
    fn check_alarms(&self) -> Read {
        match self.matched.get("node").is_none_or(|node| node == self.source.facts().node) {
            true => Ok(health::alarms(self.source)),
            false => missing(),
        }
    }

    /// The virtual host of the path.
    fn vhost_id(&self) -> Result<VhostId, ApiError> {
        self.source.catalog().vhost_by_name(self.matched.at("vhost")).ok_or_else(ApiError::not_found)
    }

    /// The virtual hosts that a list is of: that of the path, or all.
    fn scope(&self) -> Result<ListScope<'_>, ApiError> {
        match self.matched.get("vhost") {
            None => Ok(ListScope { source: self.source, only: None }),
            Some(_) => Ok(ListScope { source: self.source, only: Some(self.vhost_id()?) }),
        }
    }

    /// The virtual hosts whose objects a list has.
    fn scope_in(&self) -> Result<impl Fn(VhostId) -> bool, ApiError> {
        let only = self.scope()?.only;
        Ok(move |vhost| only.map_or_else(|| self.sees_in(vhost), |only| only == vhost))
    }

    fn exchange_id(&self) -> Result<ExchangeId, ApiError> {
        self.exchange_named(self.matched.get("name").or(self.matched.get("source")).unwrap_or_default())
    }

    fn exchange_named(&self, name: &str) -> Result<ExchangeId, ApiError> {
        let name = if name == DEFAULT_EXCHANGE { "" } else { name };
        self.source.catalog().exchange(self.vhost_id()?, name.as_bytes()).ok_or_else(ApiError::not_found)
    }

    fn queue_named(&self, name: &str) -> Result<QueueId, ApiError> {
        self.source.catalog().queue(self.vhost_id()?, name.as_bytes()).ok_or_else(ApiError::not_found)
    }

    fn queue_id(&self) -> Result<QueueId, ApiError> {
        self.queue_named(self.matched.at("name"))
    }

    fn user(&self) -> Result<&User, ApiError> {
        let found = self.source.catalog().user_by_name(self.matched.at("user"));
        found.map(|(_, user)| user).ok_or_else(ApiError::not_found)
    }

    /// Ids in the order of virtual hosts and names, as RabbitMQ lists them.
    fn in_order<T>(&self, ids: impl Iterator<Item = (T, VhostId, Name)>) -> Vec<T> {
        let catalog = self.source.catalog();
        let mut ids: Vec<_> = ids.collect();
        ids.sort_by(|(_, one_vhost, one), (_, other_vhost, other)| {
            let by_vhost = match one_vhost == other_vhost {
                true => std::cmp::Ordering::Equal,
                false => catalog.vhost_name(*one_vhost).cmp(catalog.vhost_name(*other_vhost)),
            };
            by_vhost.then_with(|| one.cmp(other))
        });
        ids.into_iter().map(|(id, ..)| id).collect()
    }

    fn queues(&self) -> Read {
        let detail = match (self.query.is_set("disable_stats"), self.query.is_set("enable_queue_totals")) {
            (true, true) => QueueDetail::Totals,
            (true, false) => QueueDetail::Declared,
            (false, _) => QueueDetail::Full,
        };
        let is_wanted = self.scope_in()?;
        let queues = self.source.catalog().queues().filter(|(_, queue)| is_wanted(queue.vhost));
        let ids = self.in_order(queues.map(|(id, queue)| (id, queue.vhost, queue.name.clone())));
        self.list(ids.into_iter().map(|id| Row::Queue(id, detail)).collect())
    }

    /// One queue, with its consumers.
    fn queue(&self, id: QueueId, ranges: &SampleRanges) -> Read {
        let Some(Json::Object(mut fields)) = queue(self.source, id, QueueDetail::Full) else { return missing() };
        let consumers: Vec<_> = self.source.consumers().iter().filter(|consumer| consumer.queue == id).collect();
        if let Some(exclusive) = consumers.iter().find(|consumer| consumer.is_exclusive)
            && let Some((_, tag)) = fields.iter_mut().find(|(name, _)| name == "exclusive_consumer_tag")
        {
            *tag = Json::text(&exclusive.tag);
        }
        let consumers = consumers.into_iter().filter_map(|of| live_views::consumer(self.source, of)).collect();
        fields.push(("consumer_details".to_owned(), Json::List(consumers)));
        let queue = self.with_samples(Json::Object(fields), &SampledObject::Queue(id), ranges);
        self.object(with_lists(queue, ["deliveries", "incoming"]))
    }

    fn exchanges(&self) -> Read {
        let is_wanted = self.scope_in()?;
        let exchanges = self.source.catalog().exchanges().filter(|(_, exchange)| is_wanted(exchange.vhost));
        let ids = self.in_order(exchanges.map(|(id, exchange)| (id, exchange.vhost, exchange.name.clone())));
        self.list(ids.into_iter().map(Row::Exchange).collect())
    }

    /// All bindings: those to the default exchange first.
    fn bindings(&self) -> Read {
        let (catalog, is_wanted) = (self.source.catalog(), self.scope_in()?);
        let queues = catalog.queues().filter(|(_, queue)| is_wanted(queue.vhost));
        let queues = self.in_order(queues.map(|(id, queue)| (id, queue.vhost, queue.name.clone())));
        let mut rows: Vec<Row> = queues.into_iter().map(Row::DefaultBinding).collect();
        let exchanges = catalog.exchanges().filter(|(_, exchange)| is_wanted(exchange.vhost));
        for id in self.in_order(exchanges.map(|(id, exchange)| (id, exchange.vhost, exchange.name.clone()))) {
            rows.extend(self.explicit_bindings_from(id));
        }
        self.list(rows)
    }

    fn explicit_bindings_from(&self, id: ExchangeId) -> Vec<Row> {
        let catalog = self.source.catalog();
        let next = |place: &catalog::BindingPlace| catalog.binding_at(*place).and_then(|(_, next)| next);
        let places = std::iter::successors(catalog.first_binding_from(id), next);
        let seen = places.filter(|place| catalog.binding_at(*place).is_some_and(|(view, _)| view.is_some()));
        seen.map(Row::Binding).collect()
    }

    /// The bindings from an exchange; the default exchange has one to each queue.
    fn bindings_from(&self, id: ExchangeId) -> Vec<Row> {
        let catalog = self.source.catalog();
        match catalog.exchange_info(id) {
            Some(exchange) if exchange.is_default() => {
                let queues = catalog.queues().filter(|(_, queue)| queue.vhost == exchange.vhost);
                let queues = self.in_order(queues.map(|(id, queue)| (id, queue.vhost, queue.name.clone())));
                queues.into_iter().map(Row::DefaultBinding).collect()
            }
            _ => self.explicit_bindings_from(id),
        }
    }

    fn ready_bindings<'a>(&self, bindings: impl Iterator<Item = BindingView<'a>>) -> Vec<Row> {
        let rendered = bindings.filter_map(|binding| definition_views::binding(self.source, &binding));
        let mut rows: Vec<Row> = rendered.map(Row::Ready).collect();
        // The oldest first.
        rows.reverse();
        rows
    }

    fn bindings_of_queue(&self, id: QueueId) -> Vec<Row> {
        let explicit = self.ready_bindings(self.source.catalog().bindings_to(id));
        std::iter::once(Row::DefaultBinding(id)).chain(explicit).collect()
    }

    fn bindings_between(&self) -> Result<Vec<Row>, ApiError> {
        let catalog = self.source.catalog();
        let source = self.exchange_named(self.matched.at("source"))?;
        let destination = self.matched.at("destination");
        let destination = match self.matched.at("kind") {
            "q" => BindingDestination::Queue(self.queue_named(destination)?),
            _ => BindingDestination::Exchange(self.exchange_named(destination)?),
        };
        let is_default = catalog.exchange_info(source).is_some_and(|exchange| exchange.is_default());
        let rows = match destination {
            BindingDestination::Queue(id) if is_default => vec![Row::DefaultBinding(id)],
            BindingDestination::Queue(id) => {
                self.ready_bindings(catalog.bindings_to(id).filter(|binding| binding.source == source))
            }
            BindingDestination::Exchange(id) => {
                self.ready_bindings(catalog.bindings_to_exchange(id).filter(|binding| binding.source == source))
            }
        };
        Ok(rows)
    }

    fn binding(&self, rows: Vec<Row>) -> Read {
        let wanted = Json::text(self.matched.at("props"));
        let mut rendered = rows.iter().filter_map(|row| row.render(self.source));
        let found = rendered.find(|binding| binding.get("properties_key") == Some(&wanted));
        found.map_or_else(missing, |binding| self.object(binding))
    }

    fn vhosts(&self) -> Read {
        let Some(viewer) = self.viewer else { return Err(ApiError::login_failed()) };
        let vhosts = self.source.catalog().vhosts().filter(|(id, _)| viewer.sees_vhost(self.source, *id));
        let ids = self.in_order(vhosts.map(|(id, name)| (id, id, name.clone())));
        self.list(ids.into_iter().map(Row::Vhost).collect())
    }

    fn users(&self, is_wanted: impl Fn(&User) -> bool) -> Vec<Row> {
        let mut users: Vec<&User> = self.source.catalog().users().map(|(_, user)| user).collect();
        users.retain(|user| is_wanted(user));
        users.sort_by(|one, other| one.name.cmp(&other.name));
        users.into_iter().map(|user| Row::Ready(definition_views::user(user, self.key))).collect()
    }

    /// Of the users and virtual hosts that the path names, or of all.
    fn of_users<'a>(&'a self, entries: impl Fn(&'a User) -> Vec<(VhostId, Json)>) -> Result<Vec<Row>, ApiError> {
        let (vhost, name) = (self.scope()?.only, self.matched.get("user"));
        let users = self.source.catalog().users().map(|(_, user)| user);
        let users = users.filter(|user| name.is_none_or(|name| *user.name == *name));
        let rows = users.flat_map(entries).filter(|(on, _)| vhost.is_none_or(|vhost| vhost == *on));
        Ok(rows.map(|(_, entry)| Row::Ready(entry)).collect())
    }

    fn permissions(&self) -> Result<Vec<Row>, ApiError> {
        self.of_users(|user| definition_views::permissions(self.source, user).collect())
    }

    fn topic_permissions(&self) -> Result<Vec<Row>, ApiError> {
        let exchange = self.matched.get("exchange").map(Json::text);
        let is_wanted = |entry: &Json| exchange.is_none() || entry.get("exchange") == exchange.as_ref();
        self.of_users(|user| {
            definition_views::topic_permissions(self.source, user).filter(|(_, entry)| is_wanted(entry)).collect()
        })
    }

    fn policies(&self, is_operator: bool) -> Result<Vec<Row>, ApiError> {
        let (catalog, is_wanted) = (self.source.catalog(), self.scope_in()?);
        let name = self.matched.get("name");
        let of_kind = catalog.policies().filter(|(_, operator)| *operator == is_operator).map(|(policy, _)| policy);
        let found = of_kind.filter(|policy| catalog.vhost_by_name(&policy.vhost).is_some_and(&is_wanted));
        let found = found.filter(|policy| name.is_none_or(|name| *policy.name == *name));
        Ok(found.map(|policy| Row::Ready(definition_views::policy(policy))).collect())
    }

    fn vhost_limits(&self) -> Result<Vec<Row>, ApiError> {
        let (catalog, is_wanted) = (self.source.catalog(), self.scope_in()?);
        let limits = catalog.vhosts().filter(|(id, _)| is_wanted(*id)).filter_map(|(id, name)| {
            let limits = catalog.vhost_limits(id);
            let entry = JsonObject::new().text("vhost", name).put("value", definition_views::vhost_limits(&limits));
            (limits != catalog::VhostLimits::default()).then(|| Row::Ready(entry.build()))
        });
        Ok(limits.collect())
    }

    fn user_limits(&self) -> Result<Vec<Row>, ApiError> {
        if self.matched.get("user").is_some() {
            self.user()?;
        }
        let name = self.matched.get("user");
        let users = self.source.catalog().users().map(|(_, user)| user);
        let users = users.filter(|user| name.is_none_or(|name| *user.name == *name));
        let users = users.filter(|user| user.limits != catalog::UserLimits::default());
        let entry = |user: &User| {
            let value = definition_views::user_limits(&user.limits);
            Row::Ready(JsonObject::new().text("user", &user.name).put("value", value).build())
        };
        Ok(users.map(entry).collect())
    }

    /// Parameters of the component, virtual host and name of the path: those without an effect as they were written, and what
    /// RabbitMQ keeps as parameters, too: policies of the operator, and limits of virtual hosts.
    fn parameters(&self) -> Vec<Row> {
        let catalog = self.source.catalog();
        let is = |entry: &Json, key: &str| {
            let wanted = self.matched.get(key);
            wanted.is_none_or(|wanted| entry.get(key) == Some(&Json::text(wanted)))
        };
        let is_seen = |entry: &Json| match entry.get("vhost") {
            Some(Json::Text(name)) => catalog.vhost_by_name(name).is_some_and(|vhost| self.sees_in(vhost)),
            _ => false,
        };
        let kept = self.source.kept().section("parameters").iter().cloned();
        let policies = catalog.policies().filter(|(_, is_operator)| *is_operator);
        let policies = policies.map(|(policy, _)| definition_views::operator_policy_parameter(policy));
        let limits = catalog.vhosts().filter_map(|(id, name)| {
            let limits = catalog.vhost_limits(id);
            (limits != catalog::VhostLimits::default()).then(|| definition_views::limits_parameter(name, &limits))
        });
        let all = kept.chain(policies).chain(limits);
        let all = all.filter(|entry| is_seen(entry) && ["component", "vhost", "name"].iter().all(|key| is(entry, key)));
        let shown = all.map(|entry| match self.viewer.is_some_and(|viewer| viewer.tags.administrator) {
            true => entry,
            false => masked(entry),
        });
        shown.map(Row::Ready).collect()
    }

    fn global_parameters(&self) -> Vec<Row> {
        let kept = self.source.kept().section("global_parameters");
        let named = |name: &str| kept.iter().any(|entry| entry.get("name") == Some(&Json::text(name)));
        let name = Json::text(cluster_name(self.source));
        let cluster = [(CLUSTER_NAME, name), (CLUSTER_TAGS, cluster_tags(self.source))];
        let cluster = cluster.into_iter().filter(|(name, _)| !named(name));
        let cluster = cluster.map(|(name, value)| JsonObject::new().text("name", name).put("value", value).build());
        let wanted = self.matched.get("name").map(Json::text);
        let all = cluster.chain(kept.iter().cloned());
        all.filter(|entry| wanted.is_none() || entry.get("name") == wanted.as_ref()).map(Row::Ready).collect()
    }

    fn connections(&self, is_wanted: impl Fn(&LiveConnection) -> bool) -> Vec<Row> {
        let connections = self.source.connections().iter().enumerate();
        let seen = connections.filter(|(_, of)| self.sees_of(&of.user) && is_wanted(of));
        seen.map(|(at, _)| Row::Connection(at)).collect()
    }

    fn sees_of(&self, user: &str) -> bool {
        self.viewer.is_some_and(|viewer| viewer.sees_of(user))
    }

    fn channels(&self, is_wanted: impl Fn(&LiveChannel) -> bool) -> Vec<Row> {
        let channels = self.source.channels().iter().enumerate();
        let seen = channels.filter(|(_, of)| self.sees_of(&of.user) && is_wanted(of));
        seen.map(|(at, _)| Row::Channel(at)).collect()
    }

    fn channels_of_connection(&self) -> Read {
        let name = self.matched.at("name");
        match self.connections(|of| of.name == name).is_empty() {
            true => missing(),
            false => self.list(self.channels(|of| of.connection == name)),
        }
    }

    fn one_connection(&self, ranges: &SampleRanges) -> Read {
        let name = self.matched.at("name");
        let all = self.source.connections();
        let Some(of) = all.iter().find(|of| of.name == name && self.sees_of(&of.user)) else { return missing() };
        let mut connection = live_views::connection(self.source, of);
        if let Json::Object(fields) = &mut connection {
            let time = self.source.round_trip(of);
            let time_us = time.map_or(Json::Null, |time| Json::Int(time.as_micros() as i64));
            fields.push(("round_trip_us".to_owned(), time_us));
        }
        let object = SampledObject::Connection(name.to_owned());
        self.object(self.with_samples(connection, &object, ranges))
    }

    /// One channel, with its consumers.
    fn channel(&self, ranges: &SampleRanges) -> Read {
        let name = self.matched.at("name");
        let found = self.channels(|of| of.name() == name);
        let Some(Json::Object(mut fields)) = found.first().and_then(|row| row.render(self.source)) else {
            return missing();
        };
        let of = |consumer: &&LiveConsumer| format!("{} ({})", consumer.connection, consumer.channel) == name;
        let consumers = self.source.consumers().iter().filter(of);
        let consumers = consumers.filter_map(|consumer| live_views::consumer(self.source, consumer)).collect();
        fields.push(("consumer_details".to_owned(), Json::List(consumers)));
        let found = self.source.channels().iter().find(|of| of.name() == name);
        let object = found.map(|of| SampledObject::Channel(of.connection.clone(), of.number));
        let channel = Json::Object(fields);
        let channel = match object {
            Some(object) => self.with_samples(channel, &object, ranges),
            None => channel,
        };
        self.object(with_lists(channel, ["deliveries", "publishes"]))
    }

    fn consumers(&self) -> Read {
        let is_wanted = self.scope_in()?;
        let consumers = self.source.consumers().iter().enumerate();
        let consumers = consumers.filter(|(_, consumer)| is_wanted(consumer.vhost));
        self.list(consumers.map(|(at, _)| Row::Consumer(at)).collect())
    }

    fn federation_links(&self) -> Read {
        let (scope, is_wanted) = (self.scope()?, self.scope_in()?);
        let is_down_only = self.matched.route.pattern.ends_with("/state/down");
        let links = self.source.federation_links().iter().filter(|link| {
            let vhost = scope.source.catalog().vhost_by_name(&link.vhost);
            vhost.is_some_and(&is_wanted) && !(is_down_only && link.status == "running")
        });
        self.list(links.map(|link| Row::Ready(live_views::federation_link(self.source, link))).collect())
    }

    /// Those of the path's virtual host and name, as far as it has them.
    fn shovels(&self) -> Result<Vec<Row>, ApiError> {
        let (scope, is_wanted, name) = (self.scope()?, self.scope_in()?, self.matched.get("name"));
        let shovels = self.source.shovels().iter().filter(|shovel| {
            let vhost = scope.source.catalog().vhost_by_name(&shovel.vhost);
            vhost.is_some_and(&is_wanted) && name.is_none_or(|name| shovel.name == name)
        });
        Ok(shovels.map(|shovel| Row::Ready(shovel_view::shovel(self.source, shovel))).collect())
    }
}

/// The virtual hosts of a list.
struct ListScope<'a> {
    source: &'a dyn Source,
    only: Option<VhostId>,
}

impl ListScope<'_> {
    fn has(&self, vhost: &str) -> bool {
        self.only.is_none_or(|only| self.source.catalog().vhost_by_name(vhost) == Some(only))
    }
}

/// Counts by pairs of objects, such as a channel and an exchange, are not kept: their lists are empty.
fn with_lists(object: Json, keys: [&str; 2]) -> Json {
    let Json::Object(mut fields) = object else { return object };
    fields.extend(keys.map(|key| (key.to_owned(), Json::List(Vec::new()))));
    Json::Object(fields)
}

fn missing() -> Read {
    Err(ApiError::not_found())
}

/// What RabbitMQ's page asks before it logs in.
fn auth_settings() -> Json {
    JsonObject::new()
        .flag("enable_uaa", false)
        .flag("oauth_enabled", false)
        .text("uaa_client_id", "")
        .text("uaa_location", "")
        .build()
}
