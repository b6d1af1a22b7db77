//! TLS: whom we trust, and who we are.
//!
//! Members are asked at their pods' addresses, which no certificate carries: they change with every
//! pod. So the chain to the authority in the Secret is verified, and the name is not, which is what
//! PostgreSQL's clients call `verify-ca`. No other authority is trusted.

use crate::access::{Access, AccessError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
};
use std::sync::Arc;

/// What is needed to speak TLS; nothing if it is not spoken.
pub(crate) fn config(access: &Access) -> Result<Option<Arc<ClientConfig>>, AccessError> {
    access.check()?;
    let Some(ca) = access.ca.as_ref().filter(|_| access.tls) else {
        return Ok(None);
    };
    let provider = Arc::new(ring::default_provider());
    let trusted = Trusted {
        roots: roots(ca)?,
        provider: provider.clone(),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable("ca.crt", e))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trusted));
    let config = match (&access.certificate, &access.key) {
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(certificates("tls.crt", certificate)?, private_key(key)?)
            .map_err(|e| unusable("tls.crt", e))?,
        _ => builder.with_no_client_auth(),
    };
    Ok(Some(Arc::new(config)))
}

fn unusable(key: &'static str, cause: impl ToString) -> AccessError {
    let cause = cause.to_string();
    AccessError::Unusable { key, cause }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, AccessError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca.crt", pem)? {
        roots.add(certificate).map_err(|e| unusable("ca.crt", e))?;
    }
    Ok(roots)
}

fn certificates(
    key: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, AccessError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(none) if none.is_empty() => Err(unusable(key, "there is no certificate in it")),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unusable(key, error)),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, AccessError> {
    // The cause is our own: an error about a key must not quote it.
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| unusable("tls.key", "there is no private key in it"))
}

/// Trusts the authorities of the Secret, whatever name they signed.
#[derive(Debug)]
struct Trusted {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        None
    }
}
