//! Watches: cursors over the journal. A watch delivers when it is polled, so a
//! stale view is simply one that has not been polled, or only up to a revision.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::json;

use crate::resource::{Info, Resource};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Status;
use crate::store::{Change, Entry, Store, at_revision, in_namespace};
use crate::time::SimTime;
use crate::value::Object;

/// A standing watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub(crate) u32);

/// What a watch says about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It appeared, or began to match the selectors.
    Added,
    /// It changed.
    Modified,
    /// It is gone, or no longer matches the selectors.
    Deleted,
    /// Nothing happened up to this revision.
    Bookmark,
    /// The watch is over; the object is a Status.
    Error,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    /// What happened.
    pub kind: EventType,
    /// To what.
    pub object: Object,
}

/// How a watch begins and what it selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// One namespace; empty for all.
    pub namespace: String,
    /// `labelSelector`.
    pub label_selector: Option<String>,
    /// `fieldSelector`.
    pub field_selector: Option<String>,
    /// Events after this revision; `None` and 0 begin with every existing object.
    pub resource_version: Option<u64>,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
}

/// How long a quiet watch goes without a bookmark.
const BOOKMARK_EVERY_MS: u64 = 60_000;

#[derive(Clone, Debug)]
pub(crate) struct Watch {
    resource: Resource,
    namespace: String,
    labels: LabelSelector,
    fields: FieldSelector,
    bookmarks: bool,
    /// Synthetic events of the start, each with the revision it stands for.
    initial: VecDeque<WatchEvent>,
    cursor: usize,
    /// Events at or below this revision are skipped.
    floor: u64,
    last_sent: SimTime,
    expired: Option<u64>,
    closed: bool,
}

impl Watch {
    pub fn start(
        store: &Store,
        info: &Info,
        resource: Resource,
        options: &WatchOptions,
        selectors: (LabelSelector, FieldSelector),
        now: SimTime,
    ) -> Watch {
        let (labels, fields) = selectors;
        let mut watch = Watch {
            resource,
            namespace: options.namespace.clone(),
            labels,
            fields,
            bookmarks: options.bookmarks,
            initial: VecDeque::new(),
            cursor: store.event_count(resource),
            floor: 0,
            last_sent: now,
            expired: None,
            closed: false,
        };
        match options.resource_version.filter(|rv| *rv > 0) {
            None => watch.begin_with_everything(store, info),
            Some(rv) if rv < store.oldest(resource) => watch.expired = Some(rv),
            Some(rv) => {
                watch.cursor = store.position_after(resource, rv);
                watch.floor = rv;
            }
        }
        watch
    }

    fn begin_with_everything(&mut self, store: &Store, info: &Info) {
        let matching = store
            .within(self.resource, &self.namespace)
            .filter(|(_, o)| self.selects(o));
        self.initial = matching
            .map(|(_, object)| WatchEvent {
                kind: EventType::Added,
                object: object.clone(),
            })
            .collect();
        if self.bookmarks {
            self.initial
                .push_back(bookmark(info, store.revision(), true));
        }
    }

    fn selects(&self, object: &Object) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    pub fn resource(&self) -> Resource {
        self.resource
    }

    pub fn expire(&mut self, store: &Store) {
        self.expired = Some(
            self.floor
                .max(last_revision(store, self.resource, self.cursor)),
        );
    }

    pub fn close(&mut self) {
        self.closed = true;
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// How many writes have not been delivered yet, whether or not they match.
    pub fn behind(&self, store: &Store) -> usize {
        store.event_count(self.resource).saturating_sub(self.cursor)
    }

    pub fn poll(
        &mut self,
        store: &Store,
        info: &Info,
        until: u64,
        now: SimTime,
    ) -> Vec<WatchEvent> {
        if self.closed {
            return Vec::new();
        }
        if let Some(from) = self.expired {
            self.closed = true;
            return vec![too_old(from, store.oldest(self.resource))];
        }
        let mut out: Vec<WatchEvent> = self.initial.drain(..).collect();
        let mut cursor = self.cursor;
        for (position, entry) in store.events(self.resource, self.cursor) {
            if entry.revision > until {
                break;
            }
            cursor = position + 1;
            if entry.revision > self.floor && in_namespace(&entry.key, &self.namespace) {
                out.extend(self.event(entry));
            }
        }
        self.cursor = cursor;
        if !out.is_empty() {
            self.last_sent = now;
        } else if self.bookmarks && now.since_ms(self.last_sent) >= BOOKMARK_EVERY_MS {
            self.last_sent = now;
            let seen = last_revision(store, self.resource, cursor).max(self.floor);
            let caught_up = cursor == store.event_count(self.resource);
            let revision = if caught_up {
                store.revision().min(until).max(seen)
            } else {
                seen
            };
            out.push(bookmark(info, revision, false));
        }
        out
    }

    /// What a write means to this watch: an object that stops matching is
    /// reported as deleted, with its previous state and the new revision.
    fn event(&self, entry: &Entry) -> Option<WatchEvent> {
        let before = entry.previous.as_ref().is_some_and(|o| self.selects(o));
        let after = entry.change != Change::Deleted && self.selects(&entry.object);
        let kind = match (before, after) {
            (false, false) => return None,
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
        };
        let object = match (kind, entry.change, &entry.previous) {
            (EventType::Deleted, Change::Modified, Some(previous)) => {
                at_revision(previous, entry.revision)
            }
            _ => entry.object.clone(),
        };
        Some(WatchEvent { kind, object })
    }
}

fn last_revision(store: &Store, resource: Resource, cursor: usize) -> u64 {
    let before = cursor.checked_sub(1);
    before
        .and_then(|c| store.events(resource, c).next())
        .map_or(0, |(_, e)| e.revision)
}

fn bookmark(info: &Info, revision: u64, initial_end: bool) -> WatchEvent {
    let mut object = json!({
        "apiVersion": info.api_version(), "kind": &*info.kind,
        "metadata": {"resourceVersion": revision.to_string()},
    });
    if initial_end {
        object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    WatchEvent {
        kind: EventType::Bookmark,
        object: Arc::new(object),
    }
}

/// An expired watch is told so by an event, not by the HTTP code.
fn too_old(from: u64, oldest: u64) -> WatchEvent {
    let message = format!("too old resource version: {from} ({oldest})");
    let status = Status::new(410, "Expired", message);
    WatchEvent {
        kind: EventType::Error,
        object: Arc::new(status.to_value()),
    }
}
