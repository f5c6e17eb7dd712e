//! Shovels, as parameters make them, between brokers that are processes and within one.

use super::management::ApiBroker;
use super::upstreams::ApiHost;
use super::{BrokerProcess, TempFolder, output, wait_until};
use serde_json::{Value, json};

const HERE: &str = "amqp:///%2F";

fn put(broker: &ApiBroker, name: &str, value: &Value) {
    broker.done("PUT", &format!("/api/parameters/shovel/%2F/{name}"), &json!({"value": value}));
}

fn until_state(broker: &ApiBroker, name: &str, state: &str) -> Value {
    broker.wait_for(&format!("/api/shovels/%2F/{name}"), state, |shovel| shovel["state"] == state)
}

fn payloads(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["payload"].as_str().expect("a text")).collect()
}

/// Takes so many messages of a queue, once they are there.
fn taken(broker: &ApiBroker, queue: &str, count: usize) -> Vec<Value> {
    broker.wait_for(&format!("/api/queues/%2F/{queue}"), "the messages", |found| {
        found["messages_ready"].as_u64() == Some(count as u64)
    });
    if count == 0 { Vec::new() } else { broker.take(queue, count) }
}

#[test]
fn shovels_pull_and_push_over_restarts_and_are_paused_restarted_and_deleted() {
    let folder = TempFolder::new("shovels");
    let (mut far, mut near) = (ApiHost::new(&folder, "far"), ApiHost::new(&folder, "near"));
    let (other, broker) = (far.start(), near.start());
    // From a queue there to one here; neither is there yet.
    put(
        &broker,
        "pull",
        &json!({"src-uri": far.url(), "src-queue": "out", "dest-uri": HERE, "dest-queue": "in",
                                 "reconnect-delay": 0.2, "dest-add-forward-headers": true}),
    );
    // From a queue here to an exchange there, with a key of its own.
    other.done("PUT", "/api/queues/%2F/logs", &json!({"durable": true}));
    other.done("POST", "/api/bindings/%2F/e/amq.topic/q/logs", &json!({"routing_key": "log.#"}));
    put(
        &broker,
        "push",
        &json!({"src-uri": "amqp://", "src-queue": "to-push", "dest-uri": [far.url()],
                                 "dest-exchange": "amq.topic", "dest-exchange-key": "log.near",
                                 "reconnect-delay": 0.2}),
    );
    // From an exchange there to a queue here.
    put(
        &broker,
        "copy",
        &json!({"src-uri": far.url(), "src-exchange": "amq.topic", "src-exchange-key": "log.#",
                                 "dest-uri": "amqp://", "dest-queue": "copies", "reconnect-delay": 0.2}),
    );
    let shovel = until_state(&broker, "pull", "running");
    for (key, expected) in [
        ("type", "dynamic"),
        ("src_uri", &*format!("amqp://{}", far.listen)),
        ("src_queue", "out"),
        ("src_protocol", "amqp091"),
        ("dest_uri", HERE),
        ("dest_queue", "in"),
    ] {
        assert_eq!(shovel[key], expected, "{shovel}");
    }
    ["push", "copy"].iter().for_each(|name| drop(until_state(&broker, name, "running")));
    other.publish("amq.default", "out", "pulled");
    let message = broker.next("in");
    assert_eq!((&message["payload"], &message["routing_key"]), (&json!("pulled"), &json!("in")), "{message}");
    let headers = &message["properties"]["headers"];
    assert_eq!(headers["x-shovelled"][0]["shovel-name"], "pull", "{message}");
    assert!(headers["x-received-from"].is_null(), "{message}");
    broker.publish("amq.default", "to-push", "pushed");
    for (at, queue) in [(&other, "logs"), (&broker, "copies")] {
        let message = at.next(queue);
        assert_eq!(message["payload"], "pushed");
        assert!(message["properties"]["headers"].is_null(), "no header without being asked to: {message}");
    }
    // The other broker ends: nothing is lost of what comes meanwhile.
    other.stop();
    let down = until_state(&broker, "push", "terminated");
    assert!(down["reason"].as_str().is_some_and(|why| !why.is_empty()), "{down}");
    broker.publish("amq.default", "to-push", "kept here");
    let other = far.start();
    ["pull", "push", "copy"].iter().for_each(|name| drop(until_state(&broker, name, "running")));
    assert_eq!(
        (&other.next("logs")["payload"], &broker.next("copies")["payload"]),
        (&json!("kept here"), &json!("kept here"))
    );
    // This broker ends: its shovels are there again.
    broker.done("PUT", "/api/shovels/vhost/%2F/pull/pause", &Value::Null);
    assert_eq!(broker.get("/api/shovels/%2F/pull").json()["state"], "paused");
    broker.stop();
    other.publish("amq.topic", "log.far", "kept there");
    other.publish("amq.default", "out", "waits");
    let broker = near.start();
    assert_eq!(broker.next("copies")["payload"], "kept there");
    assert_eq!(broker.get("/api/shovels/%2F/pull").json()["state"], "paused", "it stays so");
    assert_eq!(other.get("/api/queues/%2F/out").json()["messages"], 1);
    broker.done("PUT", "/api/shovels/vhost/%2F/pull/resume", &Value::Null);
    assert_eq!(broker.next("in")["payload"], "waits");
    broker.done("DELETE", "/api/shovels/vhost/%2F/pull/restart", &Value::Null);
    until_state(&broker, "pull", "running");
    // The same by the command of administrators.
    let url = format!("amqp://guest:guest@{}", near.listen);
    let ctl = |words: &[&str]| {
        let ran = output(&[&["ctl", "--url", &url][..], words].concat());
        let text = [ran.stdout, ran.stderr].concat();
        (ran.status.code(), String::from_utf8(text).expect("text"))
    };
    let (status, text) = ctl(&["shovel_status", "--formatter", "csv"]);
    assert!(status == Some(0) && text.contains("running") && !text.contains("guest:"), "{text}");
    assert_eq!(ctl(&["restart_shovel", "push"]).0, Some(0));
    assert_eq!(ctl(&["delete_shovel", "push"]).0, Some(0));
    let (status, text) = ctl(&["delete_shovel", "push"]);
    assert!(status.is_some_and(|status| status != 0) && text.contains("there is no shovel 'push'"), "{text}");
    assert_eq!(broker.get("/api/shovels/%2F/push").status, 404);
    broker.publish("amq.default", "to-push", "stays");
    broker.done("DELETE", "/api/shovels/vhost/%2F/copy", &Value::Null);
    let queue = "/api/queues/%2F/shovel:%20%2F%2Fcopy%20-%3E%20near";
    wait_until("its queue there is gone", || !other.has(queue), || queue.to_owned());
    assert_eq!(broker.get("/api/shovels").json().as_array().map(Vec::len), Some(1));
    broker.wait_for("/api/queues/%2F/to-push", "what nobody pushes any more", |queue| queue["messages"] == 1);
    for target in ["/api/shovels/%2F/none", "/api/shovels/vhost/%2F/none", "/api/shovels/none"] {
        assert_eq!(broker.get(target).status, 404, "{target}");
    }
    let restart = broker.ask("DELETE", "/api/shovels/vhost/%2F/none/restart", &Value::Null);
    assert_eq!(restart.0, 404);
}

