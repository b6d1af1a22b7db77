//! The controller's workload, as Pod Security `restricted` wants it.

use super::{NAME, Place, labels, object, selector};
use crate::args::Install;
use serde_json::{Value, json};

const PORT: u16 = 8080;

/// One controller works while it holds the Lease; the others wait for it.
pub fn deployment(place: &Place, args: &Install) -> Value {
    let mut deployment = object("apps/v1", "Deployment", NAME, Some(&place.home));
    let mut command = vec!["controller".to_owned(), format!("--listen=0.0.0.0:{PORT}")];
    if let Some(watched) = &place.watched {
        command.push(format!("--watch-namespace={watched}"));
    }
    deployment["spec"] = json!({
        "replicas": args.replicas,
        "selector": {"matchLabels": selector()},
        // A new controller waits for the Lease, so the old one need not go first.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {
            "metadata": {
                "labels": labels(),
                "annotations": {"kubectl.kubernetes.io/default-container": "controller"},
            },
            "spec": {
                "serviceAccountName": NAME,
                "terminationGracePeriodSeconds": 30,
                "securityContext": {
                    "runAsNonRoot": true,
                    "runAsUser": 65532,
                    "runAsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container(args, &command)],
            },
        },
    });
    deployment
}

fn container(args: &Install, command: &[String]) -> Value {
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let probe =
        |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10});
    json!({
        "name": "controller",
        "image": args.image,
        "imagePullPolicy": "IfNotPresent",
        "args": command,
        "env": [
            {"name": "POD_NAME", "valueFrom": field("metadata.name")},
            {"name": "POD_NAMESPACE", "valueFrom": field("metadata.namespace")},
        ],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    })
}

/// For whoever scrapes metrics.
pub fn service(place: &Place) -> Value {
    let mut service = object("v1", "Service", NAME, Some(&place.home));
    service["spec"] = json!({
        "selector": selector(),
        "ports": [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}],
    });
    service
}
