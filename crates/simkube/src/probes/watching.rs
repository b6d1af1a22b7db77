//! Watches.

use serde_json::json;

use super::Probe;
use super::lab::Lab;
use crate::resource::Resource::Secrets;
use crate::watch::WatchOptions;

pub(super) const PROBES: &[Probe] = &[
    Probe::new(
        "A41",
        "a watch says all that happened after a version, in order",
        a41,
    ),
    Probe::new(
        "A42",
        "what stops matching a selector is reported as deleted",
        a42,
    ),
    Probe::new(
        "A43",
        "a watch without a version begins with what is there",
        a43,
    ),
    Probe::new("A45", "an old watch is told so by an event", a45),
];

fn secret(name: &str, label: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "labels": {"l": label}}})
}

fn after(revision: u64) -> WatchOptions {
    WatchOptions {
        resource_version: Some(revision),
        ..WatchOptions::default()
    }
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|l| (*l).to_owned()).collect()
}

fn a41(lab: &mut Lab<'_>) {
    let first = lab.create(Secrets, secret("a", "1")).ok(201);
    lab.create(Secrets, secret("b", "1")).ok(201);
    lab.patch(Secrets, "a", json!({"metadata": {"labels": {"l": "2"}}}))
        .ok(200);
    lab.patch(Secrets, "a", json!({"metadata": {"labels": {"l": "2"}}}))
        .ok(200);
    let last = lab.delete(Secrets, "b").ok(200);
    let events = lab.events(Secrets, after(first.revision()));
    lab.equal(
        "events",
        events,
        lines(&["ADDED b", "MODIFIED a", "DELETED b"]),
    );
    drop(last);
    let future = first.revision() + 1_000_000;
    let events = lab.events(Secrets, after(future));
    lab.equal("events from the future", events, Vec::new());
}

fn a42(lab: &mut Lab<'_>) {
    let first = lab.create(Secrets, secret("a", "1")).ok(201);
    for label in ["2", "1", "1x"] {
        lab.patch(Secrets, "a", json!({"metadata": {"labels": {"l": label}}}))
            .ok(200);
    }
    lab.delete(Secrets, "a").ok(200);
    let options = WatchOptions {
        label_selector: Some("l=1".to_owned()),
        ..after(first.revision())
    };
    let events = lab.events(Secrets, options);
    lab.equal(
        "events",
        events,
        lines(&["DELETED a", "ADDED a", "DELETED a"]),
    );
    let named = WatchOptions {
        field_selector: Some("metadata.name=b".to_owned()),
        ..after(first.revision())
    };
    let events = lab.events(Secrets, named);
    lab.equal("events of another name", events, Vec::new());
    let odd = WatchOptions {
        field_selector: Some("data.x=1".to_owned()),
        ..after(first.revision())
    };
    let events = lab.events(Secrets, odd);
    lab.equal("an unknown field", events, lines(&["REFUSED 400"]));
}

fn a43(lab: &mut Lab<'_>) {
    for name in ["b", "a"] {
        lab.create(Secrets, secret(name, "1")).ok(201);
    }
    for start in [None, Some(0)] {
        let options = WatchOptions {
            resource_version: start,
            ..WatchOptions::default()
        };
        let events = lab.events(Secrets, options);
        lab.equal("events", events, lines(&["ADDED a", "ADDED b"]));
    }
    let options = WatchOptions {
        bookmarks: true,
        ..WatchOptions::default()
    };
    let events = lab.events(Secrets, options);
    let expected = lines(&["ADDED a", "ADDED b", "BOOKMARK end of initial events"]);
    lab.equal("events with bookmarks", events, expected);
}

fn a45(lab: &mut Lab<'_>) {
    let first = lab.create(Secrets, secret("a", "1")).ok(201);
    lab.create(Secrets, secret("b", "1")).ok(201);
    if lab.compact(Secrets) {
        let events = lab.events(Secrets, after(first.revision()));
        lab.equal("events", events, lines(&["ERROR 410 Expired"]));
    }
}
