//! A log of messages on a simulated disk, with time and chance from a seed.

use crate::messages::{FIRST_OF_RUNS, Found, Message, RUN_MESSAGES_MAX};
use crate::model::Model;
use disk::{Disk, DiskFaults, SimulatedDisk};
use splitmix::SplitMix64;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use store::{
    AlignedBuffer, Block, DiskError, FetchId, Fetched, LogId, MessageLog, MessageLogEvent, MessageLogOptions, OnDamage,
    Position, QueueUid, RecoveredLog, Request, SegmentId, SegmentNumber, SegmentReader, StoreTag, Ticket, recover,
};

pub const STORE: StoreTag = StoreTag(77);
pub const LOG: LogId = LogId(3);

/// A disk that has lost all footers.
struct WithoutFooters<'a>(&'a mut SimulatedDisk);

impl SegmentReader for WithoutFooters<'_> {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        self.0.read(segment, block, buffer)
    }

    fn read_footer(&mut self, _: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        Ok(None)
    }
}

/// What a disk has that may have more than segments.
trait Listed: SegmentReader {
    fn numbers(&self) -> Vec<SegmentNumber>;
}

impl Listed for SimulatedDisk {
    fn numbers(&self) -> Vec<SegmentNumber> {
        self.segments(LOG)
    }
}

impl Listed for WithoutFooters<'_> {
    fn numbers(&self) -> Vec<SegmentNumber> {
        self.0.segments(LOG)
    }
}

fn recover_from(
    disk: &mut impl Listed,
    queues: &[QueueUid],
    is_paged: bool,
) -> Result<(Found, RecoveredLog), store::ScanError> {
    let queues: BTreeSet<QueueUid> = queues.iter().copied().collect();
    let mut found = Found { queues, is_paged, ..Found::default() };
    let segments = disk.numbers();
    let recovered = recover(disk, STORE, LOG, segments, OnDamage::Fail, &mut found)?;
    Ok((found, recovered))
}

/// A fetch without an answer.
struct Fetching {
    id: FetchId,
    queue: QueueUid,
    wanted: Range<Position>,
    except: Range<u64>,
    /// The messages that there were when it began: others may be in the answer.
    live: BTreeSet<Position>,
}

/// How long bodies are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bodies {
    Small,
    /// Some are divided into parts.
    Mixed,
    /// They fill segments soon.
    Big,
}

pub struct World {
    pub seed: u64,
    pub random: SplitMix64,
    pub disk: SimulatedDisk,
    pub log: MessageLog<Message>,
    pub model: Model,
    pub now_us: u64,
    pub bodies: Bodies,
    pub queues: Vec<QueueUid>,
    next_uid: u64,
    next_id: u64,
    next_of_run: u64,
    next: BTreeMap<(QueueUid, u8), u64>,
    pub written_bytes: u64,
    pub reads: u64,
    pub footers_used: u64,
    pub events: Vec<MessageLogEvent>,
    /// Fetches without an answer, by their numbers, in their order.
    fetches: VecDeque<Fetching>,
    next_fetch: u64,
    /// Fetches that were answered, and the messages that they had.
    pub fetched: (u64, u64),
    options: MessageLogOptions,
}

impl World {
    pub fn new(seed: u64, bodies: Bodies) -> World {
        let options =
            MessageLogOptions { segment_bytes: store::limits::SEGMENT_BYTES_MIN, ..MessageLogOptions::default() };
        World {
            seed,
            random: SplitMix64::new(seed),
            disk: SimulatedDisk::new(seed, DiskFaults::default()),
            log: MessageLog::new(RecoveredLog::empty(STORE, LOG), options),
            model: Model::default(),
            now_us: 1_000_000,
            bodies,
            queues: vec![QueueUid(1), QueueUid(2), QueueUid(3)],
            next_uid: 4,
            next_id: 0,
            next_of_run: FIRST_OF_RUNS,
            next: BTreeMap::new(),
            written_bytes: 0,
            reads: 0,
            footers_used: 0,
            events: Vec::new(),
            fetches: VecDeque::new(),
            next_fetch: 0,
            fetched: (0, 0),
            options,
        }
    }

