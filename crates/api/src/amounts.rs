//! Amounts in a template that are none.
//!
//! An API server refuses them while it reads the pod, and then names no field. Here they are found
//! by name.

use crate::template::Template;
use crate::wrong::WrongValue;
use kube_quantity::Quantity;
use serde_json::{Map, Value};

impl Template {
    /// All amounts of CPU, memory and the like that no API server can read.
    pub fn wrong_amounts(&self) -> Vec<WrongValue> {
        let mut found = Vec::new();
        let Some(spec) = self.0.get("spec").and_then(Value::as_object) else {
            return found;
        };
        look(spec, "spec.template.spec", &mut found);
        for list in ["initContainers", "containers"] {
            let containers = spec.get(list).and_then(Value::as_array);
            let containers = containers.into_iter().flatten();
            for container in containers.filter_map(Value::as_object) {
                let name = container.get("name").and_then(Value::as_str);
                let name = name.unwrap_or_default();
                let field = format!("spec.template.spec.{list}[{name}]");
                look(container, &field, &mut found);
            }
        }
        found
    }
}

/// Looks at the resources of a container, or of the pod.
fn look(owner: &Map<String, Value>, field: &str, found: &mut Vec<WrongValue>) {
    for part in ["requests", "limits"] {
        let amounts = owner.get("resources").and_then(|r| r.get(part));
        let amounts = amounts.and_then(Value::as_object);
        for (resource, amount) in amounts.into_iter().flatten() {
            let Some(what) = wrong(amount) else {
                continue;
            };
            found.push(WrongValue {
                field: format!("{field}.resources.{part}.{resource}"),
                what,
                right: format!("write for example '{}'", example(resource)),
            });
        }
    }
}

fn wrong(amount: &Value) -> Option<String> {
    let text = match amount {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let readable = (amount.is_string() || amount.is_number()) && Quantity::parse(&text).is_some();
    (!readable).then(|| format!("'{text}' is no amount"))
}

fn example(resource: &str) -> &'static str {
    let bytes = ["memory", "ephemeral-storage"].contains(&resource);
    match resource {
        "cpu" => "500m",
        _ if bytes || resource.starts_with("hugepages-") => "512Mi",
        _ => "1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong_in(spec: Value) -> Vec<String> {
        let template: Template = serde_json::from_value(json!({"spec": spec})).unwrap();
        let found = template.wrong_amounts();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_amount_that_is_none_is_named_with_its_field_and_what_would_be_right() {
        let resources =
            json!({"requests": {"memory": "lots", "cpu": "1"}, "limits": {"cpu": "2x"}});
        let found = wrong_in(json!({"containers": [
            {"name": "sidecar"}, {"name": "db", "resources": resources}]}));
        assert_eq!(
            found,
            [
                "spec.template.spec.containers[db].resources.requests.memory: 'lots' is no amount; \
                 write for example '512Mi'",
                "spec.template.spec.containers[db].resources.limits.cpu: '2x' is no amount; \
                 write for example '500m'",
            ]
        );
    }

    #[test]
    fn containers_that_run_before_and_the_pod_itself_are_looked_at_too() {
        let resources = json!({"limits": {"example.com/seat": true}});
        let found = wrong_in(json!({"resources": resources,
            "initContainers": [{"name": "copy", "resources": resources}]}));
        assert_eq!(
            found,
            [
                "spec.template.spec.resources.limits.example.com/seat: 'true' is no amount; \
                 write for example '1'",
                "spec.template.spec.initContainers[copy].resources.limits.example.com/seat: 'true' \
                 is no amount; write for example '1'",
            ]
        );
    }

    #[test]
    fn what_kubernetes_reads_is_not_wrong() {
        for amount in [
            json!("500m"),
            json!(2),
            json!(0.5),
            json!("1.5Gi"),
            json!("1e3"),
            json!(null),
        ] {
            let resources = json!({"requests": {"cpu": amount}});
            let found = wrong_in(json!({"containers": [{"name": "db", "resources": resources}]}));
            assert_eq!(found, [""; 0], "{amount}");
        }
        assert_eq!(wrong_in(json!(null)), [""; 0]);
    }
}
