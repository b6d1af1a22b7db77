//! Only `safety` can make a Permit.

use ensemble_api::status::Method;
use ensemble_planner::view::Pinned;
use ensemble_planner::Permit;

fn pinned() -> Pinned {
    Pinned::default()
}

fn main() {
    let _ = Permit { member: "orders-0".into(), pod: pinned(), method: Method::Recreate, target: String::new() };
}
