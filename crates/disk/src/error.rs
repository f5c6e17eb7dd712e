//! Errors of the operating system as the store knows them.

use rustix::io::Errno;
use std::path::Path;
use store::{DiskError, DiskErrorKind};

/// What failed, with which file, and why.
pub(crate) fn disk_error(operation: &str, path: &Path, error: impl Into<std::io::Error>) -> DiskError {
    let error = error.into();
    let kind = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => DiskErrorKind::NoSpace,
        Some(Errno::NOENT) => DiskErrorKind::NotFound,
        _ => DiskErrorKind::Failed,
    };
    DiskError { kind, text: format!("cannot {operation} {}: {error}", path.display()) }
}
