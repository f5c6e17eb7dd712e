//! Looks at a broker that was started again.

use super::broker::TestBroker;
use super::definition_traffic::verify_definitions;
use super::ledger::{FoundMessage, Ledger};
use super::letter_verification::verify_letters;
use super::traffic::EXCHANGE;
use client::{Client, ClientError, ExchangeOptions, QueueOptions};
use splitmix::SplitMix64;

/// NOT_FOUND
const NOT_FOUND: u16 = 404;

/// Why nothing can be said for the broker.
pub enum VerificationError {
    /// It has lost or kept what it must not.
    Broken(String),
    /// It has ended, or closed the connection.
    Client(ClientError),
}

impl From<ClientError> for VerificationError {
    fn from(error: ClientError) -> Self {
        VerificationError::Client(error)
    }
}

impl std::fmt::Display for VerificationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VerificationError::Broken(why) => f.write_str(why),
            VerificationError::Client(error) => error.fmt(f),
        }
    }
}

/// Whether a passive declaration found nothing.
pub fn is_missing<T>(declared: &Result<T, ClientError>) -> bool {
    matches!(declared, Err(ClientError::ChannelClosed { code: NOT_FOUND, .. }))
}

/// Compares everything with the ledger, and acknowledges a part of it. It may end at any call when the broker does: the
/// ledger is as it must be for another life.
pub fn verify(broker: &impl TestBroker, ledger: &mut Ledger, random: &mut SplitMix64) -> Result<(), VerificationError> {
    // It may end before its letters are looked at.
    ledger.letters.start();
    let (mut client, channel) = broker.try_connect()?;
    if ledger.queues.values().any(|queue| !queue.may_be_gone) {
        let passive = ExchangeOptions { passive: true, ..ExchangeOptions::default() };
        let found = client.declare_exchange(channel, EXCHANGE, "direct", &passive);
        if is_missing(&found) {
            return Err(VerificationError::Broken("the exchange is gone".to_owned()));
        }
        found?;
    }
    let names: Vec<String> = ledger.queues.keys().cloned().collect();
    for name in names {
        verify_queue(&mut client, ledger, random, &name)?;
    }
    client.close()?;
    ledger.check_commits().map_err(VerificationError::Broken)?;
    verify_letters(broker, &mut ledger.letters, random)?;
    verify_definitions(broker, &mut ledger.definitions)?;
    while let Some(name) = ledger.passing_queues.last() {
        let (mut client, channel) = broker.try_connect()?;
        let passive = QueueOptions { passive: true, ..QueueOptions::default() };
        let found = client.declare_queue(channel, name, &passive);
        if !is_missing(&found) {
            found?;
            return Err(VerificationError::Broken(format!(
                "queue {name} is there, and is not durable, or was deleted"
            )));
        }
        ledger.passing_queues.pop();
    }
    Ok(())
}

/// Compares a queue with the ledger, and acknowledges a part of it.
fn verify_queue(
    client: &mut Client,
    ledger: &mut Ledger,
    random: &mut SplitMix64,
    name: &str,
) -> Result<(), VerificationError> {
    let broken = |why: String| VerificationError::Broken(format!("queue {name}: {why}"));
    // Of its own: several messages are acknowledged by one tag.
    let channel = client.open_channel()?;
    let passive = QueueOptions { passive: true, ..QueueOptions::default() };
    let declared = client.declare_queue(channel, name, &passive);
    let queue = ledger.queues.get_mut(name).expect("a queue of the ledger");
    if is_missing(&declared) {
        let may_be_gone = queue.may_be_gone;
        ledger.queues.remove(name);
        return if may_be_gone { Ok(()) } else { Err(broken("it is gone".to_owned())) };
    }
    let declared = declared?;
    queue.may_be_gone = false;
    let was_consumed = queue.was_consumed;
    queue.was_consumed |= declared.messages > 0;
    let mut found = Vec::new();
    let mut last = None;
    // Half of what is there is acknowledged in one go.
    let kept = u64::from(declared.messages) / 2 * random.below(2);
    while let Some(message) = client.get(channel, name, false)? {
        let number = ledger.number_of(message.body()).map_err(broken)?;
        found.push(FoundMessage { number, redelivered: message.redelivered });
        if u64::from(message.messages_left) >= kept {
            last = Some(message.delivery_tag);
        }
    }
    if found.len() != declared.messages as usize {
        return Err(broken(format!("it has {} messages, and had {}", found.len(), declared.messages)));
    }
    ledger.settle(name, &found, was_consumed).map_err(broken)?;
    if let Some(tag) = last {
        let acknowledged = found.len() - (kept as usize).min(found.len());
        for message in &found[..acknowledged] {
            ledger.acknowledge(name, message.number, false);
        }
        client.ack(channel, tag, true)?;
    }
    Ok(())
}
