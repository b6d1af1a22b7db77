//! Which ordinals of one group are to be. Groups do not know of each other here.

use super::{GroupIx, MemberId};

/// What is asked for in one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupWish {
    /// How many members run.
    pub replicas: u32,
}

/// Members of a group that are asked for, in order.
pub fn wanted_of(group: GroupIx, wish: &GroupWish) -> Vec<MemberId> {
    let ordinals = 0..wish.replicas;
    ordinals
        .map(|ordinal| MemberId { group, ordinal })
        .collect()
}
