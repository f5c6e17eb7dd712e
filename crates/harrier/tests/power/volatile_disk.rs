//! A disk with a volatile cache: a server of the NBD protocol (https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md)
//! over a Unix socket, which knows what was not flushed when power fails.
//!
//! Enters: requests of a guest.  Leaves: a file with what the disk has when its power is cut.

use super::cached_disk::CachedDisk;
use super::guest_broker::GuestDisk;
use splitmix::SplitMix64;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Requests that are told of when the power has failed: those of a whole life of the guest, unless it is a very long one.
const TRACED_MAX: usize = 100_000;
/// Of what is written, so much is told: a frame's header.
const TRACED_BYTES: usize = 64;
/// How long a power failure that comes behind a write is waited for. There may be no such write.
const FAILURE_AWAITED: Duration = Duration::from_secs(2);
/// A guest's requests are shorter.
const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Options of a handshake are names.
const OPTION_BYTES_MAX: u32 = 4_096;

const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Fixed newstyle, without zeroes at the end of the handshake.
const HANDSHAKE_FLAGS: u16 = 0b11;
/// It has flags, flushes, and writes that are flushed themselves.
const TRANSMISSION_FLAGS: u16 = 0b1101;
const OPTION_ABORT: u32 = 2;
const OPTION_GO: u32 = 7;
const ACKNOWLEDGED: u32 = 1;
const INFORMATION: u32 = 3;
const UNSUPPORTED: u32 = (1 << 31) | 1;
const FORCE_UNIT_ACCESS: u16 = 1;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const EIO: u32 = 5;

/// What the disk does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFault {
    /// Nothing.
    None,
    /// Writes and flushes fail.
    WriteErrors,
    /// The next write that begins with these bytes is said to be done, and is not.
    LosesWriteOf([u8; 4]),
}

/// What happens when so many more writes have come.
enum Failure {
    /// The power fails: nothing is done or answered any more.
    Power,
    /// What the disk would have if its power failed then is copied to this file.
    Copy(PathBuf, SplitMix64),
}

struct DiskState {
    disk: CachedDisk,
    /// The last requests.
    trace: VecDeque<String>,
    fault: DiskFault,
    lost_writes: u64,
    failure: Option<(u64, Failure)>,
    /// What the last copy lost.
    copied: Option<String>,
    has_power: bool,
    is_connected: bool,
}

impl DiskState {
    fn write(&mut self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), u32> {
        match self.fault {
            DiskFault::WriteErrors => return Err(EIO),
            DiskFault::LosesWriteOf(first) if bytes.starts_with(&first) => {
                self.fault = DiskFault::None;
                self.lost_writes += 1;
                return Ok(());
            }
            DiskFault::None | DiskFault::LosesWriteOf(_) => {}
        }
        self.disk.write(offset, bytes, is_durable).map_err(|_| EIO)?;
        match &mut self.failure {
            Some((0, _)) => self.fail(),
            Some((writes, _)) => *writes -= 1,
            None => {}
        }
        Ok(())
    }

    /// A failure comes behind a write, before it is flushed.
    fn fail(&mut self) {
        match self.failure.take() {
            Some((_, Failure::Power)) => self.has_power = false,
            Some((_, Failure::Copy(path, mut random))) => {
                self.copied = Some(self.disk.copy(&path).lose_unflushed(&mut random).to_string());
            }
            None => {}
        }
    }

    fn trace(&mut self, kind: u16, offset: u64, bytes: u32, begin: &[u8]) {
        let name = match kind {
            READ => return,
            WRITE => "write",
            FLUSH => "flush",
            _ => "other",
        };
        if self.trace.len() == TRACED_MAX {
            self.trace.pop_front();
        }
        let hex: String = begin.iter().map(|byte| format!("{byte:02x}")).collect();
        self.trace.push_back(format!("{name} {offset} {bytes} {hex}"));
    }

    fn flush(&mut self) -> Result<(), u32> {
        if self.fault == DiskFault::WriteErrors {
            return Err(EIO);
        }
        self.disk.flush();
        Ok(())
    }
}

struct Shared {
    state: Mutex<DiskState>,
    /// A guest was disconnected, the power failed, or a copy was made.
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().expect("no server of it panics")
    }
}

/// The disk, and its server, which one guest after another is connected to.
pub struct VolatileDisk {
    shared: Arc<Shared>,
    folder: PathBuf,
}

