//! A certificate: whom it names and when it is valid. Parsing it verifies nothing.

use super::der::{Der, OBJECT, OCTETS, SEQUENCE, seconds};
use super::distinguished_name;

#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Box<[u8]>,
}

/// Which part of a client's certificate is the user name (RabbitMQ's `ssl_cert_login_from`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateIdentity {
    /// The whole subject: `CN=orders,O=Example`.
    DistinguishedName,
    /// The common name of the subject; several are joined by commas.
    CommonName,
    AlternativeName {
        /// The type of names.
        kind: SanType,
        /// The index among the names of this type, from 0.
        index: usize,
    },
}

/// A kind of alternative names (RFC 5280 §4.2.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SanType {
    /// A host name.
    Dns,
    /// An e-mail address.
    Email,
    Uri,
    /// An IP address.
    Ip,
}

/// The fields that are used here.
struct CertificateFields<'a> {
    issuer: Der<'a>,
    not_before: (u8, &'a [u8]),
    not_after: (u8, &'a [u8]),
    subject: Der<'a>,
    alternatives: Der<'a>,
}

impl Certificate {
    /// From its DER.
    pub fn new(der: impl Into<Box<[u8]>>) -> Self {
        Certificate { der: der.into() }
    }

    fn parts(&self) -> Option<CertificateFields<'_>> {
        const VERSION: u8 = 0xa0;
        const EXTENSIONS: u8 = 0xa3;
        const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
        let mut signed = Der(&self.der).expect(SEQUENCE)?.expect(SEQUENCE)?;
        if signed.0.first() == Some(&VERSION) {
            signed.next()?;
        }
        let (_serial, _algorithm) = (signed.next()?, signed.next()?);
        let issuer = signed.expect(SEQUENCE)?;
        let mut validity = signed.expect(SEQUENCE)?;
        let mut parts = CertificateFields {
            issuer,
            not_before: validity.next()?,
            not_after: validity.next()?,
            subject: signed.expect(SEQUENCE)?,
            alternatives: Der(&[]),
        };
        let extensions =
            signed.all().find(|(tag, _)| *tag == EXTENSIONS).and_then(|(_, body)| Der(body).expect(SEQUENCE));
        for (_, extension) in extensions.iter().flat_map(|extensions| extensions.all()) {
            let mut extension = Der(extension);
            if extension.expect(OBJECT)?.0 == SUBJECT_ALTERNATIVE_NAME {
                let (_, value) = extension.all().find(|(tag, _)| *tag == OCTETS)?;
                parts.alternatives = Der(value).expect(SEQUENCE)?;
            }
        }
        Some(parts)
    }

    /// The user name in the certificate.
    pub fn identity(&self, from: CertificateIdentity) -> Option<String> {
        let name = match from {
            CertificateIdentity::DistinguishedName => self.distinguished_name()?,
            CertificateIdentity::CommonName => self.common_names()?.join(","),
            CertificateIdentity::AlternativeName { kind, index } => {
                self.alternative_names(kind).into_iter().nth(index)?
            }
        };
        Some(name).filter(|name| !name.is_empty())
    }

    /// The subject's name.
    pub fn distinguished_name(&self) -> Option<String> {
        Some(distinguished_name::written(&distinguished_name::parts(self.parts()?.subject)?))
    }

    /// The name of who has issued it.
    pub fn issuer(&self) -> Option<String> {
        Some(distinguished_name::written(&distinguished_name::parts(self.parts()?.issuer)?))
    }

    fn common_names(&self) -> Option<Vec<String>> {
        let attributes = distinguished_name::parts(self.parts()?.subject)?.into_iter().flatten();
        Some(attributes.filter(|(kind, _)| kind == distinguished_name::COMMON_NAME).map(|(_, value)| value).collect())
    }

    /// The alternative names of a type, in their order.
    pub fn alternative_names(&self, kind: SanType) -> Vec<String> {
        let wanted = match kind {
            SanType::Email => 0x81,
            SanType::Dns => 0x82,
            SanType::Uri => 0x86,
            SanType::Ip => 0x87,
        };
        let written = |(tag, bytes): (u8, &[u8])| match kind {
            _ if tag != wanted => None,
            SanType::Ip => match *bytes {
                [a, b, c, d] => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
                _ => <[u8; 16]>::try_from(bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
            },
            _ => bytes.is_ascii().then(|| String::from_utf8_lossy(bytes).into_owned()),
        };
        self.parts().map_or(vec![], |parts| parts.alternatives.all().filter_map(written).collect())
    }

    /// The validity period, in seconds since 1970.
    pub fn validity_s(&self) -> Option<(i64, i64)> {
        let CertificateFields { not_before, not_after, .. } = self.parts()?;
        Some((seconds(not_before.0, not_before.1)?, seconds(not_after.0, not_after.1)?))
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Certificate({})", self.distinguished_name().unwrap_or_default())
    }
}
