//! The file of a Unix socket: taken when listening begins, removed when it ends.
//!
//! Enters: a path.  Leaves: a free place there, or why there is none.
//! Owns:   the file.
//! Never:  removes anything but a socket that nobody listens on.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A place for a Unix socket.
pub(crate) struct UnixPath(PathBuf);

impl UnixPath {
    /// Frees the path of a dead process's socket; a living one, or another file, is an error.
    pub fn take(path: &Path) -> io::Result<UnixPath> {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(UnixPath(path.into())),
            Err(error) => Err(error),
            Ok(found) if !found.file_type().is_socket() => {
                Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket has this name"))
            }
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "somebody listens there already")),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)?;
                    Ok(UnixPath(path.into()))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        // If somebody else removed it, it is gone all the same.
        let _gone = std::fs::remove_file(&self.0);
    }
}
