//! Jobs.

use crate::cluster::Cluster;
use crate::store::Key;

impl Cluster {
    pub(crate) fn sync_job(&mut self, _job: &Key) {}
}
