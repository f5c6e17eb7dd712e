//! Password verification: slow hashes are computed by threads beside the shards, so that a login holds up no other
//! connection.
//!
//! A connection has one login under way at most. A shard remembers keyed digests of correct passwords, never a
//! password.

use crate::limits::{VERIFICATIONS_MAX, VERIFIED_PASSWORDS_MAX, VERIFIER_THREADS};
use crate::mailbox::ShardWaker;
use broker::ConnectionSlot;
use catalog::{Password, UserId};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A login by password, on the connection of this slot and serial number.
pub(crate) struct LoginAttempt {
    pub slot: ConnectionSlot,
    pub serial: u32,
    /// `None` if there is no such user: the password is verified all the same, so that it takes as long.
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

/// The threads that verify passwords for all shards. They start with the first job.
pub struct PasswordVerifier {
    jobs: Sender<VerificationJob>,
    unstarted: Mutex<Option<Receiver<VerificationJob>>>,
}

impl PasswordVerifier {
    /// A verifier whose threads have not started.
    pub fn new() -> Arc<Self> {
        let (jobs, unstarted) = channel();
        Arc::new(PasswordVerifier { jobs, unstarted: Mutex::new(Some(unstarted)) })
    }

    fn submit(&self, job: VerificationJob) -> io::Result<()> {
        if let Some(jobs) = self.unstarted.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let jobs = Arc::new(Mutex::new(jobs));
            for number in 0..VERIFIER_THREADS {
                let jobs = Arc::clone(&jobs);
                std::thread::Builder::new().name(format!("verifier-{number}")).spawn(move || run_verifier(&jobs))?;
            }
        }
        self.jobs.send(job).map_err(|_| io::Error::other("no thread verifies passwords"))
    }
}

/// Verifies passwords until every shard and the verifier are gone.
fn run_verifier(jobs: &Mutex<Receiver<VerificationJob>>) {
    loop {
        // One thread waits for a job, and the others wait for the lock.
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(VerificationJob { attempt, result, waker }) = job else { return };
        let is_correct = attempt.stored.is(&attempt.offered);
        if result.send((attempt, is_correct)).is_ok() {
            waker.wake();
        }
    }
}

/// The password verifications of one shard: those in progress, those that wait, and what was found correct before.
pub(crate) struct PasswordChecks {
    verifier: Option<(Arc<PasswordVerifier>, Arc<ShardWaker>)>,
    results_sender: Sender<(LoginAttempt, bool)>,
    results: Receiver<(LoginAttempt, bool)>,
    waiting: VecDeque<LoginAttempt>,
    in_progress: usize,
    key: Option<[u8; 32]>,
    /// Digests of correct passwords, under the key.
    verified: HashSet<[u8; 32]>,
}

impl Default for PasswordChecks {
    /// Without a verifier each password is verified at once.
    fn default() -> Self {
        let (results_sender, results) = channel();
        PasswordChecks {
            verifier: None,
            results_sender,
            results,
            waiting: VecDeque::new(),
            in_progress: 0,
            key: None,
            verified: HashSet::new(),
        }
    }
}

impl PasswordChecks {
    pub fn set_verifier(&mut self, verifier: Arc<PasswordVerifier>, waker: Arc<ShardWaker>) {
        self.verifier = Some((verifier, waker));
    }

    /// Whether any verification is in progress or waits.
    #[inline]
    pub fn are_pending(&self) -> bool {
        self.in_progress > 0 || !self.waiting.is_empty()
    }

    /// Whether the same password was found correct before. `random` draws the key that makes the digests worthless to
    /// others.
    pub fn is_verified(&mut self, attempt: &LoginAttempt, mut random: impl FnMut() -> u64) -> bool {
        let key = self.key.get_or_insert_with(|| {
            let mut key = [0; 32];
            key.as_chunks_mut::<8>().0.iter_mut().for_each(|part| *part = random().to_le_bytes());
            key
        });
        let digest = attempt.stored.mark(&attempt.offered, key);
        self.verified.contains(&digest)
    }

    /// Submits an attempt to the verifier, or queues it. Without a verifier, verifies it at once and returns the
    /// result.
    pub fn submit_or_verify(&mut self, attempt: LoginAttempt) -> Option<(LoginAttempt, bool)> {
        if self.verifier.is_none() {
            let is_correct = attempt.stored.is(&attempt.offered);
            return Some((attempt, is_correct));
        }
        if self.in_progress < VERIFICATIONS_MAX {
            self.submit(attempt);
        } else {
            self.waiting.push_back(attempt);
        }
        None
    }

