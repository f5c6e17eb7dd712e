//! A simulated fabric with a stand-in for a broker, both run by a thread of their own, and devices for a proxy.
#![allow(dead_code, reason = "each test uses a part of it")]

use link::{AbortReason, Link, ReceiveOutcome};
use proxy::{DeviceSource, RdmaUpstreamOptions};
use slab::{BlockMut, Gather, Pool, PoolOptions, Slice};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use verbs::device::{
    AnyDevice, ConnectRequestId, ConnectionEvent, Device, DeviceCapabilities, DeviceError, QueuePairId,
    QueuePairLimits, ReadGrant, WorkCompletion, WorkRequest, WorkRequestId,
};
use verbs::sim::{Fabric, FabricOptions, SimDevice};
use verbs::{LinkId, Port, PortCounters, PortSettings, RdmaToken};

/// Where the broker listens.
pub const ADDRESS: &str = "broker:5672";

/// Steps of the fabric between two checks for commands.
const STEPS: usize = 50;

/// What the broker does with a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BrokerBehavior {
    /// Sends back the memory that it receives, until the end of the stream.
    Echo,
    /// Sends a greeting, closes its sending half, and reads to the end.
    EndsFirst,
    /// Aborts when it receives something.
    Aborts,
    /// Reads nothing until the command to.
    ReadsLater,
}

/// The stream that a connection of the broker received, and whether it ended by a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedStream {
    pub bytes: Vec<u8>,
    pub is_lost: bool,
}

enum BrokerCommand {
    Listen,
    Expect(RdmaToken, Sender<()>),
    Vanish(Sender<()>),
    Stop,
}

pub struct FabricBroker {
    fabric: Fabric,
    commands: Sender<BrokerCommand>,
    streams: Receiver<ReceivedStream>,
    thread: Option<JoinHandle<PortCounters>>,
    wires: Arc<Mutex<Vec<UnixStream>>>,
    unplugged: Arc<Mutex<Arc<AtomicBool>>>,
}

impl FabricBroker {
    pub fn start(behavior: BrokerBehavior, settings: PortSettings) -> FabricBroker {
        let fabric = Fabric::new(&FabricOptions::faultless());
        let (commands, ordered) = channel();
        let (sender, streams) = channel();
        let wires = Arc::<Mutex<Vec<UnixStream>>>::default();
        let (on, host_wires) = (fabric.clone(), Arc::clone(&wires));
        let (ready, listens) = channel();
        let thread = std::thread::spawn(move || {
            let host = FabricHost::new(on, behavior, settings, sender, host_wires);
            ready.send(()).expect("somebody waits for it");
            host.run(&ordered)
        });
        listens.recv_timeout(crate::harness::PATIENCE).expect("it listens");
        FabricBroker { fabric, commands, streams, thread: Some(thread), wires, unplugged: Arc::default() }
    }

    /// Where a proxy gets its devices; with descriptors, or without.
    pub fn rdma(&self, settings: PortSettings, wired: bool) -> RdmaUpstreamOptions {
        let (fabric, wires, unplugged) = (self.fabric.clone(), Arc::clone(&self.wires), Arc::clone(&self.unplugged));
        let devices: DeviceSource = Arc::new(move |address| {
            assert_eq!(address, ADDRESS);
            let device = fabric.device();
            let flag = Arc::<AtomicBool>::default();
            *unplugged.lock().expect("whole") = Arc::clone(&flag);
            let mut wire = None;
            if wired {
                let (near, far) = UnixStream::pair().expect("a pair");
                near.set_nonblocking(true).expect("it need not wait");
                far.set_nonblocking(true).expect("it need not wait");
                wires.lock().expect("whole").push(far);
                wire = Some(near);
            }
            Ok(Box::new(WiredDevice { device, wire, unplugged: flag }) as AnyDevice)
        });
        RdmaUpstreamOptions { devices, settings, tokens: None }
    }

    /// Makes the latest device fail.
    pub fn unplug(&self) {
        self.unplugged.lock().expect("whole").store(true, Ordering::Relaxed);
    }

    pub fn vanish(&self) {
        // It is gone when this returns: nothing that is sent behind it comes back.
        let (done, is_done) = channel();
        self.commands.send(BrokerCommand::Vanish(done)).expect("it runs");
        is_done.recv().expect("it vanishes");
    }

    pub fn listen(&self) {
        self.commands.send(BrokerCommand::Listen).expect("it runs");
    }

