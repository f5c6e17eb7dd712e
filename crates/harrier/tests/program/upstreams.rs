//! Federated exchanges, as parameters and policies make them, between brokers that are processes.

use super::TempFolder;
use super::management::{ApiBroker, GUEST, request};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A broker with a name, a folder and an address of its own.
pub(super) struct ApiHost<'a> {
    folder: &'a TempFolder,
    name: &'static str,
    /// A free one at the first start.
    pub listen: String,
}

impl<'a> ApiHost<'a> {
    pub fn new(folder: &'a TempFolder, name: &'static str) -> Self {
        ApiHost { folder, name, listen: "127.0.0.1:0".to_owned() }
    }

    pub fn start(&mut self) -> ApiBroker {
        let state = self.folder.path(self.name);
        // Queues, links and connections are on different shards.
        let words = ["--state", &state, "--cluster-name", self.name, "--shards", "3"];
        let broker = ApiBroker::start_at(&self.listen, &words);
        self.listen.clone_from(&broker.process.address);
        broker
    }

    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}", self.listen)
    }
}

impl ApiBroker {
    /// The status of an answer, and its body.
    pub fn ask(&self, method: &str, target: &str, body: &Value) -> (u16, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = request(&self.api, method, target, GUEST, &body);
        (reply.status, reply.body)
    }

    /// A change that is made.
    pub fn done(&self, method: &str, target: &str, body: &Value) {
        let (status, body) = self.ask(method, target, body);
        assert!((200..300).contains(&status), "{method} {target}: {status} {body}");
    }

    pub fn publish(&self, exchange: &str, key: &str, payload: &str) {
        let message = json!({"routing_key": key, "payload": payload, "payload_encoding": "string",
                             "properties": {"delivery_mode": 2}});
        self.done("POST", &format!("/api/exchanges/%2F/{exchange}/publish"), &message);
    }

    /// Takes the next message of a queue, once there is one.
    pub fn next(&self, queue: &str) -> Value {
        self.wait_for(&format!("/api/queues/%2F/{queue}"), "a message", |found| found["messages_ready"] != 0);
        self.take(queue, 1).remove(0)
    }

    /// Takes the messages of a queue.
    pub fn take(&self, queue: &str, count: usize) -> Vec<Value> {
        let wanted = json!({"count": count, "ackmode": "ack_requeue_false", "encoding": "auto"});
        let (status, body) = self.ask("POST", &format!("/api/queues/%2F/{queue}/get"), &wanted);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("a list")
    }

    /// Ends the broker in an orderly way: a crash may bring back what was acknowledged last.
    pub fn stop(self) {
        self.process.signal(Signal::TERM);
        let (status, log) = self.process.end();
        assert_eq!(status, Some(0), "{log}");
    }

    pub fn has(&self, target: &str) -> bool {
        self.get(target).status == 200
    }
}

fn bind(broker: &ApiBroker, exchange: &str, queue: &str, key: &str) {
    broker.done("PUT", &format!("/api/queues/%2F/{queue}"), &json!({"durable": true}));
    broker.done("POST", &format!("/api/bindings/%2F/e/{exchange}/q/{queue}"), &json!({"routing_key": key}));
}

