//! What a simulated container does is said by its image: by the last part of its name or its tag.

use std::time::Duration;

/// How a container with a given image behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Starts, becomes ready at once, ends at once when asked to.
    Normal,
    /// `missing`: cannot be pulled.
    Missing,
    /// `crash`: ends with exit code 1 right after every start.
    Crash,
    /// `complete`: ends with exit code 0 right after its start.
    Complete,
    /// `notready`: runs but never becomes ready.
    NotReady,
    /// `stuck`: ignores the request to end until its grace period is over.
    Stuck,
    /// `slow-5`: becomes ready five seconds after its start.
    Slow(Duration),
}

impl Behaviour {
    /// What an image asks for: `fake/crash`, `fake/crash:2` and `app:crash` all crash.
    pub fn of(image: &str) -> Behaviour {
        let last = image.rsplit('/').next().unwrap_or(image);
        let last = last.split('@').next().unwrap_or(last);
        let (name, tag) = last.split_once(':').unwrap_or((last, ""));
        [name, tag]
            .into_iter()
            .find_map(Behaviour::of_word)
            .unwrap_or(Behaviour::Normal)
    }

    fn of_word(word: &str) -> Option<Behaviour> {
        match word {
            "missing" => Some(Behaviour::Missing),
            "crash" => Some(Behaviour::Crash),
            "complete" => Some(Behaviour::Complete),
            "notready" => Some(Behaviour::NotReady),
            "stuck" => Some(Behaviour::Stuck),
            _ => {
                let seconds = word.strip_prefix("slow-")?.parse().ok()?;
                Some(Behaviour::Slow(Duration::from_secs(seconds)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_or_the_tag_of_an_image_decides_what_it_does() {
        assert_eq!(Behaviour::of("fake/crash"), Behaviour::Crash);
        assert_eq!(
            Behaviour::of("registry.example:5000/app:missing"),
            Behaviour::Missing
        );
        assert_eq!(
            Behaviour::of("app:slow-5"),
            Behaviour::Slow(Duration::from_secs(5))
        );
        assert_eq!(
            Behaviour::of("registry.example/postgres:16"),
            Behaviour::Normal
        );
    }
}
