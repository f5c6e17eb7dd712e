//! Publishers and consumers at work, until the broker is killed.

use super::broker::TestBroker;
use super::definition_traffic::DefinitionTraffic;
use super::ledger::{Ledger, OpenPublish, OpenTransaction, PublishedAs, body};
use super::letter_traffic::LetterTraffic;
use super::wall_clock::wall_clock_us;
use client::{Client, ClientChannel, ClientError, ConsumeOptions, ExchangeOptions, Publish, QueueOptions};
use splitmix::SplitMix64;
use std::collections::VecDeque;
use std::time::Duration;
use wire::{DeliveryTag, Properties, RawProperties, Table, Value};

/// The durable exchange.
pub const EXCHANGE: &str = "orders";
/// Durable queues with a consumer each: the last one consumes over the publisher's connection.
const CONSUMED: [&str; 3] = ["one", "two", "three"];
const BY_PUBLISHER: &str = CONSUMED[2];
/// A durable queue that is deleted and declared again in every round.
const DECLARED_ANEW: &str = "anew";
/// A durable queue that is purged now and then.
const PURGED: &str = "purged";
/// A durable queue whose messages have priorities up to this one.
const RANKED: &str = "ranked";
const PRIORITY_MAX: u8 = 4;
/// Durable queues whose messages are published and acknowledged in transactions: two were declared over one connection, so that they
/// are on one shard, and one over another connection.
const COMMITTED: [&str; 3] = ["committed", "committed.beside", "committed.elsewhere"];
const COMMITTED_BESIDE: [&str; 2] = [COMMITTED[0], COMMITTED[1]];
/// Messages that a transaction publishes to each of them, and acknowledges at most.
const COMMIT_MESSAGES: usize = 2;
const COMMIT_ACKNOWLEDGED: usize = 2;
/// The routing key of all consumed queues.
const ALL: &str = "all";
const PREFETCH: u16 = 30;

/// A connection with its channel.
struct Connection {
    client: Client,
    channel: ClientChannel,
}

impl Connection {
    fn open(broker: &impl TestBroker) -> Result<Connection, ClientError> {
        let (client, channel) = broker.try_connect()?;
        Ok(Connection { client, channel })
    }
}

pub struct Traffic<'a> {
    ledger: &'a mut Ledger,
    random: &'a mut SplitMix64,
    /// Publishes with confirms on one channel, and consumes on another.
    publisher: Connection,
    publisher_consumes: ClientChannel,
    consumer: Connection,
    /// Publishes and acknowledges in transactions.
    committer: Connection,
    letters: LetterTraffic,
    definitions: DefinitionTraffic,
    /// The durable queue of this round that nobody consumes from.
    round_queue: String,
    /// Most publishes without a confirm.
    window: u64,
    open: VecDeque<(u64, OpenPublish)>,
    confirms: u64,
    published: u64,
    acknowledged: u64,
}