#[test]
fn a_policy_federates_exchanges_until_it_goes_and_over_restarts_of_either_broker() {
    let folder = TempFolder::new("upstreams");
    let (mut there, mut here) = (ApiHost::new(&folder, "upstream"), ApiHost::new(&folder, "downstream"));
    let (upstream, downstream) = (there.start(), here.start());
    let value = json!({"uri": there.url(), "prefetch-count": 50, "reconnect-delay": 0.2});
    downstream.done("PUT", "/api/parameters/federation-upstream/%2F/up", &json!({"value": value}));
    let policy =
        json!({"pattern": "^fed\\.", "apply-to": "exchanges", "definition": {"federation-upstream-set": "all"}});
    downstream.done("PUT", "/api/policies/%2F/federate", &policy);
    assert_eq!(downstream.get("/api/federation-links").json(), json!([]), "no exchange matches yet");
    // An exchange that is declared over AMQP is found, too.
    let mut client = downstream.client();
    let channel = client.open_channel().expect("a channel");
    let options = client::ExchangeOptions { durable: true, ..Default::default() };
    client.declare_exchange(channel, "fed.x", "topic", &options).expect("declared");
    bind(&downstream, "fed.x", "q", "eu.#");
    let is_running = |links: &Value| links[0]["status"] == "running";
    let links = downstream.wait_for("/api/federation-links/%2F", "a link that runs", is_running);
    let link = &links[0];
    for (key, expected) in [
        ("exchange", "fed.x"),
        ("upstream_exchange", "fed.x"),
        ("type", "exchange"),
        ("upstream", "up"),
        ("vhost", "/"),
        ("uri", &*format!("amqp://{}", there.listen)),
    ] {
        assert_eq!(link[key], expected, "{link}");
    }
    assert_eq!(links.as_array().map(Vec::len), Some(1), "{links}");
    // The upstream sends what is bound here, and nothing else.
    upstream.wait_for("/api/exchanges/%2F/fed.x/bindings/source", "a binding", |all| all[0]["routing_key"] == "eu.#");
    upstream.publish("fed.x", "us.1", "not wanted");
    upstream.publish("fed.x", "eu.1", "first");
    let message = downstream.next("q");
    assert_eq!((&message["payload"], &message["routing_key"]), (&json!("first"), &json!("eu.1")));
    let hop = &message["properties"]["headers"]["x-received-from"][0];
    assert_eq!(hop["cluster-name"], "upstream", "{message}");
    // Who may not see the password does not see it, nor does the log.
    downstream.done("PUT", "/api/users/maker", &json!({"password": "pw", "tags": "policymaker"}));
    let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
    downstream.done("PUT", "/api/permissions/%2F/maker", &all);
    let maker = "Authorization: Basic bWFrZXI6cHc=\r\n";
    let seen = request(&downstream.api, "GET", "/api/parameters/federation-upstream", maker, "").json();
    assert_eq!(seen[0]["value"]["uri"], format!("amqp://guest:***@{}", there.listen));
    // The downstream restarts. What comes meanwhile waits at the upstream.
    drop(client);
    downstream.stop();
    upstream.publish("fed.x", "eu.2", "second");
    let downstream = here.start();
    assert_eq!(downstream.next("q")["payload"], "second");
    // The upstream restarts.
    upstream.stop();
    downstream.wait_for("/api/federation-links/state/down", "a link that is down", |all| all[0]["status"] == "error");
    let upstream = there.start();
    downstream.wait_for("/api/federation-links", "a link that runs again", is_running);
    upstream.publish("fed.x", "eu.3", "third");
    assert_eq!(downstream.next("q")["payload"], "third");
    // Told to, it connects anew.
    let links = downstream.get("/api/federation-links").json();
    let (id, node) = (links[0]["id"].as_str().expect("an id"), links[0]["node"].as_str().expect("a node"));
    downstream.done("DELETE", &format!("/api/federation-links/vhost/%2F/{id}/{node}/restart"), &Value::Null);
    downstream.wait_for("/api/federation-links", "a link that runs again", is_running);
    // Without the policy there is no link, and at the upstream nothing is left of it.
    let queue = "/api/queues/%2F/federation:%20fed.x%20-%3E%20downstream";
    assert!(upstream.has(queue));
    downstream.done("DELETE", "/api/policies/%2F/federate", &Value::Null);
    assert_eq!(downstream.get("/api/federation-links").json(), json!([]));
    super::wait_until("the upstream's queue is gone", || !upstream.has(queue), || queue.to_owned());
}

