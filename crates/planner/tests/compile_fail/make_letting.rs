//! Only `safety` can make a Letting.

use ensemble_planner::view::Pinned;
use ensemble_planner::Letting;

fn pinned() -> Pinned {
    Pinned::default()
}

fn main() {
    let _ = Letting { claim: pinned() };
}
