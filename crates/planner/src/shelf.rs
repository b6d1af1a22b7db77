//! Where a snapshot keeps what it sees of a kind, for those who take objects in without asking which
//! kind they are of.

use crate::kinds::Kind;
use crate::snapshot::Snapshot;
use crate::view::{Kept, Pinned};
use serde_json::Value;
use std::collections::BTreeSet;

/// What can be done with all views of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Shelf {
    kind: Kind,
    put: fn(&mut Snapshot, &Value) -> bool,
    remove: fn(&mut Snapshot, &Pinned),
    keep_only: fn(&mut Snapshot, &BTreeSet<&str>),
    shows: fn(&mut Snapshot, &str, &str) -> bool,
}

impl Shelf {
    /// The shelf of a view.
    pub const fn of<V: Kept>() -> Self {
        Self {
            kind: V::KIND,
            put: put::<V>,
            remove: remove::<V>,
            keep_only: keep_only::<V>,
            shows: shows::<V>,
        }
    }

    /// What stands on it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Takes an object in, and says whether that changes anything. One that cannot be read, or is
    /// none of the ensemble's, is taken out: the schema refused it long before, or it changed hands.
    pub fn put(&self, snap: &mut Snapshot, object: &Value) -> bool {
        (self.put)(snap, object)
    }

    /// Takes an object out, if it is the one that was in.
    pub fn remove(&self, snap: &mut Snapshot, pin: &Pinned) {
        (self.remove)(snap, pin);
    }

    /// Takes out all but those names.
    pub fn keep_only(&self, snap: &mut Snapshot, names: &BTreeSet<&str>) {
        (self.keep_only)(snap, names);
    }

    /// Whether an object is still in view, and not told to end.
    pub fn shows(&self, snap: &mut Snapshot, name: &str, uid: &str) -> bool {
        (self.shows)(snap, name, uid)
    }
}

fn put<V: Kept>(snap: &mut Snapshot, object: &Value) -> bool {
    let name = object.get("metadata").and_then(|m| m.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or_default();
    let view = V::read(object).ok().filter(|view| view.is_of(snap.name()));
    let shelf = V::shelf(snap);
    let Some(view) = view else {
        return shelf.remove(name).is_some();
    };
    match shelf.get_mut(name) {
        Some(before) if *before == view => false,
        Some(before) => {
            *before = view;
            true
        }
        None => {
            shelf.insert(name.to_owned(), view);
            true
        }
    }
}

fn remove<V: Kept>(snap: &mut Snapshot, pin: &Pinned) {
    let shelf = V::shelf(snap);
    let same = shelf
        .get(&pin.name)
        .map(|view| view.meta().pin.uid == pin.uid);
    if same == Some(true) {
        shelf.remove(&pin.name);
    }
}

fn keep_only<V: Kept>(snap: &mut Snapshot, names: &BTreeSet<&str>) {
    V::shelf(snap).retain(|name, _| names.contains(name.as_str()));
}

fn shows<V: Kept>(snap: &mut Snapshot, name: &str, uid: &str) -> bool {
    let meta = V::shelf(snap).get(name).map(Kept::meta);
    meta.is_some_and(|m| m.pin.uid == uid && !m.deleting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, uid: &str, version: &str) -> Value {
        json!({"metadata": {"name": name, "uid": uid, "resourceVersion": version}})
    }

    fn pods() -> Shelf {
        Kind::Pod.info().shelf.expect("pods are kept")
    }

    #[test]
    fn what_is_put_is_seen_and_what_is_put_again_changes_nothing() {
        let mut snap = Snapshot::default();
        assert!(pods().put(&mut snap, &pod("a", "1", "7")));
        assert!(!pods().put(&mut snap, &pod("a", "1", "7")));
        assert!(pods().put(&mut snap, &pod("a", "1", "8")));
        assert_eq!(snap.pods["a"].meta.pin.resource_version, "8");
        assert!(pods().shows(&mut snap, "a", "1") && !pods().shows(&mut snap, "a", "2"));
        let mut ending = pod("a", "1", "9");
        ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        pods().put(&mut snap, &ending);
        assert!(!pods().shows(&mut snap, "a", "1"));
    }

    #[test]
    fn a_predecessor_that_goes_does_not_take_its_successor_along() {
        let mut snap = Snapshot::default();
        pods().put(&mut snap, &pod("a", "new", "7"));
        let pin = |uid: &str| Pinned {
            name: "a".into(),
            uid: uid.into(),
            resource_version: "8".into(),
        };
        pods().remove(&mut snap, &pin("old"));
        assert!(snap.pods.contains_key("a"));
        pods().remove(&mut snap, &pin("new"));
        assert!(snap.pods.is_empty());
    }

    #[test]
    fn after_a_list_nothing_is_left_that_is_not_in_it() {
        let mut snap = Snapshot::default();
        for name in ["a", "b", "c"] {
            pods().put(&mut snap, &pod(name, name, "1"));
        }
        pods().keep_only(&mut snap, &["a", "c", "d"].into());
        let left: Vec<&String> = snap.pods.keys().collect();
        assert_eq!(left, ["a", "c"]);
    }

    #[test]
    fn a_request_to_somebody_else_or_that_cannot_be_read_is_taken_out() {
        let mut snap = Snapshot::default();
        snap.ensemble.meta.pin.name = "orders".into();
        let requests = Kind::Request.info().shelf.expect("requests are kept");
        let request =
            |ensemble: &str| json!({"metadata": {"name": "r"}, "spec": {"ensemble": ensemble}});
        assert!(requests.put(&mut snap, &request("orders")));
        assert!(requests.put(&mut snap, &request("stock")));
        assert!(snap.requests.is_empty());
        requests.put(&mut snap, &request("orders"));
        let unreadable = json!({"metadata": {"name": "r"}, "spec": 7});
        assert!(requests.put(&mut snap, &unreadable));
        assert!(snap.requests.is_empty());
    }
}
