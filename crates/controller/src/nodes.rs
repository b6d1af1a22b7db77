//! What is known of nodes, and whether there is something new to tell.
//!
//! A kubelet reports its node's health again and again; only what changes what we see is passed on,
//! and of several changes that come together, the sum.

use crate::stage::{News, text};
use ensemble_conductor::Nodes;
use ensemble_planner::view::{NodeView, View};
use serde_json::Value;
use std::sync::Arc;

/// All nodes.
#[derive(Default)]
pub struct NodeBook {
    /// None: they cannot be read, or were not listed yet.
    views: Option<Arc<Nodes>>,
    changed: bool,
}

fn name(node: &Value) -> String {
    text(node, "/metadata/name").to_owned()
}

/// One that cannot be read is not Ready.
fn read(node: &Value) -> NodeView {
    NodeView::read(node).unwrap_or_default()
}

impl NodeBook {
    pub fn take(&mut self, news: News) {
        match news {
            News::Applied(node) => {
                let (name, view) = (name(&node), read(&node));
                self.change(
                    |nodes| nodes.get(&name) != Some(&view),
                    |nodes| {
                        nodes.insert(name.clone(), view.clone());
                    },
                );
            }
            News::Deleted(node) => {
                let name = name(&node);
                self.change(
                    |nodes| nodes.contains_key(&name),
                    |nodes| {
                        nodes.remove(&name);
                    },
                );
            }
            News::Listed(nodes, _) => {
                let views = nodes.iter().map(|o| (name(o), read(o)));
                let views: Nodes = views.collect();
                if self.views.as_deref() != Some(&views) {
                    self.views = Some(Arc::new(views));
                    self.changed = true;
                }
            }
        }
    }

    /// Changes the nodes that were listed, if that makes a difference.
    fn change(&mut self, differs: impl Fn(&Nodes) -> bool, change: impl Fn(&mut Nodes)) {
        // What comes while nodes may not be read, or before the first list, is in the next list.
        if let Some(views) = self.views.as_mut().filter(|views| differs(views)) {
            change(Arc::make_mut(views));
            self.changed = true;
        }
    }

    /// Nodes may not be read.
    pub fn forbidden(&mut self) {
        self.changed |= self.views.take().is_some();
    }

    /// As they are known now; None if they cannot be read.
    pub fn views(&self) -> Option<Arc<Nodes>> {
        self.views.clone()
    }

    /// The same, if it is not what was told before.
    pub fn news(&mut self) -> Option<Option<Arc<Nodes>>> {
        std::mem::take(&mut self.changed).then(|| self.views())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_conductor::Time;
    use serde_json::json;

    fn node(name: &str, ready: bool) -> Arc<Value> {
        let status = if ready { "True" } else { "False" };
        Arc::new(json!({
            "metadata": {"name": name},
            "status": {"conditions": [
                {"type": "Ready", "status": status, "lastHeartbeatTime": "now"},
            ]},
        }))
    }

    fn listed(nodes: Vec<Arc<Value>>) -> News {
        News::Listed(nodes, Time(0))
    }

    fn book(nodes: Vec<Arc<Value>>) -> NodeBook {
        let mut book = NodeBook::default();
        book.take(listed(nodes));
        assert!(book.news().is_some());
        book
    }

    /// Who is told to be Ready, if there is something to tell.
    fn ready(book: &mut NodeBook) -> Option<Vec<String>> {
        let nodes = book.news()??;
        let ready = nodes.iter().filter(|(_, view)| view.ready);
        Some(ready.map(|(name, _)| name.clone()).collect())
    }

    #[test]
    fn a_heartbeat_is_no_news() {
        let mut book = book(vec![node("a", true)]);
        let mut beat = (*node("a", true)).clone();
        beat["status"]["conditions"][0]["lastHeartbeatTime"] = "later".into();
        book.take(News::Applied(beat.into()));
        assert_eq!(book.news(), None);
        book.take(listed(vec![node("a", true)]));
        assert_eq!(book.news(), None);
        book.take(News::Deleted(node("nobody", true)));
        assert_eq!(book.news(), None);
    }

    #[test]
    fn changes_that_come_together_are_told_together_and_once() {
        let mut book = book(vec![node("a", true), node("b", true)]);
        book.take(News::Applied(node("a", false)));
        book.take(News::Applied(node("c", true)));
        book.take(News::Deleted(node("b", true)));
        assert_eq!(ready(&mut book), Some(vec!["c".to_owned()]));
        assert_eq!(book.news(), None);
    }

    #[test]
    fn what_was_told_before_is_not_changed_under_anybodys_hands() {
        let mut book = book(vec![node("a", true)]);
        let before = book.views().unwrap();
        book.take(News::Applied(node("a", false)));
        assert!(before["a"].ready && !book.views().unwrap()["a"].ready);
    }

    #[test]
    fn a_right_that_is_taken_away_and_given_back_is_told_both_times() {
        let mut book = book(vec![node("a", true)]);
        book.forbidden();
        assert_eq!(book.news(), Some(None));
        book.forbidden();
        assert_eq!(book.news(), None);
        // The same nodes as before, but nobody has them any more.
        book.take(listed(vec![node("a", true)]));
        assert_eq!(ready(&mut book), Some(vec!["a".to_owned()]));
    }

    #[test]
    fn nothing_is_made_up_before_the_first_list() {
        let mut book = NodeBook::default();
        book.take(News::Applied(node("a", true)));
        assert!(book.news().is_none() && book.views().is_none());
    }
}
