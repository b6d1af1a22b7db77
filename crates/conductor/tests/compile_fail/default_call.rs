use ensemble_conductor::ApiCall;

fn main() {
    let _ = ApiCall::default();
}
