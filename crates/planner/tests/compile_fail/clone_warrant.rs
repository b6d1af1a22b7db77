//! A Warrant is used once.

fn twice(consent: &ensemble_planner::Warrant) -> ensemble_planner::Warrant {
    consent.clone()
}

fn main() {}