#[test]
fn a_shovel_ends_after_so_many_messages_and_moves_no_more() {
    let folder = TempFolder::new("ending-shovels");
    let (mut far, mut near) = (ApiHost::new(&folder, "far"), ApiHost::new(&folder, "near"));
    let (other, broker) = (far.start(), near.start());
    let numbers = |from: u32, to: u32| (from..to).map(|number| number.to_string()).collect::<Vec<_>>();
    let fill = |at: &ApiBroker, queue: &str| {
        at.done("PUT", &format!("/api/queues/%2F/{queue}"), &json!({"durable": true}));
        numbers(0, 20).iter().for_each(|number| at.publish("amq.default", queue, number));
    };
    let gone = |name: &str| {
        let target = format!("/api/shovels/%2F/{name}");
        wait_until("the shovel is gone", || !broker.has(&target), || broker.get(&target).body);
        assert_eq!(broker.get(&format!("/api/parameters/shovel/%2F/{name}")).status, 404);
    };
    let check = |from: (&ApiBroker, &str), to: (&ApiBroker, &str), moved: u32| {
        assert_eq!(payloads(&taken(to.0, to.1, moved as usize)), numbers(0, moved), "{}", to.1);
        assert_eq!(payloads(&taken(from.0, from.1, 20 - moved as usize)), numbers(moved, 20), "{}", from.1);
    };
    // Within the broker, as those who move messages by the page of RabbitMQ do: all that there are.
    fill(&broker, "a");
    put(
        &broker,
        "move",
        &json!({"src-uri": HERE, "src-queue": "a", "dest-uri": HERE, "dest-queue": "b",
                                 "src-delete-after": "queue-length", "src-prefetch-count": 3}),
    );
    gone("move");
    check((&broker, "a"), (&broker, "b"), 20);
    // Pulled, with a credit that takes more from the source than are wanted.
    fill(&other, "c");
    put(
        &broker,
        "some",
        &json!({"src-uri": far.url(), "src-queue": "c", "dest-uri": HERE, "dest-queue": "d",
                                 "src-delete-after": 8, "src-prefetch-count": 5}),
    );
    gone("some");
    check((&other, "c"), (&broker, "d"), 8);
    // Pushed.
    for (queue, after, credit, moved) in [("e", json!(13), 4, 13), ("f", json!("queue-length"), 1000, 20)] {
        fill(&broker, queue);
        let to = format!("to-{queue}");
        put(
            &broker,
            "out",
            &json!({"src-uri": HERE, "src-queue": queue, "dest-uri": far.url(), "dest-queue": to,
                                    "src-delete-after": after, "src-prefetch-count": credit}),
        );
        gone("out");
        check((&broker, queue), (&other, &to), moved);
    }
}

