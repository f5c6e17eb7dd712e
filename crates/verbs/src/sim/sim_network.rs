//! The state of a simulated fabric, and one step of it.
//!
//! Messages of a queue pair are delivered in order and once.

use super::FabricOptions;
use super::real_time::RealTimeClock;
use super::sim_queue_pair::{QueuedCompletion, SimQueuePair, SimQueuePairState};
use crate::device::{CompletionStatus, ConnectionEvent, QueuePairId, WorkCompletion, WorkRequest, WorkRequestId};
use crate::wake_pipe::WakePipe;
use slab::{BlockMut, Slice};
use splitmix::SplitMix64;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Steps without an acknowledgement after which work fails.
const ACKNOWLEDGE_STEPS_MAX: u32 = 2_000;
/// Steps for each retry when the receiver is not ready.
const NOT_READY_STEPS: u32 = 100;

#[derive(Default)]
pub(super) struct SimNode {
    pub receives: VecDeque<(WorkRequestId, BlockMut)>,
    pub completions: VecDeque<QueuedCompletion>,
    /// Events in flight, with the step in which they arrive.
    pub pending_events: VecDeque<(u64, ConnectionEvent)>,
    pub events: VecDeque<ConnectionEvent>,
    pub queue_pairs: BTreeMap<u32, SimQueuePair>,
    /// Registered regions, by their serial numbers.
    pub regions: HashSet<u64>,
    pub is_gone: bool,
    /// Its card was removed: every call of its device fails.
    pub is_broken: bool,
    /// The same number for devices that listen together.
    pub group: usize,
    /// A notification of the next completion was requested.
    pub is_armed: bool,
    /// A completion came since that request, and completions were not polled since.
    pub has_completion_notice: bool,
    /// An event came, and events were not taken since.
    pub has_event_notice: bool,
    /// Simulates a card's completion and event channels.
    pub wake_pipe: Option<WakePipe>,
}

impl SimNode {
    /// There is something to poll for.
    pub fn is_notified(&self) -> bool {
        self.has_completion_notice || self.has_event_notice
    }
}

pub(super) struct SimGrant {
    pub node: usize,
    pub address: u64,
    pub memory: Slice,
}

pub(super) struct SimNetwork {
    pub options: FabricOptions,
    pub chance: SplitMix64,
    pub now: u64,
    pub nodes: Vec<SimNode>,
    pub listeners: HashMap<String, Vec<usize>>,
    /// Requests that were neither accepted nor rejected: the connecting node and queue pair.
    pub requests: HashMap<u64, (usize, u32)>,
    pub grants: HashMap<u32, SimGrant>,
    pub next_number: u32,
    pub delivered: u64,
    /// The clock, in real time.
    pub live: Option<RealTimeClock>,
}

impl SimNetwork {
    pub fn new(options: &FabricOptions, live: Option<RealTimeClock>) -> Self {
        SimNetwork {
            options: options.clone(),
            chance: SplitMix64::new(options.seed),
            now: 0,
            nodes: Vec::new(),
            listeners: HashMap::new(),
            requests: HashMap::new(),
            grants: HashMap::new(),
            next_number: 1,
            delivered: 0,
            live,
        }
    }

    /// Adds a node, which listens together with those of its group.
    pub fn add_node(&mut self, group: Option<usize>) -> usize {
        let number = self.nodes.len();
        let wake_pipe = self.live.is_some().then(|| WakePipe::new().expect("the system has room for two sockets"));
        self.nodes.push(SimNode { wake_pipe, group: group.unwrap_or(number), ..SimNode::default() });
        number
    }

    /// Removes the card: every call of the device fails from now on, and nothing leaves or reaches it.
    pub fn break_down(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        (it.is_gone, it.is_broken, it.has_event_notice) = (true, true, true);
        self.deliver_pending();
    }

    pub fn next_number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    pub fn vanish(&mut self, node: usize) {
        self.nodes[node].is_gone = true;
    }

    pub fn heal(&mut self) {
        self.options.error_ppm = 0;
        self.options.flip_ppm = 0;
        self.options.not_ready_permille = 0;
    }

    pub fn arrival_step(&mut self) -> u64 {
        self.now + 1 + self.chance.below(u64::from(self.options.delay_steps_max) + 1)
    }

    fn ppm(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.chance.below(1_000_000) < u64::from(ppm)
    }

