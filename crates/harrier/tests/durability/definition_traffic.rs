//! Definitions that change: of users, permissions, policies and limits by the configuration of the running broker, of exchanges
//! and bindings by a client.

use super::PATIENCE;
use super::broker::{TestBroker, harrier};
use super::definition_ledger::{DefinitionLedger, Definitions, OpenChange, definitions_of};
use super::verification::VerificationError;
use client::{Client, ClientChannel, ClientError, ExchangeOptions};
use serde_json::{Value, json};
use splitmix::SplitMix64;
use wire::Table;

/// ACCESS_REFUSED, of a login
const ACCESS_REFUSED: u16 = 403;
/// Configurations that differ from each other, and from none.
const CONFIGURATIONS: u64 = 5;
/// A user of all configurations, whose password is another one in each.
const USER: &str = "kept.user";

/// A configuration, and what it defines. With users of its own it must have `guest`, too.
fn configuration(variant: u64) -> (String, Definitions) {
    let text = r#"
        vhost = [{ name = "/" }, { name = "kept.vhost", max_queues = QUEUES }, { name = "kept.vhost.NUMBER" }]
        user = [
            { name = "guest", password = "guest", tags = ["administrator"] },
            { name = "kept.user", password = "password.NUMBER", tags = ["monitoring", "tag.NUMBER"], max_channels = QUEUES },
            { name = "kept.user.NUMBER", password = "-" },
        ]
        permission = [
            { user = "guest", vhost = "/", configure = ".*", write = ".*", read = ".*" },
            { user = "kept.user", vhost = "/", configure = "^NUMBER", write = ".*", read = ".*" },
            { user = "kept.user.NUMBER", vhost = "kept.vhost", configure = "", write = "", read = ".*" },
        ]
        topic_permission = [
            { user = "kept.user", vhost = "/", exchange = "kept.topic.NUMBER", write = "^a", read = "^NUMBER" },
        ]
        policy = [
            { vhost = "/", name = "kept.policy", pattern = "^kept.NUMBER", priority = 3, definition = { message-ttl = QUEUES } },
            { vhost = "/", name = "kept.policy.NUMBER", pattern = "^none$", definition = { max-length = 5 } },
        ]
        operator_policy = [
            { vhost = "/", name = "kept.limit", pattern = "^kept$", definition = { max-length = QUEUES } },
        ]
        "#;
    let queues = 100 + variant;
    let text = text.replace("NUMBER", &variant.to_string()).replace("QUEUES", &queues.to_string());
    let policy = |name: String, pattern: String, definition: Value, priority: u64| {
        json!({ "vhost": "/", "name": name, "pattern": pattern, "apply-to": "all", "definition": definition,
            "priority": priority })
    };
    let limit =
        json!({ "pattern": "^kept$", "apply-to": "all", "definition": { "max-length": queues }, "priority": 0 });
    let file = json!({
        "users": [
            { "name": USER, "tags": ["monitoring", format!("tag.{variant}")], "limits": { "max-channels": queues } },
            { "name": format!("kept.user.{variant}"), "tags": [], "limits": {} },
        ],
        "vhosts": [
            { "name": "kept.vhost", "limits": {} },
            { "name": format!("kept.vhost.{variant}"), "limits": {} },
        ],
        "permissions": [
            { "user": USER, "vhost": "/", "configure": format!("^{variant}"), "write": ".*", "read": ".*" },
            { "user": format!("kept.user.{variant}"), "vhost": "kept.vhost", "configure": "", "write": "", "read": ".*" },
        ],
        "topic_permissions": [
            { "user": USER, "vhost": "/", "exchange": format!("kept.topic.{variant}"), "write": "^a",
                "read": format!("^{variant}") },
        ],
        "parameters": [
            { "vhost": "kept.vhost", "component": "vhost-limits", "name": "limits", "value": { "max-queues": queues } },
            { "vhost": "/", "component": "operator_policy", "name": "kept.limit", "value": limit },
        ],
        "policies": [
            policy("kept.policy".to_owned(), format!("^kept.{variant}"), json!({ "message-ttl": queues }), 3),
            policy(format!("kept.policy.{variant}"), "^none$".to_owned(), json!({ "max-length": 5 }), 0),
        ],
    });
    let mut definitions = definitions_of(file);
    definitions.insert(format!("password {USER}"), format!("password.{variant}"));
    (text, definitions)
}

/// The configurations of one life of a broker.
pub struct DefinitionTraffic {
    /// What the broker's configuration defines.
    configured: Definitions,
    next: u64,
}

impl DefinitionTraffic {
    /// Changes what is defined, over a client's channel and by the configuration.
    pub fn begin(
        broker: &impl TestBroker,
        (client, channel): (&mut Client, ClientChannel),
        ledger: &mut DefinitionLedger,
        random: &mut SplitMix64,
        (round, queue): (u64, &str),
    ) -> Result<Self, ClientError> {
        change_exchanges(client, channel, ledger, (round, queue))?;
        let mut traffic = DefinitionTraffic { configured: Definitions::new(), next: random.below(CONFIGURATIONS) };
        for _ in 0..2 {
            let (text, change) = traffic.change(ledger);
            if broker.reload(&text)? {
                ledger.answer(change);
            }
        }
        Ok(traffic)
    }

