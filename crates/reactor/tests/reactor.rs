//! A reactor with workers that count, over real loopback sockets.

use link::{Acceptor, Address, DialOptions, Link, ListenOptions, Listener};
use mio::{Registry, Token};
use reactor::{
    IdleStrategy, Reactor, ReactorOptions, ReactorState, ReactorThreads, SocketReadiness, Worker, WorkerContext,
};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a worker reports to its test.
#[derive(Debug, PartialEq, Eq)]
enum WorkerReport {
    Adopted(u16),
    Refused,
    Received(u16, Vec<u8>),
    Closed(u16),
    Message(u16, &'static str),
    Draining(u16),
    Finished { thread: u16, connections: usize },
}

/// Counts connections and reports their bytes.
struct CountingWorker {
    thread: u16,
    links: HashMap<Token, Box<dyn Link>>,
    next_token: usize,
    state: Arc<ReactorState>,
    reports: Sender<WorkerReport>,
    ready: Vec<Token>,
    is_draining: bool,
    strategy: IdleStrategy,
}

impl CountingWorker {
    fn report(&self, report: WorkerReport) {
        // A test may end before its workers do.
        let _received = self.reports.send(report);
    }

    fn serve(&mut self, token: Token) {
        let mut buffer = [0; 64];
        while let Some(link) = self.links.get_mut(&token) {
            match link.receive(&mut buffer, &mut []) {
                Ok(link::ReceiveOutcome::Bytes { bytes, .. }) => {
                    self.report(WorkerReport::Received(self.thread, buffer[..bytes].to_vec()));
                }
                Ok(link::ReceiveOutcome::Idle) => return,
                Ok(link::ReceiveOutcome::Closed) | Err(_) => {
                    self.links.remove(&token);
                    self.state.connection_closed(self.thread);
                    self.report(WorkerReport::Closed(self.thread));
                }
            }
        }
    }
}

impl Worker<&'static str> for CountingWorker {
    fn next_token(&self) -> Token {
        Token(self.next_token)
    }

    fn adopt(&mut self, link: Box<dyn Link>, _registry: &Registry, _now: Instant) {
        self.links.insert(Token(self.next_token), link);
        self.next_token += 1;
        self.report(WorkerReport::Adopted(self.thread));
    }

    fn on_refused(&mut self) {
        self.report(WorkerReport::Refused);
    }

    fn on_message(&mut self, message: &'static str, _registry: &Registry, _now: Instant) {
        assert_ne!(message, "panic", "a worker that fails on demand");
        self.report(WorkerReport::Message(self.thread, message));
    }

    fn on_ready(&mut self, token: Token, readiness: SocketReadiness) {
        if readiness.readable || readiness.closed {
            self.ready.push(token);
        }
    }

    fn tick(&mut self, _registry: &Registry, _now: Instant) -> Option<Duration> {
        for token in std::mem::take(&mut self.ready) {
            self.serve(token);
        }
        None
    }

    fn idle_strategy(&mut self, _wait: Option<Duration>) -> IdleStrategy {
        self.strategy
    }

    fn drain(&mut self, _now: Instant) {
        if !std::mem::replace(&mut self.is_draining, true) {
            self.report(WorkerReport::Draining(self.thread));
        }
    }

    fn is_drained(&self) -> bool {
        self.links.is_empty()
    }

    fn finish(&mut self, _registry: &Registry, _now: Instant) {
        self.report(WorkerReport::Finished { thread: self.thread, connections: self.links.len() });
    }
}

struct TestReactor {
    threads: ReactorThreads,
    inboxes: Vec<reactor::InboxSender<&'static str>>,
    reports: Receiver<WorkerReport>,
    address: String,
}

impl TestReactor {
    fn start(threads: u16, connections_max: u32, strategy: IdleStrategy, drain_timeout: Duration) -> TestReactor {
        let listener = Listener::bind(&"127.0.0.1:0".parse().expect("an address"), &ListenOptions::default());
        let listener = listener.expect("a free port");
        TestReactor::start_with(listener, threads, connections_max, strategy, drain_timeout)
    }

