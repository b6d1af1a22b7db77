//! Who may waive a safety rule. RBAC cannot look into a spec: whoever may create an EnsembleRequest could
//! create one that waives. So the API server itself asks, by a policy in CEL and without a webhook, whether
//! the author has the verb `waive` on that Ensemble.

use super::object;
use super::rbac::WAIVER;
use serde_json::{Value, json};

const POLICY: &str = "ensemble-waive";
const GROUP: &str = "admissionregistration.k8s.io/v1";

/// The policy and what puts it in force.
pub fn all() -> Vec<Value> {
    vec![policy(), binding()]
}

fn policy() -> Value {
    let mut policy = object(GROUP, "ValidatingAdmissionPolicy", POLICY, None);
    let message = format!(
        "'spec.waive: user \"' + request.userInfo.username + '\" has no right to waive a safety rule of \
         Ensemble \"' + object.spec.ensemble + '\"; it takes the verb waive on ensembles, as in: \
         kubectl create rolebinding {WAIVER} --clusterrole={WAIVER} --user=' + \
         request.userInfo.username + ' -n ' + request.namespace"
    );
    policy["spec"] = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [ensemble_api::GROUP],
            "apiVersions": [ensemble_api::VERSION],
            "resources": ["ensemblerequests"],
            // A spec cannot be changed afterwards.
            "operations": ["CREATE"],
            "scope": "Namespaced",
        }]},
        "matchConditions": [{"name": "waives", "expression": "has(object.spec.waive)"}],
        "validations": [{
            "expression": "authorizer.group('ensemble.dev').resource('ensembles')\
                           .namespace(request.namespace).name(object.spec.ensemble)\
                           .check('waive').allowed()",
            "messageExpression": message,
            "reason": "Forbidden",
        }],
    });
    policy
}

fn binding() -> Value {
    let mut binding = object(GROUP, "ValidatingAdmissionPolicyBinding", POLICY, None);
    binding["spec"] = json!({"policyName": POLICY, "validationActions": ["Deny"]});
    binding
}
