//! PEM files of certificates and keys, and what can be wrong with them. No error shows a key.

use super::certificate::Certificate;
use crate::limits::TLS_FILE_BYTES_MAX;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The files of a certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and its chain, in one PEM file.
    pub certificate: PathBuf,
    /// The private key in PEM: PKCS #8, PKCS #1 or SEC 1, not encrypted.
    pub key: PathBuf,
}

/// Why certificates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// The file, if the error concerns one.
    pub file: Option<PathBuf>,
    pub why: String,
}

impl TlsError {
    pub(super) fn new(file: &Path, why: impl Into<String>) -> Self {
        TlsError { file: Some(file.into()), why: why.into() }
    }

    pub(super) fn other(why: impl Into<String>) -> Self {
        TlsError { file: None, why: why.into() }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(to, "{}: {}", file.display(), self.why),
            None => to.write_str(&self.why),
        }
    }
}

impl std::error::Error for TlsError {}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let mut bytes = Zeroizing::new(Vec::new());
    match std::fs::File::open(path).and_then(|file| file.take(TLS_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)) {
        Ok(_) if bytes.len() as u64 > TLS_FILE_BYTES_MAX => {
            Err(TlsError::new(path, format!("it has more than {TLS_FILE_BYTES_MAX} bytes")))
        }
        Ok(_) => Ok(bytes),
        Err(error) => Err(TlsError::new(path, format!("cannot be read: {error}"))),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError::new(path, "there is no certificate in it (PEM)")),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::new(path, format!("it is not PEM: {}", what_is_wrong(&error)))),
    }
}

/// Describes a PEM error without showing any of the file, which may be a key.
fn what_is_wrong(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end",
        pem::Error::IllegalSectionStart { .. } => "a section begins with a malformed line",
        pem::Error::Base64Decode(_) => "the content of a section is not base64",
        pem::Error::SectionTooLarge => "a section is too large",
        _ => "it contains nothing usable",
    }
}

/// Reads a certificate chain with its key.
pub(super) fn certified(files: &CertificateFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(&files.certificate)?;
    if Certificate::new(chain[0].to_vec()).validity_s().is_none() {
        return Err(TlsError::new(&files.certificate, "its first certificate cannot be parsed"));
    }
    let bytes = read(&files.key)?;
    let encrypted = String::from_utf8_lossy(&bytes).contains("ENCRYPTED");
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        _ if encrypted => TlsError::new(&files.key, "the key is encrypted, which is not supported"),
        pem::Error::NoItemsFound => TlsError::new(&files.key, "there is no private key in it (PEM)"),
        error => TlsError::new(&files.key, format!("it is not PEM: {}", what_is_wrong(&error))),
    })?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let certificate = files.certificate.display();
            TlsError::new(&files.key, format!("the key does not fit the certificate {certificate}"))
        }
        error => TlsError::new(&files.key, format!("the key cannot be used: {error}")),
    })
}

/// Reads trusted certificates.
pub(super) fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| TlsError::new(path, error.to_string()))?;
    }
    Ok(roots)
}

/// Reads lists of revoked certificates.
pub(super) fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError::new(path, "there is no revocation list in it (PEM)")),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::new(path, format!("it is not PEM: {}", what_is_wrong(&error)))),
    }
}

#[cfg(test)]
mod tests {
    use super::{pem, what_is_wrong};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn a_fault_shows_nothing_of_the_file() {
        for (file, expect) in [
            ("-----BEGIN PRIVATE KEY---secret\n", "a section begins with a malformed line"),
            ("-----BEGIN PRIVATE KEY-----\nsecret\n", "a section has no end"),
            (
                "-----BEGIN PRIVATE KEY-----\n!secret\n-----END PRIVATE KEY-----\n",
                "the content of a section is not base64",
            ),
        ] {
            let error: pem::Error = PrivateKeyDer::from_pem_slice(file.as_bytes()).expect_err("no key");
            assert_eq!(what_is_wrong(&error), expect, "{file}");
        }
    }
}