#[test]
fn a_link_that_is_down_when_its_policy_goes_deletes_its_queue_or_tells_which_one_stays() {
    let folder = TempFolder::new("upstream-left");
    let (mut there, mut here) = (ApiHost::new(&folder, "upstream"), ApiHost::new(&folder, "downstream"));
    let (upstream, downstream) = (there.start(), here.start());
    // Nobody waits for the next connection of such a link.
    let value = json!({"uri": there.url(), "reconnect-delay": 3600});
    downstream.done("PUT", "/api/parameters/federation-upstream/%2F/up", &json!({"value": value}));
    let policy =
        json!({"pattern": "^amq.topic$", "apply-to": "exchanges", "definition": {"federation-upstream-set": "all"}});
    let federate = || {
        downstream.done("PUT", "/api/policies/%2F/federate", &policy);
        downstream.wait_for("/api/federation-links", "a link that runs", |all| all[0]["status"] == "running");
    };
    let await_loss = || downstream.wait_for("/api/federation-links", "an error", |all| all[0]["status"] == "error");
    let queue = "/api/queues/%2F/federation:%20amq.topic%20-%3E%20downstream";
    federate();
    upstream.stop();
    await_loss();
    let upstream = there.start();
    assert!(upstream.has(queue), "it waits for the link");
    downstream.done("DELETE", "/api/policies/%2F/federate", &Value::Null);
    super::wait_until("the upstream's queue is gone", || !upstream.has(queue), || queue.to_owned());
    federate();
    upstream.stop();
    await_loss();
    downstream.done("DELETE", "/api/policies/%2F/federate", &Value::Null);
    let told = downstream.process.await_line("stays at the other broker");
    assert!(told.contains("\"queue\":\"federation: amq.topic -> downstream\""), "{told}");
    assert!(there.start().has(queue), "as was told");
}

