//! A self-signed certificate made for one measurement and deleted with it.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::role::tls_stream::HOST;
use harness::role_tasks::TlsFiles;

/// A certificate for this host's loopback address, and its key.
pub struct TemporaryCertificate {
    folder: PathBuf,
    files: TlsFiles,
}

impl TemporaryCertificate {
    /// Creates them in a private directory.
    ///
    /// # Errors
    pub fn make() -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("harrier-perf-tls-{}-{number}", std::process::id()));
        let pair = rcgen::generate_simple_self_signed([HOST.to_owned()]).map_err(|error| error.to_string())?;
        let write = || {
            fs::DirBuilder::new().mode(0o700).create(&folder)?;
            fs::write(folder.join("certificate.pem"), pair.cert.pem())?;
            fs::write(folder.join("key.pem"), pair.signing_key.serialize_pem())
        };
        write().map_err(|error| format!("{}: {error}", folder.display()))?;
        let files = TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        Ok(Self { folder, files })
    }

    pub fn files(&self) -> &TlsFiles {
        &self.files
    }
}

impl Drop for TemporaryCertificate {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            cli::print_error(&format!("harrier bench: {}: {error}", self.folder.display()));
        }
    }
}