    /// Makes the broker expect a token, from any thread.
    pub fn token_registrar(&self) -> impl Fn(RdmaToken) + Send + Sync + 'static {
        let commands = self.commands.clone();
        move |token| {
            let (done, is_done) = channel();
            commands.send(BrokerCommand::Expect(token, done)).expect("it runs");
            is_done.recv().expect("it expects it");
        }
    }

    /// The stream of the next connection that ends.
    pub fn next_stream(&self) -> ReceivedStream {
        self.streams.recv_timeout(crate::harness::PATIENCE).expect("a connection ends")
    }

    pub fn end(mut self) -> PortCounters {
        self.commands.send(BrokerCommand::Stop).expect("it runs");
        self.thread.take().expect("it runs").join().expect("it ends")
    }
}

impl Drop for FabricBroker {
    fn drop(&mut self) {
        // Its thread may have ended.
        let _ended = self.commands.send(BrokerCommand::Stop);
    }
}

pub struct BrokerConnection {
    link: Box<dyn Link>,
    out: Gather,
    bytes: Vec<u8>,
    is_lost: bool,
    is_over: bool,
}

struct FabricHost {
    fabric: Fabric,
    pool: Pool,
    port: Port<SimDevice>,
    node: usize,
    behavior: BrokerBehavior,
    reads_later: bool,
    connections: HashMap<LinkId, BrokerConnection>,
    streams: Sender<ReceivedStream>,
    wires: Arc<Mutex<Vec<UnixStream>>>,
}

impl FabricHost {
    fn new(
        fabric: Fabric,
        behavior: BrokerBehavior,
        settings: PortSettings,
        streams: Sender<ReceivedStream>,
        wires: Arc<Mutex<Vec<UnixStream>>>,
    ) -> FabricHost {
        let pool = Pool::new(PoolOptions::default());
        let device = fabric.device();
        let node = device.node();
        let port = Port::open(device, &pool, settings).expect("sound settings");
        port.listen(ADDRESS).expect("nobody listens there");
        let reads_later = behavior == BrokerBehavior::ReadsLater;
        FabricHost { fabric, pool, port, node, behavior, reads_later, connections: HashMap::new(), streams, wires }
    }