    fn start_with(
        listener: Listener,
        threads: u16,
        connections_max: u32,
        strategy: IdleStrategy,
        drain_timeout: Duration,
    ) -> TestReactor {
        let address = listener.local_address().to_string();
        let state = Arc::new(ReactorState::new(threads, connections_max));
        let reactor = Reactor::new(Arc::clone(&state)).expect("descriptors");
        let inboxes = reactor.inboxes().to_vec();
        let (sender, reports) = channel();
        let builders: Vec<_> = (0..threads)
            .map(|_| {
                let (state, reports) = (Arc::clone(&state), sender.clone());
                move |context: WorkerContext<'_, &'static str>| -> io::Result<CountingWorker> {
                    Ok(CountingWorker {
                        thread: context.thread,
                        links: HashMap::new(),
                        next_token: 0,
                        state,
                        reports,
                        ready: Vec::new(),
                        is_draining: false,
                        strategy,
                    })
                }
            })
            .collect();
        let options = ReactorOptions { name: "test", listeners: vec![listener], drain_timeout };
        let threads = reactor.start(options, builders).expect("all workers are built");
        TestReactor { threads, inboxes, reports, address }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).expect("it listens")
    }

    fn next_report(&self) -> WorkerReport {
        self.reports.recv_timeout(PATIENCE).expect("a report")
    }

    fn connect_adopted(&self, thread: u16) -> TcpStream {
        let client = self.connect();
        assert_eq!(self.next_report(), WorkerReport::Adopted(thread));
        client
    }
}

/// Fails the first accept for want of descriptors, then accepts. It never wakes the poll.
struct ExhaustedAccept {
    failures: usize,
    link: Option<Box<dyn Link>>,
}

impl Acceptor for ExhaustedAccept {
    fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err(io::Error::other("no descriptor left"));
        }
        Ok(self.link.take())
    }

    fn register(&mut self, _registry: &Registry, _token: Token) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn connections_go_to_the_thread_with_the_fewest() {
    let reactor = TestReactor::start(2, 10, IdleStrategy::Sleep, PATIENCE);
    let mut clients: Vec<_> = [0, 1, 0, 1].map(|thread| reactor.connect_adopted(thread)).into();
    clients[3].write_all(b"to the second thread").expect("it reads");
    assert_eq!(reactor.next_report(), WorkerReport::Received(1, b"to the second thread".to_vec()));
    drop(clients.remove(1));
    assert_eq!(reactor.next_report(), WorkerReport::Closed(1));
    clients.push(reactor.connect_adopted(1));
    drop(clients);
    let closed: Vec<_> = (0..4).map(|_| reactor.next_report()).collect();
    assert!(closed.iter().all(|report| matches!(report, WorkerReport::Closed(_))), "{closed:?}");
    assert_eq!(reactor.threads.state().connections(), 0);
    reactor.threads.stop();
    reactor.threads.join().expect("no thread fails");
}

#[test]
fn a_client_over_the_limit_is_refused() {
    let reactor = TestReactor::start(2, 2, IdleStrategy::Sleep, PATIENCE);
    let _clients = [reactor.connect_adopted(0), reactor.connect_adopted(1)];
    let mut refused = reactor.connect();
    assert_eq!(reactor.next_report(), WorkerReport::Refused);
    let read = refused.read(&mut [0; 1]);
    assert!(read.as_ref().map_or(true, |bytes| *bytes == 0), "{read:?}");
    assert_eq!(reactor.threads.state().connections(), 2);
}

#[test]
fn a_message_wakes_a_sleeping_or_spinning_thread() {
    for strategy in [IdleStrategy::Sleep, IdleStrategy::Spin(Duration::from_micros(100)), IdleStrategy::BusyPoll] {
        let reactor = TestReactor::start(2, 10, strategy, PATIENCE);
        for (thread, inbox) in (0..).zip(&reactor.inboxes) {
            assert!(inbox.send("hello"));
            assert_eq!(reactor.next_report(), WorkerReport::Message(thread, "hello"), "{strategy:?}");
        }
        let mut client = reactor.connect_adopted(0);
        client.write_all(b"bytes").expect("it reads");
        assert_eq!(reactor.next_report(), WorkerReport::Received(0, b"bytes".to_vec()), "{strategy:?}");
        drop(client);
        assert_eq!(reactor.next_report(), WorkerReport::Closed(0), "{strategy:?}");
        reactor.threads.stop();
        reactor.threads.join().expect("no thread fails");
        assert!(!reactor.inboxes[0].send("late"), "the thread has ended");
    }
}