impl<'a> Traffic<'a> {
    /// Declares what the round needs. What was answered must survive.
    ///
    /// # Errors
    /// Here as in the other calls: the broker has ended.
    pub fn begin(
        broker: &impl TestBroker,
        ledger: &'a mut Ledger,
        random: &'a mut SplitMix64,
        round: u64,
    ) -> Result<Self, ClientError> {
        let mut publisher = Connection::open(broker)?;
        let mut consumer = Connection::open(broker)?;
        let mut committer = Connection::open(broker)?;
        let channel = publisher.channel;
        publisher.client.confirm_select(channel)?;
        let durable = ExchangeOptions { durable: true, ..ExchangeOptions::default() };
        publisher.client.declare_exchange(channel, EXCHANGE, "direct", &durable)?;
        for name in CONSUMED {
            declare_durable(&mut publisher, ledger, name, &[name, ALL])?;
        }
        ledger.delete(DECLARED_ANEW);
        publisher.client.delete_queue(channel, DECLARED_ANEW, false, false)?;
        ledger.empty(DECLARED_ANEW);
        for name in [DECLARED_ANEW, PURGED] {
            declare_durable(&mut publisher, ledger, name, &[name])?;
        }
        if !ledger.are_committed_beside {
            // An earlier life may have ended with one of the two, on the shard of another connection.
            for name in COMMITTED_BESIDE {
                ledger.delete(name);
                publisher.client.delete_queue(channel, name, false, false)?;
                ledger.empty(name);
            }
        }
        for name in COMMITTED_BESIDE {
            declare_durable(&mut publisher, ledger, name, &[name])?;
        }
        ledger.are_committed_beside = true;
        declare_durable(&mut consumer, ledger, COMMITTED[2], &[COMMITTED[2]])?;
        let arguments = Table::new().with("x-max-priority", Value::U8(PRIORITY_MAX)).expect("a short name");
        declare_with(&mut publisher, ledger, RANKED, arguments, &[RANKED])?;
        ledger.queues.get_mut(RANKED).expect("it is declared").has_priorities = true;
        committer.client.tx_select(committer.channel)?;
        let round_queue = format!("round.{round}");
        declare_durable(&mut publisher, ledger, &round_queue, &[&round_queue])?;
        // Those of two rounds before and earlier have served.
        let is_old = |name: &&String| {
            let number = name.strip_prefix("round.").map(|number| number.parse::<u64>().expect("a round"));
            number.is_some_and(|number| number + 2 <= round)
        };
        let old: Vec<String> = ledger.queues.keys().filter(is_old).cloned().collect();
        for old in old {
            ledger.delete(&old);
            publisher.client.delete_queue(channel, &old, false, false)?;
            ledger.queues.remove(&old);
            ledger.passing_queues.push(old);
        }
        let (own, passing) = (format!("own.{round}"), format!("passing.{round}"));
        ledger.passing_queues.extend([own.clone(), passing.clone()]);
        let exclusive = QueueOptions { durable: true, exclusive: true, ..QueueOptions::default() };
        publisher.client.declare_queue(channel, &own, &exclusive)?;
        publisher.client.declare_queue(channel, &passing, &QueueOptions::default())?;
        let publisher_consumes = publisher.client.open_channel()?;
        for name in CONSUMED.iter().chain(&COMMITTED).chain([&RANKED]) {
            ledger.queues.get_mut(*name).expect("it is declared").was_consumed = true;
        }
        consume(&mut publisher.client, publisher_consumes, BY_PUBLISHER)?;
        for name in CONSUMED.into_iter().filter(|name| *name != BY_PUBLISHER) {
            consume(&mut consumer.client, consumer.channel, name)?;
        }
        let letters = LetterTraffic::begin(broker, &mut ledger.letters)?;
        let Connection { client, channel } = &mut publisher;
        let names = (round, CONSUMED[0]);
        let definitions = DefinitionTraffic::begin(broker, (client, *channel), &mut ledger.definitions, random, names)?;
        let window = 1 + random.below(200);
        Ok(Traffic {
            ledger,
            random,
            publisher,
            publisher_consumes,
            consumer,
            committer,
            letters,
            definitions,
            round_queue,
            window,
            open: VecDeque::new(),
            confirms: 0,
            published: 0,
            acknowledged: 0,
        })
    }

    /// Publishes and acknowledges until so many confirms have come.
    pub fn run_until(&mut self, confirms: u64) -> Result<(), ClientError> {
        while self.confirms < confirms {
            self.publish()?;
            if self.publisher.client.outstanding(self.publisher.channel) >= self.window {
                let awaited = self.window / 2;
                self.publisher.client.wait_confirms(self.publisher.channel, awaited)?;
            }
            self.note_confirms();
            if self.random.one_in(50) {
                self.commit()?;
            }
            if self.random.one_in(4) {
                self.letters.step(&mut self.ledger.letters, self.random)?;
            }
            if self.random.one_in(40) {
                self.take_ranked()?;
            }
            if self.random.one_in(100) {
                self.ledger.purge(PURGED);
                self.publisher.client.purge_queue(self.publisher.channel, PURGED)?;
                self.ledger.empty(PURGED);
            }
            if self.random.one_in(4) {
                self.take_deliveries()?;
            }
        }
        self.publisher.client.flush()
    }

    /// What is known of the messages so far.
    pub fn ledger(&self) -> &Ledger {
        self.ledger
    }