    fn run(mut self, commands: &Receiver<BrokerCommand>) -> PortCounters {
        let mut nap = Duration::ZERO;
        loop {
            match commands.recv_timeout(nap) {
                Ok(BrokerCommand::Stop) | Err(RecvTimeoutError::Disconnected) => return self.port.counters(),
                Ok(BrokerCommand::Vanish(done)) => {
                    self.fabric.vanish_nth(self.node);
                    done.send(()).expect("somebody waits for it");
                }
                Ok(BrokerCommand::Listen) => self.reads_later = false,
                Ok(BrokerCommand::Expect(token, done)) => {
                    assert!(self.port.expect_token(token), "there is room for a token");
                    done.send(()).expect("somebody waits for it");
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let before = self.port.counters();
            let mut moved = false;
            for _ in 0..STEPS {
                self.fabric.step();
                self.port.poll().expect("the device is whole");
                while let Some(mut link) = self.port.accept() {
                    let mut out = Gather::new();
                    if self.behavior == BrokerBehavior::EndsFirst {
                        out.extend(&self.pool, b"greeting");
                        link.send(&mut out).expect("it stands");
                        link.close_sending();
                    }
                    self.connections.insert(link.id(), BrokerConnection::new(Box::new(link), out));
                }
                if !self.reads_later {
                    for connection in self.connections.values_mut() {
                        moved |= connection.serve(self.behavior, &self.pool);
                    }
                }
                for (_, connection) in self.connections.extract_if(|_, connection| connection.is_gone()) {
                    let stream = ReceivedStream { bytes: connection.bytes, is_lost: connection.is_lost };
                    // The test may have ended.
                    let _sent = self.streams.send(stream);
                }
            }
            for wire in self.wires.lock().expect("whole").iter_mut() {
                // A closed wire has no device, and a full one has woken it already.
                let _sent = wire.write(b"!");
            }
            moved |= self.port.counters() != before;
            nap = if moved { Duration::ZERO } else { Duration::from_millis(1) };
        }
    }
}

impl BrokerConnection {
    pub fn new(link: Box<dyn Link>, out: Gather) -> Self {
        BrokerConnection { link, out, bytes: Vec::new(), is_lost: false, is_over: false }
    }

    /// Whether it has ended and all its bytes were sent.
    pub fn is_gone(&self) -> bool {
        self.is_over && self.out.is_empty()
    }

    /// Returns whether anything moved.
    pub fn serve(&mut self, behavior: BrokerBehavior, pool: &Pool) -> bool {
        if self.is_over {
            return behavior == BrokerBehavior::Echo && !self.out.is_empty() && self.link.send(&mut self.out).is_err();
        }
        let has_capacity = self.out.bytes() < 1 << 20;
        let announced_bytes = self.link.announced_bytes();
        let mut block = pool.block(64 * 1024);
        if has_capacity && announced_bytes > 0 {
            // If the link refuses the memory, the bytes are received like any others.
            let _lent = self.link.lend(pool.block(announced_bytes), 0..announced_bytes);
        }
        let received = if has_capacity { self.link.receive(&mut block, &mut []) } else { Ok(ReceiveOutcome::Idle) };
        let mut moved = false;
        match received {
            Ok(ReceiveOutcome::Bytes { bytes, .. }) => {
                moved = true;
                let memory = match self.link.take_filled() {
                    Some(filled) => filled.memory,
                    None => {
                        block.truncate(bytes);
                        block
                    }
                };
                match behavior {
                    BrokerBehavior::Echo => self.out.push(Slice::from(memory)),
                    BrokerBehavior::Aborts => self.link.abort(AbortReason::Operator),
                    BrokerBehavior::EndsFirst | BrokerBehavior::ReadsLater => self.bytes.extend_from_slice(&memory),
                }
            }
            Ok(ReceiveOutcome::Idle) => {}
            Ok(ReceiveOutcome::Closed) => {
                self.is_over = true;
            }
            Err(_lost) => {
                self.is_lost = true;
                self.is_over = true;
                self.out.clear();
            }
        }
        if !self.out.is_empty() && self.link.send(&mut self.out).is_err() {
            self.out.clear();
        }
        if self.is_over && self.out.is_empty() {
            self.link.close_sending();
        }
        moved
    }
}

/// A simulated device that may have a descriptor, and may fail.
struct WiredDevice {
    device: SimDevice,
    wire: Option<UnixStream>,
    unplugged: Arc<AtomicBool>,
}

impl WiredDevice {
    fn check(&self) -> Result<(), DeviceError> {
        match self.unplugged.load(Ordering::Relaxed) {
            true => Err(DeviceError("somebody has pulled the card".to_owned())),
            false => Ok(()),
        }
    }
}

impl Device for WiredDevice {
    fn capabilities(&self) -> DeviceCapabilities {
        self.device.capabilities()
    }

    fn card(&self) -> String {
        self.device.card()
    }

    fn now(&self) -> Duration {
        self.device.now()
    }

    fn grant(&mut self, memory: Slice) -> Result<ReadGrant, DeviceError> {
        self.device.grant(memory)
    }

    fn revoke(&mut self, grant: ReadGrant) {
        self.device.revoke(grant);
    }

    fn post_receives(&mut self, buffers: &mut Vec<(WorkRequestId, BlockMut)>) -> Result<(), DeviceError> {
        self.device.post_receives(buffers)
    }

    fn post(&mut self, pair: QueuePairId, list: &mut Vec<WorkRequest>) -> Result<(), DeviceError> {
        self.device.post(pair, list)
    }

    fn poll(&mut self, into: &mut Vec<WorkCompletion>, most: usize) -> Result<usize, DeviceError> {
        self.check()?;
        self.device.poll(into, most)
    }

    fn arm(&mut self) -> Result<(), DeviceError> {
        if let Some(wire) = &mut self.wire {
            // Clears earlier notices: the device is polled after this.
            while wire.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
        }
        self.device.arm()
    }

    fn wait(&mut self, _timeout: Option<Duration>) -> Result<(), DeviceError> {
        unreachable!("a proxy waits in its own poll")
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.wire.iter().map(AsRawFd::as_raw_fd).collect()
    }

    fn listen(&mut self, address: &str) -> Result<(), DeviceError> {
        self.device.listen(address)
    }

    fn connect(&mut self, address: &str, private: &[u8], wanted: &QueuePairLimits) -> Result<QueuePairId, DeviceError> {
        self.check()?;
        self.device.connect(address, private, wanted)
    }

    fn accept(
        &mut self,
        request: ConnectRequestId,
        private: &[u8],
        wanted: &QueuePairLimits,
    ) -> Result<QueuePairId, DeviceError> {
        self.device.accept(request, private, wanted)
    }

    fn reject(&mut self, request: ConnectRequestId, private: &[u8]) {
        self.device.reject(request, private);
    }

    fn disconnect(&mut self, pair: QueuePairId) {
        self.device.disconnect(pair);
    }

    fn destroy(&mut self, pair: QueuePairId) {
        self.device.destroy(pair);
    }

    fn events(&mut self, now: Duration, into: &mut Vec<ConnectionEvent>) -> Result<(), DeviceError> {
        self.device.events(now, into)
    }
}
