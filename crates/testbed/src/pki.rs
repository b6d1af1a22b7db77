//! Keys, certificates and kubeconfig files of one cluster.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::json;

/// The authority of one cluster; it signs everything and is forgotten when the cluster goes.
pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes an authority, with its certificate in `dir/ca.crt`.
    pub fn create(dir: &Path) -> Result<Authority> {
        fs::create_dir_all(dir).with_context(|| format!("failed to create {}", dir.display()))?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params
            .distinguished_name
            .push(DnType::CommonName, "testbed");
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        write(&dir.join("ca.crt"), &certificate.pem())?;
        write_service_account_keys(dir)?;
        Ok(Authority {
            dir: dir.to_owned(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Makes `NAME.crt` and `NAME.key` for a user, who may be in a group.
    pub fn client(&self, name: &str, user: &str, group: Option<&str>) -> Result<()> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        self.sign(name, params)
    }

    /// Makes `NAME.crt` and `NAME.key` for a server reached by these names and addresses.
    pub fn server(&self, name: &str, names: &[&str], addresses: &[IpAddr]) -> Result<()> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.distinguished_name.push(DnType::CommonName, name);
        let addresses = addresses.iter().map(|address| SanType::IpAddress(*address));
        params.subject_alt_names.extend(addresses);
        self.sign(name, params)
    }

    fn sign(&self, name: &str, mut params: CertificateParams) -> Result<()> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .with_context(|| format!("failed to sign the certificate of {name}"))?;
        write(&self.dir.join(format!("{name}.crt")), &certificate.pem())?;
        write(&self.dir.join(format!("{name}.key")), &key.serialize_pem())
    }
}

/// Writes a kubeconfig file for the client certificate `name`.
pub fn write_kubeconfig(pki: &Path, name: &str, server: &str, path: &Path) -> Result<()> {
    let file = |suffix: &str| pki.join(suffix).to_string_lossy().into_owned();
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "testbed",
        "clusters": [{"name": "testbed", "cluster": {
            "server": server,
            "certificate-authority": file("ca.crt"),
        }}],
        "users": [{"name": name, "user": {
            "client-certificate": file(&format!("{name}.crt")),
            "client-key": file(&format!("{name}.key")),
        }}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": name}}],
    });
    write(path, &serde_json::to_string_pretty(&config)?)
}

/// The keys that service account tokens are signed with. The public half is a file of its own:
/// the API server does not find it in a PKCS#8 private key.
fn write_service_account_keys(dir: &Path) -> Result<()> {
    let key = KeyPair::generate()?;
    write(&dir.join("service-accounts.key"), &key.serialize_pem())?;
    write(&dir.join("service-accounts.pub"), &key.public_key_pem())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}
