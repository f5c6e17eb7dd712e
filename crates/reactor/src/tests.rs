//! Models of what wakes a thread: loom runs each in every order that locks and atomics allow (`tests/suite loom`).

mod models {
    use crate::inbox::{Envelope, ThreadWaker, inbox};
    use crate::state::ReactorState;
    use crate::sync::Waker;
    use crate::threads::Stopper;
    use loom::thread;
    use std::sync::Arc;

    #[test]
    fn whatever_is_sent_is_received_before_the_thread_sleeps_for_good() {
        loom::model(|| {
            let waker = Waker::default();
            let (sender, receiver) = inbox::<u32>(ThreadWaker::from(waker.clone()));
            let threads = [1, 2].map(|number| {
                let sender = sender.clone();
                thread::spawn(move || assert!(sender.send(number)))
            });
            let mut received = 0;
            loop {
                while let Ok(envelope) = receiver.try_recv() {
                    assert!(matches!(envelope, Envelope::Message(1 | 2)));
                    received += 1;
                }
                if received == threads.len() {
                    break;
                }
                waker.wait();
            }
            threads.into_iter().for_each(|thread| thread.join().expect("sending does not fail"));
        });
    }

    #[test]
    fn all_threads_see_that_they_are_to_stop() {
        loom::model(|| {
            let wakers = [Waker::default(), Waker::default()];
            let state = Arc::new(ReactorState::new(2, 1));
            let stopper = Stopper::new(Arc::clone(&state), wakers.iter().cloned().map(ThreadWaker::from).collect());
            let threads = wakers.map(|waker| {
                let state = Arc::clone(&state);
                thread::spawn(move || {
                    while !state.is_stopping() {
                        waker.wait();
                    }
                })
            });
            stopper.stop();
            threads.into_iter().for_each(|thread| thread.join().expect("it stops"));
        });
    }

    #[test]
    fn connections_that_begin_while_another_ends_are_counted() {
        loom::model(|| {
            let state = Arc::new(ReactorState::new(2, 3));
            assert!(state.add_connection(0));
            let closing = {
                let state = Arc::clone(&state);
                thread::spawn(move || state.connection_closed(0))
            };
            let assigned = [state.assign_connection(), state.assign_connection()];
            closing.join().expect("closing does not fail");
            assert!(assigned.iter().all(Option::is_some));
            assert_eq!(state.connections(), 2);
        });
    }
}
