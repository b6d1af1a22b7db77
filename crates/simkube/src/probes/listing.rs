//! GET of collections.

use serde_json::json;

use super::Probe;
use super::lab::{Lab, config, pod};
use crate::request::Request;
use crate::resource::Resource::{ConfigMaps, Pods, Secrets};

pub(super) const PROBES: &[Probe] = &[
    Probe::new("A38", "lists are ordered, paged and selected", a38),
    Probe::new(
        "A39",
        "a past state can be listed until it is compacted",
        a39,
    ),
    Probe::new("A40", "the future cannot be listed", a40),
    Probe::new("A46", "only some fields can be selected by", a46),
];

fn secret(name: &str, label: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "labels": {"l": label}}})
}

fn a38(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let list = || Request::list(Secrets, &ns);
    lab.ask(list()).ok(200).has("/items", json!([]));
    let mut last = 0;
    for (name, label) in [("b", "1"), ("a", "2"), ("b-c", "1"), ("b.a", "3")] {
        last = lab.create(Secrets, secret(name, label)).ok(201).revision();
    }
    let all = lab.ask(list()).ok(200);
    lab.equal(
        "order",
        all.names(),
        ["a", "b", "b-c", "b.a"].map(str::to_owned).to_vec(),
    );
    lab.equal(
        "the list is at least as new as its items",
        all.revision() >= last,
        true,
    );
    for (selector, count) in [
        ("l=1", 2),
        ("l!=1", 2),
        ("l in (1,2)", 3),
        ("l notin (1)", 2),
        ("l", 4),
        ("!l", 0),
        ("l==1,l!=2", 2),
    ] {
        let found = lab.ask(list().labels(selector)).ok(200).names().len();
        lab.equal(selector, found, count);
    }
    let first = lab
        .ask(list().limit(2))
        .ok(200)
        .has("/metadata/remainingItemCount", 2);
    lab.create(Secrets, secret("aa", "1")).ok(201);
    let token = first.text("/metadata/continue");
    let second = lab.ask(list().limit(2).continue_from(&token)).ok(200);
    lab.equal(
        "second page",
        second.names(),
        ["b-c", "b.a"].map(str::to_owned).to_vec(),
    );
    lab.equal(
        "version of the second page",
        second.version(),
        first.version(),
    );
    let selected = lab.ask(list().limit(1).labels("l=1")).ok(200);
    lab.equal("names of a selected page", selected.names().len(), 1);
    selected.lacks("/metadata/remainingItemCount");
    lab.ask(list().labels("l in 1")).refused(400, "BadRequest");
}

fn a39(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let first = lab.create(Secrets, secret("a", "1")).ok(201);
    lab.create(Secrets, secret("b", "1")).ok(201);
    lab.delete(Secrets, "a").ok(200);
    let past = || {
        Request::list(Secrets, &ns)
            .resource_version(&first.version())
            .exact()
    };
    let seen = lab.ask(past()).ok(200);
    lab.equal("past state", seen.names(), vec!["a".to_owned()]);
    lab.create(Secrets, secret("c", "1")).ok(201);
    let page = lab.ask(Request::list(Secrets, &ns).limit(1)).ok(200);
    let token = page.text("/metadata/continue");
    lab.create(Secrets, secret("d", "1")).ok(201);
    if lab.compact(Secrets) {
        lab.ask(past()).refused(410, "Expired");
        lab.ask(Request::list(Secrets, &ns).limit(1).continue_from(&token))
            .refused(410, "Expired");
    }
}

fn a40(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let now = lab.create(ConfigMaps, config("x")).ok(201).revision();
    let future = (now + 1_000_000).to_string();
    lab.ask(Request::list(ConfigMaps, &ns).resource_version(&future))
        .refused(504, "Timeout")
        .says("Too large resource version")
        .cause("ResourceVersionTooLarge", "");
    lab.ask(
        Request::list(ConfigMaps, &ns)
            .resource_version("0")
            .fields("metadata.name=x"),
    )
    .ok(200);
}

fn a46(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    lab.create(Pods, pod("a")).ok(201);
    let mut there = pod("b");
    there["spec"]["nodeName"] = json!("n");
    lab.create(Pods, there).ok(201);
    for (selector, names) in [
        ("metadata.name=a", vec!["a"]),
        ("spec.nodeName=n", vec!["b"]),
        ("spec.nodeName!=n", vec!["a"]),
        ("spec.nodeName=", vec!["a"]),
        (
            "status.phase=Pending,spec.restartPolicy=Always",
            vec!["a", "b"],
        ),
    ] {
        let found = lab
            .ask(Request::list(Pods, &ns).fields(selector))
            .ok(200)
            .names();
        lab.equal(
            selector,
            found,
            names.into_iter().map(str::to_owned).collect(),
        );
    }
    lab.ask(Request::list(Pods, &ns).fields("spec.hostname=h"))
        .refused(400, "BadRequest")
        .says("field label not supported: spec.hostname");
}
