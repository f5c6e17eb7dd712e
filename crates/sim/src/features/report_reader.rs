//! A reader of the broker's reports, as a management interface is one: it is told what has changed at each rest, and what it knows
//! then must be what the broker has and what the clients have sent and received.

use crate::simulated_broker::SimulatedBroker;
use crate::simulated_client::{ClientChannel, ConnectionState, SimulatedClient};
use crate::world::SimulatedWorld;
use broker::{ChannelKey, ChannelReport, ChannelStats, ConsumerId, QueueReport, ShardStats};
use catalog::{QueueId, SessionId};
use shard::{ConnectionReport, ShardReport};
use std::collections::{HashMap, HashSet};

/// What a reader knows of a broker.
#[derive(Default)]
pub struct ReportReader {
    /// The life of the broker that it knows.
    life: u32,
    totals: Vec<ShardStats>,
    connections: HashMap<SessionId, ConnectionReport>,
    channels: HashMap<(usize, ChannelKey), ChannelReport>,
    consumers: HashSet<ConsumerId>,
    queues: HashMap<QueueId, (usize, QueueReport)>,
}

impl ReportReader {
    /// Is told everything that has changed.
    pub fn read(&mut self, world: &mut SimulatedWorld) {
        let now = world.clock.now;
        let broker = &mut world.brokers[0];
        if self.life != broker.lives {
            *self = ReportReader { life: broker.lives, ..ReportReader::default() };
        }
        self.totals.resize(broker.shards.len(), ShardStats::default());
        for report in broker.reports(now) {
            self.apply(report);
        }
    }

    fn apply(&mut self, report: ShardReport) {
        let shard = usize::from(report.shard.0);
        self.totals[shard] = report.totals.stats;
        if report.connections.begins_anew {
            self.connections.retain(|id, _| id.shard != report.shard);
        }
        let broker = report.broker;
        if broker.queues.begins_anew {
            self.queues.retain(|_, (home, _)| *home != shard);
        }
        if broker.channels.begins_anew {
            self.channels.retain(|(home, _), _| *home != shard);
        }
        if broker.consumers.begins_anew {
            self.consumers.retain(|id| id.shard != report.shard);
        }
        self.connections.extend(report.connections.changed.into_iter().map(|connection| (connection.id, connection)));
        self.channels.extend(broker.channels.changed.into_iter().map(|channel| ((shard, channel.key), channel)));
        self.consumers.extend(broker.consumers.changed.iter().map(|consumer| consumer.id));
        self.queues.extend(broker.queues.changed.into_iter().map(|queue| (queue.id, (shard, queue))));
        for id in report.connections.gone {
            self.connections.remove(&id);
        }
        for key in broker.channels.gone {
            self.channels.remove(&(shard, key));
        }
        for key in broker.consumers.gone {
            self.consumers.remove(&ConsumerId { shard: report.shard, key });
        }
        for id in broker.queues.gone {
            self.queues.remove(&id);
        }
    }

    /// The counts of all shards.
    fn sum(&self, of: impl Fn(&ShardStats) -> u64) -> u64 {
        self.totals.iter().map(of).sum()
    }

    /// The first thing that it knows wrongly, at a rest. `is_blocking`: a limit may keep the broker from reading its clients.
    pub fn violation(&self, world: &SimulatedWorld, is_blocking: bool) -> Option<String> {
        let clients = world.clients.iter().filter(|_| !is_blocking);
        self.check_queues(world)
            .or_else(|| self.check_counts(world))
            .or_else(|| clients.filter_map(|client| self.check_client(client, &world.brokers[0])).next())
    }

    /// It knows every queue as it is.
    fn check_queues(&self, world: &SimulatedWorld) -> Option<String> {
        let shards = world.brokers[0].shards.iter().enumerate();
        let mut count = 0;
        for (shard, queue) in shards.flat_map(|(at, node)| node.shard.broker().queues().map(move |queue| (at, queue))) {
            count += 1;
            let name = &queue.name;
            let Some((home, known)) = self.queues.get(&queue.id) else {
                return Some(format!("at rest: reports of shard {shard} say nothing of queue {name}"));
            };
            let actual = (queue.ready.len() as u64, queue.ready.body_bytes(), queue.unsettled, queue.unsettled_bytes);
            let told = (known.ready, known.ready_bytes, known.unacknowledged, known.unacknowledged_bytes);
            let consumers = queue.consumers.len() as u64;
            let is_same = actual == told && known.consumers == consumers && known.stats == queue.stats;
            if *home != shard || !is_same {
                return Some(format!(
                    "at rest: {name} has {actual:?} and {consumers} consumers, reported is {known:?}"
                ));
            }
            if queue.unsettled == 0 && queue.unsettled_bytes > 0 {
                return Some(format!("at rest: {name} has {} bytes and no message to settle", queue.unsettled_bytes));
            }
            let stats = queue.stats;
            if stats.ack > stats.deliver + stats.get || stats.redeliver > stats.delivered() {
                return Some(format!("at rest: {name} has counted {stats:?}"));
            }
        }
        (count != self.queues.len())
            .then(|| format!("at rest: {} queues are reported, and {count} are there", self.queues.len()))
    }

