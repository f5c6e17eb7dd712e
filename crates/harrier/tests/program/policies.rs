//! Policies and limits: in the configuration, in a definitions file, and reloaded while clients work.

use super::{BrokerProcess, PATIENCE, TempFolder, output};
use client::{Client, ClientChannel, Publish, QueueOptions};
use std::time::Instant;

/// A configuration with a system-chosen address, rewritten while the broker runs.
struct Configuration {
    folder: TempFolder,
}

impl Configuration {
    fn new(name: &str) -> Self {
        Configuration { folder: TempFolder::new(name) }
    }

    fn path(&self) -> String {
        self.folder.path("harrier.toml")
    }

    fn write(&self, tables: &str) {
        std::fs::write(self.path(), tables).expect("writes");
    }

    fn start(&self, tables: &str) -> BrokerProcess {
        self.write(tables);
        BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--config", &self.path()])
    }

    /// Reloads it, and returns the log line with the outcome.
    fn reload(&self, broker: &BrokerProcess, tables: &str) -> String {
        self.write(tables);
        broker.signal(rustix::process::Signal::HUP);
        broker.await_line("the configuration was ")
    }
}

fn policy(name: &str, pattern: &str, definition: &str) -> String {
    format!("[[policy]]\nvhost = \"/\"\nname = \"{name}\"\npattern = '{pattern}'\ndefinition = {{ {definition} }}\n")
}

fn connect(broker: &BrokerProcess) -> (Client, ClientChannel) {
    let mut client = Client::connect(&format!("amqp://{}/%2F", broker.address)).expect("connects");
    let channel = client.open_channel().expect("a channel");
    (client, channel)
}

fn declare(client: &mut Client, channel: ClientChannel, queue: &str) {
    client.declare_queue(channel, queue, &QueueOptions::default()).expect("it is what it was declared to be");
}

/// Waits until a queue holds this many messages.
#[expect(clippy::disallowed_methods, reason = "a test that waits has a deadline")]
fn await_messages(client: &mut Client, channel: ClientChannel, queue: &str, messages: u32) {
    let began = Instant::now();
    let passive = QueueOptions { passive: true, ..QueueOptions::default() };
    while client.declare_queue(channel, queue, &passive).expect("it is there").messages != messages {
        assert!(began.elapsed() < PATIENCE, "never {messages} in {queue}");
    }
}

#[test]
fn policies_come_over_living_queues_when_the_configuration_is_read_again() {
    let configuration = Configuration::new("policies");
    let broker = configuration.start("");
    // Two connections, one a shard, each with a queue at home.
    let mut clients = [connect(&broker), connect(&broker)];
    let queues = ["living.0", "living.1"];
    for ((client, channel), queue) in clients.iter_mut().zip(queues) {
        declare(client, *channel, queue);
        client.publish(*channel, &Publish::to("", queue), b"waits").expect("published");
        await_messages(client, *channel, queue, 1);
    }
    let ttl = policy("ttl", "^living", "message-ttl = 1");
    assert!(configuration.reload(&broker, &ttl).contains("\"changes\":1"));
    for ((client, channel), queue) in clients.iter_mut().zip(queues) {
        await_messages(client, *channel, queue, 0);
        client.publish(*channel, &Publish::to("", queue), b"is gone soon").expect("published");
        await_messages(client, *channel, queue, 0);
        declare(client, *channel, queue);
    }
    // An error is reported with its place, and the old configuration stays in force.
    let wrong = policy("ttl", "^living", "message-ttl = \"soon\"");
    configuration.write(&wrong);
    broker.signal(rustix::process::Signal::HUP);
    let line = broker.await_line("policy.definition.message-ttl");
    assert!(
        line.contains("harrier.toml:5: policy.definition.message-ttl: a whole number is needed, not 'soon'"),
        "{line}"
    );
    broker.await_line("the configuration could not be reloaded, and is unchanged");
    for ((client, channel), queue) in clients.iter_mut().zip(queues) {
        client.publish(*channel, &Publish::to("", queue), b"is gone soon").expect("published");
        await_messages(client, *channel, queue, 0);
    }
    // Without it, messages stay; changed settings wait for the next start.
    configuration.reload(&broker, &format!("memory_limit = \"1GiB\"\n{}", policy("one", "1$", "max-length = 1")));
    for ((client, channel), queue) in clients.iter_mut().zip(queues) {
        for body in [b"1", b"2"] {
            client.publish(*channel, &Publish::to("", queue), body).expect("published");
        }
        await_messages(client, *channel, queue, if queue.ends_with('1') { 1 } else { 2 });
    }
    let line = configuration.reload(&broker, "");
    assert!(line.contains("\"changes\":1"), "{line}");
    for ((client, channel), queue) in clients.iter_mut().zip(queues) {
        client.publish(*channel, &Publish::to("", queue), b"3").expect("published");
        await_messages(client, *channel, queue, if queue.ends_with('1') { 2 } else { 3 });
    }
}