    pub fn queue_pair(&mut self, node: usize, number: u32) -> Option<&mut SimQueuePair> {
        self.nodes.get_mut(node)?.queue_pairs.get_mut(&number)
    }

    /// Queues completions of one queue pair.
    pub fn complete(&mut self, node: usize, entries: Vec<QueuedCompletion>) {
        for entry in entries {
            let queue = &mut self.nodes[node].completions;
            let mut at = queue.len();
            if self.options.reorder {
                let last = queue.iter().rposition(|other| other.completion.pair == entry.completion.pair);
                let first = last.map_or(0, |last| last + 1);
                at = self.chance.between(first as u64, queue.len() as u64) as usize;
            }
            let it = &mut self.nodes[node];
            it.completions.insert(at, entry);
            it.has_completion_notice |= std::mem::take(&mut it.is_armed);
        }
    }

    pub fn fail_queue_pair(&mut self, node: usize, number: u32, status: Option<CompletionStatus>) {
        let mut entries = Vec::new();
        if let Some(pair) = self.queue_pair(node, number) {
            pair.fail(status, &mut entries);
        }
        self.complete(node, entries);
    }

    pub fn queue_event(&mut self, node: usize, event: ConnectionEvent) {
        let due = self.arrival_step();
        let coming = &mut self.nodes[node].pending_events;
        let earlier = coming.back().map_or(0, |(due, _)| *due);
        coming.push_back((due.max(earlier), event));
    }

    pub fn step(&mut self) {
        self.now += 1;
        for node in 0..self.nodes.len() {
            self.deliver_events(node);
        }
        let mut pairs: Vec<(usize, u32)> = Vec::new();
        for (node, it) in self.nodes.iter().enumerate() {
            pairs.extend(it.queue_pairs.keys().map(|number| (node, *number)));
        }
        if self.options.reorder {
            for at in (1..pairs.len()).rev() {
                pairs.swap(at, self.chance.below(at as u64 + 1) as usize);
            }
        }
        for (node, number) in pairs {
            self.run_queue_pair(node, number);
            let now = self.now;
            let mut entries = Vec::new();
            if let Some(pair) = self.queue_pair(node, number) {
                pair.acknowledge(now, &mut entries);
            }
            self.complete(node, entries);
        }
    }

    /// Executes the work of a queue pair in this step.
    fn run_queue_pair(&mut self, node: usize, number: u32) {
        let now = self.now;
        let Some(pair) = self.nodes[node].queue_pairs.get(&number) else { return };
        if pair.state != SimQueuePairState::Connected || pair.due > now || self.nodes[node].is_gone {
            return;
        }
        let mut budget = if self.options.delay_steps_max == 0 { u64::MAX } else { self.chance.between(1, 20) };
        while budget > 0 && self.run_work_request(node, number) {
            budget -= 1;
        }
        let due = self.arrival_step();
        let slow = self.options.delay_steps_max > 0;
        if let Some(pair) = self.queue_pair(node, number).filter(|_| slow) {
            pair.due = due;
        }
    }

    /// Executes one work request; false if there is none, or it must wait.
    fn run_work_request(&mut self, node: usize, number: u32) -> bool {
        let Some(pair) = self.queue_pair(node, number) else { return false };
        let (Some(peer), false) = (pair.peer, pair.queue.is_empty() || pair.state != SimQueuePairState::Connected)
        else {
            return false;
        };
        let retries = u32::from(pair.limits.receiver_not_ready_retries);
        let stage = self.nodes[peer.0].queue_pairs.get(&peer.1).map(|other| other.state);
        if self.options.initiator_sends_first && stage == Some(SimQueuePairState::Connecting) {
            self.fail_queue_pair(peer.0, peer.1, None);
            self.queue_event(
                peer.0,
                ConnectionEvent::Failed {
                    pair: QueuePairId(peer.1),
                    why: "a message has overtaken the acceptance".into(),
                },
            );
        }
        let reachable = !self.nodes[peer.0].is_gone && stage == Some(SimQueuePairState::Connected);
        if !reachable {
            return self.count_retry(node, number, ACKNOWLEDGE_STEPS_MAX, CompletionStatus::RetryExceeded);
        }
        if self.ppm(self.options.error_ppm) {
            self.fail_queue_pair(node, number, Some(CompletionStatus::Other(99)));
            return false;
        }
        let Some(work) = self.queue_pair(node, number).and_then(|pair| pair.queue.pop_front()) else { return false };
        match work {
            WorkRequest::Send { head, ref parts, .. } => {
                let not_ready = self.chance.permille(self.options.not_ready_permille);
                let receives = &mut self.nodes[peer.0].receives;
                let Some((id, buffer)) = (!not_ready).then(|| receives.pop_front()).flatten() else {
                    self.put_back(node, number, work);
                    return self.count_retry(
                        node,
                        number,
                        retries * NOT_READY_STEPS,
                        CompletionStatus::RnrRetryExceeded,
                    );
                };
                self.deliver(node, number, peer, (id, buffer), head.as_bytes(), parts.clone(), work)
            }
            WorkRequest::Read { .. } => self.read(node, number, peer, work),
        }
    }

