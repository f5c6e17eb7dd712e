//! Makes and removes one of each kind, and finds it as it was made.

use crate::report::Report;
use crate::{Api, BUSY, Outcome, ensure};
use rabbitmq_http_client::commons::{
    BindingDestinationType, ExchangeType, PolicyTarget, UserLimitTarget, VirtualHostLimitTarget,
};
use rabbitmq_http_client::password_hashing::{base64_encoded_salted_password_hash_sha256, salt};
use rabbitmq_http_client::requests::{
    BindingDeletionParams, EnforcedLimitParams, ExchangeParams, FederationUpstreamParams,
    GlobalRuntimeParameterDefinition, Permissions, PolicyDefinitionBuilder, PolicyParams, QueueFederationParams,
    QueueParams, RuntimeParameterDefinition, TopicPermissions, UserParams, VirtualHostParams,
};
use serde_json::{Map, Value, json};

/// Names with what a path must escape.
const VHOST: &str = "made/ü 50%";
const QUEUE: &str = "a queue/%2F?&#";
const EXCHANGE: &str = "an exchange;=+";
const USER: &str = "made by/crate";

pub fn check(api: &Api, report: &mut Report) {
    report.check("create_vhost", || vhosts(api));
    report.check("create_user", || users(api));
    report.check("declare_permissions", || permissions(api));
    report.check("declare_topic_permissions", || topic_permissions(api));
    report.check("declare_queue", || queues(api));
    report.check("declare_exchange", || exchanges(api));
    report.check("bind_queue", || queue_bindings(api));
    report.check("bind_exchange", || exchange_bindings(api));
    report.check("publish_and_get_messages", || messages(api));
    report.check("declare_policy", || policies(api));
    report.check("declare_operator_policy", || operator_policies(api));
    report.check("set_vhost_limit", || vhost_limits(api));
    report.check("set_user_limit", || user_limits(api));
    report.check("upsert_runtime_parameter", || parameters(api));
    report.check("upsert_global_runtime_parameter", || global_parameters(api));
    report.check("set_cluster_name", || cluster_name(api));
    report.check("set_cluster_tags", || cluster_tags(api));
    report.check("import_definitions", || import(api));
    report.check("rebalance_queue_leaders", || Ok(api.rebalance_queue_leaders()?));
    report.check("enable_all_stable_feature_flags", || Ok(api.enable_all_stable_feature_flags()?));
    report.check("vhost_deletion_protection", || protection(api));
    report.check("delete_all", || delete_all(api));
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn vhosts(api: &Api) -> Outcome {
    api.create_vhost(&VirtualHostParams::named(VHOST).with_description("first").with_tags(vec!["one", "two"]))?;
    api.update_vhost(&VirtualHostParams::named(VHOST).with_description("second").with_tags(vec!["three"]))?;
    let found = api.get_vhost(VHOST)?;
    ensure(found.name == VHOST && found.description.as_deref() == Some("second"), || format!("{found:?}"))
}

fn users(api: &Api) -> Outcome {
    let hash = base64_encoded_salted_password_hash_sha256(&salt(), "secret");
    api.create_user(&UserParams::monitoring(USER, &hash))?;
    let found = api.get_user(USER)?;
    ensure(found.password_hash.is_some_and(|found| found.as_str() == hash), || "another hash".to_owned())?;
    let names: Vec<_> = api.list_users_without_permissions()?.into_iter().map(|user| user.name).collect();
    ensure(names.iter().any(|name| name == USER), || format!("{names:?}"))?;
    for name in ["one", "two"] {
        api.create_user(&UserParams::without_tags(name, &hash))?;
    }
    api.delete_users(vec!["one", "two"])?;
    let left = api.list_users()?.len();
    ensure(left == 2, || format!("{left} users"))
}

fn permissions(api: &Api) -> Outcome {
    api.declare_permissions(&Permissions::read_only(USER, VHOST))?;
    api.clear_permissions(VHOST, USER, false)?;
    api.grant_full_permissions(USER, VHOST)?;
    let found = api.get_permissions(VHOST, USER)?;
    ensure(found.configure == ".*" && found.user == USER, || format!("{found:?}"))
}

fn topic_permissions(api: &Api) -> Outcome {
    let wanted = TopicPermissions { user: USER, vhost: VHOST, write: "^w", read: "^r", exchange: "amq.topic" };
    api.declare_topic_permissions(&wanted)?;
    let found = api.list_topic_permissions_of(USER)?;
    ensure(found.len() == 1 && found[0].write == "^w", || format!("{found:?}"))?;
    api.clear_topic_permissions(VHOST, USER, false)?;
    let left = api.list_topic_permissions_in(VHOST)?.len();
    ensure(left == 0, || format!("{left} are left"))
}

fn queues(api: &Api) -> Outcome {
    api.declare_queue(VHOST, &QueueParams::new_durable_classic_queue(QUEUE, None).with_max_length(100))?;
    api.declare_queue(VHOST, &QueueParams::new_transient_autodelete("goes", None))?;
    api.declare_classic_queue(VHOST, "plain")?;
    let found = api.get_queue_info(VHOST, QUEUE)?;
    ensure(found.name == QUEUE && found.durable && found.queue_type == "classic", || format!("{found:?}"))?;
    ensure(found.arguments.get("x-max-length") == Some(&json!(100)), || format!("{:?}", found.arguments))?;
    api.delete_queues(VHOST, &["goes", "plain"], false)?;
    ensure(api.get_queue_info(VHOST, "plain").is_err(), || "it is still there".to_owned())?;
    Ok(api.delete_queue(VHOST, "plain", true)?)
}

fn exchanges(api: &Api) -> Outcome {
    api.declare_exchange(VHOST, &ExchangeParams::durable(EXCHANGE, ExchangeType::Topic, None))?;
    let alternate = Some(object(json!({"alternate-exchange": "amq.fanout"})));
    api.declare_exchange(VHOST, &ExchangeParams::fanout("goes", false, false, alternate))?;
    let found = api.get_exchange_info(VHOST, EXCHANGE)?;
    ensure(found.exchange_type == "topic" && found.durable, || format!("{found:?}"))?;
    Ok(api.delete_exchange(VHOST, "goes", false)?)
}

fn queue_bindings(api: &Api) -> Outcome {
    api.bind_queue(VHOST, QUEUE, EXCHANGE, Some("a.#"), None)?;
    api.bind_queue(VHOST, QUEUE, EXCHANGE, Some("b"), Some(object(json!({"x": 1}))))?;
    let found = api.list_queue_bindings(VHOST, QUEUE)?;
    // With that of the default exchange.
    ensure(found.len() == 3, || format!("{found:?}"))?;
    for (routing_key, arguments) in [("a.#", None), ("b", Some(object(json!({"x": 1}))))] {
        let binding = BindingDeletionParams {
            virtual_host: VHOST,
            source: EXCHANGE,
            destination: QUEUE,
            destination_type: BindingDestinationType::Queue,
            routing_key,
            arguments,
        };
        api.delete_binding(&binding, false)?;
    }
    let left = api.list_queue_bindings(VHOST, QUEUE)?;
    ensure(left.len() == 1, || format!("{left:?}"))?;
    let before = found.iter().find(|binding| binding.routing_key == "b").ok_or("there was one")?;
    api.recreate_binding(before)?;
    let again = api.list_exchange_bindings_with_source(VHOST, EXCHANGE)?;
    ensure(again == [before.clone()], || format!("{again:?}"))
}

fn exchange_bindings(api: &Api) -> Outcome {
    api.bind_exchange(VHOST, "amq.fanout", EXCHANGE, Some("all"), None)?;
    let found = api.list_exchange_bindings_with_destination(VHOST, "amq.fanout")?;
    ensure(found.len() == 1 && found[0].source == EXCHANGE, || format!("{found:?}"))?;
    Ok(api.delete_binding(&BindingDeletionParams::from_binding_info(&found[0]), false)?)
}

fn messages(api: &Api) -> Outcome {
    let properties = object(json!({"delivery_mode": 2, "headers": {"h": 1}}));
    let routed = api.publish_message(VHOST, EXCHANGE, "b", "hello ü", properties)?;
    ensure(routed.routed, || "it was not routed".to_owned())?;
    let nowhere = api.publish_message(VHOST, EXCHANGE, "nowhere", "x", Map::new())?;
    ensure(!nowhere.routed, || "there is no queue for it".to_owned())?;
    api.publish_message(VHOST, "amq.default", QUEUE, "second", Map::new())?;
    let kept = api.get_messages(VHOST, QUEUE, 2, "ack_requeue_true")?;
    let payloads: Vec<_> = kept.iter().map(|message| message.payload.as_str()).collect();
    ensure(payloads == ["hello ü", "second"], || format!("{payloads:?}"))?;
    let taken = api.get_messages(VHOST, QUEUE, 1, "ack_requeue_false")?;
    ensure(taken.len() == 1 && taken[0].redelivered && taken[0].message_count == 1, || format!("{taken:?}"))?;
    api.purge_queue(VHOST, QUEUE)?;
    let left = api.get_messages(VHOST, QUEUE, 1, "ack_requeue_false")?;
    ensure(left.is_empty(), || format!("{left:?}"))
}

fn policies(api: &Api) -> Outcome {
    let definition = PolicyDefinitionBuilder::new().max_length(50).overflow_reject_publish().build();
    let first =
        PolicyParams::new(VHOST, "a policy", "^a", definition).apply_to(PolicyTarget::ClassicQueues).priority(7);
    api.declare_policy(&first)?;
    let found = api.get_policy(VHOST, "a policy")?;
    ensure(found.priority == 7 && found.apply_to == PolicyTarget::ClassicQueues, || format!("{found:?}"))?;
    let matching = api.list_matching_policies(VHOST, QUEUE, PolicyTarget::ClassicQueues)?;
    ensure(matching.len() == 1, || format!("{matching:?}"))?;
    let definition = PolicyDefinitionBuilder::new().expires(3_600_000).build();
    api.declare_policies(vec![&PolicyParams::new(VHOST, "another", "^b", definition)])?;
    api.delete_policies_in(VHOST, vec!["another"])?;
    Ok(api.delete_policy(VHOST, "a policy", false)?)
}

fn operator_policies(api: &Api) -> Outcome {
    let definition = PolicyDefinitionBuilder::new().max_length_bytes(5_000).build();
    api.declare_operator_policy(&PolicyParams::new(VHOST, "op", ".*", definition).apply_to(PolicyTarget::Queues))?;
    let found = api.get_operator_policy(VHOST, "op")?;
    ensure(found.pattern == ".*", || format!("{found:?}"))?;
    let all = api.list_operator_policies_in(VHOST)?;
    ensure(all.len() == 1, || format!("{all:?}"))?;
    Ok(api.delete_operator_policy(VHOST, "op", false)?)
}

fn vhost_limits(api: &Api) -> Outcome {
    api.set_vhost_limit(VHOST, EnforcedLimitParams::new(VirtualHostLimitTarget::MaxQueues, 500))?;
    let found = api.list_vhost_limits(VHOST)?;
    ensure(found.len() == 1 && found[0].limits.0["max-queues"] == 500, || format!("{found:?}"))?;
    api.clear_vhost_limit(VHOST, VirtualHostLimitTarget::MaxQueues)?;
    let left = api.list_all_vhost_limits()?;
    ensure(left.iter().all(|limits| limits.limits.0.is_empty()), || format!("{left:?}"))
}

fn user_limits(api: &Api) -> Outcome {
    api.set_user_limit(USER, EnforcedLimitParams::new(UserLimitTarget::MaxConnections, 5))?;
    let found = api.list_user_limits(USER)?;
    ensure(found.len() == 1 && found[0].limits.0["max-connections"] == 5, || format!("{found:?}"))?;
    Ok(api.clear_user_limit(USER, UserLimitTarget::MaxConnections)?)
}

fn parameters(api: &Api) -> Outcome {
    let value = object(json!({"uri": "amqp://127.0.0.1:1", "prefetch-count": 10}));
    let wanted = RuntimeParameterDefinition { name: "up", vhost: VHOST, component: "federation-upstream", value };
    api.upsert_runtime_parameter(&wanted)?;
    let found = api.get_runtime_parameter("federation-upstream", VHOST, "up")?;
    ensure(found.value.0["prefetch-count"] == 10, || format!("{found:?}"))?;
    let all = api.list_runtime_parameters_of_component_in("federation-upstream", VHOST)?;
    ensure(all.len() == 1, || format!("{all:?}"))?;
    api.clear_runtime_parameter("federation-upstream", VHOST, "up", false)?;
    let queue = QueueFederationParams::new("q");
    let upstream = FederationUpstreamParams::new_queue_federation_upstream(VHOST, "fed", "amqp://127.0.0.1:1", queue);
    api.declare_federation_upstream(upstream)?;
    let found = api.get_federation_upstream(VHOST, "fed")?;
    ensure(found.queue.as_deref() == Some("q"), || format!("{found:?}"))?;
    Ok(api.delete_federation_upstream(VHOST, "fed", false)?)
}

fn global_parameters(api: &Api) -> Outcome {
    let value = object(json!({"a": [1, "two"]}));
    api.upsert_global_runtime_parameter(&GlobalRuntimeParameterDefinition { name: "of the crate", value })?;
    api.get_global_runtime_parameter("of the crate")?;
    Ok(api.clear_global_runtime_parameter("of the crate")?)
}

fn cluster_name(api: &Api) -> Outcome {
    let before = api.get_cluster_name()?.name;
    api.set_cluster_name("of the crate")?;
    let found = api.get_cluster_name()?.name;
    ensure(found == "of the crate", || found)?;
    Ok(api.set_cluster_name(&before)?)
}

fn cluster_tags(api: &Api) -> Outcome {
    api.set_cluster_tags(object(json!({"region": "here"})))?;
    let found = api.get_cluster_tags()?;
    ensure(found.0.get("region") == Some(&json!("here")), || format!("{found:?}"))?;
    api.clear_cluster_tags()?;
    let found = api.get_cluster_tags()?;
    ensure(found.0.is_empty(), || format!("{found:?}"))
}

fn import(api: &Api) -> Outcome {
    let queue = json!({"name": "imported", "durable": true, "auto_delete": false, "arguments": {}});
    api.import_vhost_definitions(VHOST, json!({"queues": [queue]}))?;
    api.get_queue_info(VHOST, "imported")?;
    let all: Value = serde_json::from_str(&api.export_cluster_wide_definitions()?)?;
    let before = api.list_queues()?.len();
    api.import_cluster_wide_definitions(all)?;
    let after = api.list_queues()?.len();
    ensure(before == after, || format!("{after} queues, and there were {before}"))
}

fn protection(api: &Api) -> Outcome {
    api.enable_vhost_deletion_protection(VHOST)?;
    let found = api.get_vhost(VHOST)?;
    ensure(api.delete_vhost(VHOST, false).is_err(), || format!("deleted while protected: {found:?}"))?;
    Ok(api.disable_vhost_deletion_protection(VHOST)?)
}

fn delete_all(api: &Api) -> Outcome {
    api.delete_queue(VHOST, QUEUE, false)?;
    api.delete_exchange(VHOST, EXCHANGE, false)?;
    api.delete_user(USER, false)?;
    api.delete_vhost(VHOST, false)?;
    ensure(api.delete_vhost(VHOST, false).is_err(), || "deleted twice".to_owned())?;
    Ok(api.delete_vhost(VHOST, true)?)
}

/// Closes the connections of the load, one by its name and all others.
pub fn close_connections(api: &Api) -> Outcome {
    let connections = api.list_connections_in(BUSY)?;
    let first = &connections.first().ok_or("there is none")?.name;
    api.close_connection(first, Some("closed by the crate"), false)?;
    Ok(api.close_user_connections("guest", Some("all of them"), true)?)
}