    fn submit(&mut self, attempt: LoginAttempt) {
        let Some((verifier, waker)) = &self.verifier else { return };
        let (result, waker) = (self.results_sender.clone(), Arc::clone(waker));
        match verifier.submit(VerificationJob { attempt, result, waker }) {
            Ok(()) => self.in_progress += 1,
            // The connection ends when its login timeout is over.
            Err(error) => tracing::error!(%error, "a password cannot be checked"),
        }
    }

    /// The next attempt that is decided: by a result of the verifier, or because the same password was verified
    /// meanwhile.
    pub fn next_decided(&mut self) -> Option<(LoginAttempt, bool)> {
        if let Ok((attempt, is_correct)) = self.results.try_recv() {
            self.in_progress -= 1;
            if let Some(key) = self.key.filter(|_| is_correct && attempt.user.is_some()) {
                if self.verified.len() >= VERIFIED_PASSWORDS_MAX {
                    self.verified.clear();
                }
                self.verified.insert(attempt.stored.mark(&attempt.offered, &key));
            }
            return Some((attempt, is_correct));
        }
        while self.in_progress < VERIFICATIONS_MAX
            && let Some(attempt) = self.waiting.pop_front()
        {
            if self.is_verified(&attempt, || 0) {
                return Some((attempt, true));
            }
            self.submit(attempt);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{LoginAttempt, PasswordChecks, PasswordVerifier};
    use crate::limits::VERIFICATIONS_MAX;
    use crate::mailbox::{ShardWaker, WakeTarget};
    use broker::ConnectionSlot;
    use catalog::{Password, UserId};
    use std::sync::mpsc::{SyncSender, sync_channel};

    struct WakeSignal(SyncSender<()>);

    impl WakeTarget for WakeSignal {
        fn wake(&self) {
            self.0.send(()).expect("the test waits");
        }
    }

    fn attempt(slot: u32, offered: &str) -> LoginAttempt {
        let (mechanism, stored, offered) = (b"PLAIN".to_vec(), Password::plain("secret"), offered.into());
        LoginAttempt { slot: ConnectionSlot::new(slot), serial: 0, user: Some(UserId(1)), mechanism, stored, offered }
    }

    #[test]
    fn without_a_verifier_a_password_is_verified_at_once() {
        let mut checks = PasswordChecks::default();
        for (offered, expected) in [("secret", true), ("wrong", false)] {
            let decided = checks.submit_or_verify(attempt(1, offered));
            assert_eq!(decided.map(|(_, is_correct)| is_correct), Some(expected));
        }
        assert!(!checks.are_pending());
    }

    #[test]
    fn attempts_beyond_the_limit_wait_and_one_correct_password_decides_them() {
        let (woken, wakes) = sync_channel(2 * VERIFICATIONS_MAX);
        let mut checks = PasswordChecks::default();
        checks.set_verifier(PasswordVerifier::new(), ShardWaker::new(Box::new(WakeSignal(woken))));
        let count = 2 * VERIFICATIONS_MAX as u32;
        for slot in 0..count {
            let attempt = attempt(slot, "secret");
            assert!(!checks.is_verified(&attempt, || 7), "nothing is verified yet");
            assert!(checks.submit_or_verify(attempt).is_none());
        }
        assert_eq!((checks.in_progress, checks.waiting.len()), (VERIFICATIONS_MAX, VERIFICATIONS_MAX));
        for _ in 0..VERIFICATIONS_MAX {
            wakes.recv().expect("a verifier wakes the shard");
        }
        let mut decided: Vec<_> = std::iter::from_fn(|| checks.next_decided()).collect();
        decided.sort_by_key(|(attempt, _)| attempt.slot);
        assert!(decided.iter().all(|(_, is_correct)| *is_correct));
        assert!(decided.iter().map(|(attempt, _)| attempt.slot).eq((0..count).map(ConnectionSlot::new)));
        assert!(!checks.are_pending() && wakes.try_recv().is_err(), "those that waited were not computed");
        assert!(checks.is_verified(&attempt(9, "secret"), || 0) && !checks.is_verified(&attempt(9, "wrong"), || 0));
    }
}
