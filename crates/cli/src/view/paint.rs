//! Colour, where it is wanted. A word is always there too: colour is never the only signal.

use crate::args::Color;
use std::io::IsTerminal;

/// Whether to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// No colour.
    pub const OFF: Self = Self { on: false };

    /// As the flag, NO_COLOR and the terminal say.
    pub fn choose(color: Color) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let on = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => std::io::stdout().is_terminal() && !no_color && !dumb,
        };
        Self { on }
    }

    /// A word for a state: green if all is well, red if somebody has to act, yellow between.
    pub fn state(self, word: &str) -> String {
        let code = match word.trim_end() {
            "Ready" | "Serving" => "32",
            "Stalled" | "Unreadable" | "Down" | "Unreachable" => "31",
            "" => return word.to_owned(),
            _ => "33",
        };
        self.wrap(code, word)
    }

    /// What matters most in a line.
    pub fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// What leads to it.
    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
