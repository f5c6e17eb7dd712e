//! A certificate and a key that are sound, made of constants: the key is the number one.
//!
//! Leaves: DER and PEM.
//! Owns:   the little of DER that writing them needs.
//! Never:  is of use to anybody: everybody knows the key, and nobody has signed the certificate.

use super::pem;
use std::sync::LazyLock;

/// The certificate in PEM.
pub static CERTIFICATE: LazyLock<String> = LazyLock::new(|| pem("CERTIFICATE", &certificate()));
/// The key in PEM.
pub static KEY: LazyLock<String> = LazyLock::new(|| pem("PRIVATE KEY", &key()));

/// The base point of P-256 (SEC 2, §2.4.2), which is the public key of the number one.
const POINT: [u8; 65] = [
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2, 0x77, 0x03,
    0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f, 0xe3, 0x42, 0xe2, 0xfe,
    0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce, 0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce,
    0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OBJECT: u8 = 0x06;
const UTF8: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;

const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];

fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = match u16::try_from(body.len()).expect("constants are short") {
        length @ ..=0x7f => vec![length as u8],
        length @ ..=0xff => vec![0x81, length as u8],
        length => [&[0x82], &length.to_be_bytes()[..]].concat(),
    };
    [&[tag], &*length, &*body].concat()
}

fn algorithm() -> Vec<u8> {
    value(SEQUENCE, &[&value(OBJECT, &[EC_PUBLIC_KEY]), &value(OBJECT, &[P256])])
}

/// The key in DER (PKCS #8, RFC 5208).
pub fn key() -> Vec<u8> {
    let mut one = [0; 32];
    one[31] = 1;
    let point = value(0xa1, &[&value(BITS, &[&[0], &POINT])]);
    let inner = value(SEQUENCE, &[&value(INTEGER, &[&[1]]), &value(OCTETS, &[&one]), &point]);
    value(SEQUENCE, &[&value(INTEGER, &[&[0]]), &algorithm(), &value(OCTETS, &[&inner])])
}

/// The certificate in DER (RFC 5280 §4.1), with names of every kind.
pub fn certificate() -> Vec<u8> {
    let signature = value(SEQUENCE, &[&value(OBJECT, &[ECDSA_SHA256])]);
    let common_name = value(SEQUENCE, &[&value(OBJECT, &[COMMON_NAME]), &value(UTF8, &[b"orders"])]);
    let name = value(SEQUENCE, &[&value(SET, &[&common_name])]);
    let validity = value(SEQUENCE, &[&value(UTC_TIME, &[b"200101000000Z"]), &value(UTC_TIME, &[b"491231235959Z"])]);
    let public = value(SEQUENCE, &[&algorithm(), &value(BITS, &[&[0], &POINT])]);
    let names = value(
        SEQUENCE,
        &[
            &value(0x82, &[b"broker.example"]),
            &value(0x81, &[b"orders@example"]),
            &value(0x86, &[b"urn:orders"]),
            &value(0x87, &[&[127, 0, 0, 1]]),
        ],
    );
    let extension = value(SEQUENCE, &[&value(OBJECT, &[ALTERNATIVE_NAME]), &value(OCTETS, &[&names])]);
    let signed = value(
        SEQUENCE,
        &[
            &value(0xa0, &[&value(INTEGER, &[&[2]])]),
            &value(INTEGER, &[&[1]]),
            &signature,
            &name,
            &validity,
            &name,
            &public,
            &value(0xa3, &[&value(SEQUENCE, &[&extension])]),
        ],
    );
    // A signature in form: two numbers that sign nothing.
    let numbers = value(SEQUENCE, &[&value(INTEGER, &[&[1]]), &value(INTEGER, &[&[1]])]);
    value(SEQUENCE, &[&signed, &signature, &value(BITS, &[&[0], &numbers])])
}

#[cfg(test)]
mod tests {
    use link::{Certificate, SanType};

    #[test]
    fn they_are_sound() {
        let certificate = Certificate::new(super::certificate());
        assert_eq!(certificate.distinguished_name().as_deref(), Some("CN=orders"));
        assert_eq!(certificate.alternative_names(SanType::Ip), ["127.0.0.1"]);
        assert!(certificate.validity_s().is_some());
    }
}
