//! The target `certificates`: files of certificates and keys with anything in them.
//!
//! Enters: a byte that says which file it is and whether it comes with its frame of PEM, then the file.
//! Leaves: nothing, or a panic.
//! Owns:   a certificate and a key that are sound, beside which the other file is read.
//! Never:  expects a file to be sound, only that its fault is told in words.

mod sound;

use link::{
    Certificate, CertificateFiles, CertificateIdentity, ClientCertificates, SanType, TlsServer, TlsServerOptions,
};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Bytes of a fault's words beside the names of files: a line that somebody can read.
const FAULT_BYTES_MAX: usize = 300;
/// Labels of PEM that mean something here.
const LABELS: [&str; 6] =
    ["CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "X509 CRL"];

/// One folder a process, for targets run beside each other, with the files that are sound.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("harrier-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    for (name, text) in [("certificate", &*sound::CERTIFICATE), ("key", &*sound::KEY)] {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    folder
});

/// Panics if a file does more than be refused in words.
pub fn check(bytes: &[u8]) {
    let Some((&how, file)) = bytes.split_first() else { return };
    let label = LABELS[usize::from(how >> 2) % LABELS.len()];
    if how & 3 == 3 {
        names(file);
    }
    // The fuzzer finds its way through a format sooner than through base64.
    let framed = if how & 0x80 == 0 { file.to_vec() } else { pem(label, file).into_bytes() };
    let file = FOLDER.join("file");
    std::fs::write(&file, &framed).expect("a file");
    let which = |of: &[u8], sound: &str| if of.contains(&(how & 3)) { file.clone() } else { FOLDER.join(sound) };
    let (certificate, key, ca) = (which(&[0], "certificate"), which(&[1], "key"), which(&[2, 3], "certificate"));
    let options = TlsServerOptions {
        certificates: vec![CertificateFiles { certificate, key }],
        client_certificates: ClientCertificates::Required,
        client_ca: Some(ca),
        ..TlsServerOptions::default()
    };
    match TlsServer::new(options) {
        Ok(server) => {
            let certificates = server.certificates();
            assert_eq!(certificates.len(), 1);
            assert!(certificates[0].validity_s().is_some(), "one that nobody understands is not taken");
            server.reload().expect("the same files are as good as before");
        }
        Err(error) => {
            assert!(error.file.as_deref().is_none_or(|file| file.starts_with(&*FOLDER)), "{error}");
            assert!(!error.why.is_empty() && error.why.len() <= FAULT_BYTES_MAX, "{} bytes: {error}", error.why.len());
            assert!(!error.why.contains(char::is_control), "{error:?}");
        }
    }
}

/// What the names and dates of any bytes are: nothing, if they are no certificate.
fn names(der: &[u8]) {
    let certificate = Certificate::new(der.to_vec());
    let length_max = der.len() * 8 + 64;
    let text = certificate.distinguished_name().unwrap_or_default();
    assert!(text.len() <= length_max, "a name longer than its certificate");
    let mut shown = String::new();
    write!(shown, "{certificate:?} {:?}", certificate.validity_s()).expect("a string takes everything");
    for kind in [SanType::Dns, SanType::Email, SanType::Uri, SanType::Ip] {
        let names = certificate.alternative_names(kind);
        for index in [0, 1, usize::MAX] {
            let identity = certificate.identity(CertificateIdentity::AlternativeName { kind, index });
            assert_eq!(identity, names.get(index).filter(|name| !name.is_empty()).cloned());
        }
    }
    for identity in [CertificateIdentity::DistinguishedName, CertificateIdentity::CommonName] {
        assert!(certificate.identity(identity).is_none_or(|name| !name.is_empty()));
    }
}

/// Bytes in PEM (RFC 7468).
fn pem(label: &str, bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in bytes.chunks(48) {
        for triple in line.chunks(3) {
            let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(triple.get(at).copied().unwrap_or(0)));
            for at in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
                text.push(if at <= triple.len() { letter.into() } else { '=' });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let with = |how: u8, file: &[u8]| [&[how], file].concat();
    let (certificate, key) = (sound::certificate(), sound::key());
    let framed = |label: u8, file: u8| 0x80 | label << 2 | file;
    vec![
        ("certificate".into(), with(0, sound::CERTIFICATE.as_bytes())),
        ("chain".into(), with(0, sound::CERTIFICATE.repeat(2).as_bytes())),
        ("key".into(), with(1, sound::KEY.as_bytes())),
        ("key-before-certificate".into(), with(0, format!("{}{}", &*sound::KEY, &*sound::CERTIFICATE).as_bytes())),
        ("authority".into(), with(2, sound::CERTIFICATE.as_bytes())),
        ("certificate-der".into(), with(framed(0, 0), &certificate)),
        ("authority-der".into(), with(framed(0, 2), &certificate)),
        ("names-der".into(), with(framed(0, 3), &certificate)),
        ("key-der".into(), with(framed(1, 1), &key)),
        ("key-as-rsa".into(), with(framed(2, 1), &key)),
        ("key-as-ec".into(), with(framed(3, 1), &key)),
        ("key-encrypted".into(), with(framed(4, 1), &key)),
        ("key-as-certificate".into(), with(framed(1, 0), &key)),
        ("certificate-as-key".into(), with(framed(0, 1), &certificate)),
        ("revocations".into(), with(framed(5, 2), &certificate)),
        ("empty".into(), vec![0]),
        ("no-end".into(), with(0, b"-----BEGIN CERTIFICATE-----\nAAAA\n")),
        ("no-base64".into(), with(0, b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n")),
    ]
}
