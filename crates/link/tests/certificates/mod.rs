//! Certificates made for one test, in a folder that goes with it.

use link::CertificateFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use std::cell::RefCell;
use std::path::PathBuf;

/// An authority and what it has issued.
pub struct Authority {
    pub folder: PathBuf,
    /// Its own certificate.
    pub ca: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// The certificates it has issued, with their serial numbers.
    serials: RefCell<Vec<(String, SerialNumber)>>,
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
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let ca = folder.join("ca.pem");
        std::fs::write(&ca, certificate.pem()).expect("writes");
        Authority { folder, ca, issuer: Issuer::new(params, key), serials: RefCell::default() }
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

    /// The serial number of a certificate that it has issued.
    fn serial(&self, files: &CertificateFiles) -> SerialNumber {
        let pem = std::fs::read_to_string(&files.certificate).expect("reads");
        self.serials.borrow().iter().find(|(text, _)| *text == pem).expect("it has issued this").1.clone()
    }

    /// Writes a list of these certificates, which are revoked.
    #[allow(dead_code, reason = "not every test that makes certificates revokes some")]
    pub fn revoke(&self, revoked: &[&CertificateFiles]) -> PathBuf {
        let revoked_certs = revoked.iter().map(|files| RevokedCertParams {
            serial_number: self.serial(files),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let file = self.folder.join("crl.pem");
        std::fs::write(&file, list.signed_by(&self.issuer).expect("a list").pem().expect("PEM")).expect("writes");
        file
    }

    fn write(&self, name: &str, mut params: CertificateParams) -> CertificateFiles {
        let serial = SerialNumber::from(self.serials.borrow().len() as u64 + 2);
        params.serial_number = Some(serial.clone());
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let files = CertificateFiles {
            certificate: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        };
        std::fs::write(&files.certificate, certificate.pem()).expect("writes");
        self.serials.borrow_mut().push((certificate.pem(), serial));
        std::fs::write(&files.key, key.serialize_pem()).expect("writes");
        files
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).expect("the folder is there");
    }
}
