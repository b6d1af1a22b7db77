//! The versioned store: one revision counter for everything, and a journal of
//! every write, from which watches are served and past states are rebuilt.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::request::{Subresource, Verb};
use crate::resource::{BUILT_IN, Resource};
use crate::time::SimTime;
use crate::value::{Object, set};

/// `namespace/name`, or `name` for cluster-scoped objects. One string, because
/// lists are ordered by it, and that is what a real store orders by.
pub type Key = Arc<str>;

/// The key of an object.
#[must_use]
pub fn key(namespace: &str, name: &str) -> Key {
    if namespace.is_empty() {
        Arc::from(name)
    } else {
        Arc::from(format!("{namespace}/{name}"))
    }
}

/// Splits a key into namespace and name.
#[must_use]
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// What a write did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It appeared.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// Who made a write, and with which guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The client or actor.
    pub client: Arc<str>,
    /// The call's verb.
    pub verb: Verb,
    /// The call's subresource.
    pub subresource: Option<Subresource>,
    /// Whether the call named the uid it meant.
    pub uid_given: bool,
    /// Whether the call named the version it meant.
    pub version_given: bool,
}

/// One write, as kept in the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The revision it made.
    pub revision: u64,
    /// When.
    pub at: SimTime,
    /// By whom.
    pub origin: Origin,
    /// To which resource.
    pub resource: Resource,
    /// To which object.
    pub key: Key,
    /// What happened.
    pub change: Change,
    /// The object afterwards; for deletions its last state at the revision of the deletion.
    pub object: Object,
    /// The object before.
    pub previous: Option<Object>,
}

#[derive(Clone, Debug, Default)]
struct Table {
    objects: BTreeMap<Key, Object>,
    /// Indices into the journal.
    events: Vec<u32>,
    /// Watches and exact lists from before this revision have expired.
    oldest: u64,
}

/// All objects, and how they came to be.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    tables: Vec<Table>,
    journal: Vec<Entry>,
    revision: u64,
}

impl Store {
    pub fn new() -> Store {
        Store {
            tables: vec![Table::default(); BUILT_IN],
            journal: Vec::new(),
            revision: 1,
        }
    }

    pub fn add_table(&mut self) {
        self.tables.push(Table::default());
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn journal(&self) -> &[Entry] {
        &self.journal
    }

    pub fn get(&self, resource: Resource, key: &str) -> Option<&Object> {
        self.tables.get(resource.index())?.objects.get(key)
    }

    pub fn get_entry(&self, resource: Resource, key: &str) -> Option<(&Key, &Object)> {
        self.tables
            .get(resource.index())?
            .objects
            .get_key_value(key)
    }

    pub fn all(&self, resource: Resource) -> impl Iterator<Item = (&Key, &Object)> {
        self.tables
            .get(resource.index())
            .into_iter()
            .flat_map(|t| t.objects.iter())
    }

    /// The objects of one namespace, or all of them if it is empty.
    pub fn within<'a>(
        &'a self,
        resource: Resource,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Object)> {
        self.all(resource)
            .filter(move |(key, _)| in_namespace(key, namespace))
    }

    pub fn count(&self, resource: Resource) -> usize {
        self.tables
            .get(resource.index())
            .map_or(0, |t| t.objects.len())
    }

    /// Stores a new or changed object under the next revision.
    pub fn put(
        &mut self,
        at: SimTime,
        origin: Origin,
        resource: Resource,
        key: Key,
        mut value: Value,
    ) -> Object {
        self.revision += 1;
        set(
            &mut value,
            "metadata.resourceVersion",
            self.revision.to_string(),
        );
        let object: Object = Arc::new(value);
        let previous = self.tables[resource.index()]
            .objects
            .insert(key.clone(), object.clone());
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        self.record(Entry {
            revision: self.revision,
            at,
            origin,
            resource,
            key,
            change,
            object: object.clone(),
            previous,
        });
        object
    }

    /// Removes an object under the next revision; returns its last state.
    pub fn remove(
        &mut self,
        at: SimTime,
        origin: Origin,
        resource: Resource,
        key: &str,
    ) -> Option<Object> {
        let (key, previous) = self.tables[resource.index()].objects.remove_entry(key)?;
        self.revision += 1;
        let object = at_revision(&previous, self.revision);
        self.record(Entry {
            revision: self.revision,
            at,
            origin,
            resource,
            key,
            change: Change::Deleted,
            object: object.clone(),
            previous: Some(previous),
        });
        Some(object)
    }

