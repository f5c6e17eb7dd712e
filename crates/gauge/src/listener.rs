//! Finds the processes that listen at a port or Unix socket of this machine, and their descendants, through `/proc`.
//!
//! A process whose descriptors are not readable is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use procfs::net::{TcpState, tcp, tcp6};
use procfs::process::{FDTarget, Process, all_processes};

/// The process that listens on a local TCP port; `None` if it is remote or not readable. Of several that share the socket it
/// is the oldest one.
pub fn listener_on(port: u16) -> Option<u32> {
    holders(&tcp_listeners(port)).first().copied()
}

/// The process that listens on a Unix socket.
pub fn listener_at(path: &Path) -> Option<u32> {
    holders(&unix_listeners(path)).first().copied()
}

/// All processes of the broker that listens on a TCP port: the holders of the listening socket and all their living
/// descendants.
pub fn broker_on(port: u16) -> Vec<u32> {
    with_descendants(&holders(&tcp_listeners(port)))
}

/// The same for a Unix socket.
pub fn broker_at(path: &Path) -> Vec<u32> {
    with_descendants(&holders(&unix_listeners(path)))
}

/// These processes and all their living descendants.
pub fn with_descendants(roots: &[u32]) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for stat in processes().filter_map(|process| process.stat().ok()) {
        children.entry(stat.ppid as u32).or_default().push(stat.pid as u32);
    }
    let mut found = BTreeSet::new();
    let mut waiting = roots.to_vec();
    while let Some(pid) = waiting.pop() {
        if found.insert(pid) {
            waiting.extend(children.get(&pid).into_iter().flatten());
        }
    }
    // The roots come first: a caller that uses a single process needs the broker itself.
    let mut all = roots.to_vec();
    all.extend(found.iter().filter(|pid| !roots.contains(pid)));
    all
}

/// The inodes of a process's sockets.
pub(crate) fn socket_inodes(process: &Process) -> impl Iterator<Item = u64> {
    let descriptors = process.fd().into_iter().flatten().flatten();
    descriptors.filter_map(|descriptor| match descriptor.target {
        FDTarget::Socket(inode) => Some(inode),
        _ => None,
    })
}

fn tcp_listeners(port: u16) -> BTreeSet<u64> {
    let sockets = [tcp(), tcp6()].into_iter().flatten().flatten();
    let listens = sockets.filter(|socket| socket.state == TcpState::Listen && socket.local_address.port() == port);
    listens.map(|socket| socket.inode).collect()
}

fn unix_listeners(path: &Path) -> BTreeSet<u64> {
    // By hand: `procfs` ends a path at its first blank.
    const ACCEPTS: u32 = 0x1_0000;
    let Ok(text) = fs::read("/proc/net/unix") else { return BTreeSet::new() };
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    text.split(|&byte| byte == b'\n')
        .skip(1)
        .filter_map(|line| {
            // Num RefCount Protocol Flags Type St Inode Path; a path may hold blanks.
            let text = String::from_utf8_lossy(line);
            let mut fields = text.split_ascii_whitespace();
            let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
            let inode: u64 = fields.nth(2)?.parse().ok()?;
            let start = line.iter().position(|&byte| byte == b'/')?;
            let bound = Path::new(std::ffi::OsStr::from_bytes(&line[start..]));
            let same =
                bound == path || bound == absolute || fs::canonicalize(bound).is_ok_and(|bound| bound == absolute);
            (flags & ACCEPTS != 0 && same).then_some(inode)
        })
        .collect()
}

/// The processes that hold one of these sockets, the oldest first.
fn holders(inodes: &BTreeSet<u64>) -> Vec<u32> {
    if inodes.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(u64, u32)> = processes()
        .filter(|process| socket_inodes(process).any(|inode| inodes.contains(&inode)))
        .map(|process| (process.stat().map_or(u64::MAX, |stat| stat.starttime), process.pid as u32))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, pid)| pid).collect()
}

fn processes() -> impl Iterator<Item = Process> {
    all_processes().into_iter().flatten().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    #[test]
    fn a_listener_is_found_by_its_port() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        assert_eq!(listener_on(port), Some(std::process::id()));
        drop(listener);
        assert_eq!(listener_on(port), None);
        assert!(broker_on(port).is_empty());
    }

    #[test]
    fn a_listener_is_found_by_its_path() {
        let folder = std::env::temp_dir().join(format!("harrier gauge {}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder of one's own");
        let path = folder.join("s.sock");
        let listener = UnixListener::bind(&path).expect("bind");
        assert_eq!(listener_at(&path), Some(std::process::id()));
        assert_eq!(listener_at(&folder.join(".").join("s.sock")), Some(std::process::id()), "another way to write it");
        assert_eq!(listener_at(&folder.join("other.sock")), None);
        drop(listener);
        assert_eq!(listener_at(&path), None);
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn what_a_broker_started_belongs_to_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        // A child with a child of its own; both end when their input ends.
        let mut child = Command::new("sh")
            .args(["-c", "exec 3<&0; cat <&3 & echo $!; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let mut line = String::new();
        let mut output = std::io::BufReader::new(child.stdout.take().expect("it has an output"));
        std::io::BufRead::read_line(&mut output, &mut line).expect("it says its child's id");
        let grandchild: u32 = line.trim().parse().expect("a process id");
        let found = broker_on(port);
        assert_eq!(found.first(), Some(&std::process::id()));
        assert!(found.contains(&child.id()) && found.contains(&grandchild), "{found:?}");
        drop(child.stdin.take());
        child.wait().expect("sh ends");
    }
}
