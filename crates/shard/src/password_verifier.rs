//! Password verification: slow hashes are computed by threads beside the shards, so that a login holds up no other
//! connection.
//!
//! A connection has one login under way at most. A shard remembers keyed digests of correct passwords, never a
//! password.

use crate::limits::{VERIFICATIONS_MAX, VERIFIED_PASSWORDS_MAX, VERIFIER_THREADS};
use crate::login_attempt::LoginAttempt;
use crate::login_failures::LoginFailures;
use crate::login_queue::LoginQueue;
use crate::login_source::LoginSource;
use crate::mailbox::ShardWaker;
use broker::ConnectionSlot;
use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

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
        let is_correct = attempt.verify();
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
    waiting: LoginQueue,
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
            waiting: LoginQueue::default(),
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

    /// Whether other threads verify passwords.
    pub fn has_verifier(&self) -> bool {
        self.verifier.is_some()
    }

    /// When a login that waits has its turn, if nothing else happens.
    pub fn next_turn(&self) -> Option<Instant> {
        (self.in_progress < VERIFICATIONS_MAX).then(|| self.waiting.next_turn()).flatten()
    }

    /// Drops the login of a connection that is gone. Returns whether it waited; one that is being verified is not dropped.
    pub fn remove(&mut self, source: LoginSource, slot: ConnectionSlot, serial: u32) -> bool {
        self.waiting.remove(source, slot, serial)
    }

    /// Whether the same password was found correct before. `random` draws the key that makes the digests worthless to
    /// others.
    pub fn is_verified(&mut self, attempt: &LoginAttempt, mut random: impl FnMut() -> u64) -> bool {
        let key = self.key.get_or_insert_with(|| {
            let mut key = [0; 32];
            key.as_chunks_mut::<8>().0.iter_mut().for_each(|part| *part = random().to_le_bytes());
            key
        });
        let digest = attempt.claim.mark(&attempt.offered, key);
        self.verified.contains(&digest)
    }

    /// Queues an attempt for the verifier. Returns one that must be refused for it, if too many wait.
    pub fn enqueue(&mut self, attempt: LoginAttempt, failures: &LoginFailures, now: Instant) -> Option<LoginAttempt> {
        self.waiting.push(attempt, failures, now)
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

    /// The next attempt that is decided: by a result of the verifier, or because its verification takes no time. Submits
    /// those that have their turn.
    pub fn next_decided(&mut self, failures: &LoginFailures, now: Instant) -> Option<(LoginAttempt, bool)> {
        if let Ok((attempt, is_correct)) = self.results.try_recv() {
            self.in_progress -= 1;
            if let Some(key) = self.key.filter(|_| is_correct && attempt.claim.user.is_some()) {
                if self.verified.len() >= VERIFIED_PASSWORDS_MAX {
                    self.verified.clear();
                }
                self.verified.insert(attempt.claim.mark(&attempt.offered, &key));
            }
            return Some((attempt, is_correct));
        }
        while self.in_progress < VERIFICATIONS_MAX
            && let Some(attempt) = self.waiting.next(failures, now)
        {
            if attempt.claim.is_right_at_once(&attempt.offered) || self.is_verified(&attempt, || 0) {
                return Some((attempt, true));
            }
            if attempt.claim.is_quick() || self.verifier.is_none() {
                let is_correct = attempt.verify();
                return Some((attempt, is_correct));
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
    use crate::login_failures::LoginFailures;
    use crate::login_source::LoginSource;
    use crate::mailbox::{ShardWaker, WakeTarget};
    use crate::test_clock::some_instant;
    use broker::ConnectionSlot;
    use catalog::{Catalog, CatalogLimits, Definition, Name, Password};
    use std::sync::mpsc::{SyncSender, sync_channel};

    struct WakeSignal(SyncSender<()>);

    impl WakeTarget for WakeSignal {
        fn wake(&self) {
            self.0.send(()).expect("the test waits");
        }
    }

    fn attempt(catalog: &Catalog, slot: u32, offered: &str) -> LoginAttempt {
        LoginAttempt {
            slot: ConnectionSlot::new(slot),
            serial: 0,
            source: LoginSource::Local,
            claim: catalog.claim(b"orders", true),
            user_name: "orders".into(),
            mechanism: b"PLAIN".to_vec(),
            offered: offered.into(),
        }
    }

    #[test]
    fn attempts_beyond_the_limit_wait_and_one_correct_password_decides_them() {
        let (woken, wakes) = sync_channel(2 * VERIFICATIONS_MAX);
        let (failures, now) = (LoginFailures::default(), some_instant());
        let mut catalog = Catalog::new(CatalogLimits::default());
        let password = Password::argon2(b"secret", b"0123456789abcdef");
        let put = Definition::PutUser { name: Name::from("orders"), password, tags: vec![], loopback_only: false };
        catalog.execute(&put).expect("a first user");
        let attempt = |slot, offered| attempt(&catalog, slot, offered);
        let mut checks = PasswordChecks::default();
        checks.set_verifier(PasswordVerifier::new(), ShardWaker::new(Box::new(WakeSignal(woken))));
        let count = 2 * VERIFICATIONS_MAX as u32;
        for slot in 0..count {
            let attempt = attempt(slot, "secret");
            assert!(!checks.is_verified(&attempt, || 7), "nothing is verified yet");
            assert!(checks.enqueue(attempt, &failures, now).is_none());
        }
        assert!(checks.next_decided(&failures, now).is_none() && checks.in_progress == VERIFICATIONS_MAX);
        assert!(checks.remove(LoginSource::Local, ConnectionSlot::new(count - 1), 0), "its client has gone");
        assert!(!checks.remove(LoginSource::Local, ConnectionSlot::new(0), 0), "it is being verified");
        for _ in 0..VERIFICATIONS_MAX {
            wakes.recv().expect("a verifier wakes the shard");
        }
        let mut decided: Vec<_> = std::iter::from_fn(|| checks.next_decided(&failures, now)).collect();
        decided.sort_by_key(|(attempt, _)| attempt.slot);
        assert!(decided.iter().all(|(_, is_correct)| *is_correct));
        assert!(decided.iter().map(|(attempt, _)| attempt.slot).eq((0..count - 1).map(ConnectionSlot::new)));
        assert!(!checks.are_pending() && wakes.try_recv().is_err(), "those that waited were not computed");
        assert!(checks.is_verified(&attempt(9, "secret"), || 0) && !checks.is_verified(&attempt(9, "wrong"), || 0));
    }
}
