//! Proofs: passwords that take long to check are checked beside the shards.
//!
//! Enters: a kept password and what a client offered.  Leaves: whether the one is the other's, some time later.
//! Owns:   the threads that check, how many checks a shard has under way, and what was found to be right before.
//! Never:  holds more than one login of a connection; remembers a password itself.

use crate::limits::{VERIFICATIONS_MAX, VERIFIED_PASSWORDS_MAX, VERIFIER_THREADS};
use crate::mailbox::ShardWaker;
use broker::Slot;
use catalog::{Password, UserId};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A login that waits for its proof.
pub(crate) struct LoginAttempt {
    pub slot: Slot,
    pub serial: u32,
    pub user: Option<UserId>,
    pub mechanism: Vec<u8>,
    pub stored: Password,
    pub offered: Vec<u8>,
}

struct VerificationJob {
    attempt: LoginAttempt,
    result: Sender<(LoginAttempt, bool)>,
    waker: Arc<ShardWaker>,
}

/// The threads that check, of all shards. They begin with the first check.
pub struct PasswordVerifier {
    jobs: Sender<VerificationJob>,
    unstarted: Mutex<Option<Receiver<VerificationJob>>>,
}

impl PasswordVerifier {
    /// Without threads yet.
    pub fn new() -> Arc<Self> {
        let (jobs, waiting) = channel();
        Arc::new(PasswordVerifier { jobs, unstarted: Mutex::new(Some(waiting)) })
    }

    fn submit(&self, job: VerificationJob) -> io::Result<()> {
        if let Some(waiting) = self.unstarted.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let waiting = Arc::new(Mutex::new(waiting));
            for number in 0..VERIFIER_THREADS {
                let waiting = Arc::clone(&waiting);
                std::thread::Builder::new().name(format!("prover-{number}")).spawn(move || run_verifier(&waiting))?;
            }
        }
        self.jobs.send(job).map_err(|_| io::Error::other("no thread checks passwords"))
    }
}

/// Checks until nobody can ask any more.
fn run_verifier(waiting: &Mutex<Receiver<VerificationJob>>) {
    loop {
        // One thread waits at a time, and the others for it.
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(VerificationJob { attempt: claim, result: answer, waker }) = job else { return };
        let sound = claim.stored.is(&claim.offered);
        if answer.send((claim, sound)).is_ok() {
            waker.wake();
        }
    }
}

/// The proofs of one shard.
pub(crate) struct PasswordChecks {
    verifier: Option<(Arc<PasswordVerifier>, Arc<ShardWaker>)>,
    results_sender: Sender<(LoginAttempt, bool)>,
    results: Receiver<(LoginAttempt, bool)>,
    waiting: VecDeque<LoginAttempt>,
    in_progress: usize,
    key: Option<[u8; 32]>,
    verified: HashSet<[u8; 32]>,
}

impl PasswordChecks {
    /// Without a prover each is checked at once.
    pub fn new() -> Self {
        let (answer, answers) = channel();
        PasswordChecks {
            verifier: None,
            results_sender: answer,
            results: answers,
            waiting: VecDeque::new(),
            in_progress: 0,
            key: None,
            verified: HashSet::new(),
        }
    }

    pub fn set_verifier(&mut self, prover: Arc<PasswordVerifier>, waker: Arc<ShardWaker>) {
        self.verifier = Some((prover, waker));
    }

    /// Whether any is awaited.
    #[inline]
    pub fn are_pending(&self) -> bool {
        self.in_progress > 0 || !self.waiting.is_empty()
    }

    /// Whether it was found to be right before. `chance` draws the key that makes the memory of it worthless to others.
    pub fn is_verified(&mut self, claim: &LoginAttempt, mut chance: impl FnMut() -> u64) -> bool {
        let key = self.key.get_or_insert_with(|| {
            let mut key = [0; 32];
            key.as_chunks_mut::<8>().0.iter_mut().for_each(|part| *part = chance().to_le_bytes());
            key
        });
        let mark = claim.stored.mark(&claim.offered, key);
        self.verified.contains(&mark)
    }

    /// Asks for a proof. Answers it at once where nobody else can check.
    pub fn submit_or_verify(&mut self, claim: LoginAttempt) -> Option<(LoginAttempt, bool)> {
        if self.verifier.is_none() {
            let sound = claim.stored.is(&claim.offered);
            return Some((claim, sound));
        }
        if self.in_progress < VERIFICATIONS_MAX {
            self.submit_attempt(claim);
        } else {
            self.waiting.push_back(claim);
        }
        None
    }

    fn submit_attempt(&mut self, claim: LoginAttempt) {
        let Some((prover, waker)) = &self.verifier else { return };
        let (answer, waker) = (self.results_sender.clone(), Arc::clone(waker));
        match prover.submit(VerificationJob { attempt: claim, result: answer, waker }) {
            Ok(()) => self.in_progress += 1,
            // Its connection is ended when its time is over.
            Err(error) => tracing::error!(%error, "a password cannot be checked"),
        }
    }

    /// The next login that is decided: by a proof that has come, or as one that was proven meanwhile.
    pub fn next_decided(&mut self) -> Option<(LoginAttempt, bool)> {
        if let Ok((claim, sound)) = self.results.try_recv() {
            self.in_progress -= 1;
            if let Some(key) = self.key.filter(|_| sound && claim.user.is_some()) {
                if self.verified.len() >= VERIFIED_PASSWORDS_MAX {
                    self.verified.clear();
                }
                self.verified.insert(claim.stored.mark(&claim.offered, &key));
            }
            return Some((claim, sound));
        }
        while self.in_progress < VERIFICATIONS_MAX
            && let Some(claim) = self.waiting.pop_front()
        {
            if self.is_verified(&claim, || 0) {
                return Some((claim, true));
            }
            self.submit_attempt(claim);
        }
        None
    }
}
