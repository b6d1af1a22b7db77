//! Acknowledged data is never gone.

use super::broken;
use crate::invariants::Broken;
use crate::patroni::Patroni;

/// Some volume holds each acknowledged write, whoever leads. What an engine gives up at a change of
/// leader that is none of our doing is no longer counted as acknowledged.
pub(super) fn is_there(model: &Patroni) -> Result<(), Broken> {
    let gone = model.gone();
    if gone == 0 {
        return Ok(());
    }
    let seen = format!(
        "{gone} acknowledged writes are nowhere; {}",
        model.describe()
    );
    broken("acknowledged-data-gone", seen)
}
