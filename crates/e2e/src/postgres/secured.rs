//! Patroni's API behind TLS and a password, as somebody would do it who shares a network.

use super::NAME;
use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

/// The Secret that the Ensemble names.
pub const SECRET: &str = "orders-rest";
/// Who may ask Patroni to change something.
pub const USER: &str = "ensemble";
/// With that password.
pub const PASSWORD: &str = "not-for-everybody";

/// The Secret, and the right of the controller to read it and no other.
pub fn objects() -> Result<Vec<Value>> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Two names: a certificate of the same name as its issuer is taken for self-signed.
    let name = DnType::CommonName;
    authority.distinguished_name.push(name.clone(), "authority");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut members = CertificateParams::new(vec![format!("{NAME}-members")])?;
    members.distinguished_name.push(name, "members");
    let certificate = members.signed_by(&key, &authority)?;
    Ok(vec![
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET},
            "stringData": {
                "username": USER, "password": PASSWORD, "ca.crt": authority.pem(),
                "server.crt": certificate.pem(), "server.key": key.serialize_pem(),
            },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": SECRET},
            "rules": [{
                "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get"],
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": SECRET},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": SECRET},
            "subjects": [{
                "kind": "ServiceAccount", "name": "ensemble-controller", "namespace": "ensemble-system",
            }],
        }),
    ])
}

/// The sample's Ensemble, with its Patroni secured.
pub fn secure(ensemble: &mut Value) {
    ensemble["spec"]["engine"]["patroni"]["tls"] = true.into();
    ensemble["spec"]["engine"]["patroni"]["secretName"] = SECRET.into();
    let pod = &mut ensemble["spec"]["template"]["spec"];
    super::sample::push(
        &mut pod["volumes"],
        json!({"name": "rest", "secret": {"secretName": SECRET}}),
    );
    let container = &mut pod["containers"][0];
    super::sample::push(
        &mut container["volumeMounts"],
        json!({"name": "rest", "mountPath": "/rest"}),
    );
    for (name, value) in [
        ("PATRONI_RESTAPI_USERNAME", USER),
        ("PATRONI_RESTAPI_PASSWORD", PASSWORD),
        ("PATRONI_RESTAPI_CERTFILE", "/rest/server.crt"),
        ("PATRONI_RESTAPI_KEYFILE", "/rest/server.key"),
    ] {
        let variable = json!({"name": name, "value": value});
        super::sample::push(&mut container["env"], variable);
    }
    for probe in ["readinessProbe", "livenessProbe"] {
        container[probe]["httpGet"]["scheme"] = "HTTPS".into();
    }
}

/// Patroni's members ask each other as well, by addresses that are in no certificate. With a
/// certificate of its own, Patroni wants the authority named even so.
pub fn configure(map: &mut Value) {
    let text = map["data"]["patroni.yml"].as_str().unwrap_or_default();
    map["data"]["patroni.yml"] =
        format!("ctl:\n  insecure: true\n  cacert: /rest/ca.crt\n{text}").into();
}