    /// Changes the configuration, and does not wait for it.
    pub fn leave_under_way(&mut self, broker: &impl TestBroker, ledger: &mut DefinitionLedger) {
        let (text, _open) = self.change(ledger);
        broker.begin_reload(&text);
    }

    /// The next configuration, and what it changes: what only the one before it defines goes, but for virtual hosts.
    fn change(&mut self, ledger: &mut DefinitionLedger) -> (String, OpenChange) {
        let (text, definitions) = configuration(self.next);
        self.next = (self.next + 1) % CONFIGURATIONS;
        let stays = |name: &str| name.starts_with("vhosts ") || name.starts_with("parameters vhost-limits ");
        let gone: Vec<String> = self.configured.keys().filter(|name| !stays(name)).cloned().collect();
        let changes = gone.into_iter().filter(|name| !definitions.contains_key(name)).collect::<Vec<_>>();
        let changes = changes.into_iter().map(|name| (name, None));
        let open = ledger.change(changes.chain(definitions.clone().into_iter().map(|(name, text)| (name, Some(text)))));
        self.configured = definitions;
        (text, open)
    }
}

/// Declares an exchange with bindings, of which one goes again, and deletes those of earlier rounds.
fn change_exchanges(
    client: &mut Client,
    channel: ClientChannel,
    ledger: &mut DefinitionLedger,
    (round, queue): (u64, &str),
) -> Result<(), ClientError> {
    let exchange = format!("kept.exchange.{round}");
    let old: Vec<String> =
        ledger.names("exchanges").filter_map(|name| name.strip_prefix("/ ")).map(str::to_owned).collect();
    let durable = ExchangeOptions { durable: true, ..ExchangeOptions::default() };
    let declared = json!({ "name": exchange, "vhost": "/", "type": "direct", "durable": true, "auto_delete": false,
        "internal": false, "arguments": {} });
    let change = ledger.change([(format!("exchanges / {exchange}"), Some(declared.to_string()))]);
    client.declare_exchange(channel, &exchange, "direct", &durable)?;
    ledger.answer(change);
    let binding = |key: &str, is_there: bool| {
        let binding = json!({ "source": exchange, "vhost": "/", "destination": queue, "destination_type": "queue",
            "routing_key": key, "arguments": {} });
        [(format!("bindings {exchange} {queue} {key}"), is_there.then(|| binding.to_string()))]
    };
    for key in ["stays", "goes"] {
        let change = ledger.change(binding(key, true));
        client.bind_queue(channel, queue, &exchange, key, &Table::new())?;
        ledger.answer(change);
    }
    let change = ledger.change(binding("goes", false));
    client.unbind_queue(channel, queue, &exchange, "goes", &Table::new())?;
    ledger.answer(change);
    for old in old.into_iter().filter(|old| *old != exchange) {
        let bindings = ledger.names("bindings").filter(|name| name.starts_with(&format!("{old} ")));
        let bindings: Vec<_> = bindings.map(|name| (format!("bindings {name}"), None)).collect();
        let change = ledger.change(bindings.into_iter().chain([(format!("exchanges / {old}"), None)]));
        client.delete_exchange(channel, &old, false)?;
        ledger.answer(change);
    }
    Ok(())
}

/// Compares what a broker says is defined with the ledger, and logs in by the password that the user may have.
pub fn verify_definitions(broker: &impl TestBroker, ledger: &mut DefinitionLedger) -> Result<(), VerificationError> {
    let (mut client, _) = broker.try_connect()?;
    let told = harrier().args(["ctl", "definitions", "--url", &broker.url()]).output().expect("the program runs");
    if !told.status.success() {
        // The broker may have ended: then the connection says why.
        client.next_delivery(PATIENCE)?;
        return Err(VerificationError::Broken(String::from_utf8_lossy(&told.stderr).into_owned()));
    }
    client.close()?;
    let file = serde_json::from_slice(&told.stdout)
        .map_err(|_| VerificationError::Broken(format!("no definitions: {}", String::from_utf8_lossy(&told.stderr))))?;
    let mut definitions = definitions_of(file);
    let name = format!("password {USER}");
    let mut passwords: Vec<String> = ledger.contents(&name).map(str::to_owned).collect();
    passwords.dedup();
    for password in passwords {
        let url = broker.url().replace("amqp://", &format!("amqp://{USER}:{password}@"));
        match Client::connect(&url) {
            Ok(client) => {
                client.close()?;
                definitions.insert(name.clone(), password);
            }
            Err(ClientError::ConnectionClosed { code: ACCESS_REFUSED, .. }) => {}
            // A broker that has ended says nothing of a password.
            Err(error) => return Err(error.into()),
        }
    }
    ledger.compare(&definitions).map_err(VerificationError::Broken)
}
