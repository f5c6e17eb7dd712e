//! The commands that show lists, one entry each. Words and columns are rabbitmqctl's; columns of the API stand beside them.

use crate::ctl_command::{CtlAction, CtlCommand, CtlOption, ListCommand, VHOST};

const COLUMNS: &str = "[COLUMN...]";

const fn list(
    name: &'static str,
    does: &'static str,
    path: &'static str,
    columns: &'static [&'static str],
    defaults: &'static [&'static str],
) -> CtlCommand {
    let list = ListCommand { path, other_path: None, columns, defaults, is_filtered: false };
    CtlCommand::new(name, COLUMNS, does, CtlAction::List(list))
}

impl ListCommand {
    const fn with(self, other_path: (&'static str, &'static str)) -> Self {
        ListCommand { other_path: Some(other_path), ..self }
    }
}

const POLICY_COLUMNS: &[&str] =
    &["vhost", "name", "pattern", "apply-to", "apply_to=apply-to", "definition", "priority", "configured"];
const POLICY_DEFAULTS: &[&str] = &["vhost", "name", "pattern", "apply-to", "definition", "priority"];

pub const LISTS: &[CtlCommand] = &[
    list(
        "list_queues",
        "the queues of a virtual host",
        "/api/queues/{vhost}",
        &[
            "name",
            "vhost",
            "durable",
            "auto_delete",
            "exclusive",
            "arguments",
            "type",
            "policy",
            "operator_policy",
            "effective_policy_definition",
            "state",
            "messages",
            "messages_ready",
            "messages_unacknowledged",
            "messages_ram",
            "messages_ready_ram",
            "messages_unacknowledged_ram",
            "messages_persistent",
            "messages_paged_out",
            "message_bytes",
            "message_bytes_ready",
            "message_bytes_unacknowledged",
            "message_bytes_ram",
            "message_bytes_persistent",
            "message_bytes_paged_out",
            "head_message_timestamp",
            "consumers",
            "consumer_capacity",
            "consumer_utilisation",
            "exclusive_consumer_tag",
            "single_active_consumer_tag",
            "idle_since",
            "memory",
            "leader",
            "members",
            "online",
            "message_stats",
        ],
        &["name", "messages"],
    )
    .with_options(&[VHOST]),
    list(
        "list_exchanges",
        "the exchanges of a virtual host",
        "/api/exchanges/{vhost}",
        &["name", "type", "vhost", "durable", "auto_delete", "internal", "arguments", "policy", "message_stats"],
        &["name", "type"],
    )
    .with_options(&[VHOST]),
    list(
        "list_bindings",
        "the bindings of a virtual host",
        "/api/bindings/{vhost}",
        &[
            "source_name=source",
            "source_kind='exchange",
            "destination_name=destination",
            "destination_kind=destination_type",
            "routing_key",
            "arguments",
            "vhost",
            "properties_key",
        ],
        &["source_name", "source_kind", "destination_name", "destination_kind", "routing_key", "arguments"],
    )
    .with_options(&[VHOST]),
    list(
        "list_connections",
        "the open connections of all virtual hosts",
        "/api/connections",
        &[
            "name",
            "pid=name",
            "user",
            "vhost",
            "peer_host",
            "peer_port",
            "host",
            "port",
            "state",
            "channels",
            "protocol",
            "ssl",
            "ssl_protocol",
            "ssl_key_exchange",
            "ssl_cipher",
            "ssl_hash",
            "peer_cert_subject",
            "peer_cert_issuer",
            "peer_cert_validity",
            "transport",
            "auth_mechanism",
            "channel_max",
            "frame_max",
            "timeout",
            "client_properties",
            "user_provided_name",
            "connected_at",
            "recv_oct",
            "recv_cnt",
            "send_oct",
            "send_cnt",
            "send_pend",
            "shard",
            "cpu_us",
            "held_ms",
        ],
        &["user", "peer_host", "peer_port", "state"],
    ),
    list(
        "list_channels",
        "the open channels of all virtual hosts",
        "/api/channels",
        &[
            "name",
            "pid=name",
            "connection=connection_details.name",
            "number",
            "user",
            "vhost",
            "state",
            "transactional",
            "confirm",
            "consumer_count",
            "messages_unacknowledged",
            "messages_uncommitted",
            "acks_uncommitted",
            "messages_unconfirmed",
            "prefetch_count",
            "global_prefetch_count",
            "idle_since",
            "message_stats",
        ],
        &["pid", "user", "consumer_count", "messages_unacknowledged"],
    ),
    list(
        "list_consumers",
        "the consumers of a virtual host",
        "/api/consumers/{vhost}",
        &[
            "queue_name=queue.name",
            "channel_pid=channel_details.name",
            "connection_name=channel_details.connection_name",
            "user=channel_details.user",
            "consumer_tag",
            "ack_required",
            "prefetch_count",
            "active",
            "activity_status",
            "exclusive",
            "arguments",
        ],
        &["queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active", "arguments"],
    )
    .with_options(&[VHOST]),
    list(
        "list_alarms",
        "the alarms in effect and the most recent ones",
        "/api/alarms/history",
        &["resource", "raised_at", "cleared_at", "node"],
        &["resource", "raised_at", "cleared_at"],
    ),
    list(
        "list_vhosts",
        "the virtual hosts",
        "/api/vhosts",
        &[
            "name",
            "description",
            "tags",
            "default_queue_type",
            "tracing",
            "protected_from_deletion",
            "cluster_state",
            "messages",
            "messages_ready",
            "messages_unacknowledged",
            "configured",
        ],
        &["name"],
    )
    .with_stated("vhosts", &[("name", "name")]),
    list(
        "list_users",
        "the users with their tags",
        "/api/users",
        &["user=name", "tags", "limits", "hashing_algorithm", "configured"],
        &["user", "tags"],
    )
    .with_stated("users", &[("name", "name")]),
    list(
        "list_permissions",
        "the permissions in a virtual host",
        "/api/vhosts/{vhost}/permissions",
        &["user", "configure", "write", "read", "vhost", "configured"],
        &["user", "configure", "write", "read"],
    )
    .with_options(&[VHOST])
    .with_stated("permissions", &[("user", "user"), ("vhost", "vhost")]),
    CtlCommand {
        arguments: "USER [COLUMN...]",
        ..list(
            "list_user_permissions",
            "the permissions of a user",
            "/api/users/{USER}/permissions",
            &["vhost", "configure", "write", "read", "user", "configured"],
            &["vhost", "configure", "write", "read"],
        )
    }
    .with_stated("permissions", &[("user", "user"), ("vhost", "vhost")]),
    list(
        "list_topic_permissions",
        "the topic permissions in a virtual host",
        "/api/vhosts/{vhost}/topic-permissions",
        &["user", "exchange", "write", "read", "vhost", "configured"],
        &["user", "exchange", "write", "read"],
    )
    .with_options(&[VHOST])
    .with_stated("topic_permissions", &[("user", "user"), ("vhost", "vhost"), ("exchange", "exchange")]),
    CtlCommand {
        arguments: "USER [COLUMN...]",
        ..list(
            "list_user_topic_permissions",
            "the topic permissions of a user",
            "/api/users/{USER}/topic-permissions",
            &["vhost", "exchange", "write", "read", "user", "configured"],
            &["vhost", "exchange", "write", "read"],
        )
    }
    .with_stated("topic_permissions", &[("user", "user"), ("vhost", "vhost"), ("exchange", "exchange")]),
    list("list_policies", "the policies of a virtual host", "/api/policies/{vhost}", POLICY_COLUMNS, POLICY_DEFAULTS)
        .with_options(&[VHOST])
        .with_stated("policies", &[("vhost", "vhost"), ("name", "name")]),
    list(
        "list_operator_policies",
        "the operator policies of a virtual host",
        "/api/operator-policies/{vhost}",
        POLICY_COLUMNS,
        POLICY_DEFAULTS,
    )
    .with_options(&[VHOST])
    .with_stated("operator_policies", &[("vhost", "vhost"), ("name", "name")]),
    CtlCommand {
        action: CtlAction::List(ListCommand {
            path: "/api/parameters",
            other_path: None,
            columns: &["component", "name", "value", "vhost", "configured"],
            defaults: &["component", "name", "value"],
            is_filtered: true,
        }),
        ..list("list_parameters", "the parameters of a virtual host", "", &[], &[])
    }
    .with_options(&[VHOST])
    .with_stated("parameters", &[("component", "component"), ("vhost", "vhost"), ("name", "name")]),
    list(
        "list_global_parameters",
        "the global parameters",
        "/api/global-parameters",
        &["name", "value", "configured"],
        &["name", "value"],
    )
    .with_stated("global_parameters", &[("name", "name")]),
    CtlCommand {
        action: CtlAction::List(
            ListCommand {
                path: "/api/vhost-limits/{vhost}",
                other_path: None,
                columns: &["vhost", "limits=value", "configured"],
                defaults: &["vhost", "limits"],
                is_filtered: false,
            }
            .with(("--global", "/api/vhost-limits")),
        ),
        ..list("list_vhost_limits", "the limits of a virtual host", "", &[], &[])
    }
    .with_options(&[
        VHOST,
        CtlOption { long: "--global", short: None, value: None, does: "the limits of all virtual hosts" },
    ])
    .with_stated("vhost_limits", &[("vhost", "vhost")]),
    CtlCommand {
        action: CtlAction::List(
            ListCommand {
                path: "/api/user-limits",
                other_path: None,
                columns: &["user", "limits=value", "configured"],
                defaults: &["user", "limits"],
                is_filtered: false,
            }
            .with(("--user", "/api/user-limits/{--user}")),
        ),
        ..list("list_user_limits", "the limits of all users, or of one", "", &[], &[])
    }
    .with_options(&[CtlOption { long: "--user", short: None, value: Some("NAME"), does: "the limits of this user" }])
    .with_stated("user_limits", &[("user", "user")]),
    CtlCommand {
        action: CtlAction::List(
            ListCommand {
                path: "/api/federation-links",
                other_path: None,
                columns: &[
                    "vhost",
                    "upstream",
                    "type",
                    "exchange",
                    "queue",
                    "status",
                    "error",
                    "uri",
                    "id",
                    "upstream_exchange",
                    "local_connection",
                    "timestamp",
                    "node",
                ],
                defaults: &["vhost", "upstream", "type", "exchange", "queue", "status", "error"],
                is_filtered: false,
            }
            .with(("--only-down", "/api/federation-links/state/down")),
        ),
        ..list("federation_status", "the federation links and their state", "", &[], &[])
    }
    .with_options(&[CtlOption { long: "--only-down", short: None, value: None, does: "links that do not run" }]),
    list(
        "shovel_status",
        "the shovels and their state",
        "/api/shovels",
        &[
            "name",
            "vhost",
            "type",
            "state",
            "reason",
            "src_uri",
            "src_queue",
            "src_exchange",
            "src_exchange_key",
            "src_protocol",
            "dest_uri",
            "dest_queue",
            "dest_exchange",
            "dest_exchange_key",
            "dest_protocol",
            "messages",
            "messages_unacknowledged",
            "timestamp",
            "node",
        ],
        &["name", "vhost", "state", "reason", "src_uri", "dest_uri"],
    ),
];
