//! What becomes of connected users who lose their access: by a configuration that is read again, by the management API and by
//! `harrier ctl`.

use super::ctl_commands::done;
use super::logins::account;
use super::management::{ApiBroker, GUEST, request};
use super::{BrokerProcess, TempFolder, wait_until};
use client::{Client, ClientChannel, ClientError, ConsumeOptions, Publish, QueueOptions};
use rustix::process::Signal;
use std::time::Duration;

const QUEUES: [&str; 2] = ["kept", "lost"];
/// What somebody who keeps everything may read, and what is left to somebody who loses `lost`.
const WIDE: &str = ".*";
const NARROW: &str = "^kept$";
const NO_ACCESS: &str = "access to vhost was taken from user 'mine'";
const NO_USER: &str = "user was deleted";

/// Clients of the user `mine` and a bystander, the user `other`. Each of them consumes both queues.
struct ConnectedUsers<'a> {
    address: &'a str,
    clients: Vec<Client>,
    bystander: Client,
    channel: ClientChannel,
}

fn connect(address: &str, user: &str) -> Client {
    Client::connect(&format!("amqp://{user}:p@{address}")).expect("connects")
}

impl<'a> ConnectedUsers<'a> {
    /// Connections go to the shard that has the fewest: with as many clients as shards, some are on another shard than the
    /// queues.
    fn new(address: &'a str, clients: usize) -> Self {
        let clients = (0..clients).map(|_| connect(address, "mine")).collect();
        let mut bystander = connect(address, "other");
        let channel = bystander.open_channel().expect("a channel");
        for queue in QUEUES {
            bystander.declare_queue(channel, queue, &QueueOptions::default()).expect("a queue");
            bystander.consume(channel, queue, &ConsumeOptions::default()).expect("a consumer");
        }
        let mut users = ConnectedUsers { address, clients, bystander, channel };
        users.clients.iter_mut().for_each(consume);
        let of_each = users.clients.len() + 1;
        assert_eq!(users.consumers(), [of_each; 2]);
        users
    }

    /// How many consumers the queues have.
    fn consumers(&mut self) -> [usize; 2] {
        let passive = QueueOptions { passive: true, ..QueueOptions::default() };
        let counts = QUEUES.map(|queue| self.bystander.declare_queue(self.channel, queue, &passive));
        counts.map(|count| count.expect("the bystander goes on").consumers as usize)
    }

    /// The user has been left nothing but `NARROW`: only the consumers of the other queue are cancelled.
    fn are_narrowed(&mut self) {
        for client in &mut self.clients {
            let mut cancelled = None;
            let look = || {
                client.next_delivery(Duration::from_millis(1)).expect("the connection goes on");
                cancelled = client.take_cancelled();
                cancelled.is_some()
            };
            wait_until("the consumer is cancelled", look, String::new);
            assert_eq!(cancelled.map(|cancelled| cancelled.consumer_tag).as_deref(), Some("lost"));
        }
        let all = self.clients.len() + 1;
        wait_until("its consumers leave", || self.consumers() == [all, 1], String::new);
        self.kept_is_delivered();
        self.bystander_is_served();
    }

    /// Each client still gets messages of the queue that it may read.
    fn kept_is_delivered(&mut self) {
        for client in &mut self.clients {
            let look = || {
                self.bystander.publish(self.channel, &Publish::to("", "kept"), b"kept").expect("published");
                self.bystander.flush().expect("written");
                client.next_delivery(Duration::from_millis(1)).expect("the connection goes on").is_some()
            };
            wait_until("it gets messages of its other consumer", look, String::new);
            assert_eq!(client.take_cancelled(), None);
        }
    }

    /// The user has lost everything: its connections are closed, with this text.
    fn are_closed(&mut self, expect: &str) {
        for mut client in self.clients.drain(..) {
            let mut closed = None;
            let look = || {
                closed = client.next_delivery(Duration::from_millis(1)).err();
                closed.is_some()
            };
            wait_until("the connection is closed", look, String::new);
            let error = closed.expect("it was");
            assert!(
                matches!(&error, ClientError::ConnectionClosed { code: 320, text } if text.contains(expect)),
                "{error}"
            );
        }
        wait_until("its consumers are gone", || self.consumers() == [1, 1], String::new);
        self.bystander_is_served();
    }

    /// The bystander has lost no consumer and gets the messages of the queue that others have lost.
    fn bystander_is_served(&mut self) {
        self.bystander.publish(self.channel, &Publish::to("", "lost"), b"lost").expect("published");
        self.bystander.flush().expect("written");
        let look = || {
            let delivery = self.bystander.next_delivery(Duration::from_millis(1)).expect("the connection goes on");
            delivery.is_some_and(|delivery| delivery.body() == b"lost")
        };
        wait_until("the bystander gets its message", look, String::new);
        assert_eq!(self.bystander.take_cancelled(), None);
    }

