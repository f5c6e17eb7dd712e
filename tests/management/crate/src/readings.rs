//! Everything that the client can ask without a change.

use crate::report::Report;
use crate::{Api, BUSY, Outcome, ensure};
use rabbitmq_http_client::blocking_api::Result;
use rabbitmq_http_client::commons::{PaginationParams, PolicyTarget, SupportedProtocol};
use rabbitmq_http_client::responses::ReachabilityProbeOutcome;
use std::error::Error;
use std::fmt::Debug;

/// What is answered is a list that must not be empty.
fn some<T: Debug>(found: Result<Vec<T>>) -> Outcome {
    ensure(!found?.is_empty(), || "an empty list".to_owned())
}

/// What is answered must only be of its type: there may be none.
fn any<T: Debug>(found: Result<T>) -> Outcome {
    found?;
    Ok(())
}

pub fn check(api: &Api, report: &mut Report) {
    let page = PaginationParams::first_page(50);
    let node = || -> std::result::Result<String, Box<dyn Error>> { Ok(api.overview()?.node) };
    report.check("overview", || {
        let found = api.overview()?;
        ensure(!found.listeners.is_empty() && found.object_totals.queues >= 3, || format!("{found:?}"))
    });
    report.check("server_version", || any(api.server_version()));
    report.check("current_user", || any(api.current_user()));
    report.check("get_cluster_name", || any(api.get_cluster_name()));
    report.check("probe_reachability", || match api.probe_reachability() {
        ReachabilityProbeOutcome::Reached(_) => Ok(()),
        other => Err(format!("{other:?}").into()),
    });
    report.check("list_nodes", || some(api.list_nodes()));
    report.check("get_node_info", || any(api.get_node_info(&node()?)));
    report.check("get_node_memory_footprint", || any(api.get_node_memory_footprint(&node()?)));
    report.check("list_node_plugins", || any(api.list_node_plugins(&node()?)));
    report.check("list_all_cluster_plugins", || any(api.list_all_cluster_plugins()));
    report.check("auth_attempts_statistics", || some(api.auth_attempts_statistics(&node()?)));
    report.check("list_feature_flags", || any(api.list_feature_flags()));
    report.check("list_all_deprecated_features", || any(api.list_all_deprecated_features()));
    report.check("list_deprecated_features_in_use", || any(api.list_deprecated_features_in_use()));

    report.check("list_vhosts", || some(api.list_vhosts()));
    report.check("list_vhosts_paged", || some(api.list_vhosts_paged(&page)));
    report.check("get_vhost", || any(api.get_vhost(BUSY)));
    report.check("list_users", || some(api.list_users()));
    report.check("list_users_paged", || some(api.list_users_paged(&page)));
    report.check("list_users_without_permissions", || any(api.list_users_without_permissions()));
    report.check("get_user", || any(api.get_user("guest")));
    report.check("list_permissions", || some(api.list_permissions()));
    report.check("list_permissions_in", || some(api.list_permissions_in(BUSY)));
    report.check("list_permissions_of", || some(api.list_permissions_of("guest")));
    report.check("get_permissions", || any(api.get_permissions(BUSY, "guest")));
    report.check("list_topic_permissions", || any(api.list_topic_permissions()));
    report.check("list_topic_permissions_in", || any(api.list_topic_permissions_in(BUSY)));
    report.check("list_topic_permissions_of", || any(api.list_topic_permissions_of("guest")));

    report.check("list_connections", || some(api.list_connections()));
    report.check("list_connections_paged", || some(api.list_connections_paged(&page)));
    report.check("list_connections_in", || some(api.list_connections_in(BUSY)));
    report.check("list_user_connections", || some(api.list_user_connections("guest")));
    report.check("get_connection_info", || {
        let names = api.list_connections()?.into_iter().map(|connection| connection.name);
        names.into_iter().try_for_each(|name| any(api.get_connection_info(&name)))
    });
    report.check("list_channels", || some(api.list_channels()));
    report.check("list_channels_paged", || some(api.list_channels_paged(&page)));
    report.check("list_channels_in", || some(api.list_channels_in(BUSY)));
    report.check("list_channels_in_paged", || some(api.list_channels_in_paged(BUSY, &page)));
    report.check("list_channels_on", || {
        let connection = api.list_channels()?.swap_remove(0).connection_details.name;
        some(api.list_channels_on(&connection))
    });
    report.check("get_channel_info", || any(api.get_channel_info(&api.list_channels()?[0].name)));
    report.check("list_consumers", || some(api.list_consumers()));
    report.check("list_consumers_in", || some(api.list_consumers_in(BUSY)));

    report.check("list_queues", || some(api.list_queues()));
    report.check("list_queues_paged", || some(api.list_queues_paged(&page)));
    report.check("list_queues_in", || some(api.list_queues_in(BUSY)));
    report.check("list_queues_in_paged", || some(api.list_queues_in_paged(BUSY, &page)));
    report.check("list_queues_with_details", || some(api.list_queues_with_details()));
    report.check("list_classic_queues", || some(api.list_classic_queues()));
    report.check("list_classic_queues_in", || some(api.list_classic_queues_in(BUSY)));
    report.check("list_quorum_queues", || any(api.list_quorum_queues()));
    report.check("list_quorum_queues_in", || any(api.list_quorum_queues_in(BUSY)));
    report.check("list_streams", || any(api.list_streams()));
    report.check("list_streams_in", || any(api.list_streams_in(BUSY)));
    report.check("list_streams_paged", || any(api.list_streams_paged(&page)));
    report.check("list_streams_in_paged", || any(api.list_streams_in_paged(BUSY, &page)));
    report.check("get_queue_info", || {
        let found = api.get_queue_info(BUSY, "waiting-1")?;
        ensure(found.message_count == 4, || format!("{} messages", found.message_count))
    });
    report.check("list_exchanges", || some(api.list_exchanges()));
    report.check("list_exchanges_paged", || some(api.list_exchanges_paged(&page)));
    report.check("list_exchanges_in", || some(api.list_exchanges_in(BUSY)));
    report.check("list_exchanges_in_paged", || some(api.list_exchanges_in_paged(BUSY, &page)));
    report.check("get_exchange_info", || any(api.get_exchange_info(BUSY, "amq.topic")));
    report.check("list_bindings", || some(api.list_bindings()));
    report.check("list_bindings_in", || some(api.list_bindings_in(BUSY)));
    report.check("list_queue_bindings", || some(api.list_queue_bindings(BUSY, "waiting-0")));
    report
        .check("list_exchange_bindings_with_source", || any(api.list_exchange_bindings_with_source(BUSY, "amq.topic")));
    report.check("list_exchange_bindings_with_destination", || {
        any(api.list_exchange_bindings_with_destination(BUSY, "amq.topic"))
    });

    report.check("list_policies", || any(api.list_policies()));
    report.check("list_policies_in", || any(api.list_policies_in(BUSY)));
    report.check("list_policies_for_target", || any(api.list_policies_for_target(BUSY, PolicyTarget::Queues)));
    report.check("list_matching_policies", || {
        any(api.list_matching_policies(BUSY, "waiting-0", PolicyTarget::ClassicQueues))
    });
    report.check("list_operator_policies", || any(api.list_operator_policies()));
    report.check("list_operator_policies_in", || any(api.list_operator_policies_in(BUSY)));
    report.check("list_runtime_parameters", || any(api.list_runtime_parameters()));
    report.check("list_runtime_parameters_of_component", || {
        any(api.list_runtime_parameters_of_component("federation-upstream"))
    });
    report.check("list_global_runtime_parameters", || any(api.list_global_runtime_parameters()));
    report.check("list_all_vhost_limits", || any(api.list_all_vhost_limits()));
    report.check("list_vhost_limits", || any(api.list_vhost_limits(BUSY)));
    report.check("list_all_user_limits", || any(api.list_all_user_limits()));
    report.check("list_user_limits", || any(api.list_user_limits("guest")));
    report.check("list_federation_upstreams", || any(api.list_federation_upstreams()));
    report.check("list_federation_links", || any(api.list_federation_links()));
    report.check("list_shovels", || any(api.list_shovels()));
    report.check("list_shovels_in", || any(api.list_shovels_in(BUSY)));
    report.check("list_stream_connections", || any(api.list_stream_connections()));
    report.check("list_stream_connections_in", || any(api.list_stream_connections_in(BUSY)));
    report.check("list_stream_publishers", || any(api.list_stream_publishers()));
    report.check("list_stream_publishers_in", || any(api.list_stream_publishers_in(BUSY)));
    report.check("list_stream_publishers_of", || any(api.list_stream_publishers_of(BUSY, "waiting-0")));
    report.check("list_stream_consumers", || any(api.list_stream_consumers()));
    report.check("list_stream_consumers_in", || any(api.list_stream_consumers_in(BUSY)));

    report.check("export_cluster_wide_definitions", || any(api.export_cluster_wide_definitions()));
    report.check("export_cluster_wide_definitions_as_data", || {
        let found = api.export_cluster_wide_definitions_as_data()?;
        ensure(found.queues.iter().any(|queue| queue.name == "waiting-0"), || format!("{found:?}"))
    });
    report.check("export_vhost_definitions", || any(api.export_vhost_definitions(BUSY)));
    report.check("export_vhost_definitions_as_data", || any(api.export_vhost_definitions_as_data(BUSY)));

    report.check("health_check_cluster_wide_alarms", || any(api.health_check_cluster_wide_alarms()));
    report.check("health_check_local_alarms", || any(api.health_check_local_alarms()));
    report.check("health_check_if_node_is_quorum_critical", || any(api.health_check_if_node_is_quorum_critical()));
    report.check("health_check_port_listener", || {
        let listeners = api.overview()?.listeners;
        listeners.iter().try_for_each(|listener| any(api.health_check_port_listener(u16::try_from(listener.port)?)))
    });
    report.check("health_check_port_listener-of-none", || {
        ensure(api.health_check_port_listener(1).is_err(), || "nobody listens at port 1".to_owned())
    });
    for protocol in [SupportedProtocol::AMQP, SupportedProtocol::HTTP, SupportedProtocol::Prometheus] {
        report.check(&format!("health_check_protocol_listener-{}", String::from(protocol.clone())), || {
            any(api.health_check_protocol_listener(protocol))
        });
    }
}
