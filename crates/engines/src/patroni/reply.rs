//! What Patroni's answers to our requests mean.
//!
//! `Refused` is said only where nothing was done. Where Patroni itself does not know, or a write of
//! its own may have gone through unseen, nobody knows.

use crate::wire::Answer;
use ensemble_planner::engine::Reply;
use std::borrow::Cow;

/// The longest text that is passed on.
const LONGEST: usize = 300;

/// `200` also when somebody else than the candidate took the lead.
pub(super) fn to_switchover(answer: &Answer) -> Reply {
    let words = words(answer);
    match answer.status.as_u16() {
        503 if words.starts_with("Switchover failed") => Reply::Refused(words),
        _ => to_any(answer, words),
    }
}

/// `409` is a lost race or a store that did not answer, and no word about the values.
pub(super) fn to_parameters(answer: &Answer) -> Reply {
    match answer.status.as_u16() {
        // The answer is the whole configuration, in which there may be passwords.
        200 => Reply::Taken("stored".into()),
        409 => Reply::Unknown(words(answer)),
        503 => Reply::Refused("Patroni has no configuration in its store yet".into()),
        _ => to_any(answer, words(answer)),
    }
}

/// As for parameters; nothing was to be stored.
pub(super) fn to_nudge(answer: &Answer) -> Reply {
    match to_parameters(answer) {
        Reply::Taken(_) => Reply::Taken("woken".into()),
        other => other,
    }
}

/// `503` says that PostgreSQL did not come up in those two words alone. All others say nothing about its
/// configuration: it is slow to come up, something is in progress already (a restart that we have lost
/// sight of among it), or it does not wait for a restart any more. What is true is seen by looking.
pub(super) fn to_restart(answer: &Answer) -> Reply {
    let words = words(answer);
    match answer.status.as_u16() {
        200 | 202 => Reply::Taken(words),
        401 | 403 => Reply::Unauthorised(words),
        503 if words.starts_with("restart failed") => Reply::Refused(words),
        _ => Reply::Unknown(words),
    }
}

fn to_any(answer: &Answer, words: String) -> Reply {
    match answer.status.as_u16() {
        200 | 202 => Reply::Taken(words),
        401 | 403 => Reply::Unauthorised(words),
        // 501: it does not know such a request.
        400..=499 | 501 => Reply::Refused(words),
        _ => Reply::Unknown(words),
    }
}

/// Its own words on one line, or the status where there are none but a page for browsers.
pub(super) fn words(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.body);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.as_str() {
        "" => answer.status.to_string(),
        page if page.starts_with('<') => answer.status.to_string(),
        _ => shortened(&line).into_owned(),
    }
}

fn shortened(line: &str) -> Cow<'_, str> {
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &line[..end]).into(),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::StatusCode;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            body: Bytes::from(body.to_owned()),
        }
    }

    fn judged(judge: fn(&Answer) -> Reply, status: u16, body: &str) -> (&'static str, String) {
        match judge(&answer(status, body)) {
            Reply::Taken(words) => ("taken", words),
            Reply::Refused(words) => ("refused", words),
            Reply::Unauthorised(words) => ("unauthorised", words),
            Reply::Unknown(words) => ("unknown", words),
        }
    }

    #[test]
    fn answers_to_a_switchover_are_understood() {
        for (status, body, expected) in [
            (200, "Successfully switched over to \"pg-1\"", "taken"),
            (
                200,
                "Switched over to \"pg-2\" instead of \"pg-1\"",
                "taken",
            ),
            (202, "Switchover scheduled", "taken"),
            (400, "Switchover target and source are the same", "refused"),
            (401, "no auth header received", "unauthorised"),
            (403, "Access is denied", "unauthorised"),
            (412, "leader name does not match", "refused"),
            (412, "candidate does not exists", "refused"),
            (
                412,
                "candidate name does not match with sync_standby",
                "refused",
            ),
            (503, "Switchover failed", "refused"),
            (503, "Switchover status unknown", "unknown"),
            (503, "failed to write failover key into DCS", "unknown"),
            (500, "oops", "unknown"),
            (302, "elsewhere", "unknown"),
        ] {
            let expected = (expected, body.to_owned());
            assert_eq!(
                judged(to_switchover, status, body),
                expected,
                "{status} {body}"
            );
        }
    }

    #[test]
    fn answers_to_a_restart_are_understood() {
        for (status, body, expected) in [
            (200, "restarted successfully", "taken"),
            (202, "Restart scheduled", "taken"),
            (503, "restart failed", "refused"),
            (503, "restart conditions are not satisfied", "unknown"),
            (503, "restart already in progress", "unknown"),
            (503, "reinitialize already in progress", "unknown"),
            (
                503,
                "restarting after failure already in progress",
                "unknown",
            ),
            (503, "postgres is still starting", "unknown"),
            (503, "no upstream", "unknown"),
            (400, "restart failed", "unknown"),
            (400, "Unknown filter for the scheduled restart", "unknown"),
            (409, "Another restart is already scheduled", "unknown"),
            (401, "not authenticated", "unauthorised"),
            (500, "restart failed", "unknown"),
        ] {
            let expected = (expected, body.to_owned());
            assert_eq!(
                judged(to_restart, status, body),
                expected,
                "{status} {body}"
            );
        }
    }

    #[test]
    fn answers_to_a_patch_are_understood_and_do_not_repeat_the_configuration() {
        for (status, body, expected, words) in [
            (200, "{\"password\": \"sesame\"}", "taken", "stored"),
            (400, "<!DOCTYPE HTML>", "refused", "400 Bad Request"),
            (
                401,
                "not authenticated",
                "unauthorised",
                "not authenticated",
            ),
            (409, "<!DOCTYPE HTML>", "unknown", "409 Conflict"),
            (501, "", "refused", "501 Not Implemented"),
            (502, "", "unknown", "502 Bad Gateway"),
        ] {
            let found = judged(to_parameters, status, body);
            assert_eq!(found, (expected, words.into()), "{status} {body}");
        }
        assert_eq!(judged(to_nudge, 200, "{}"), ("taken", "woken".into()));
        assert_eq!(judged(to_nudge, 503, "").0, "refused");
    }

    #[test]
    fn words_are_one_short_line() {
        assert_eq!(words(&answer(503, "so\n and  so\r\n")), "so and so");
        let long = words(&answer(503, &"ä".repeat(1000)));
        assert_eq!(long.chars().count(), LONGEST + 3);
    }
}
