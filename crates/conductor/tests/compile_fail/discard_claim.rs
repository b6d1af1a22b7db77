use ensemble_conductor::{ApiCall, Kind};

fn main() {
    let _ = ApiCall::discard(Kind::Claim, "shop", &Default::default());
}
