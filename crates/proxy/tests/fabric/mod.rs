//! A simulated fabric with a broker that is none, moved on by a thread of its own, and devices for a proxy.
#![allow(dead_code, reason = "each test uses a part of it")]

use link::{AbortReason, Link, ReceiveOutcome};
use proxy::{Devices, Rdma};
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
    DeviceCapabilities, AnyDevice, WorkCompletion, Device, DeviceError, ConnectionEvent, ReadGrant, QueuePairId, QueuePairLimits, ConnectRequestId, WorkRequest, WorkRequestId,
};
use verbs::sim::{Fabric, FabricOptions, SimDevice};
use verbs::{PortCounters, LinkId, Port, PortSettings, RdmaToken};

/// Where the broker listens.
pub const ADDRESS: &str = "broker:5672";

/// Steps of the fabric in a row.
const STEPS: usize = 50;

/// What the broker does with a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Sends back what comes, from where it lies, until the end.
    Echo,
    /// Says something, ends its stream, and listens to the end.
    EndsFirst,
    /// Breaks off when it hears something.
    BreaksOff,
    /// Reads nothing until it is told to.
    Deaf,
}

/// What became of a connection at the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub bytes: Vec<u8>,
    pub is_lost: bool,
}

enum Order {
    Listen,
    Expect(RdmaToken, Sender<()>),
    Vanish(Sender<()>),
    Stop,
}

/// The broker and its fabric.
pub struct Broker {
    fabric: Fabric,
    orders: Sender<Order>,
    heard: Receiver<Heard>,
    thread: Option<JoinHandle<PortCounters>>,
    wires: Arc<Mutex<Vec<UnixStream>>>,
    unplugged: Arc<Mutex<Arc<AtomicBool>>>,
}

impl Broker {
    pub fn start(manner: Manner, settings: PortSettings) -> Broker {
        let fabric = Fabric::new(&FabricOptions::faultless());
        let (orders, ordered) = channel();
        let (hears, heard) = channel();
        let wires = Arc::<Mutex<Vec<UnixStream>>>::default();
        let (on, rung) = (fabric.clone(), Arc::clone(&wires));
        let (ready, listens) = channel();
        let thread = std::thread::spawn(move || {
            let host = Host::new(on, manner, settings, hears, rung);
            ready.send(()).expect("somebody waits for it");
            host.run(&ordered)
        });
        listens.recv_timeout(crate::world::PATIENCE).expect("it listens");
        Broker { fabric, orders, heard, thread: Some(thread), wires, unplugged: Arc::default() }
    }

    /// Where a proxy gets its devices; with descriptors, or without.
    pub fn rdma(&self, settings: PortSettings, wired: bool) -> Rdma {
        let (fabric, wires, unplugged) = (self.fabric.clone(), Arc::clone(&self.wires), Arc::clone(&self.unplugged));
        let devices: Devices = Arc::new(move |address| {
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
            Ok(Box::new(Wired { device, wire, unplugged: flag }) as AnyDevice)
        });
        Rdma { devices, settings, passes: None }
    }

    /// The device that was made last breaks.
    pub fn unplug(&self) {
        self.unplugged.lock().expect("whole").store(true, Ordering::Relaxed);
    }

    pub fn vanish(&self) {
        // It is gone when this returns: nothing that is sent behind it comes back.
        let (done, is_done) = channel();
        self.orders.send(Order::Vanish(done)).expect("it runs");
        is_done.recv().expect("it vanishes");
    }

    pub fn listen(&self) {
        self.orders.send(Order::Listen).expect("it runs");
    }

    /// Lets one in that shows a token, from any thread.
    pub fn expecting(&self) -> impl Fn(RdmaToken) + Send + Sync + 'static {
        let orders = self.orders.clone();
        move |token| {
            let (done, is_done) = channel();
            orders.send(Order::Expect(token, done)).expect("it runs");
            is_done.recv().expect("it expects it");
        }
    }

    /// What the next connection that ended has said.
    pub fn heard(&self) -> Heard {
        self.heard.recv_timeout(crate::world::PATIENCE).expect("a connection ends")
    }

    pub fn end(mut self) -> PortCounters {
        self.orders.send(Order::Stop).expect("it runs");
        self.thread.take().expect("it runs").join().expect("it ends")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // One that was ended hears nothing any more.
        let _ended = self.orders.send(Order::Stop);
    }
}

/// A connection at a broker.
pub struct Guest {
    link: Box<dyn Link>,
    out: Gather,
    bytes: Vec<u8>,
    is_lost: bool,
    is_over: bool,
}

