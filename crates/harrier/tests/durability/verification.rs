//! Looks at a broker that was started again.

use super::broker::TestBroker;
use super::ledger::{FoundMessage, Ledger};
use super::random::SeededRandom;
use super::traffic::EXCHANGE;
use client::{Client, ClientChannel, ClientError, ExchangeOptions, QueueOptions};

/// NOT_FOUND
const NOT_FOUND: u16 = 404;

/// Compares everything with the ledger, and acknowledges a part of it.
pub fn verify(broker: &impl TestBroker, ledger: &mut Ledger, random: &mut SeededRandom) -> Result<(), String> {
    let (mut client, channel) = broker.connect();
    if !ledger.queues.is_empty() {
        let passive = ExchangeOptions { passive: true, ..ExchangeOptions::default() };
        let found = client.declare_exchange(channel, EXCHANGE, "direct", &passive);
        found.map_err(|error| format!("the exchange is gone: {error}"))?;
    }
    let names: Vec<String> = ledger.queues.keys().cloned().collect();
    for name in names {
        let named = |why: String| format!("queue {name}: {why}");
        // Of its own: several messages are acknowledged by one tag.
        let channel = client.open_channel().map_err(|error| named(error.to_string()))?;
        let passive = QueueOptions { passive: true, ..QueueOptions::default() };
        let declared = client.declare_queue(channel, &name, &passive).map_err(|error| named(error.to_string()))?;
        let mut found = Vec::new();
        let mut last = None;
        // Half of what is there is acknowledged in one go.
        let kept = u64::from(declared.messages) / 2 * random.below(2);
        while let Some(message) = client.get(channel, &name, false).map_err(|error| named(error.to_string()))? {
            let number = ledger.number_of(message.body()).map_err(&named)?;
            found.push(FoundMessage { number, redelivered: message.redelivered });
            if u64::from(message.messages_left) >= kept {
                last = Some(message.delivery_tag);
            }
        }
        if found.len() != declared.messages as usize {
            return Err(named(format!("it has {} messages, and had {}", found.len(), declared.messages)));
        }
        ledger.settle(&name, &found).map_err(&named)?;
        if let (Some(tag), Some(queue)) = (last, ledger.queues.get_mut(&name)) {
            queue.was_consumed = true;
            let acknowledged = found.len() - (kept as usize).min(found.len());
            client.ack(channel, tag, true).map_err(|error| named(error.to_string()))?;
            for message in &found[..acknowledged] {
                ledger.acknowledge(&name, message.number, false);
            }
        } else if let Some(queue) = ledger.queues.get_mut(&name) {
            queue.was_consumed |= !found.is_empty();
        }
    }
    client.close().map_err(|error| error.to_string())?;
    for name in std::mem::take(&mut ledger.passing_queues) {
        let (mut client, channel) = broker.connect();
        is_gone(&mut client, channel, &name)?;
    }
    Ok(())
}

fn is_gone(client: &mut Client, channel: ClientChannel, name: &str) -> Result<(), String> {
    let passive = QueueOptions { passive: true, ..QueueOptions::default() };
    match client.declare_queue(channel, name, &passive) {
        Err(ClientError::ChannelClosed { code: NOT_FOUND, .. }) => Ok(()),
        Err(error) => Err(format!("queue {name}: {error}")),
        Ok(_) => Err(format!("queue {name} is there, and is not durable, or was deleted")),
    }
}
