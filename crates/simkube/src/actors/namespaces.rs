//! Namespaces.

use crate::cluster::Cluster;
use crate::store::Key;

impl Cluster {
    pub(crate) fn sync_namespace(&mut self, _namespace: &Key) {}
}