    fn publish(&mut self) -> Result<(), ClientError> {
        let Traffic { ledger, random, publisher, round_queue, .. } = self;
        let key = match random.below(11) {
            0 => ALL,
            1 => DECLARED_ANEW,
            2 => &**round_queue,
            3 => PURGED,
            4 | 5 => RANKED,
            other => CONSUMED[other as usize % CONSUMED.len()],
        };
        let queues: Vec<String> = match key {
            ALL => CONSUMED.map(str::to_owned).to_vec(),
            key => vec![key.to_owned()],
        };
        // Most are small; some have a frame, or several ones, for themselves.
        let bytes = match random.below(100) {
            0 => 700_000,
            1..4 => 70_000,
            _ => random.below(300) as usize,
        };
        let is_persistent = !random.one_in(10);
        let priority = random.below(u64::from(PRIORITY_MAX) + 1) as u8;
        let open = ledger.publish(&queues, PublishedAs { bytes, is_persistent, priority });
        let delivery_mode = Some(if is_persistent { 2 } else { 1 });
        let properties = Properties { delivery_mode, priority: Some(priority), ..Properties::default() }.to_bytes();
        let to = Publish { mandatory: true, properties: RawProperties::new(&properties), ..Publish::to(EXCHANGE, key) };
        let body = body(open.number(), bytes);
        let tag = publisher.client.publish(publisher.channel, &to, &body)?;
        self.published += 1;
        self.open.push_back((tag, open));
        Ok(())
    }

    /// Takes a message with a priority, which is acknowledged or goes back to its place.
    fn take_ranked(&mut self) -> Result<(), ClientError> {
        let Connection { client, channel } = &mut self.publisher;
        let Some(message) = client.get(*channel, RANKED, false)? else { return Ok(()) };
        let number = self.ledger.number_of(message.body()).expect("what was published");
        if self.random.one_in(3) {
            client.nack(*channel, message.delivery_tag, false, true)
        } else {
            self.ledger.acknowledge(RANKED, number, true);
            client.ack(*channel, message.delivery_tag, false)
        }
    }

    /// Publishes and acknowledges messages in a transaction.
    fn fill_transaction(&mut self) -> Result<OpenTransaction, ClientError> {
        let Connection { client, channel } = &mut self.committer;
        let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
        let mut transaction = OpenTransaction::default();
        for queue in COMMITTED {
            for _ in 0..COMMIT_ACKNOWLEDGED {
                let Some(message) = client.get(*channel, queue, false)? else { break };
                let number = self.ledger.number_of(message.body()).expect("what was published");
                transaction.acknowledged.push((queue.to_owned(), number));
                client.ack(*channel, message.delivery_tag, false)?;
            }
            let to = Publish { properties: RawProperties::new(&properties), ..Publish::to(EXCHANGE, queue) };
            for _ in 0..COMMIT_MESSAGES {
                let bytes = 8 + self.random.below(3) as usize * 40_000;
                let publish = PublishedAs { bytes, is_persistent: true, priority: 0 };
                let publish = self.ledger.publish(&[queue.to_owned()], publish);
                client.publish(*channel, &to, &body(publish.number(), bytes))?;
                transaction.publishes.push(publish);
            }
        }
        client.flush()?;
        Ok(transaction)
    }

    /// Enters a transaction whose commit was answered, or was not.
    fn end_transaction(&mut self, transaction: &OpenTransaction, is_answered: bool) {
        if is_answered {
            self.ledger.commit(transaction);
        } else if self.ledger.letters.moves_shards {
            self.ledger.leave_commit_open(transaction, &[&COMMITTED[..1], &COMMITTED[1..2], &COMMITTED[2..]]);
        } else {
            self.ledger.leave_commit_open(transaction, &[&COMMITTED_BESIDE, &COMMITTED[2..]]);
        }
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        let transaction = self.fill_transaction()?;
        let answer = self.committer.client.tx_commit(self.committer.channel);
        self.end_transaction(&transaction, answer.is_ok());
        answer
    }

    /// Kills the broker while it has a commit to answer, letters and definitions are under way.
    pub fn kill_at_a_commit(&mut self, broker: impl TestBroker) {
        let transaction = self.fill_transaction().expect("a broker that runs");
        self.letters.leave_under_way(&mut self.ledger.letters, self.random).expect("a broker that runs");
        if self.random.one_in(2) {
            self.definitions.leave_under_way(&broker, &mut self.ledger.definitions);
        }
        let killer = std::thread::spawn(|| broker.kill());
        let is_answered = self.committer.client.tx_commit(self.committer.channel).is_ok();
        killer.join().expect("it is killed");
        self.ledger.letters.ended_us = Some(wall_clock_us());
        self.end_transaction(&transaction, is_answered);
    }