#[test]
fn sets_give_upstreams_other_terms_and_a_link_goes_with_its_upstream_or_its_exchange() {
    let folder = TempFolder::new("upstream-sets");
    let (mut there, mut here) = (ApiHost::new(&folder, "there"), ApiHost::new(&folder, "here"));
    let (upstream, downstream) = (there.start(), here.start());
    upstream.done("PUT", "/api/exchanges/%2F/source", &json!({"type": "fanout", "durable": true}));
    for name in ["a", "b"] {
        downstream.done("PUT", &format!("/api/exchanges/%2F/{name}"), &json!({"type": "fanout", "durable": true}));
        bind(&downstream, name, &format!("of-{name}"), "");
    }
    // The first address is nobody's: the second is tried then.
    let value = json!({"uri": ["amqp://127.0.0.1:1".to_owned(), there.url()], "reconnect-delay": 0.1,
                       "ack-mode": "no-ack"});
    downstream.done("PUT", "/api/parameters/federation-upstream/%2F/up", &json!({"value": value}));
    let set = json!([{"upstream": "up", "exchange": "source", "ack-mode": "on-confirm", "expires": 600_000,
                      "message-ttl": 300_000}]);
    downstream.done("PUT", "/api/parameters/federation-upstream-set/%2F/set", &json!({"value": set}));
    let policy = |apply_to: &str, definition: Value| json!({"pattern": "^(a|b|of-a)$", "apply-to": apply_to, "definition": definition});
    downstream.done("PUT", "/api/policies/%2F/p", &policy("all", json!({"federation-upstream-set": "set"})));
    let named = |name: &str| {
        let key = if name.starts_with("of-") { "queue" } else { "exchange" };
        let name = name.to_owned();
        move |link: &&Value| link[key] == name.as_str()
    };
    let links = downstream.wait_for("/api/federation-links", "three links that run", |links| {
        links.as_array().is_some_and(|all| all.iter().filter(|link| link["status"] == "running").count() == 3)
    });
    let links = links.as_array().expect("a list");
    // The policy is for all: a queue is federated, too.
    let queue = links.iter().find(named("of-a")).expect("a queue");
    assert_eq!((&queue["type"], &queue["upstream_queue"]), (&json!("queue"), &json!("of-a")), "{queue}");
    let link = links.iter().find(named("a")).expect("an exchange");
    assert_eq!(link["upstream_exchange"], "source");
    let at_upstream = upstream.get("/api/queues/%2F/federation:%20source%20-%3E%20here:exchange:a").json();
    assert_eq!(at_upstream["arguments"]["x-expires"], 600_000, "{at_upstream}");
    assert_eq!(at_upstream["arguments"]["x-message-ttl"], 300_000, "{at_upstream}");
    upstream.publish("source", "k", "to both");
    for queue in ["of-a", "of-b"] {
        assert_eq!(downstream.next(queue)["payload"], "to both");
    }
    // More credit keeps the queue at the upstream, and what waits there.
    let value = json!({"uri": there.url(), "prefetch-count": 7});
    downstream.done("PUT", "/api/parameters/federation-upstream/%2F/up", &json!({"value": value}));
    // The exchange goes, and its link with it.
    downstream.done("DELETE", "/api/exchanges/%2F/b", &Value::Null);
    downstream.wait_for("/api/federation-links", "one link that runs", |links| {
        let links = links.as_array().expect("a list");
        !links.iter().any(|link| named("b")(&link)) && links.iter().any(|link| link["status"] == "running")
    });
    for (apply_to, definition, why) in [
        ("streams", json!({"federation-upstream": "up"}), "federation has no effect on streams"),
        ("all", json!({"federation-upstream": 1}), "federation-upstream is a string"),
        ("all", json!({"federation-upstream": "up", "federation-upstream-set": "all"}), "cannot specify"),
        ("all", json!({"federation-upstream-pattern": "("}), "federation-upstream-pattern: "),
    ] {
        let (status, body) = downstream.ask("PUT", "/api/policies/%2F/p", &policy(apply_to, definition));
        assert!(status == 400 && body.contains(why), "{status} {body}");
    }
    for (value, why) in [
        (json!({"uri": "http://u:secret@h"}), "expected amqp://"),
        (json!({"uri": "amqp://u:secret@h:x"}), "'x' is no port"),
        (json!({"uri": "amqp:///%2F"}), "cannot be its own upstream"),
        (json!({"uri": there.url(), "trust-user-id": true}), "trust-user-id would have no effect"),
        (json!({"uri": there.url(), "colour": 1}), "Unrecognised terms colour in federation-upstream"),
    ] {
        let (status, body) =
            downstream.ask("PUT", "/api/parameters/federation-upstream/%2F/other", &json!({"value": value}));
        assert!(status == 400 && body.contains(why) && !body.contains("secret"), "{status} {body}");
    }
    downstream.done("DELETE", "/api/parameters/federation-upstream/%2F/up", &Value::Null);
    assert_eq!(downstream.get("/api/federation-links").json(), json!([]));
}

#[test]
fn a_virtual_host_is_the_upstream_of_another_of_the_same_broker() {
    let broker = ApiBroker::start(&[]);
    broker.done("PUT", "/api/vhosts/other", &Value::Null);
    broker.done("PUT", "/api/parameters/federation-upstream/%2F/up", &json!({"value": {"uri": "amqp:///other"}}));
    let policy =
        json!({"pattern": "^amq.fanout$", "apply-to": "exchanges", "definition": {"federation-upstream": "up"}});
    broker.done("PUT", "/api/policies/%2F/p", &policy);
    bind(&broker, "amq.fanout", "q", "");
    let links = broker.wait_for("/api/federation-links", "a link that runs", |all| all[0]["status"] == "running");
    assert_eq!(links[0]["uri"], "amqp:///other", "{links}");
    let bindings = "/api/exchanges/other/amq.fanout/bindings/source";
    broker.wait_for(bindings, "a binding", |all| all.as_array().is_some_and(|all| !all.is_empty()));
    let message = json!({"routing_key": "", "payload": "m", "payload_encoding": "string", "properties": {}});
    broker.done("POST", "/api/exchanges/other/amq.fanout/publish", &message);
    assert_eq!(broker.next("q")["payload"], "m");
}
