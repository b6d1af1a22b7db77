use ensemble_conductor::{ApiCall, Kind, Verb};

fn main() {
    let _ = ApiCall::new(Verb::Delete, Kind::Claim, "shop", "data-orders-0", Default::default());
}