    /// Commits once more, which must fail. Says how.
    pub fn fail_at_a_commit(&mut self) -> String {
        // The broker may have met the error before, in writing something else.
        let transaction = match self.fill_transaction() {
            Ok(transaction) => transaction,
            Err(error) => return error.to_string(),
        };
        let error = self.committer.client.tx_commit(self.committer.channel).expect_err("the disk has errors");
        self.end_transaction(&transaction, false);
        error.to_string()
    }

    /// Enters the confirms that have come.
    fn note_confirms(&mut self) {
        let confirmed = self.publisher.client.confirmed_up_to(self.publisher.channel);
        while let Some((_, publish)) = self.open.pop_front_if(|(tag, _)| *tag <= confirmed) {
            self.ledger.confirm(&publish);
            self.confirms += 1;
        }
    }

    /// Takes the deliveries that are there, and acknowledges, returns or keeps each.
    fn take_deliveries(&mut self) -> Result<(), ClientError> {
        let Traffic { ledger, random, publisher, publisher_consumes, consumer, acknowledged, .. } = self;
        for (client, channel, is_publisher) in
            [(&mut publisher.client, *publisher_consumes, true), (&mut consumer.client, consumer.channel, false)]
        {
            while let Some(delivery) = client.next_delivery(Duration::ZERO)? {
                let number = ledger.number_of(delivery.body()).expect("what was published");
                let queue = String::from_utf8_lossy(delivery.consumer_tag).into_owned();
                let tag: DeliveryTag = delivery.delivery_tag;
                match random.below(10) {
                    0 => {}
                    1 => client.nack(channel, tag, false, true)?,
                    _ => {
                        ledger.acknowledge(&queue, number, is_publisher);
                        client.ack(channel, tag, false)?;
                        *acknowledged += 1;
                    }
                }
            }
            client.flush()?;
        }
        Ok(())
    }

    /// Waits until everything is confirmed.
    pub fn finish(mut self) -> Result<(), ClientError> {
        let refused = self.publisher.client.wait_confirms(self.publisher.channel, 0)?;
        assert_eq!(refused, 0, "nothing is refused");
        self.note_confirms();
        self.letters.finish(&mut self.ledger.letters)
    }

    /// The broker was killed: what it had confirmed before counts. Says what there was.
    pub fn end(mut self) -> String {
        // The connection ends behind the last confirm.
        let ended = self.publisher.client.wait_confirms(self.publisher.channel, 0);
        assert!(ended.is_err() || self.open.len() as u64 <= self.window, "the broker was killed");
        self.note_confirms();
        let refused = self.publisher.client.take_refused(self.publisher.channel).unwrap_or_default();
        assert!(refused.is_empty(), "nothing is refused: {refused:?}");
        assert_eq!(self.publisher.client.returned_count(), 0, "each key is bound");
        let Traffic { ledger, letters, published, confirms, acknowledged, window, .. } = self;
        letters.end(&mut ledger.letters);
        let told = ledger.letters.describe();
        format!("{published} published within {window}, {confirms} confirmed, {acknowledged} acknowledged, {told}")
    }
}

/// Declares a durable queue with its bindings.
fn declare_durable(
    connection: &mut Connection,
    ledger: &mut Ledger,
    name: &str,
    keys: &[&str],
) -> Result<(), ClientError> {
    declare_with(connection, ledger, name, Table::new(), keys)
}

fn declare_with(
    connection: &mut Connection,
    ledger: &mut Ledger,
    name: &str,
    arguments: Table,
    keys: &[&str],
) -> Result<(), ClientError> {
    let Connection { client, channel } = connection;
    let durable = QueueOptions { durable: true, arguments, ..QueueOptions::default() };
    ledger.declare(name);
    client.declare_queue(*channel, name, &durable)?;
    ledger.declared(name);
    for key in keys {
        client.bind_queue(*channel, name, EXCHANGE, key, &wire::Table::new())?;
    }
    Ok(())
}

/// Consumes from a queue, by whose name its deliveries are known.
fn consume(client: &mut Client, channel: ClientChannel, queue: &str) -> Result<(), ClientError> {
    client.qos(channel, PREFETCH, false)?;
    let options = ConsumeOptions { consumer_tag: queue.to_owned(), ..ConsumeOptions::default() };
    client.consume(channel, queue, &options).map(drop)
}
