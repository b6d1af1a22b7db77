//! TLS with an authority of the user's, and with a certificate of our own.

#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod fake;

use ensemble_engines::Access;
use ensemble_engines::etcd::Etcd;
use ensemble_engines::patroni::{Patroni, Role};
use ensemble_planner::engine::WhyUnknown;
use fake::{Fake, says};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed(by: &Authority) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["pg-0.example".into()]).unwrap();
    (params.signed_by(&key, by).unwrap(), key)
}

fn server(by: &Authority, clients: Option<&Authority>) -> TlsAcceptor {
    let (certificate, key) = signed(by);
    let provider = Arc::new(default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(clients.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = builder.with_single_cert(vec![certificate.der().clone()], key);
    TlsAcceptor::from(Arc::new(config.unwrap()))
}

fn trusting(authority: &Authority) -> Access {
    Access {
        tls: true,
        ca: Some(authority.pem().into_bytes()),
        ..Access::default()
    }
}

async fn role(access: &Access, tls: Option<TlsAcceptor>) -> String {
    let answers = [("GET /health", says(500, "reached"))];
    let fake = Fake::start_at("127.0.0.1:0", &answers, tls).await;
    let patroni = Patroni::new(access).unwrap();
    let said = patroni.look(&fake.target("pg-0")).await;
    let Role::Unknown(why) = said.role else {
        panic!("a role from nowhere");
    };
    match why {
        WhyUnknown::Unreadable(cause) if cause.ends_with("reached") => "reached".into(),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn whom_the_authority_signed_is_trusted_whatever_its_name() {
    let ours = authority();
    assert_eq!(
        role(&trusting(&ours), Some(server(&ours, None))).await,
        "reached"
    );
}

#[tokio::test]
async fn whom_another_authority_signed_is_not_trusted() {
    let said = role(&trusting(&authority()), Some(server(&authority(), None))).await;
    assert!(
        said.starts_with("Unauthorised(\"GET /health: TLS"),
        "{said}"
    );
}

#[tokio::test]
async fn a_certificate_of_our_own_is_sent_where_it_is_wanted() {
    let ours = authority();
    let without = role(&trusting(&ours), Some(server(&ours, Some(&ours)))).await;
    assert!(without.starts_with("Unauthorised("), "{without}");
    let (certificate, key) = signed(&ours);
    let access = Access {
        certificate: Some(certificate.pem().into_bytes()),
        key: Some(key.serialize_pem().into_bytes()),
        ..trusting(&ours)
    };
    assert_eq!(
        role(&access, Some(server(&ours, Some(&ours)))).await,
        "reached"
    );
}

#[tokio::test]
async fn one_that_does_not_speak_tls_is_named() {
    let said = role(&trusting(&authority()), None).await;
    assert!(
        said.contains("does not speak TLS") || said.contains("Unreachable"),
        "{said}"
    );
}

#[test]
fn what_is_no_certificate_is_refused_by_its_key() {
    for (ca, expected) in [("nonsense", "ca.crt"), ("", "ca.crt")] {
        let access = Access {
            tls: true,
            ca: Some(ca.into()),
            ..Access::default()
        };
        let error = Patroni::new(&access).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn etcds_password_is_exchanged_once_for_a_token_that_lets_us_in() {
    let recorded = |file: &str| {
        let manifest = env!("CARGO_MANIFEST_DIR");
        let file = format!("{manifest}/tests/recorded/etcd-3.6.8/{file}.json");
        says(200, &std::fs::read_to_string(file).unwrap())
    };
    let answers = [
        ("POST /v3/auth/authenticate", recorded("auth-right")),
        ("POST /v3/maintenance/status", recorded("status-0")),
        ("POST /v3/cluster/member/list", recorded("members-0")),
    ];
    let ours = authority();
    let tls = Some(server(&ours, None));
    let fake = Fake::start_at("127.0.0.1:0", &answers, tls).await;
    let access = Access {
        username: Some("root".into()),
        password: Some("sesame".into()),
        ..trusting(&ours)
    };
    let etcd = Etcd::new(&access).unwrap();
    for _ in 0..3 {
        assert!(etcd.look(&fake.target("etcd-0")).await.unwrap().claims());
    }
    let heard = fake.heard();
    let with = |text: &str| heard.iter().filter(|h| h.contains(text)).count();
    assert_eq!(with(r#"{"name":"root","password":"sesame"}"#), 1);
    assert_eq!(with("authorization: FmoIRYMTWeXsnCez.27"), 6);
    assert_eq!((with("Basic"), heard.len()), (0, 7));
}

#[tokio::test]
async fn a_wrong_password_of_etcd_is_told_as_such() {
    let wrong =
        r#"{"code":3,"message":"etcdserver: authentication failed, invalid user ID or password"}"#;
    let answers = [("POST /v3/auth/authenticate", says(400, wrong))];
    let ours = authority();
    let tls = Some(server(&ours, None));
    let fake = Fake::start_at("127.0.0.1:0", &answers, tls).await;
    let access = Access {
        username: Some("root".into()),
        password: Some("wrong".into()),
        ..trusting(&ours)
    };
    let said = Etcd::new(&access)
        .unwrap()
        .look(&fake.target("etcd-0"))
        .await;
    assert!(matches!(said, Err(WhyUnknown::Unauthorised(_))), "{said:?}");
}
