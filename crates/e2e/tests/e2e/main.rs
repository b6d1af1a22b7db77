//! Everything that needs real nodes, in one program: so the stage knows who else is on it.

mod etcd;
mod faults;
mod members;
mod others;
mod postgres;
mod testbed;
mod zones;
