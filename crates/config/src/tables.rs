//! The tables of the file: virtual hosts, users, permissions, policies.
//!
//! Leaves: which keys each has, and what they are, for readers and documents.
//! Owns:   every name of them and every sentence of help.

/// A key of one of the tables, for the documents.
pub(crate) struct TableKey {
    pub name: &'static str,
    pub form: &'static str,
    pub help: &'static str,
}

/// A kind of table, for the documents.
pub(crate) struct TableForm {
    pub name: &'static str,
    pub help: &'static str,
    pub keys: &'static [TableKey],
}

const fn key(name: &'static str, form: &'static str, help: &'static str) -> TableKey {
    TableKey { name, form, help }
}

pub(crate) const TABLES: [TableForm; 6] = [
    TableForm {
        name: "vhost",
        help: "A virtual host. Without any, there is one: /.",
        keys: &[
            key("name", "text", "Its name."),
            key("max_connections", "number, optional", "Connections at one time; one more is refused (530)."),
            key("max_queues", "number, optional", "Queues; one more is refused (406)."),
            key(
                "max_queue_bytes",
                "bytes, optional",
                "Bytes that wait in its queues, as the memory limit counts them; publishers are held back then.",
            ),
        ],
    },
    TableForm {
        name: "user",
        help: "A user. Without any, there is one: guest with password guest, from loopback only. With any, guest is \
               gone unless it is among them.",
        keys: &[
            key("name", "text", "The name."),
            key(
                "password_hash",
                "text",
                "A hash of the password: what harrier hash-password prints (Argon2), or the password_hash of RabbitMQ. \
                 Empty: the user has no password, and only a certificate can log it in.",
            ),
            key("password", "text", "Instead of the hash: the password, as it is. The broker warns of it."),
            key(
                "tags",
                "list of texts, optional",
                "Labels, as RabbitMQ has them. An administrator may ask a running broker (harrier ctl); a \
                 carrier brings others over RDMA (harrier proxy), whose passwords are readable there; \
                 federation is for other brokers, which may say that two messages are one (harrier route --force); \
                 others mean nothing here.",
            ),
            key("max_connections", "number, optional", "Connections at one time; one more is refused (530)."),
            key(
                "max_channels",
                "number, optional",
                "Channels of all its connections; one more ends its connection (530).",
            ),
        ],
    },
    TableForm {
        name: "permission",
        help: "What a user may do in a virtual host. The three patterns are regular expressions that are looked for \
               anywhere in the name of an exchange or queue: ^orders$ is one name, .* is all, the empty one is none. A \
               user without a permission on a virtual host cannot open it. The default user may do everything in \
               every virtual host, unless the file has a [[user]] or a [[permission]].",
        keys: &[
            key("user", "text", "A user of this file, or guest if the file has none."),
            key("vhost", "text", "A virtual host of this file, or / if the file has none."),
            key("configure", "pattern", "Names it may declare and delete."),
            key("write", "pattern", "Names it may publish to, and bind to something."),
            key("read", "pattern", "Names it may consume from, and bind something to."),
        ],
    },
    TableForm {
        name: "topic_permission",
        help: "With which routing keys a user may publish to a topic exchange and bind to it. The two patterns are as in a \
               [[permission]]; {username} and {vhost} in them stand for the names. A user without one for an exchange \
               may use all keys.",
        keys: &[
            key("user", "text", "A user of this file, or guest if the file has none."),
            key("vhost", "text", "A virtual host of this file, or / if the file has none."),
            key("exchange", "text", "The exchange, which need not exist."),
            key("write", "pattern", "Keys it may publish with."),
            key("read", "pattern", "Keys it may bind with."),
        ],
    },
    TableForm {
        name: "policy",
        help: "A policy: what holds for all queues or exchanges whose names match, now and later. One policy and one operator \
               policy count for each of them; where its arguments say something too, the lesser number holds, or else \
               the argument. The policies are read again at SIGHUP.",
        keys: POLICY_KEYS,
    },
    TableForm {
        name: "operator_policy",
        help: "A policy that is merged with the other one, so that the lesser number holds. It may say message-ttl, expires, \
               max-length, max-length-bytes and delivery-limit.",
        keys: POLICY_KEYS,
    },
];

const POLICY_KEYS: &[TableKey] = &[
    key("vhost", "text", "A virtual host of this file or of the definitions file."),
    key("name", "text", "Its name, for logs and exports; no other policy of the virtual host has it."),
    key(
        "pattern",
        "pattern",
        "A regular expression that is looked for anywhere in a name; the empty one is in all of them.",
    ),
    key("apply_to", "queues, exchanges or all; optional", "To what. Without it: to all."),
    key(
        "priority",
        "number, optional",
        "Of several that match, the one with the highest counts, then the first by name. 0.",
    ),
    key(
        "definition",
        "table",
        "What it says: message-ttl, expires, max-length, max-length-bytes, overflow, dead-letter-exchange, \
         dead-letter-routing-key, delivery-limit, alternate-exchange, federation-upstream, federation-upstream-set, \
         federation-upstream-pattern. RabbitMQ's other keys are accepted and have no effect.",
    ),
];