    pub fn any_queue(&mut self) -> QueueUid {
        self.queues[self.random.below(self.queues.len() as u64) as usize]
    }

    fn body_bytes(&mut self) -> usize {
        let random = &mut self.random;
        let bytes = match self.bodies {
            Bodies::Small => random.below(300),
            Bodies::Mixed if random.one_in(40) => 200_000 + random.below(2_500_000),
            Bodies::Mixed => random.below(20_000),
            Bodies::Big if random.one_in(50) => 300_000 + random.below(1_500_000),
            Bodies::Big => 40_000 + random.below(200_000),
        };
        bytes as usize
    }

    pub fn message(&mut self) -> Message {
        self.next_id += 1;
        let bytes = self.body_bytes();
        Message::new(self.next_id, bytes)
    }

    /// Appends a message behind the others of its level.
    pub fn append(&mut self, queue: QueueUid, message: &Message, id: u64) -> (Position, Ticket) {
        let level = if self.random.one_in(5) { 7 } else { 0 };
        let next = self.next.entry((queue, level)).or_insert(u64::from(level) << 56 | 1);
        let position = Position(*next);
        // Transient messages have positions, too.
        *next += if self.random.one_in(8) { 3 } else { 1 };
        let ticket = self.log.append(queue, position, message.clone());
        self.model.append((queue, position), id, ticket);
        (position, ticket)
    }

    pub fn append_new(&mut self, queue: QueueUid) -> (Position, Ticket) {
        let message = self.message();
        self.append(queue, &message, self.next_id)
    }

    /// Appends messages that differ in their bodies alone.
    fn append_run(&mut self, queue: QueueUid) {
        let level = if self.random.one_in(5) { 7 } else { 0 };
        let count = 1 + self.random.below(RUN_MESSAGES_MAX);
        let head = self.next_of_run;
        self.next_of_run += RUN_MESSAGES_MAX;
        let messages = (head..head + count).map(|id| Message::new(id, self.body_bytes().max(8)));
        let messages: Vec<Message> = messages.collect();
        let next = self.next.entry((queue, level)).or_insert(u64::from(level) << 56 | 1);
        let first = *next;
        *next += count;
        let ticket = self.log.append_run(queue, Position(first), messages);
        for at in 0..count {
            self.model.append((queue, Position(first + at)), head + at, Ticket(ticket.0 + at));
        }
    }

    pub fn settle(&mut self, queue: QueueUid, first: Position, count: u64) {
        self.log.settle(queue, first, count);
        self.model.settle(queue, first, count);
    }

    /// A message that is not settled, more often one of the first.
    pub fn any_message(&mut self, queue: QueueUid) -> Option<Position> {
        let live = self.model.live(queue);
        let within = (live.len() as u64).min(if self.random.one_in(3) { u64::MAX } else { 4 });
        (within > 0).then(|| live[self.random.below(within) as usize])
    }

    /// One thing that a broker does.
    pub fn step(&mut self) {
        let queue = self.any_queue();
        match self.random.below(40) {
            0..14 => {
                self.append_new(queue);
            }
            14 | 15 => self.fan_out(),
            16..24 => self.settle_some(queue),
            24 | 25 => self.dead_letter(queue),
            26 | 27 => self.commit(),
            28..31 => {
                if let Some(position) = self.any_message(queue) {
                    self.log.mark_delivered(queue, position);
                    self.model.mark_delivered((queue, position));
                }
            }
            31 => {
                if let Some(position) = self.any_message(queue) {
                    let times = 1 + self.random.below(9) as u32;
                    self.log.mark_returned(queue, position, times);
                    self.model.mark_returned((queue, position), times);
                }
            }
            32 if self.random.one_in(6) => self.drop_queue(queue),
            32 if self.random.one_in(2) => self.append_run(queue),
            36 | 37 => self.fetch(queue),
            33..36 => self.log.await_durable(self.model.last_ticket()),
            _ => {
                let us = self.random.below(6_000);
                self.run_for(us);
            }
        }
    }

    fn fan_out(&mut self) {
        let message = self.message();
        for queue in self.queues.clone() {
            self.append(queue, &message, self.next_id);
        }
    }

