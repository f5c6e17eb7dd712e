//! Models of the mail between shards: loom runs each in every order that its atomics allow (`tests/suite loom`).

mod models {
    use crate::mailbox::{Mailbox, ShardWaker, WakeTarget};
    use broker::ShardMessage;
    use catalog::ShardId;
    use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    use loom::thread;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The descriptor that a thread waits for: it stays signalled until a wait has ended.
    #[derive(Default)]
    struct Descriptor {
        is_signalled: Mutex<bool>,
        changed: Condvar,
        /// How often it was signalled.
        signals: AtomicUsize,
    }

    impl Descriptor {
        fn lock(&self) -> MutexGuard<'_, bool> {
            self.is_signalled.lock().expect("no thread panics with the lock")
        }

        fn wait(&self) {
            let mut is_signalled = self.lock();
            while !*is_signalled {
                is_signalled = self.changed.wait(is_signalled).expect("no thread panics with the lock");
            }
            *is_signalled = false;
        }
    }

    impl WakeTarget for Arc<Descriptor> {
        fn wake(&self) {
            self.signals.fetch_add(1, Ordering::Relaxed);
            *self.lock() = true;
            self.changed.notify_one();
        }
    }

    /// The thread of a shard, as far as its mail is concerned.
    struct ModelShard {
        mailbox: Mailbox,
        waker: std::sync::Arc<ShardWaker>,
        descriptor: Arc<Descriptor>,
        sleeps: usize,
    }

    fn shards(count: usize) -> Vec<ModelShard> {
        let descriptors: Vec<_> = (0..count).map(|_| Arc::new(Descriptor::default())).collect();
        let wakers: Vec<_> = descriptors.iter().map(|one| ShardWaker::new(Box::new(Arc::clone(one)))).collect();
        let parts = Mailbox::connect(&wakers).into_iter().zip(wakers).zip(descriptors);
        parts.map(|((mailbox, waker), descriptor)| ModelShard { mailbox, waker, descriptor, sleeps: 0 }).collect()
    }

    impl ModelShard {
        /// As the worker of a shard sleeps.
        fn sleep(&mut self) {
            self.sleeps += 1;
            self.waker.will_sleep();
            if self.mailbox.may_sleep(|_| false) {
                self.descriptor.wait();
            }
            self.waker.is_awake();
        }

        /// Sends a batch with one message.
        fn send(&mut self, to: ShardId, publishes: u32) {
            self.mailbox.batch(to).push(ShardMessage::PublishesAccepted { publishes });
            self.mailbox.send(true);
        }

        /// Receives what has arrived from a shard. Returns the number of batches, which are numbered from `next` on.
        fn receive(&mut self, from: ShardId, next: u32) -> u32 {
            let mut received = 0;
            while let Some(mut batch) = self.mailbox.next(from) {
                for message in batch.messages.drain(..) {
                    let expected = next + received;
                    assert!(matches!(message, ShardMessage::PublishesAccepted { publishes } if publishes == expected));
                }
                received += 1;
                self.mailbox.return_batch(from, batch);
            }
            if received > 0 {
                self.mailbox.notify_space(from);
            }
            received
        }
    }

    #[test]
    fn a_shard_that_falls_asleep_misses_no_message() {
        loom::model(|| {
            let mut shards = shards(2);
            let (mut sender, mut receiver) = (shards.remove(1), shards.remove(0));
            let sending = thread::spawn(move || sender.send(ShardId(0), 0));
            while receiver.receive(ShardId(1), 0) == 0 {
                receiver.sleep();
            }
            sending.join().expect("sending does not fail");
        });
    }

    #[test]
    fn a_shard_whose_batches_wait_for_space_sleeps_only_until_there_is_some() {
        const BATCHES: u32 = crate::limits::MAILBOX_BATCHES as u32 + 2;
        loom::model(|| {
            let mut shards = shards(2);
            let (mut sender, mut receiver) = (shards.remove(1), shards.remove(0));
            let sending = thread::spawn(move || {
                (0..BATCHES).for_each(|number| sender.send(ShardId(0), number));
                while sender.mailbox.has_waiting() {
                    sender.sleep();
                    sender.mailbox.send(true);
                }
            });
            let mut received = receiver.receive(ShardId(1), 0);
            while received < BATCHES {
                receiver.sleep();
                received += receiver.receive(ShardId(1), received);
            }
            sending.join().expect("sending does not fail");
        });
    }

    #[test]
    fn two_senders_wake_a_shard_once_for_each_sleep() {
        loom::model(|| {
            let mut shards = shards(3);
            let (second, first, mut receiver) = (shards.remove(2), shards.remove(1), shards.remove(0));
            let sending = [first, second].map(|mut sender| thread::spawn(move || sender.send(ShardId(0), 0)));
            let mut received = 0;
            while received < sending.len() as u32 {
                receiver.sleep();
                received += receiver.receive(ShardId(1), 0) + receiver.receive(ShardId(2), 0);
            }
            sending.into_iter().for_each(|thread| thread.join().expect("sending does not fail"));
            assert!(receiver.descriptor.signals.load(Ordering::Relaxed) <= receiver.sleeps);
        });
    }
}
