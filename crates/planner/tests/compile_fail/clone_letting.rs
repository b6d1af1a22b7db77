//! A Letting is used once.

fn twice(consent: &ensemble_planner::Letting) -> ensemble_planner::Letting {
    consent.clone()
}

fn main() {}
