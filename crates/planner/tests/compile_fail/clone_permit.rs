//! A Permit is used once.

fn twice(consent: &ensemble_planner::Permit) -> ensemble_planner::Permit {
    consent.clone()
}

fn main() {}