    fn settle_some(&mut self, queue: QueueUid) {
        if let Some(first) = self.any_message(queue) {
            let count = if self.random.one_in(2) { 1 } else { 1 + self.random.below(30) };
            self.settle(queue, first, count);
        }
    }

    /// The letter is appended before its message is settled.
    fn dead_letter(&mut self, queue: QueueUid) {
        if let Some(position) = self.any_message(queue) {
            let to = self.any_queue();
            self.append_new(to);
            self.settle(queue, position, 1);
        }
    }

    fn commit(&mut self) {
        self.log.begin_commit();
        self.model.begin_commit();
        for _ in 0..1 + self.random.below(4) {
            let queue = self.any_queue();
            self.append_new(queue);
            let queue = self.any_queue();
            self.settle_some(queue);
        }
        let ticket = self.log.end_commit();
        self.model.end_commit(ticket);
    }

    fn drop_queue(&mut self, queue: QueueUid) {
        self.log.drop_queue(queue);
        self.model.drop_queue(queue);
        self.queues.retain(|&other| other != queue);
        self.queues.push(QueueUid(self.next_uid));
        self.next_uid += 1;
    }

    /// Wants a range of messages of a level back.
    pub fn fetch(&mut self, queue: QueueUid) {
        let live = self.model.live(queue);
        let level =
            live.get(self.random.below(live.len().max(1) as u64) as usize).map_or(0, |position| position.level());
        let begin = u64::from(level) << 56;
        let next = self.next.get(&(queue, level)).copied().unwrap_or(begin | 1);
        let first = match live.iter().find(|position| position.level() == level).filter(|_| self.random.one_in(2)) {
            Some(first) => first.0,
            None => begin + self.random.below(next - begin),
        };
        let end = first + 1 + self.random.below(60);
        let except = match self.random.one_in(3) {
            true => first + self.random.below(10)..first + 10 + self.random.below(10),
            false => first..first,
        };
        self.fetch_range(queue, Position(first)..Position(end), except);
    }

    pub fn fetch_range(&mut self, queue: QueueUid, wanted: Range<Position>, except: Range<u64>) {
        let id = FetchId(self.next_fetch);
        self.next_fetch += 1;
        self.log.fetch(
            id,
            queue,
            wanted.clone(),
            [except.clone()].into_iter().filter(|range| !range.is_empty()).collect(),
        );
        let live = self.model.live(queue).into_iter().collect();
        self.fetches.push_back(Fetching { id, queue, wanted, except, live });
    }

    fn take_fetched(&mut self) {
        while let Some(fetched) = self.log.take_fetched(Message::read) {
            // Damage is told before what is without it is compared.
            while let Some(event) = self.log.take_event() {
                self.on_event(Some(event));
            }
            self.on_fetched(fetched);
        }
    }

    /// What was fetched is what is alive now.
    fn on_fetched(&mut self, fetched: Fetched<Message>) {
        let Fetching { id, queue, wanted, except, live } = self.fetches.pop_front().expect("a fetch is answered once");
        assert_eq!((fetched.id, fetched.queue), (id, queue), "fetches are answered in their order");
        let found = fetched.messages.iter().map(|fetched| (fetched.position, fetched.message.id(), fetched.found));
        let is_wanted = |position: &Position| wanted.contains(position) && !except.contains(&position.0);
        self.fetched = (self.fetched.0 + 1, self.fetched.1 + fetched.messages.len() as u64);
        if self.events.iter().all(|event| !matches!(event, MessageLogEvent::Damaged(_))) {
            let must_be = |position: &Position| live.contains(position) && is_wanted(position);
            self.model.check_fetched(self.seed, queue, is_wanted, must_be, found);
        }
    }

    /// All fetches are answered although nothing else happens.
    pub fn await_fetches(&mut self) {
        self.log.await_durable(self.model.last_ticket());
        self.run_for(60_000_000);
        assert!(self.fetches.is_empty() || !self.failures().is_empty(), "seed {}: a fetch is not answered", self.seed);
    }