    fn record(&mut self, entry: Entry) {
        let index = u32::try_from(self.journal.len()).unwrap_or(u32::MAX);
        self.tables[entry.resource.index()].events.push(index);
        self.journal.push(entry);
    }

    /// The writes to a resource from position `from` on, with their positions.
    pub fn events(
        &self,
        resource: Resource,
        from: usize,
    ) -> impl DoubleEndedIterator<Item = (usize, &Entry)> {
        let events = self
            .tables
            .get(resource.index())
            .map_or(&[][..], |t| &t.events);
        let from = from.min(events.len());
        events[from..]
            .iter()
            .enumerate()
            .map(move |(i, e)| (from + i, &self.journal[*e as usize]))
    }

    pub fn event_count(&self, resource: Resource) -> usize {
        self.tables
            .get(resource.index())
            .map_or(0, |t| t.events.len())
    }

    /// The position of the first write to a resource after a revision.
    pub fn position_after(&self, resource: Resource, revision: u64) -> usize {
        let Some(table) = self.tables.get(resource.index()) else {
            return 0;
        };
        table
            .events
            .partition_point(|e| self.journal[*e as usize].revision <= revision)
    }

    /// Whether a revision created the object that it wrote.
    pub fn created_at(&self, resource: Resource, revision: u64) -> bool {
        let before = self.position_after(resource, revision.saturating_sub(1));
        let entry = self.events(resource, before).next().map(|(_, e)| e);
        entry.is_some_and(|e| e.revision == revision && e.change == Change::Added)
    }

    pub fn oldest(&self, resource: Resource) -> u64 {
        self.tables.get(resource.index()).map_or(0, |t| t.oldest)
    }

    /// Forgets history up to now, so that older watches and lists expire.
    pub fn compact(&mut self, resource: Resource) {
        let revision = self.revision;
        if let Some(table) = self.tables.get_mut(resource.index()) {
            table.oldest = revision;
        }
    }

    /// The objects of a resource as they were at a revision.
    pub fn state_at(&self, resource: Resource, revision: u64) -> BTreeMap<Key, Object> {
        let mut objects = self
            .tables
            .get(resource.index())
            .map(|t| t.objects.clone())
            .unwrap_or_default();
        let from = self.position_after(resource, revision);
        for (_, entry) in self.events(resource, from).rev() {
            match &entry.previous {
                Some(previous) => objects.insert(entry.key.clone(), previous.clone()),
                None => objects.remove(&entry.key),
            };
        }
        objects
    }
}

/// Whether a key lies in a namespace; every key lies in the empty one.
pub(crate) fn in_namespace(key: &str, namespace: &str) -> bool {
    namespace.is_empty()
        || key
            .strip_prefix(namespace)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// The same object under another resourceVersion.
pub(crate) fn at_revision(object: &Object, revision: u64) -> Object {
    let mut value = (**object).clone();
    set(&mut value, "metadata.resourceVersion", revision.to_string());
    Arc::new(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn origin() -> Origin {
        Origin {
            client: Arc::from("test"),
            verb: Verb::Create,
            subresource: None,
            uid_given: false,
            version_given: false,
        }
    }

    #[test]
    fn past_states_can_be_rebuilt_from_the_journal() {
        let mut store = Store::new();
        let r = Resource::ConfigMaps;
        let put = |store: &mut Store, n: &str, x: i64| {
            store.put(
                SimTime::START,
                origin(),
                r,
                key("ns", n),
                json!({"metadata": {"name": n}, "x": x}),
            );
            store.revision()
        };
        let one = put(&mut store, "a", 1);
        let two = put(&mut store, "b", 1);
        put(&mut store, "a", 2);
        store.remove(SimTime::START, origin(), r, "ns/b").unwrap();

        let names = |rv| {
            store
                .state_at(r, rv)
                .keys()
                .map(|k| k.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(one), ["ns/a"]);
        assert_eq!(names(two), ["ns/a", "ns/b"]);
        assert_eq!(store.state_at(r, two)["ns/a"]["x"], 1);
        assert_eq!(names(store.revision()), ["ns/a"]);
    }
}
