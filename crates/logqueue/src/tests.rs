//! Models of the log's queue: loom runs each in every order that its lock and its waits allow (`tests/suite loom`).
//!
//! A wait never ends by time here: whoever sleeps must be woken, or loom reports a deadlock.

mod models {
    use crate::limits::{LOG_BYTES_MAX, LOG_LINE_OVERHEAD_BYTES, LOG_REPEAT_WINDOW};
    use crate::{LogEntry, LogQueue};
    use loom::sync::{Arc, Mutex};
    use loom::thread::{self, JoinHandle};
    use std::time::{Duration, Instant};
    use tracing::Level;

    type Queue = Arc<LogQueue<u8>>;

    /// The line behind which the log's thread ends in a model.
    const END: &str = "$";
    const PATIENCE: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "an instant from which nothing passes")]
    fn instant() -> Instant {
        Instant::now()
    }

    /// What the log's thread has written.
    #[derive(Default)]
    struct WrittenLog {
        lines: Vec<Box<str>>,
        dropped: u64,
    }

    struct LogThread {
        written: Arc<Mutex<WrittenLog>>,
        thread: JoinHandle<()>,
    }

    impl LogThread {
        fn begin(queue: &Queue, now: Instant) -> LogThread {
            let (queue, written) = (Arc::clone(queue), Arc::new(Mutex::new(WrittenLog::default())));
            let of_thread = Arc::clone(&written);
            let thread = thread::spawn(move || {
                loop {
                    let entry = queue.next(|| now);
                    let mut written = of_thread.lock().expect("no thread panics");
                    match entry {
                        LogEntry::Line(line) if *line == *END => return,
                        LogEntry::Line(line) => written.lines.push(line),
                        LogEntry::Dropped(lines) => written.dropped += lines,
                        LogEntry::LeftOut(_) => panic!("no place logs so often"),
                    }
                }
            });
            LogThread { written, thread }
        }

        fn has_written(&self, line: &str) -> bool {
            self.written.lock().expect("no thread panics").lines.iter().any(|written| **written == *line)
        }

        /// What it has written in the end: nothing waits any more when the last line is added.
        fn end(self, queue: &Queue, now: Instant) -> WrittenLog {
            assert!(queue.flush(PATIENCE, || now), "time stands still");
            queue.push(END);
            self.thread.join().expect("it ends");
            std::mem::take(&mut *self.written.lock().expect("no thread panics"))
        }
    }

    #[test]
    fn lines_of_all_threads_are_written_without_a_flush() {
        loom::model(|| {
            let (queue, now) = (Queue::default(), instant());
            let log = LogThread::begin(&queue, now);
            let other = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.push("a"))
            };
            other.join().expect("adding does not fail");
            // Nobody but the line itself wakes the log's thread.
            queue.push(END);
            log.thread.join().expect("it ends");
            let written = log.written.lock().expect("no thread panics");
            assert_eq!((written.lines.len(), written.dropped), (1, 0));
        });
    }

    #[test]
    fn a_flush_ends_when_what_was_added_before_it_is_written() {
        loom::model(|| {
            let (queue, now) = (Queue::default(), instant());
            let log = LogThread::begin(&queue, now);
            let other = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    queue.push("a");
                    assert!(queue.flush(PATIENCE, || now), "time stands still");
                })
            };
            queue.push("b");
            assert!(queue.flush(PATIENCE, || now), "time stands still");
            assert!(log.has_written("b"));
            other.join().expect("its flush ends");
            assert!(log.has_written("a"));
            log.end(&queue, now);
        });
    }

    #[test]
    fn every_line_is_written_or_counted_as_dropped() {
        loom::model(|| {
            let (queue, now) = (Queue::default(), instant());
            // One has space, two have not, unless the first is being written.
            let line = "x".repeat(LOG_BYTES_MAX - LOG_LINE_OVERHEAD_BYTES);
            let other = {
                let (queue, line) = (Arc::clone(&queue), line.clone());
                thread::spawn(move || queue.push(&line))
            };
            let log = LogThread::begin(&queue, now);
            queue.push(&line);
            other.join().expect("adding does not fail");
            let written = log.end(&queue, now);
            assert_eq!(written.lines.len() as u64 + written.dropped, 2);
            assert!(!written.lines.is_empty());
        });
    }

    #[test]
    fn events_that_are_left_out_wake_the_log_when_their_window_has_ended() {
        loom::model(|| {
            let (queue, now) = (Queue::default(), instant());
            // For the log's thread the window has ended at once. No flush: the event alone wakes it.
            let log = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.next(|| now + LOG_REPEAT_WINDOW))
            };
            let other = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.admits(&7, Level::INFO, now, || "refused".to_owned()))
            };
            let here = queue.admits(&7, Level::INFO, now, || "refused".to_owned());
            let there = other.join().expect("counting does not fail");
            assert!(here != there, "one of them is left out");
            let LogEntry::LeftOut(events) = log.join().expect("it is told") else { panic!("there are no lines") };
            assert_eq!((events.count, &*events.message), (1, "refused"));
        });
    }
}
