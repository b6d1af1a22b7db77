//! The random comparison, of simkube with itself: it must be able to tell.

use serde_json::Value;
use simkube::probes::Api;
use simkube::{Cluster, Request, Resource, Response, Status, WatchEvent, WatchOptions, fidelity};

#[test]
fn two_simkubes_with_different_seeds_and_pasts_give_the_same_answers() {
    for seed in 0..20 {
        let mut other = Cluster::new(99);
        other.add_namespace("some-past");
        let same = fidelity::compare(&mut Cluster::new(1), &mut other, seed, 300);
        assert!(same.is_ok(), "{}", same.unwrap_err());
    }
}

/// A server that forgets preconditions.
struct Careless(Cluster);

impl Api for Careless {
    fn call(&mut self, request: &Request) -> Result<Response, Status> {
        let mut request = request.clone();
        request.params.uid = None;
        self.0.call(&request)
    }
    fn register_crd(&mut self, definition: &Value) -> Result<Resource, Status> {
        self.0.register_crd(definition)
    }
    fn watch(&mut self, r: Resource, o: &WatchOptions) -> Result<Vec<WatchEvent>, Status> {
        Api::watch(&mut self.0, r, o)
    }
    fn compact(&mut self, resource: Resource) -> bool {
        Api::compact(&mut self.0, resource)
    }
    fn wait_a_second(&mut self) {
        self.0.wait_a_second();
    }
}

#[test]
fn a_server_that_forgets_preconditions_is_found_out() {
    let found = (0..20).any(|seed| {
        let mut careless = Careless(Cluster::new(1));
        fidelity::compare(&mut Cluster::new(1), &mut careless, seed, 300).is_err()
    });
    assert!(found);
}