#[test]
fn what_a_shovel_cannot_do_is_refused_with_a_reason_and_in_whose_name_it_acts() {
    let broker = ApiBroker::start(&[]);
    let far = "amqp://u:secret@127.0.0.1:1";
    let refused = |value: Value, why: &str| {
        let (status, body) = broker.ask("PUT", "/api/parameters/shovel/%2F/s", &json!({"value": value}));
        assert!(status == 400 && body.contains(why) && !body.contains("secret"), "{status} {body}");
    };
    refused(
        json!({"src-uri": far, "src-queue": "a", "dest-uri": far, "dest-queue": "b"}),
        "one end of a shovel is the broker that it belongs to",
    );
    refused(
        json!({"src-uri": HERE, "src-queue": "a", "dest-uri": far, "dest-queue": "b", "dest-protocol": "amqp10"}),
        "dest-protocol amqp10 is not spoken by this broker",
    );
    refused(
        json!({"src-uri": "amqp:///none", "src-queue": "a", "dest-uri": far, "dest-queue": "b"}),
        "no virtual host",
    );
    refused(json!({"src-uri": HERE, "src-queue": "a", "dest-uri": "u:secret@h", "dest-queue": "b"}), "dest-uri: ");
    assert_eq!(broker.get("/api/shovels").json(), json!([]));
    // It acts in the name of who has set it, and may do no more than that user.
    broker.done("PUT", "/api/users/maker", &json!({"password": "pw", "tags": "policymaker"}));
    let some = json!({"configure": "^mine", "write": "^mine|^amq.default$", "read": "^mine"});
    broker.done("PUT", "/api/permissions/%2F/maker", &some);
    broker.done("PUT", "/api/queues/%2F/others", &json!({}));
    let maker = "Authorization: Basic bWFrZXI6cHc=\r\n";
    let value = json!({"value": {"src-uri": HERE, "src-queue": "others", "dest-uri": HERE, "dest-queue": "mine"}});
    let set = |value: &Value| {
        super::management::request(&broker.api, "PUT", "/api/parameters/shovel/%2F/s", maker, &value.to_string())
    };
    assert_eq!(set(&value).status, 201);
    let shovel = until_state(&broker, "s", "terminated");
    assert!(shovel["reason"].as_str().is_some_and(|why| why.contains("others")), "{shovel}");
    let as_guest = json!({"value": {"src-uri": "amqp://guest@/%2F", "src-queue": "others", "dest-uri": HERE,
                                    "dest-queue": "mine"}});
    let reply = set(&as_guest);
    assert!(reply.status == 400 && reply.body.contains("may not act as 'guest'"), "{}", reply.body);
    // Definitions keep who it was.
    let exported = broker.get("/api/definitions").json();
    assert_eq!(exported["parameters"][0]["user"], "maker", "{exported}");
    broker.done("DELETE", "/api/parameters/shovel/%2F/s", &Value::Null);
    broker.done("POST", "/api/definitions", &exported);
    let shovel = until_state(&broker, "s", "terminated");
    assert!(shovel["reason"].as_str().is_some_and(|why| why.contains("others")), "{shovel}");
    // A file of RabbitMQ does not say: then it is an administrator.
    let file = json!({"parameters": [{"component": "shovel", "vhost": "/", "name": "s", "value": value["value"]}]});
    broker.done("POST", "/api/definitions", &file);
    until_state(&broker, "s", "running");
}

#[test]
fn shovels_need_no_address_of_the_api_and_follow_what_is_read_again() {
    let folder = TempFolder::new("shovels-of-a-file");
    let (file, state) = (folder.path("definitions.json"), folder.path("state"));
    let describe = |name: &str| {
        let value = json!({"src-uri": HERE, "src-queue": format!("from-{name}"), "dest-uri": HERE,
                           "dest-queue": format!("to-{name}")});
        let shovel = json!({"component": "shovel", "vhost": "/", "name": name, "value": value});
        let told = json!({"parameters": [shovel]});
        std::fs::write(&file, told.to_string()).expect("written");
    };
    describe("a");
    let words = ["--listen", "127.0.0.1:0", "--management-listen", "none", "--metrics-listen", "none"];
    let broker = BrokerProcess::start(&[&words[..], &["--state", &state, "--definitions", &file]].concat());
    let moved = |name: &str| {
        let mut client = client::Client::connect(&format!("amqp://{}", broker.address)).expect("connects");
        let channel = client.open_channel().expect("a channel");
        let (from, to) = (format!("from-{name}"), format!("to-{name}"));
        let options = client::QueueOptions { durable: true, ..Default::default() };
        client.declare_queue(channel, &from, &options).expect("declared");
        client.publish(channel, &client::Publish::to("", &from), b"m").expect("published");
        client.declare_queue(channel, &to, &options).expect("declared");
        let taken = || client.get(channel, &to, true).expect("asked").is_some();
        wait_until("the message is moved", taken, || to.clone());
    };
    moved("a");
    describe("b");
    broker.signal(rustix::process::Signal::HUP);
    moved("b");
    // What the file has no more is gone.
    let url = format!("amqp://guest:guest@{}", broker.address);
    let listed = output(&["ctl", "--url", &url, "shovel_status", "-s", "name"]).stdout;
    assert_eq!(String::from_utf8_lossy(&listed), "b\n");
}
