//! Pages of the documentation that are made from the code, so that they cannot be out of date.

mod api;
mod cli;
pub mod guarantees;
mod reasons;

use clap::ValueEnum;

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Page {
    /// What can be typed.
    Cli,
    /// What can be written in an Ensemble.
    Api,
    /// Why a step does not move.
    Reasons,
    /// What the exit code says.
    ExitCodes,
    /// What is promised.
    Guarantees,
}

impl Page {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Cli,
        Self::Api,
        Self::Reasons,
        Self::ExitCodes,
        Self::Guarantees,
    ];

    /// Its file under `docs/reference`.
    pub fn file(self) -> &'static str {
        match self {
            Self::Cli => "cli.md",
            Self::Api => "api.md",
            Self::Reasons => "reasons.md",
            Self::ExitCodes => "exit-codes.md",
            Self::Guarantees => "../guarantees.md",
        }
    }
}

/// The page in Markdown.
pub fn page(page: Page) -> String {
    match page {
        Page::Cli => cli::markdown(),
        Page::Api => api::markdown(),
        Page::Guarantees => guarantees::markdown(),
        Page::Reasons => reasons::markdown(),
        Page::ExitCodes => crate::exit::markdown(),
    }
}
