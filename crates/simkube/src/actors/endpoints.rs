//! Endpoint slices: which pods a service leads to.

use crate::cluster::Cluster;
use crate::store::Key;

impl Cluster {
    pub(crate) fn sync_endpoints(&mut self, _service: &Key) {}
}
