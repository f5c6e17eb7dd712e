//! The file of a Unix socket: created when listening begins, removed when it ends.
//!
//! Only this very file is removed, or a socket on which nobody listens any more.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The file of a bound Unix socket.
pub(crate) struct UnixPath {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl UnixPath {
    /// Binds a socket to a path. The socket file of a dead process is replaced; one in use, or another kind of file, is
    /// an error.
    pub fn bind(socket: &OwnedFd, path: &Path) -> io::Result<UnixPath> {
        let address = SocketAddrUnix::new(path)?;
        match rustix::net::bind(socket, &address) {
            Err(Errno::ADDRINUSE) => {
                remove_dead(path, &address)?;
                rustix::net::bind(socket, &address)?;
            }
            outcome => outcome?,
        }
        let made = std::fs::symlink_metadata(path)?;
        Ok(UnixPath { path: path.into(), device: made.dev(), inode: made.ino() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        // Somebody may have removed the file, and another process may listen at the path by now.
        let there = std::fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| there.dev() == self.device && there.ino() == self.inode) {
            // If it cannot be removed, the next listener replaces it.
            let _stays = std::fs::remove_file(&self.path);
        }
    }
}

/// A stream socket that does not block.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Removes the socket of a dead process.
fn remove_dead(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a file with this name exists and is not a socket"));
    }
    match rustix::net::connect(socket()?, address) {
        Err(Errno::CONNREFUSED) => Ok(std::fs::remove_file(path)?),
        // `AGAIN` means a full backlog (unix(7)): the listener is busy, not dead.
        Ok(()) | Err(Errno::AGAIN) => Err(io::Error::new(ErrorKind::AddrInUse, "the address is in use")),
        Err(error) => Err(error.into()),
    }
}