    /// What a shard does at the end of a tick.
    pub fn tick(&mut self) {
        self.disk.set_now(self.now_us);
        while let Some(completion) = self.disk.poll() {
            let event = self.log.complete(completion, self.now_us);
            self.on_event(event);
        }
        self.take_fetched();
        while let Some(request) = self.log.poll(self.now_us) {
            match &request {
                Request::Write { group, .. } => self.written_bytes += group.bytes().len() as u64,
                Request::Read { .. } => self.reads += 1,
                Request::Make { .. } | Request::Remove { .. } | Request::Sync { .. } | Request::WriteFooter { .. } => {}
            }
            self.disk.submit(request);
        }
        self.take_fetched();
        while let Some(event) = self.log.take_event() {
            self.on_event(Some(event));
        }
    }

    fn on_event(&mut self, event: Option<MessageLogEvent>) {
        match event {
            Some(MessageLogEvent::Durable(ticket)) => self.model.on_durable(ticket),
            Some(event) => self.events.push(event),
            None => {}
        }
    }

    pub fn run_for(&mut self, us: u64) {
        let end_us = self.now_us + us;
        let mut ticks = 0;
        loop {
            ticks += 1;
            assert!(ticks < 100_000, "seed {}: the log's timer does not advance", self.seed);
            self.tick();
            let next_us = [self.disk.due_us(), self.log.timer_us()].into_iter().flatten().min();
            match next_us.filter(|&next_us| next_us <= end_us) {
                Some(next_us) => self.now_us = self.now_us.max(next_us),
                None => break,
            }
        }
        self.now_us = end_us;
        self.tick();
    }

    /// The power fails, or the process is killed; then the broker starts again.
    pub fn crash(&mut self) {
        match self.random.one_in(2) {
            true => self.disk.cut_power(),
            false => self.disk.kill(),
        }
        let (found, recovered) = self.recover().unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        self.model.check(self.seed, &found);
        self.next.clear();
        for (queue, next) in &found.next {
            for next in next {
                self.next.insert((*queue, next.level()), next.0);
            }
        }
        self.fetches.clear();
        self.log = MessageLog::new(recovered, self.options);
    }

    /// Recovers the log: with footers as without them, and pages as messages.
    pub fn recover(&mut self) -> Result<(Found, RecoveredLog), store::ScanError> {
        let (found, recovered) = recover_from(&mut self.disk, &self.queues, false)?;
        assert_eq!(recovered.messages, found.messages.len() as u64);
        let (read, without) = recover_from(&mut WithoutFooters(&mut self.disk), &self.queues, false)?;
        assert_eq!(without.footers_used, 0);
        assert!(recovered == without, "seed {}: {recovered:#?}\nwithout footers: {without:#?}", self.seed);
        assert_eq!((&found.messages, &found.next), (&read.messages, &read.next), "seed {}", self.seed);
        let (paged, _) = recover_from(&mut self.disk, &self.queues, true)?;
        paged.check_pages(&found);
        self.footers_used += recovered.footers_used;
        Ok((found, recovered))
    }

    pub fn remove(&mut self, segment: SegmentId) {
        self.do_at_once(Request::Remove { segment });
    }

    /// A segment has this footer.
    pub fn put_footer(&mut self, number: SegmentNumber, bytes: Vec<u8>) {
        self.do_at_once(Request::WriteFooter { segment: SegmentId { log: LOG, number }, bytes });
    }

    /// The footer that a segment has.
    pub fn footer(&mut self, number: SegmentNumber) -> Option<Vec<u8>> {
        self.disk.read_footer(SegmentId { log: LOG, number }).expect("a disk that can be read")
    }

    /// The disk does something that the log has not asked for.
    fn do_at_once(&mut self, request: Request) {
        self.disk.submit(request);
        self.now_us += 10_000_000;
        self.disk.set_now(self.now_us);
        while self.disk.poll().is_some() {}
    }

    /// Errors that the log reported.
    pub fn failures(&self) -> Vec<DiskError> {
        let failures = self.events.iter().filter_map(|event| match event {
            MessageLogEvent::Failed(error) => Some(error.clone()),
            _ => None,
        });
        failures.collect()
    }
}