    /// What is open is what was opened and not closed, and of nothing more was counted than clients have sent.
    fn check_counts(&self, world: &SimulatedWorld) -> Option<String> {
        let broker = &world.brokers[0];
        let census = |what: &str| {
            let all = broker.shards.iter().flat_map(|node| node.shard.broker().census());
            all.filter(|(name, _)| *name == what).map(|(_, count)| count as u64).sum::<u64>()
        };
        let connections = broker.shards.iter().map(|node| node.shard.connections()).sum::<usize>();
        let all = |of: fn(&ChannelStats) -> u64| self.sum(|stats| of(&stats.channels));
        let tally = &world.tally;
        let pairs = [
            (
                "sessions",
                self.sum(|all| all.connections_opened) - self.sum(|all| all.connections_closed),
                census("sessions"),
            ),
            ("channels", self.sum(|all| all.channels_opened) - self.sum(|all| all.channels_closed), census("channels")),
            ("reported channels", self.channels.len() as u64, census("channels")),
            ("reported consumers", self.consumers.len() as u64, census("consumers")),
            ("reported connections", self.connections.len() as u64, connections as u64),
        ];
        let mut wrong = pairs.into_iter().filter(|(_, told, actual)| told != actual);
        if let Some((what, told, actual)) = wrong.next() {
            return Some(format!("at rest: {told} {what} by the counts, and {actual} are there"));
        }
        // Those of earlier lives and of the last messages of cut connections are in the tally only.
        let bounds = [
            ("published", all(|stats| stats.publish), tally.published),
            ("confirmed", all(|stats| stats.confirm), all(|stats| stats.publish)),
            ("returned", all(|stats| stats.return_unroutable), all(|stats| stats.publish)),
            ("acknowledged", all(|stats| stats.ack), all(|stats| stats.deliver + stats.get)),
        ];
        if let Some((what, told, most)) = bounds.into_iter().find(|(_, told, most)| told > most) {
            return Some(format!("at rest: {told} messages were {what} by the counts, of {most}"));
        }
        let delivered = all(ChannelStats::delivered);
        if broker.lives == 1 && delivered < tally.delivered {
            return Some(format!("at rest: {} deliveries have come, and {delivered} are counted", tally.delivered));
        }
        let letters = self.sum(|all| all.dead_lettered.total());
        (broker.lives == 1 && letters == 0 && tally.dead > 0)
            .then(|| format!("at rest: {} dead letters have come, and none is counted", tally.dead))
    }

    /// A client that is read and reads has sent and received what is counted of its channels.
    fn check_client(&self, client: &SimulatedClient, broker: &SimulatedBroker) -> Option<String> {
        if client.cut || client.blocked || client.broker != 0 || client.state != ConnectionState::Open {
            return None;
        }
        let uid = client.uid;
        let mut connections = self.connections.values();
        let connection = connections.find(|connection| {
            Some((usize::from(connection.id.shard.0), connection.id.slot)) == broker.end_of(&client.cable)
        });
        let Some(connection) = connection else {
            return Some(format!("at rest: client {uid} is connected, and that is not reported"));
        };
        client.channels.iter().filter(|channel| channel.is_open() && channel.pending.is_none()).find_map(|channel| {
            let mut known = self.channels.values();
            let known = known.find(|known| (known.connection, known.number) == (connection.id, channel.number));
            let Some(known) = known else {
                return Some(format!("at rest: channel {} is open, and that is not reported", channel.uid));
            };
            check_channel(channel, known)
        })
    }
}

fn check_channel(channel: &ClientChannel, known: &ChannelReport) -> Option<String> {
    let (mine, told) = (channel.counts, known.stats);
    // Nobody tells a client that its message was dropped.
    let told = ChannelStats { drop_unroutable: mine.drop_unroutable, ..told };
    let unsettled = channel.unsettled.len() as u64;
    let is_same = mine == told && (known.is_transactional || unsettled == known.unacknowledged);
    (!is_same).then(|| {
        let uid = channel.uid;
        format!("at rest: channel {uid} counts {mine:?} and {unsettled} unsettled, reported is {known:?}")
    })
}