impl VolatileDisk {
    /// An empty disk, in this folder. What its file system writes is torn by blocks of so many bytes, what the store writes by
    /// sectors.
    pub fn new(folder: &Path, bytes: u64, block_bytes: usize) -> Self {
        let path = folder.join("disk");
        let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a new file");
        file.set_len(bytes).expect("space for the disk");
        let state = DiskState {
            disk: CachedDisk::new(file, block_bytes),
            trace: VecDeque::new(),
            fault: DiskFault::None,
            lost_writes: 0,
            failure: None,
            copied: None,
            has_power: true,
            is_connected: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let disk = VolatileDisk { shared: shared.clone(), folder: folder.to_owned() };
        let listener = UnixListener::bind(disk.socket()).expect("a socket in the folder");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                shared.state().is_connected = true;
                if let Err(error) = serve(&stream.expect("a connection"), &shared, bytes)
                    && !matches!(
                        error.kind(),
                        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                    )
                {
                    println!("the disk's server: {error}");
                }
                shared.state().is_connected = false;
                shared.changed.notify_all();
            }
        });
        disk
    }

    /// The socket of the server.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("disk.socket")
    }

    /// The file with what the disk has.
    pub fn path(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// What goes wrong from now on.
    pub fn set_fault(&self, fault: DiskFault) {
        self.shared.state().fault = fault;
    }

    /// Writes that were lost so far.
    pub fn lost_writes(&self) -> u64 {
        self.shared.state().lost_writes
    }

    /// The power fails behind so many more writes.
    pub fn fail_power_behind(&self, writes: u64) {
        self.shared.state().failure = Some((writes, Failure::Power));
    }

    /// The guest is gone, and the power with it. Says what was lost. It has power again.
    pub fn cut(&self, random: &mut SplitMix64) -> String {
        let state = self.shared.state();
        let changed = self.shared.changed.wait_while(state, |state| state.is_connected);
        let mut state = changed.expect("no server of it panics");
        (state.has_power, state.failure) = (true, None);
        let lost = state.disk.lose_unflushed(random);
        let trace = state.trace.drain(..).collect::<Vec<_>>().join("\n");
        let told = format!("{trace}\nunflushed {:?}\nlost {:?}\n", lost.unflushed, lost.sectors);
        std::fs::write(self.folder.join("disk.trace"), told).expect("space for a trace");
        lost.to_string()
    }

    /// Behind so many more writes, has what the disk would have if its power failed then copied to a file.
    pub fn copy_behind(&self, writes: u64, path: &Path, random: SplitMix64) {
        self.shared.state().failure = Some((writes, Failure::Copy(path.to_owned(), random)));
    }

    /// What the copy lost, once it was made.
    pub fn take_copied(&self) -> Option<String> {
        self.shared.state().copied.take()
    }
}

fn array<const N: usize>(stream: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn invalid(what: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

impl GuestDisk for VolatileDisk {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn disks(&self) -> Vec<PathBuf> {
        vec![self.socket()]
    }

    /// Waits until the power has failed, if it does.
    fn before_kill(&self) {
        let state = self.shared.state();
        let waited = self.shared.changed.wait_timeout_while(state, FAILURE_AWAITED, |state| state.has_power);
        drop(waited.expect("no server of it panics"));
    }
}

/// Answers a guest until it is gone.
fn serve(mut stream: &UnixStream, shared: &Shared, disk_bytes: u64) -> std::io::Result<()> {
    let mut hello = SERVER_MAGIC.to_be_bytes().to_vec();
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend(HANDSHAKE_FLAGS.to_be_bytes());
    stream.write_all(&hello)?;
    let _flags: [u8; 4] = array(&mut stream)?;
    while !negotiate(stream, disk_bytes)? {}
    loop {
        if u32::from_be_bytes(array(&mut stream)?) != REQUEST_MAGIC {
            return Err(invalid("a request without its magic"));
        }
        let flags = u16::from_be_bytes(array(&mut stream)?);
        let kind = u16::from_be_bytes(array(&mut stream)?);
        let handle: [u8; 8] = array(&mut stream)?;
        let offset = u64::from_be_bytes(array(&mut stream)?);
        let bytes = u32::from_be_bytes(array(&mut stream)?);
        if bytes > REQUEST_BYTES_MAX || offset.saturating_add(bytes.into()) > disk_bytes {
            return Err(invalid("a request beyond the disk"));
        }
        let mut data = Vec::new();
        let mut begin = Vec::new();
        let result = match kind {
            READ => {
                data.resize(bytes as usize, 0);
                shared.state().disk.read(&mut data, offset).map_err(|_| EIO)
            }
            WRITE => {
                let mut written = vec![0; bytes as usize];
                stream.read_exact(&mut written)?;
                begin.extend(written.iter().take(TRACED_BYTES));
                shared.state().write(offset, &written, flags & FORCE_UNIT_ACCESS != 0)
            }
            FLUSH => shared.state().flush(),
            DISCONNECT => return Ok(()),
            other => return Err(invalid(&format!("a request of kind {other}"))),
        };
        shared.state().trace(kind, offset, bytes, &begin);
        if !shared.state().has_power {
            shared.changed.notify_all();
            // Until the guest is switched off.
            stream.read_to_end(&mut Vec::new())?;
            return Ok(());
        }
        let mut reply = REPLY_MAGIC.to_be_bytes().to_vec();
        reply.extend(result.err().unwrap_or(0).to_be_bytes());
        reply.extend(handle);
        if result.is_ok() {
            reply.extend(data);
        }
        stream.write_all(&reply)?;
    }
}

/// Answers an option of the handshake. Returns whether it was the last one.
fn negotiate(mut stream: &UnixStream, disk_bytes: u64) -> std::io::Result<bool> {
    if u64::from_be_bytes(array(&mut stream)?) != OPTION_MAGIC {
        return Err(invalid("an option without its magic"));
    }
    let option = u32::from_be_bytes(array(&mut stream)?);
    let bytes = u32::from_be_bytes(array(&mut stream)?);
    if bytes > OPTION_BYTES_MAX {
        return Err(invalid("a long option"));
    }
    stream.read_exact(&mut vec![0; bytes as usize])?;
    let mut answer = |kind: u32, data: &[u8]| {
        let mut reply = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
        for number in [option, kind, data.len() as u32] {
            reply.extend(number.to_be_bytes());
        }
        reply.extend(data);
        stream.write_all(&reply)
    };
    match option {
        OPTION_GO => {
            // The export's information: kind 0, its size, its flags.
            let mut export = vec![0, 0];
            export.extend(disk_bytes.to_be_bytes());
            export.extend(TRANSMISSION_FLAGS.to_be_bytes());
            answer(INFORMATION, &export)?;
            answer(ACKNOWLEDGED, &[])?;
            Ok(true)
        }
        OPTION_ABORT => {
            answer(ACKNOWLEDGED, &[])?;
            Err(std::io::Error::from(ErrorKind::UnexpectedEof))
        }
        _ => {
            answer(UNSUPPORTED, &[])?;
            Ok(false)
        }
    }
}
