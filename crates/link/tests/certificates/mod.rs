//! Certificates made for one test, in a folder that goes with it.

use link::CertificateFiles;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::path::PathBuf;

/// An authority and what it has issued.
pub struct Authority {
    pub folder: PathBuf,
    /// Its own certificate.
    pub ca: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Harrier test");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("harrier-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let ca = folder.join("ca.pem");
        std::fs::write(&ca, certificate.pem()).expect("writes");
        Authority { folder, ca, issuer: Issuer::new(params, key) }
    }

    pub fn issue(&self, name: &str, hosts: &[&str]) -> CertificateFiles {
        self.write(name, params(name, hosts))
    }

    pub fn issue_until(&self, name: &str, hosts: &[&str], year: i32) -> CertificateFiles {
        let mut params = params(name, hosts);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        self.write(name, params)
    }

    fn write(&self, name: &str, params: CertificateParams) -> CertificateFiles {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let files = CertificateFiles {
            certificate: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        };
        std::fs::write(&files.certificate, certificate.pem()).expect("writes");
        std::fs::write(&files.key, key.serialize_pem()).expect("writes");
        files
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).expect("the folder is there");
    }
}
