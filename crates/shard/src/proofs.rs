//! Proofs: passwords that take long to check are checked beside the shards.
//!
//! Enters: a kept password and what a client offered.  Leaves: whether the one is the other's, some time later.
//! Owns:   the threads that check, how many checks a shard has under way, and what was found to be right before.
//! Never:  holds more than one login of a connection; remembers a password itself.

use crate::limits::{PROOFS_UNDER_WAY_MAX, PROVEN_MAX, PROVERS};
use crate::mail::Doorbell;
use broker::ConnectionSlot;
use catalog::{Password, UserId};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A login that waits for its proof.
pub(crate) struct Claim {
    pub slot: ConnectionSlot,
    pub serial: u32,
    pub user: Option<UserId>,
    pub mechanism: Vec<u8>,
    pub kept: Password,
    pub offered: Vec<u8>,
}

struct Job {
    claim: Claim,
    answer: Sender<(Claim, bool)>,
    bell: Arc<Doorbell>,
}

/// The threads that check, of all shards. They begin with the first check.
pub struct Prover {
    jobs: Sender<Job>,
    waiting: Mutex<Option<Receiver<Job>>>,
}

impl Prover {
    /// Without threads yet.
    pub fn new() -> Arc<Self> {
        let (jobs, waiting) = channel();
        Arc::new(Prover { jobs, waiting: Mutex::new(Some(waiting)) })
    }

    fn submit(&self, job: Job) -> io::Result<()> {
        if let Some(waiting) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let waiting = Arc::new(Mutex::new(waiting));
            for number in 0..PROVERS {
                let waiting = Arc::clone(&waiting);
                std::thread::Builder::new().name(format!("prover-{number}")).spawn(move || prove(&waiting))?;
            }
        }
        self.jobs.send(job).map_err(|_| io::Error::other("no thread checks passwords"))
    }
}

/// Checks until nobody can ask any more.
fn prove(waiting: &Mutex<Receiver<Job>>) {
    loop {
        // One thread waits at a time, and the others for it.
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { claim, answer, bell }) = job else { return };
        let sound = claim.kept.is(&claim.offered);
        if answer.send((claim, sound)).is_ok() {
            bell.wake();
        }
    }
}

/// The proofs of one shard.
pub(crate) struct Proofs {
    prover: Option<(Arc<Prover>, Arc<Doorbell>)>,
    answer: Sender<(Claim, bool)>,
    answers: Receiver<(Claim, bool)>,
    waiting: VecDeque<Claim>,
    under_way: usize,
    key: Option<[u8; 32]>,
    proven: HashSet<[u8; 32]>,
}

impl Proofs {
    /// Without a prover each is checked at once.
    pub fn new() -> Self {
        let (answer, answers) = channel();
        Proofs {
            prover: None,
            answer,
            answers,
            waiting: VecDeque::new(),
            under_way: 0,
            key: None,
            proven: HashSet::new(),
        }
    }

    pub fn set_prover(&mut self, prover: Arc<Prover>, bell: Arc<Doorbell>) {
        self.prover = Some((prover, bell));
    }

    /// Whether any is awaited.
    #[inline]
    pub fn are_awaited(&self) -> bool {
        self.under_way > 0 || !self.waiting.is_empty()
    }

    /// Whether it was found to be right before. `chance` draws the key that makes the memory of it worthless to others.
    pub fn is_proven(&mut self, claim: &Claim, mut chance: impl FnMut() -> u64) -> bool {
        let key = self.key.get_or_insert_with(|| {
            let mut key = [0; 32];
            key.as_chunks_mut::<8>().0.iter_mut().for_each(|part| *part = chance().to_le_bytes());
            key
        });
        let mark = claim.kept.mark(&claim.offered, key);
        self.proven.contains(&mark)
    }

    /// Asks for a proof. Answers it at once where nobody else can check.
    pub fn ask(&mut self, claim: Claim) -> Option<(Claim, bool)> {
        if self.prover.is_none() {
            let sound = claim.kept.is(&claim.offered);
            return Some((claim, sound));
        }
        if self.under_way < PROOFS_UNDER_WAY_MAX {
            self.hand_on(claim);
        } else {
            self.waiting.push_back(claim);
        }
        None
    }

    fn hand_on(&mut self, claim: Claim) {
        let Some((prover, bell)) = &self.prover else { return };
        let (answer, bell) = (self.answer.clone(), Arc::clone(bell));
        match prover.submit(Job { claim, answer, bell }) {
            Ok(()) => self.under_way += 1,
            // Its connection is ended when its time is over.
            Err(error) => tracing::error!(%error, "a password cannot be checked"),
        }
    }

    /// The next login that is decided: by a proof that has come, or as one that was proven meanwhile.
    pub fn next(&mut self) -> Option<(Claim, bool)> {
        if let Ok((claim, sound)) = self.answers.try_recv() {
            self.under_way -= 1;
            if let Some(key) = self.key.filter(|_| sound && claim.user.is_some()) {
                if self.proven.len() >= PROVEN_MAX {
                    self.proven.clear();
                }
                self.proven.insert(claim.kept.mark(&claim.offered, &key));
            }
            return Some((claim, sound));
        }
        while self.under_way < PROOFS_UNDER_WAY_MAX
            && let Some(claim) = self.waiting.pop_front()
        {
            if self.is_proven(&claim, || 0) {
                return Some((claim, true));
            }
            self.hand_on(claim);
        }
        None
    }
}