#[test]
fn accounts_and_limits_are_read_again() {
    let configuration = Configuration::new("accounts");
    let account = |password: &str, limits: &str, configure: &str| {
        format!(
            "[[vhost]]\nname = \"/\"\n[[user]]\nname = \"a\"\npassword = \"{password}\"\n{limits}\n[[permission]]\n\
             user = \"a\"\nvhost = \"/\"\nconfigure = \"{configure}\"\nwrite = \".*\"\nread = \".*\"\n"
        )
    };
    let broker = configuration.start(&account("one", "", ".*"));
    let connect = |password: &str| Client::connect(&format!("amqp://a:{password}@{}/%2F", broker.address));
    let mut client = connect("one").expect("the first password");
    let channel = client.open_channel().expect("a channel");
    declare(&mut client, channel, "q");
    configuration.reload(&broker, &account("two", "max_connections = 1\nmax_channels = 2", "^mine"));
    assert!(connect("one").is_err());
    let error = connect("two").expect_err("there is one already").to_string();
    assert!(
        error.contains("530 NOT_ALLOWED - connection refused for user 'a': user connection limit (1) is reached"),
        "{error}"
    );
    let second = client.open_channel().expect("two are allowed");
    client.close_channel(second).expect("closes");
    client.open_channel().expect("two are allowed");
    let error = client.declare_queue(channel, "other", &QueueOptions::default()).expect_err("not any more").to_string();
    assert!(
        error.contains("403 ACCESS_REFUSED - access to queue 'other' in vhost '/' refused for user 'a'"),
        "{error}"
    );
    client.open_channel().expect("the one that was refused is gone");
    let error = client.open_channel().expect_err("two are allowed").to_string();
    let expect =
        "530 NOT_ALLOWED - number of channels opened for user 'a' has reached the maximum allowed user limit of (2)";
    assert!(error.contains(expect), "{error}");
    // That ended its connection, and freed capacity for another.
    let mut client = connect("two").expect("the first has gone");
    client.open_channel().expect("a channel");
    let small =
        account("two", "", ".*").replacen("name = \"/\"\n", "name = \"/\"\nmax_connections = 1\nmax_queues = 1\n", 1);
    configuration.reload(&broker, &small);
    let error = connect("two").expect_err("full").to_string();
    let expect = "530 NOT_ALLOWED - access to vhost '/' refused for user 'a': connection limit (1) is reached";
    assert!(error.contains(expect), "{error}");
}

#[test]
fn virtual_hosts_hold_as_much_as_they_may() {
    let configuration = Configuration::new("vhosts");
    let broker = configuration.start("[[vhost]]\nname = \"/\"\nmax_queues = 2\nmax_queue_bytes = \"64KiB\"\n");
    let (mut client, channel) = connect(&broker);
    let (mut other, others) = connect(&broker);
    declare(&mut client, channel, "a");
    declare(&mut other, others, "b");
    let error = other.declare_queue(others, "c", &QueueOptions::default()).expect_err("two are allowed").to_string();
    let expect = "406 PRECONDITION_FAILED - cannot declare queue 'c': queue limit in vhost '/' (2) is reached";
    assert!(error.contains(expect), "{error}");
    let others = other.open_channel().expect("a channel");
    // Half on each shard: together they exceed the limit.
    client.publish(channel, &Publish::to("", "a"), &[0; 40_000]).expect("published");
    await_messages(&mut client, channel, "a", 1);
    other.publish(others, &Publish::to("", "b"), &[0; 40_000]).expect("published");
    other.flush().expect("sent");
    let line = broker.await_line("limit of a virtual host's queues");
    assert!(line.contains("\"vhost\":\"/\"") && line.contains("\"full\":true"), "{line}");
    // Publishers wait; a client that has not published continues, and frees capacity.
    let (mut third, thirds) = connect(&broker);
    assert_eq!(third.purge_queue(thirds, "a").expect("purged"), 1);
    let line = broker.await_line("\"full\":false");
    assert!(line.contains("limit of a virtual host's queues"), "{line}");
    client.publish(channel, &Publish::to("", "a"), b"goes on").expect("published");
    await_messages(&mut client, channel, "a", 1);
}

#[test]
fn topic_permissions_of_the_configuration() {
    let configuration = Configuration::new("topics");
    let tables = "[[topic_permission]]\nuser = \"guest\"\nvhost = \"/\"\nexchange = \"amq.topic\"\nwrite = '^{username}\\.'\n\
                  read = \".*\"\n";
    let broker = configuration.start(tables);
    let (mut client, channel) = connect(&broker);
    client.publish(channel, &Publish::to("amq.topic", "guest.a"), b"").expect("written");
    declare(&mut client, channel, "q");
    client.publish(channel, &Publish::to("amq.topic", "a"), b"").expect("written");
    let error = client.declare_queue(channel, "q", &QueueOptions::default()).expect_err("closed").to_string();
    let expect =
        "403 ACCESS_REFUSED - access to topic 'a' in exchange 'amq.topic' in vhost '/' refused for user 'guest'";
    assert!(error.contains(expect), "{error}");
}

