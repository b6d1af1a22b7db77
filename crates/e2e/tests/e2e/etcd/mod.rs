//! etcd on real nodes, with a client that writes all the time. The sample is taken as it stands.

mod upgrade;