    /// The user has access again.
    fn come_back(&mut self, clients: usize) {
        self.clients.extend((0..clients).map(|_| connect(self.address, "mine")));
        self.clients.iter_mut().for_each(consume);
        assert_eq!(self.consumers(), [clients + 1; 2]);
    }
}

/// Consumes both queues, each with its name as the consumer's tag.
fn consume(client: &mut Client) {
    let channel = client.open_channel().expect("a channel");
    for queue in QUEUES {
        let options = ConsumeOptions { consumer_tag: queue.to_owned(), ..ConsumeOptions::default() };
        client.consume(channel, queue, &options).expect("a consumer");
    }
}

/// Reloads a configuration.
fn reload(broker: &BrokerProcess, config: &str, text: &str) {
    std::fs::write(config, text).expect("writes");
    broker.signal(Signal::HUP);
    broker.await_line("the configuration was reloaded");
}

#[test]
fn who_loses_access_in_a_configuration_is_served_no_longer() {
    let folder = TempFolder::new("revoked-by-configuration");
    let config = folder.path("harrier.toml");
    let other = account("other", "password = \"p\"", WIDE);
    let with = |mine: &str| format!("[[vhost]]\nname = \"/\"\n{other}{mine}");
    let mine = |read: &str| account("mine", "password = \"p\"", read);
    std::fs::write(&config, with(&mine(WIDE))).expect("writes");
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--config", &config]);
    let mut users = ConnectedUsers::new(&broker.address, 2);
    reload(&broker, &config, &with(&mine(NARROW)));
    users.are_narrowed();
    // Without access to the virtual host, and then without the user, connections are closed.
    let no_access = "[[user]]\nname = \"mine\"\npassword = \"p\"\n";
    for (left, expect) in [(no_access, NO_ACCESS), ("", NO_USER)] {
        reload(&broker, &config, &with(left));
        users.are_closed(expect);
        reload(&broker, &config, &with(&mine(WIDE)));
        users.come_back(2);
    }
}

/// How an operator changes users of a running broker.
trait Operator {
    fn add_user(&self, user: &str);
    fn permit(&self, user: &str, read: &str);
    fn clear_permissions(&self, user: &str);
    fn delete_user(&self, user: &str);
}

/// By requests to the management API.
struct OverHttp<'a>(&'a ApiBroker);

impl OverHttp<'_> {
    fn ask(&self, method: &str, target: &str, body: &str) {
        let reply = request(&self.0.api, method, target, GUEST, body);
        assert!(matches!(reply.status, 201 | 204), "{method} {target}: {} {}", reply.status, reply.body);
    }
}

impl Operator for OverHttp<'_> {
    fn add_user(&self, user: &str) {
        self.ask("PUT", &format!("/api/users/{user}"), r#"{"password":"p","tags":""}"#);
    }

    fn permit(&self, user: &str, read: &str) {
        let body = format!(r#"{{"configure":".*","write":".*","read":"{read}"}}"#);
        self.ask("PUT", &format!("/api/permissions/%2F/{user}"), &body);
    }

    fn clear_permissions(&self, user: &str) {
        self.ask("DELETE", &format!("/api/permissions/%2F/{user}"), "");
    }

    fn delete_user(&self, user: &str) {
        self.ask("DELETE", &format!("/api/users/{user}"), "");
    }
}

/// By `harrier ctl` at this address.
struct ByCtl(String);

impl Operator for ByCtl {
    fn add_user(&self, user: &str) {
        done(&self.0, &["add_user", user, "p"]);
    }

    fn permit(&self, user: &str, read: &str) {
        done(&self.0, &["set_permissions", user, ".*", ".*", read]);
    }

    fn clear_permissions(&self, user: &str) {
        done(&self.0, &["clear_permissions", user]);
    }

    fn delete_user(&self, user: &str) {
        done(&self.0, &["delete_user", user]);
    }
}

fn access_is_taken_from_connected_users(broker: &ApiBroker, operator: &dyn Operator, shards: usize) {
    for user in ["mine", "other"] {
        operator.add_user(user);
        operator.permit(user, WIDE);
    }
    let mut users = ConnectedUsers::new(&broker.process.address, shards);
    operator.permit("mine", NARROW);
    users.are_narrowed();
    operator.clear_permissions("mine");
    users.are_closed(NO_ACCESS);
    operator.permit("mine", WIDE);
    users.come_back(shards);
    operator.delete_user("mine");
    users.are_closed(NO_USER);
}

#[test]
fn who_loses_access_over_http_is_served_no_longer() {
    for shards in [1, 3] {
        let broker = ApiBroker::start(&["--shards", &shards.to_string()]);
        access_is_taken_from_connected_users(&broker, &OverHttp(&broker), shards);
    }
}

#[test]
fn who_loses_access_by_ctl_is_served_no_longer() {
    for shards in [1, 3] {
        let broker = ApiBroker::start(&["--shards", &shards.to_string()]);
        let ctl = ByCtl(format!("amqp://{}", broker.process.address));
        access_is_taken_from_connected_users(&broker, &ctl, shards);
    }
}
