//! A value that cannot be, as it is told to people.

/// A field whose value cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    /// The field in an Ensemble.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// What to write instead.
    pub right: String,
}

impl std::fmt::Display for WrongValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; {}", self.field, self.what, self.right)
    }
}
