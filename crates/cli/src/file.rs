//! An Ensemble in a file, as people write it.

use crate::failure::Failure;
use ensemble_api::spec::Zones;
use ensemble_api::{GROUP, Template, VERSION, WrongValue};
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// Reads the Ensemble of a file; `-` is stdin.
pub fn ensemble(path: &Path) -> Result<Value, Failure> {
    let text = read(path)?;
    pick(&path.display().to_string(), &text)
}

fn read(path: &Path) -> Result<String, Failure> {
    let unreadable = |error| Failure::error(format!("cannot read {}: {error}", path.display()));
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        return Ok(text);
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// The one Ensemble among the documents of a file.
fn pick(file: &str, text: &str) -> Result<Value, Failure> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| Failure::error(format!("{file} is neither YAML nor JSON: {error}")))?;
    let kinds: Vec<String> = documents
        .iter()
        .filter_map(|d| d["kind"].as_str().map(str::to_owned))
        .collect();
    let mut found = documents.into_iter().filter(|d| d["kind"] == "Ensemble");
    let Some(ensemble) = found.next() else {
        let what = if kinds.is_empty() {
            "no document with a kind".to_owned()
        } else {
            kinds.join(", ")
        };
        return Err(
            Failure::error(format!("{file}: kind: no Ensemble in it, but {what}")).hint(format!(
                "write 'apiVersion: {GROUP}/{VERSION}' and 'kind: Ensemble'"
            )),
        );
    };
    if found.next().is_some() {
        return Err(Failure::error(format!("{file} holds several Ensembles"))
            .hint("put the one that is meant into a file of its own"));
    }
    check(file, &ensemble)?;
    Ok(ensemble)
}

fn check(file: &str, ensemble: &Value) -> Result<(), Failure> {
    let wrong = |field: &str, what: String, right: &str| {
        Err(Failure::error(format!("{file}: {field}: {what}")).hint(right))
    };
    let version = format!("{GROUP}/{VERSION}");
    match ensemble["apiVersion"].as_str() {
        Some(given) if given == version => {}
        Some(given) => {
            let right = format!("write 'apiVersion: {version}'");
            return wrong("apiVersion", format!("'{given}' is not known"), &right);
        }
        None => {
            let right = format!("write 'apiVersion: {version}'");
            return wrong("apiVersion", "is missing".into(), &right);
        }
    }
    if ensemble["metadata"]["name"]
        .as_str()
        .is_none_or(str::is_empty)
    {
        return wrong(
            "metadata.name",
            "is missing".into(),
            "write the Ensemble's name, for example 'orders'",
        );
    }
    if !ensemble["spec"].is_object() {
        let right = "write at least spec.replicas and spec.template";
        return wrong("spec", "is missing".into(), right);
    }
    let template = ensemble["spec"]["template"].as_object().cloned();
    let amounts = Template(template.unwrap_or_default()).wrong_amounts();
    let parameters = wrong_parameters(ensemble);
    if let Some(one) = amounts.into_iter().chain(parameters).next() {
        return wrong(&one.field, one.what, &one.right);
    }
    Ok(())
}

fn wrong_parameters(ensemble: &Value) -> impl Iterator<Item = WrongValue> {
    let parameters = &ensemble["spec"]["engine"]["patroni"]["parameters"];
    let named = parameters.as_object().into_iter().flatten();
    named.filter_map(|(name, value)| ensemble_engines::wrong_parameter(name, value.as_str()?))
}

/// Whether the file speaks of that Ensemble in that namespace.
pub fn is_about(path: &Path, ensemble: &Value, namespace: &str, name: &str) -> Result<(), Failure> {
    let file = path.display();
    let written = ensemble["metadata"]["name"].as_str().unwrap_or_default();
    if written != name {
        return Err(Failure::error(format!(
            "{file}: metadata.name: is '{written}', but the plan is asked for '{name}'"
        ))
        .hint(format!("type ensemble plan {written} -f {file}")));
    }
    match ensemble["metadata"]["namespace"].as_str() {
        Some(written) if written != namespace => Err(Failure::error(format!(
            "{file}: metadata.namespace: is '{written}', but the namespace is '{namespace}'"
        ))
        .hint(format!("choose it with -n {written}"))),
        _ => Ok(()),
    }
}

