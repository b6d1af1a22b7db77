//! Node lifecycle.

use crate::cluster::Cluster;
use crate::store::Key;

impl Cluster {
    pub(crate) fn sync_node(&mut self, _node: &Key) {}
    pub(crate) fn sync_taints(&mut self, _pod: &Key) {}
    pub(crate) fn sync_pod_gc(&mut self, _pod: &Key) {}
}
