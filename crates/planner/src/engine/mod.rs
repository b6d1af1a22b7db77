//! What engines say of members, who is who by it, and what engines are told.
//!
//! No engine's name and no engine's shape is known here. What a member says is an [`Answer`] in words
//! of its own; the engine's [`Judge`], which comes in with its abilities, makes one [`EngineView`] of
//! all that was heard; rules ask that view and nothing else. Unknown is not a follower.

mod act;
mod answer;
mod hearing;
mod view;

pub use act::{EngineAct, Tell};
pub use answer::{Answer, FRESH_MS, Reply, WhyUnknown, Words, is_no_news};
pub use hearing::{Heard, Hearing, Judge};
pub use view::{Cohort, Commits, Duty, EngineView, Lead, Quorum, Standing, Sync, word};