/// All images that its members run.
pub fn images(ensemble: &Value) -> Vec<String> {
    let pod = &ensemble["spec"]["template"]["spec"];
    let lists = ["containers", "initContainers"].map(|list| pod[list].as_array());
    let containers = lists.into_iter().flatten().flatten();
    containers
        .filter_map(|c| c["image"].as_str().map(str::to_owned))
        .collect()
}

/// All storage classes that its claims name.
pub fn classes(ensemble: &Value) -> Vec<String> {
    let claims = ensemble["spec"]["claims"].as_array().into_iter().flatten();
    claims
        .filter_map(|c| c["spec"]["storageClassName"].as_str().map(str::to_owned))
        .collect()
}

/// The zones that an Ensemble names. What cannot be read is refused later, with its field.
pub fn zones(ensemble: &Value) -> Option<Zones> {
    serde_json::from_value(ensemble["spec"]["zones"].clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: ensemble.dev/v1alpha1\nkind: Ensemble\nmetadata: {name: orders}\nspec: {replicas: 3}\n";

    fn error(text: &str) -> String {
        pick("orders.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn an_ensemble_is_found_among_other_documents() {
        let text = format!("kind: Secret\n---\n{GOOD}---\nkind: Service\n");
        assert_eq!(pick("f", &text).unwrap()["metadata"]["name"], "orders");
    }

    #[test]
    fn an_amount_that_is_none_is_told_with_its_field() {
        let container = "{name: db, resources: {requests: {memory: lots}}}";
        let text = GOOD.replace(
            "replicas: 3",
            &format!("replicas: 3, template: {{spec: {{containers: [{container}]}}}}"),
        );
        let said = error(&text);
        for part in [
            "orders.yaml: spec.template.spec.containers[db].resources.requests.memory",
            "'lots' is no amount",
            "write for example '512Mi'",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let good = text.replace("lots", "1Gi");
        assert!(pick("orders.yaml", &good).is_ok());
    }

    #[test]
    fn a_parameter_that_cannot_be_is_told_with_its_field() {
        let with = |parameter: &str| {
            let engine = format!("engine: {{patroni: {{parameters: {{{parameter}}}}}}}");
            GOOD.replace("replicas: 3", &format!("replicas: 3, {engine}"))
        };
        for (parameter, what, right) in [
            (
                "work_mem: banana",
                "work_mem: 'banana' is no amount of memory",
                "write a whole number in kB, or with B, kB, MB, GB or TB",
            ),
            (
                "max_conections: '200'",
                "max_conections: PostgreSQL has no such parameter",
                "write max_connections",
            ),
        ] {
            let said = error(&with(parameter));
            let what = format!("orders.yaml: spec.engine.patroni.parameters.{what}");
            assert!(said.contains(&what) && said.contains(right), "{said}");
        }
        for parameter in ["work_mem: 64MB", "max_connections: '200'"] {
            assert!(pick("orders.yaml", &with(parameter)).is_ok(), "{parameter}");
        }
    }

    #[test]
    fn a_bad_file_is_told_with_field_fault_and_remedy() {
        let cases = [
            ("a: [", vec!["orders.yaml", "neither YAML nor JSON"]),
            ("kind: StatefulSet", vec!["kind", "StatefulSet", "write"]),
            (
                "kind: Ensemble",
                vec!["apiVersion: is missing", "ensemble.dev/v1alpha1"],
            ),
            (
                "kind: Ensemble\napiVersion: ensemble.dev/v9",
                vec!["'ensemble.dev/v9' is not known"],
            ),
            (
                "kind: Ensemble\napiVersion: ensemble.dev/v1alpha1",
                vec!["metadata.name: is missing"],
            ),
            (
                "kind: Ensemble\napiVersion: ensemble.dev/v1alpha1\nmetadata: {name: a}",
                vec!["spec: is missing", "spec.replicas"],
            ),
        ];
        for (text, words) in cases {
            let said = error(text);
            for word in words {
                assert!(said.contains(word), "{word:?} is not in {said:?}");
            }
        }
        let twice = format!("{GOOD}---\n{GOOD}");
        assert!(error(&twice).contains("several Ensembles"));
    }

    #[test]
    fn a_file_about_another_ensemble_is_noticed() {
        let ensemble = pick("f", GOOD).unwrap();
        let path = Path::new("f");
        assert!(is_about(path, &ensemble, "default", "orders").is_ok());
        let said = is_about(path, &ensemble, "default", "users").unwrap_err();
        assert!(
            said.to_string().contains("ensemble plan orders -f f"),
            "{said}"
        );
    }
}
