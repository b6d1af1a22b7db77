use ensemble_conductor::{ApiCall, Kind, Verb};

fn main() {
    let _ = ApiCall {
        verb: Verb::Delete,
        kind: Kind::Claim,
        namespace: String::new(),
        name: String::new(),
        body: Default::default(),
    };
}