    fn put_back(&mut self, node: usize, number: u32, work: WorkRequest) {
        if let Some(pair) = self.queue_pair(node, number) {
            pair.queue.push_front(work);
        }
    }

    /// The first work request could not be delivered; after so many steps of that it fails.
    fn count_retry(&mut self, node: usize, number: u32, steps_max: u32, status: CompletionStatus) -> bool {
        let Some(pair) = self.queue_pair(node, number) else { return false };
        pair.retries += 1;
        if pair.retries > steps_max {
            self.fail_queue_pair(node, number, Some(status));
        }
        false
    }

    #[expect(clippy::too_many_arguments, reason = "both ends, what goes and where")]
    fn deliver(
        &mut self,
        node: usize,
        number: u32,
        peer: (usize, u32),
        (id, mut buffer): (WorkRequestId, BlockMut),
        head: &[u8],
        parts: [Slice; crate::limits::MESSAGE_PARTS_MAX],
        work: WorkRequest,
    ) -> bool {
        let mut bytes = 0;
        let mut fits = true;
        for part in [head].into_iter().chain(parts.iter().map(|part| &part[..])) {
            match buffer.get_mut(bytes..bytes + part.len()) {
                Some(place) => place.copy_from_slice(part),
                None => fits = false,
            }
            bytes += part.len();
        }
        drop(parts);
        let pair = QueuePairId(peer.1);
        if !fits {
            let completion =
                WorkCompletion { id, pair, status: CompletionStatus::LocalLength, bytes: 0, memory: buffer };
            self.complete(peer.0, vec![QueuedCompletion::of_receive(completion)]);
            self.fail_queue_pair(peer.0, peer.1, None);
            self.put_back(node, number, work);
            self.fail_queue_pair(node, number, Some(CompletionStatus::LocalLength));
            return false;
        }
        if self.ppm(self.options.flip_ppm) {
            let bit = self.chance.below(64) as usize;
            if let Some(byte) = buffer.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        let completion =
            WorkCompletion { id, pair, status: CompletionStatus::Success, bytes: bytes as u32, memory: buffer };
        self.complete(peer.0, vec![QueuedCompletion::of_receive(completion)]);
        self.delivered += 1;
        self.on_sent(node, number, work)
    }

    fn on_sent(&mut self, node: usize, number: u32, work: WorkRequest) -> bool {
        let due = if self.options.delay_steps_max == 0 { self.now } else { self.arrival_step() };
        if let Some(pair) = self.queue_pair(node, number) {
            pair.retries = 0;
            pair.on_sent(work, due);
        }
        true
    }

    fn read(&mut self, node: usize, number: u32, peer: (usize, u32), work: WorkRequest) -> bool {
        let WorkRequest::Read { id, mut into, at, bytes, address, key } = work else { return false };
        let granted = self.grants.get(&key).filter(|granted| granted.node == peer.0);
        let source = granted.and_then(|granted| {
            let start = usize::try_from(address.checked_sub(granted.address)?).ok()?;
            granted.memory.get(start..start.checked_add(bytes as usize)?)
        });
        let status = match (source, into.get_mut(at..at + bytes as usize)) {
            (Some(source), Some(place)) => {
                place.copy_from_slice(source);
                None
            }
            (_, None) => Some(CompletionStatus::LocalProtection),
            (None, _) => Some(CompletionStatus::RemoteAccess),
        };
        let work = WorkRequest::Read { id, into, at, bytes, address, key };
        let Some(status) = status else { return self.on_sent(node, number, work) };
        self.put_back(node, number, work);
        self.fail_queue_pair(node, number, Some(status));
        if status == CompletionStatus::RemoteAccess {
            // The responder's queue pair fails as well, and only its completions report that.
            self.fail_queue_pair(peer.0, peer.1, None);
        }
        false
    }
}