#[test]
fn what_is_wrong_with_a_policy_is_told_with_its_place() {
    let configuration = Configuration::new("wrong-policies");
    let sound = policy("p", "^a", "max-length = 5");
    let cases = [
        (policy("p", "(", "max-length = 5"), ":1: policy.pattern: regex parse error"),
        (policy("p", "^a", "max-lenght = 5"), ":5: policy.definition.max-lenght: a policy has no such key; there are"),
        (policy("p", "^a", "overflow = \"drop\""), ":5: policy.definition.overflow: it takes drop-head, "),
        (policy("p", "^a", ""), ":1: policy.definition: it says nothing"),
        (format!("{sound}{sound}"), ":6: policy.name: there are two of the name 'p' in virtual host '/'"),
        (sound.replace("\"/\"", "\"nowhere\""), ":1: policy.vhost: there is no virtual host 'nowhere'"),
        (format!("{sound}definiton = {{}}\n"), ":6: policy.definiton: unknown key; [[policy]] has vhost, name, "),
        (sound.replace("{ max-length = 5 }", "5"), ":5: policy.definition: a table is needed, such as"),
        (
            sound.replace("max-length = 5", "overflow = \"drop-head\"").replace("[[policy]]", "[[operator_policy]]"),
            ":5: operator_policy.definition.overflow: an operator policy cannot say that; it has message-ttl, ",
        ),
        (format!("{sound}apply_to = \"both\"\n"), ":6: policy.apply_to: it takes queues, exchanges, all"),
        (format!("{sound}priority = \"high\"\n"), ":6: policy.priority: a whole number is needed"),
    ];
    for (text, expect) in cases {
        configuration.write(&text);
        let output =
            output(&["broker", "--state", "none", "--listen", "127.0.0.1:0", "--config", &configuration.path()]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}: {stderr}");
        assert!(stderr.starts_with(&format!("harrier broker: {}{expect}", configuration.path())), "{text}: {stderr}");
    }
}

#[test]
fn a_definitions_file_is_read_again_and_both_sources_are_exported() {
    let configuration = Configuration::new("both-sources");
    let file = configuration.folder.path("definitions.json");
    let definitions = |most: u32| {
        let policy = format!("\"pattern\": \"^of-file\", \"definition\": {{\"max-length\": {most}}}");
        let user = "\"users\": [{\"name\": \"guest\", \"password_hash\": \"WqYO5fWt0KvXUkmecjAd/zysV+XsDPsMLD90crtc7gcvhwi+\", \
                    \"hashing_algorithm\": \"rabbit_password_hashing_sha256\"}]";
        let permission = "\"permissions\": [{\"user\": \"guest\", \"vhost\": \"/\", \"configure\": \".*\", \"write\": \".*\", \
                          \"read\": \".*\"}]";
        format!(
            "{{\"vhosts\": [{{\"name\": \"/\"}}], {user}, {permission}, \
             \"policies\": [{{\"vhost\": \"/\", \"name\": \"p\", {policy}}}]}}"
        )
    };
    std::fs::write(&file, definitions(1)).expect("writes");
    let own = format!("definitions = {file:?}\n{}", policy("own", "^of-both", "max-length = 2"));
    let operator = own.clone() + &policy("own", "", "max-length = 3").replace("[[policy]]", "[[operator_policy]]");
    let broker = configuration.start(&operator);
    let (mut client, channel) = connect(&broker);
    let mut kept = |queue: &str| {
        declare(&mut client, channel, queue);
        for _ in 0..5 {
            client.publish(channel, &Publish::to("", queue), b"x").expect("published");
        }
        let passive = QueueOptions { passive: true, ..QueueOptions::default() };
        client.declare_queue(channel, queue, &passive).expect("it is there").messages
    };
    assert_eq!([kept("of-file"), kept("of-both"), kept("of-none")], [1, 2, 3]);
    std::fs::write(&file, definitions(2)).expect("writes");
    configuration.reload(&broker, &own);
    assert_eq!([kept("of-file"), kept("of-both"), kept("of-none")], [2, 2, 8]);
    let twice = own.clone() + &policy("p", "", "max-length = 9");
    configuration.write(&twice);
    broker.signal(rustix::process::Signal::HUP);
    broker.await_line("policy.name: there are two of the name 'p' in virtual host '/'");
    configuration.write(&operator);
    let output = output(&["definitions", "export", "--config", &configuration.path()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in
        ["\"name\": \"own\"", "\"name\": \"p\"", "\"component\": \"operator_policy\"", "\"pattern\": \"^of-file\""]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}
