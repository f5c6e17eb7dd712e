//! The commands that change something by one request, one entry each. Words and arguments are rabbitmqctl's, and a few lavinmqctl's.

use crate::ctl_command::BodyField::{Flag, Json, Number, Text};
use crate::ctl_command::{BodyField, ChangeCommand, CtlAction, CtlCommand, CtlOption, VHOST};

const fn put(path: &'static str, body: &'static [(&'static str, BodyField)], progress: &'static str) -> ChangeCommand {
    ChangeCommand { method: "PUT", path, query: &[], body, reason: None, progress, missing: "" }
}

const fn delete(path: &'static str, missing: &'static str, progress: &'static str) -> ChangeCommand {
    ChangeCommand { method: "DELETE", path, query: &[], body: &[], reason: None, progress, missing }
}

impl ChangeCommand {
    const fn missing(self, missing: &'static str) -> Self {
        ChangeCommand { missing, ..self }
    }

    const fn query(self, query: &'static [(&'static str, &'static str)]) -> Self {
        ChangeCommand { query, ..self }
    }

    const fn reason(self, reason: &'static str) -> Self {
        ChangeCommand { reason: Some(reason), ..self }
    }
}

const fn change(name: &'static str, arguments: &'static str, does: &'static str, change: ChangeCommand) -> CtlCommand {
    CtlCommand::new(name, arguments, does, CtlAction::Change(change))
}

const fn option(long: &'static str, value: &'static str, does: &'static str) -> CtlOption {
    CtlOption { long, short: None, value: Some(value), does }
}

const fn flag(long: &'static str, short: Option<&'static str>, does: &'static str) -> CtlOption {
    CtlOption { long, short, value: None, does }
}

const NO_VHOST: &str = "there is no virtual host '{vhost}'";
const PRIORITY: CtlOption = option("--priority", "NUMBER", "which of several policies counts: the highest; default 0");
const APPLY_TO: CtlOption =
    option("--apply-to", "WHAT", "queues, exchanges, all (default), classic_queues, quorum_queues, streams");
const DURABLE: CtlOption = flag("--durable", None, "it survives a restart");
const AUTO_DELETE: CtlOption = flag("--auto-delete", None, "it is deleted once nothing uses it any more");
const ARGUMENTS: CtlOption = option("--arguments", "JSON", "arguments, as an object");
const POLICY_BODY: &[(&str, BodyField)] = &[
    ("pattern", Text("PATTERN")),
    ("definition", Json("DEFINITION")),
    ("priority", Number("--priority")),
    ("apply-to", Text("--apply-to")),
];
const POLICY_KEYS: &[(&str, &str)] = &[("vhost", "vhost"), ("name", "NAME")];
const PERMISSION_KEYS: &[(&str, &str)] = &[("user", "USER"), ("vhost", "vhost")];
const TOPIC_KEYS: &[(&str, &str)] = &[("user", "USER"), ("vhost", "vhost")];
const PARAMETER_KEYS: &[(&str, &str)] = &[("component", "COMPONENT"), ("vhost", "vhost"), ("name", "NAME")];

pub const CHANGES: &[CtlCommand] = &[
    change(
        "delete_user",
        "USER",
        "deletes a user with its permissions; its connections are closed",
        delete("/api/users/{USER}", "there is no user '{USER}'", "Deleting user '{USER}' ..."),
    )
    .with_stated("users", &[("name", "USER")]),
    change(
        "set_permissions",
        "USER CONFIGURE WRITE READ",
        "gives a user access to a virtual host, by patterns of names",
        put(
            "/api/permissions/{vhost}/{USER}",
            &[("configure", Text("CONFIGURE")), ("write", Text("WRITE")), ("read", Text("READ"))],
            "Setting permissions for user '{USER}' in virtual host '{vhost}' ...",
        )
        .missing(NO_VHOST),
    )
    .with_options(&[VHOST])
    .with_stated("permissions", PERMISSION_KEYS),
    change(
        "clear_permissions",
        "USER",
        "removes a user's access to a virtual host",
        delete(
            "/api/permissions/{vhost}/{USER}",
            "user '{USER}' has no permissions in virtual host '{vhost}'",
            "Clearing permissions for user '{USER}' in virtual host '{vhost}' ...",
        ),
    )
    .with_options(&[VHOST])
    .with_stated("permissions", PERMISSION_KEYS),
    change(
        "set_topic_permissions",
        "USER EXCHANGE WRITE READ",
        "limits the routing keys that a user may use at a topic exchange, by patterns",
        put(
            "/api/topic-permissions/{vhost}/{USER}",
            &[("exchange", Text("EXCHANGE")), ("write", Text("WRITE")), ("read", Text("READ"))],
            "Setting topic permissions on '{EXCHANGE}' for user '{USER}' in virtual host '{vhost}' ...",
        )
        .missing(NO_VHOST),
    )
    .with_options(&[VHOST])
    .with_stated("topic_permissions", TOPIC_KEYS),
    change(
        "add_vhost",
        "VHOST",
        "creates a virtual host, in which its creator has all permissions",
        put(
            "/api/vhosts/{VHOST}",
            &[
                ("description", Text("--description")),
                ("tags", Text("--tags")),
                ("default_queue_type", Text("--default-queue-type")),
            ],
            "Adding virtual host '{VHOST}' ...",
        ),
    )
    .with_options(&[
        option("--description", "TEXT", "what it is for"),
        option("--tags", "A,B", "labels"),
        option("--default-queue-type", "TYPE", "kept for other tools; every queue is classic"),
    ])
    .with_stated("vhosts", &[("name", "VHOST")]),
    change(
        "delete_vhost",
        "VHOST",
        "deletes a virtual host with everything in it",
        delete("/api/vhosts/{VHOST}", "there is no virtual host '{VHOST}'", "Deleting virtual host '{VHOST}' ..."),
    )
    .with_stated("vhosts", &[("name", "VHOST")]),
    change(
        "set_policy",
        "NAME PATTERN DEFINITION",
        "sets a policy; DEFINITION is JSON",
        put("/api/policies/{vhost}/{NAME}", POLICY_BODY, "Setting policy '{NAME}' in virtual host '{vhost}' ...")
            .missing(NO_VHOST),
    )
    .with_options(&[VHOST, PRIORITY, APPLY_TO])
    .with_stated("policies", POLICY_KEYS),
    change(
        "clear_policy",
        "NAME",
        "removes a policy",
        delete(
            "/api/policies/{vhost}/{NAME}",
            "there is no policy '{NAME}' in virtual host '{vhost}'",
            "Clearing policy '{NAME}' in virtual host '{vhost}' ...",
        ),
    )
    .with_options(&[VHOST])
    .with_stated("policies", POLICY_KEYS),
    change(
        "set_operator_policy",
        "NAME PATTERN DEFINITION",
        "sets an operator policy, which limits what others may ask for",
        put(
            "/api/operator-policies/{vhost}/{NAME}",
            POLICY_BODY,
            "Setting operator policy '{NAME}' in virtual host '{vhost}' ...",
        )
        .missing(NO_VHOST),
    )
    .with_options(&[VHOST, PRIORITY, APPLY_TO])
    .with_stated("operator_policies", POLICY_KEYS),
    change(
        "clear_operator_policy",
        "NAME",
        "removes an operator policy",
        delete(
            "/api/operator-policies/{vhost}/{NAME}",
            "there is no operator policy '{NAME}' in virtual host '{vhost}'",
            "Clearing operator policy '{NAME}' in virtual host '{vhost}' ...",
        ),
    )
    .with_options(&[VHOST])
    .with_stated("operator_policies", POLICY_KEYS),
    change(
        "set_parameter",
        "COMPONENT NAME VALUE",
        "sets a parameter of a component; VALUE is JSON",
        put(
            "/api/parameters/{COMPONENT}/{vhost}/{NAME}",
            &[("value", Json("VALUE"))],
            "Setting parameter '{NAME}' of component '{COMPONENT}' in virtual host '{vhost}' ...",
        )
        .missing(NO_VHOST),
    )
    .with_options(&[VHOST])
    .with_stated("parameters", PARAMETER_KEYS),
    change(
        "clear_parameter",
        "COMPONENT NAME",
        "removes a parameter of a component",
        delete(
            "/api/parameters/{COMPONENT}/{vhost}/{NAME}",
            "there is no parameter '{NAME}' of component '{COMPONENT}' in virtual host '{vhost}'",
            "Clearing parameter '{NAME}' of component '{COMPONENT}' in virtual host '{vhost}' ...",
        ),
    )
    .with_options(&[VHOST])
    .with_stated("parameters", PARAMETER_KEYS),
    change(
        "delete_shovel",
        "NAME",
        "deletes a shovel and its parameter",
        delete(
            "/api/shovels/vhost/{vhost}/{NAME}",
            "there is no shovel '{NAME}' in virtual host '{vhost}'",
            "Deleting shovel '{NAME}' in virtual host '{vhost}' ...",
        ),
    )
    .with_options(&[VHOST]),
    change(
        "restart_shovel",
        "NAME",
        "reconnects a shovel",
        delete(
            "/api/shovels/vhost/{vhost}/{NAME}/restart",
            "there is no shovel '{NAME}' in virtual host '{vhost}'",
            "Restarting shovel '{NAME}' in virtual host '{vhost}' ...",
        ),
    )
    .with_options(&[VHOST]),
    change(
        "pause_shovel",
        "NAME",
        "pauses a shovel until it is resumed",
        put("/api/shovels/vhost/{vhost}/{NAME}/pause", &[], "Pausing shovel '{NAME}' in virtual host '{vhost}' ...")
            .missing("there is no shovel '{NAME}' in virtual host '{vhost}'"),
    )
    .with_options(&[VHOST]),
    change(
        "resume_shovel",
        "NAME",
        "resumes a paused shovel",
        put("/api/shovels/vhost/{vhost}/{NAME}/resume", &[], "Resuming shovel '{NAME}' in virtual host '{vhost}' ...")
            .missing("there is no shovel '{NAME}' in virtual host '{vhost}'"),
    )
    .with_options(&[VHOST]),
    change(
        "set_cluster_name",
        "NAME",
        "names the cluster for people and tools",
        put("/api/cluster-name", &[("name", Text("NAME"))], "Setting the name of the cluster to '{NAME}' ..."),
    ),
    change(
        "set_global_parameter",
        "NAME VALUE",
        "sets a global parameter; VALUE is JSON",
        put("/api/global-parameters/{NAME}", &[("value", Json("VALUE"))], "Setting global parameter '{NAME}' ..."),
    )
    .with_stated("global_parameters", &[("name", "NAME")]),
    change(
        "clear_global_parameter",
        "NAME",
        "removes a global parameter",
        delete(
            "/api/global-parameters/{NAME}",
            "there is no global parameter '{NAME}'",
            "Clearing global parameter '{NAME}' ...",
        ),
    )
    .with_stated("global_parameters", &[("name", "NAME")]),
    change(
        "create_queue",
        "QUEUE",
        "declares a queue",
        put(
            "/api/queues/{vhost}/{QUEUE}",
            &[
                ("durable", Flag("--durable")),
                ("auto_delete", Flag("--auto-delete")),
                ("arguments", Json("--arguments")),
            ],
            "Declaring queue '{QUEUE}' in virtual host '{vhost}' ...",
        )
        .missing(NO_VHOST),
    )
    .with_options(&[VHOST, DURABLE, AUTO_DELETE, ARGUMENTS]),
    change(
        "delete_queue",
        "QUEUE",
        "deletes a queue with its messages",
        delete(
            "/api/queues/{vhost}/{QUEUE}",
            "there is no queue '{QUEUE}' in virtual host '{vhost}'",
            "Deleting queue '{QUEUE}' in virtual host '{vhost}' ...",
        )
        .query(&[("if-empty", "--if-empty"), ("if-unused", "--if-unused")]),
    )
    .with_options(&[
        VHOST,
        flag("--if-empty", Some("-e"), "not if it has messages"),
        flag("--if-unused", Some("-u"), "not if it has consumers"),
    ]),
    change(
        "purge_queue",
        "QUEUE",
        "drops the messages that wait in a queue",
        delete(
            "/api/queues/{vhost}/{QUEUE}/contents",
            "there is no queue '{QUEUE}' in virtual host '{vhost}'",
            "Purging queue '{QUEUE}' in virtual host '{vhost}' ...",
        ),
    )
    .with_options(&[VHOST]),
    change(
        "create_exchange",
        "TYPE EXCHANGE",
        "declares an exchange",
        put(
            "/api/exchanges/{vhost}/{EXCHANGE}",
            &[
                ("type", Text("TYPE")),
                ("durable", Flag("--durable")),
                ("auto_delete", Flag("--auto-delete")),
                ("internal", Flag("--internal")),
                ("arguments", Json("--arguments")),
            ],
            "Declaring exchange '{EXCHANGE}' in virtual host '{vhost}' ...",
        )
        .missing(NO_VHOST),
    )
    .with_options(&[
        VHOST,
        DURABLE,
        AUTO_DELETE,
        flag("--internal", None, "clients do not publish to it"),
        ARGUMENTS,
    ]),
    change(
        "delete_exchange",
        "EXCHANGE",
        "deletes an exchange",
        delete(
            "/api/exchanges/{vhost}/{EXCHANGE}",
            "there is no exchange '{EXCHANGE}' in virtual host '{vhost}'",
            "Deleting exchange '{EXCHANGE}' in virtual host '{vhost}' ...",
        )
        .query(&[("if-unused", "--if-unused")]),
    )
    .with_options(&[VHOST, flag("--if-unused", Some("-u"), "not if it has bindings")]),
    change(
        "close_connection",
        "CONNECTION EXPLANATION",
        "closes a connection, by the name that list_connections shows",
        delete(
            "/api/connections/{CONNECTION}",
            "there is no connection '{CONNECTION}'",
            "Closing connection '{CONNECTION}' ...",
        )
        .reason("EXPLANATION"),
    ),
    change(
        "enable_vhost_protection_from_deletion",
        "VHOST",
        "protects a virtual host from deletion",
        ChangeCommand { method: "POST", ..put("/api/vhosts/{VHOST}/deletion/protection", &[], "") }
            .missing("there is no virtual host '{VHOST}'"),
    ),
    change(
        "disable_vhost_protection_from_deletion",
        "VHOST",
        "allows a virtual host to be deleted again",
        delete("/api/vhosts/{VHOST}/deletion/protection", "there is no virtual host '{VHOST}'", ""),
    ),
];