#[test]
fn a_stopping_reactor_drains_and_accepts_nobody() {
    let reactor = TestReactor::start(1, 10, IdleStrategy::Sleep, PATIENCE);
    let mut client = reactor.connect_adopted(0);
    reactor.threads.stop();
    assert_eq!(reactor.next_report(), WorkerReport::Draining(0));
    // The listener is gone, and the connection is still served.
    assert!(TcpStream::connect(&reactor.address).is_err());
    client.write_all(b"last").expect("it reads");
    assert_eq!(reactor.next_report(), WorkerReport::Received(0, b"last".to_vec()));
    assert!(reactor.threads.is_running());
    drop(client);
    assert_eq!(reactor.next_report(), WorkerReport::Closed(0));
    assert_eq!(reactor.next_report(), WorkerReport::Finished { thread: 0, connections: 0 });
    reactor.threads.join().expect("no thread fails");
}

#[test]
fn a_drain_ends_at_its_deadline() {
    let reactor = TestReactor::start(2, 10, IdleStrategy::Sleep, Duration::from_millis(50));
    let _clients = [reactor.connect_adopted(0), reactor.connect_adopted(1)];
    reactor.threads.stopper().stop();
    reactor.threads.join().expect("no thread fails");
    let finished = reactor.reports.iter().filter_map(|report| match report {
        WorkerReport::Finished { thread, connections } => Some((thread, connections)),
        _ => None,
    });
    let mut finished: Vec<_> = finished.collect();
    finished.sort_unstable();
    assert_eq!(finished, [(0, 1), (1, 1)], "both gave up on their connections");
}

#[test]
fn accepting_is_tried_again_without_an_edge() {
    let peer = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address: Address = peer.local_addr().expect("it is bound").to_string().parse().expect("an address");
    let link = link::dial(&address, &DialOptions::default()).expect("it listens");
    let (mut far, _) = peer.accept().expect("a client waits");
    let accept = ExhaustedAccept { failures: 3, link: Some(link) };
    let listener = Listener::from_acceptor(address, Box::new(accept));
    let reactor = TestReactor::start_with(listener, 1, 10, IdleStrategy::Sleep, PATIENCE);
    assert_eq!(reactor.next_report(), WorkerReport::Adopted(0));
    far.write_all(b"bytes").expect("it reads");
    assert_eq!(reactor.next_report(), WorkerReport::Received(0, b"bytes".to_vec()));
}

#[test]
fn a_thread_that_panics_stops_the_others() {
    let reactor = TestReactor::start(2, 10, IdleStrategy::Sleep, PATIENCE);
    let [client, _lost] = [reactor.connect_adopted(0), reactor.connect_adopted(1)];
    assert!(reactor.inboxes[1].send("panic"));
    assert_eq!(reactor.next_report(), WorkerReport::Draining(0));
    assert_eq!(reactor.threads.state().connections(), 1, "those of the failed thread are not waited for");
    drop(client);
    assert_eq!(reactor.next_report(), WorkerReport::Closed(0));
    assert_eq!(reactor.next_report(), WorkerReport::Finished { thread: 0, connections: 0 });
    let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| reactor.threads.join()));
    assert!(joined.is_err(), "join passes the panic on");
}

#[test]
fn a_worker_that_cannot_be_built_stops_all() {
    let state = Arc::new(ReactorState::new(3, 10));
    let reactor: Reactor<&'static str> = Reactor::new(Arc::clone(&state)).expect("descriptors");
    let (sender, reports) = channel();
    let builders: Vec<_> = (0..3)
        .map(|_| {
            let (state, reports) = (Arc::clone(&state), sender.clone());
            move |context: WorkerContext<'_, &'static str>| {
                if context.thread == 1 {
                    return Err(io::Error::other("no device"));
                }
                Ok(CountingWorker {
                    thread: context.thread,
                    links: HashMap::new(),
                    next_token: 0,
                    state,
                    reports,
                    ready: Vec::new(),
                    is_draining: false,
                    strategy: IdleStrategy::Sleep,
                })
            }
        })
        .collect();
    drop(sender);
    let options = ReactorOptions { name: "test", listeners: vec![], drain_timeout: PATIENCE };
    let error = reactor.start(options, builders).err().expect("one worker is not built");
    assert_eq!(error.to_string(), "no device");
    let finished = reports.iter().filter(|report| matches!(report, WorkerReport::Finished { .. })).count();
    assert_eq!((finished, state.is_stopping()), (2, true), "the others have ended");
}