struct Host {
    fabric: Fabric,
    pool: Pool,
    port: Port<SimDevice>,
    node: usize,
    manner: Manner,
    is_deaf: bool,
    guests: HashMap<LinkId, Guest>,
    hears: Sender<Heard>,
    wires: Arc<Mutex<Vec<UnixStream>>>,
}

impl Host {
    fn new(
        fabric: Fabric,
        manner: Manner,
        settings: PortSettings,
        hears: Sender<Heard>,
        wires: Arc<Mutex<Vec<UnixStream>>>,
    ) -> Host {
        let pool = Pool::new(PoolOptions::default());
        let device = fabric.device();
        let node = device.node();
        let port = Port::open(device, &pool, settings).expect("sound settings");
        port.listen(ADDRESS).expect("nobody listens there");
        let is_deaf = manner == Manner::Deaf;
        Host { fabric, pool, port, node, manner, is_deaf, guests: HashMap::new(), hears, wires }
    }

    fn run(mut self, orders: &Receiver<Order>) -> PortCounters {
        let mut nap = Duration::ZERO;
        loop {
            match orders.recv_timeout(nap) {
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return self.port.counters(),
                Ok(Order::Vanish(done)) => {
                    self.fabric.vanish_nth(self.node);
                    done.send(()).expect("somebody waits for it");
                }
                Ok(Order::Listen) => self.is_deaf = false,
                Ok(Order::Expect(token, done)) => {
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
                    if self.manner == Manner::EndsFirst {
                        out.extend(&self.pool, b"greeting");
                        link.send(&mut out).expect("it stands");
                        link.close_sending();
                    }
                    self.guests.insert(link.id(), Guest::new(Box::new(link), out));
                }
                if !self.is_deaf {
                    for guest in self.guests.values_mut() {
                        moved |= guest.serve(self.manner, &self.pool);
                    }
                }
                for (_, guest) in self.guests.extract_if(|_, guest| guest.is_gone()) {
                    let heard = Heard { bytes: guest.bytes, is_lost: guest.is_lost };
                    // A test may not ask.
                    let _heard = self.hears.send(heard);
                }
            }
            for wire in self.wires.lock().expect("whole").iter_mut() {
                // One whose device is gone is not heard; one that is full was heard.
                let _heard = wire.write(b"!");
            }
            moved |= self.port.counters() != before;
            nap = if moved { Duration::ZERO } else { Duration::from_millis(1) };
        }
    }
}

impl Guest {
    /// One that has something to say, or nothing.
    pub fn new(link: Box<dyn Link>, out: Gather) -> Self {
        Guest { link, out, bytes: Vec::new(), is_lost: false, is_over: false }
    }

    /// Whether it has ended, and been told all.
    pub fn is_gone(&self) -> bool {
        self.is_over && self.out.is_empty()
    }

    /// Answers whether anything moved.
    pub fn serve(&mut self, manner: Manner, pool: &Pool) -> bool {
        if self.is_over {
            return manner == Manner::Echo && !self.out.is_empty() && self.link.send(&mut self.out).is_err();
        }
        let has_room = self.out.bytes() < 1 << 20;
        let announced = self.link.announced_bytes();
        let mut block = pool.block(64 * 1024);
        if has_room && announced > 0 {
            // What is refused is received like any other bytes.
            let _lent = self.link.lend(pool.block(announced), 0..announced);
        }
        let received = if has_room { self.link.receive(&mut block, &mut []) } else { Ok(ReceiveOutcome::Idle) };
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
                match manner {
                    Manner::Echo => self.out.push(Slice::from(memory)),
                    Manner::BreaksOff => self.link.abort(AbortReason::Operator),
                    Manner::EndsFirst | Manner::Deaf => self.bytes.extend_from_slice(&memory),
                }
            }
            Ok(ReceiveOutcome::Idle) => {}
            Ok(ReceiveOutcome::Closed) => {
                self.is_over = true;
            }
            // Whoever asks is told by the flag that it was no end in order.
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

/// A simulated device that may have a descriptor, and may break.
struct Wired {
    device: SimDevice,
    wire: Option<UnixStream>,
    unplugged: Arc<AtomicBool>,
}

impl Wired {
    fn check(&self) -> Result<(), DeviceError> {
        match self.unplugged.load(Ordering::Relaxed) {
            true => Err(DeviceError("somebody has pulled the card".to_owned())),
            false => Ok(()),
        }
    }
}

impl Device for Wired {
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
            // Until it would wait: what is looked at now needs no notice.
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

    fn accept(&mut self, request: ConnectRequestId, private: &[u8], wanted: &QueuePairLimits) -> Result<QueuePairId, DeviceError> {
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
