//! Only `safety` can make a Warrant.

use ensemble_planner::safety::How;
use ensemble_planner::view::Pinned;
use ensemble_planner::Warrant;

fn pinned() -> Pinned {
    Pinned::default()
}

fn main() {
    let _ = Warrant { pod: pinned(), how: How::Delete, target: String::new() };
}
