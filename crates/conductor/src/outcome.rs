//! What the API server's answers mean.

use crate::call::ApiError;
use ensemble_api::Reason;
use ensemble_planner::Time;
use ensemble_planner::memory::Failure;

/// The reason behind a refusal, by its code and words.
pub fn classify(error: &ApiError) -> Reason {
    let message = error.message.as_str();
    match error.code {
        403 if message.contains("exceeded quota") || message.contains("limitrange") => {
            Reason::QuotaExceeded
        }
        403 if message.contains("failed quota") || message.contains("maximum") => {
            Reason::QuotaExceeded
        }
        403 if message.contains("serviceaccount") && message.contains("not found") => {
            Reason::ServiceAccountMissing
        }
        // Words of the authoriser: `User "x" cannot create resource "pods"`.
        401 | 403 if message.contains("cannot ") && message.contains("resource") => {
            Reason::ApiRefused
        }
        409 if error.reason == "AlreadyExists" => Reason::NameTaken,
        409 => Reason::Conflict,
        429 if message.contains("disruption budget") => Reason::EvictionRefused,
        408 | 429 | 500..=599 => Reason::ApiFailing,
        _ => Reason::CreateRefused,
    }
}

/// How long until the next try: a second, doubled up to a minute.
pub fn pause_ms(tries: u32) -> i64 {
    1000_i64 << tries.saturating_sub(1).min(6)
}

/// Somebody else was faster: long enough for the watch to bring what they wrote. A watch that does not is
/// given more time at each try.
fn conflict_pause_ms(tries: u32) -> i64 {
    250_i64 << tries.saturating_sub(1).min(5)
}

/// One more failure after those before.
pub fn failure(before: Option<&Failure>, reason: Reason, message: String, now: Time) -> Failure {
    let tries = before.map_or(1, |f| f.tries + 1);
    let since = before
        .filter(|f| f.reason == reason)
        .map_or(now, |f| f.since);
    let pause = match reason {
        Reason::Conflict => conflict_pause_ms(tries),
        _ => pause_ms(tries).min(60_000),
    };
    Failure {
        reason,
        message,
        since,
        tries,
        retry_at: now.plus_ms(pause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16, reason: &str, message: &str) -> ApiError {
        ApiError {
            code,
            reason: reason.into(),
            message: message.into(),
        }
    }

    #[test]
    fn refusals_are_told_apart_by_what_helps_against_them() {
        let quota = "pods \"x-0\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
        let account = "pods \"x-0\" is forbidden: error looking up service account a/b: serviceaccount \"b\" not found";
        let rights = "pods is forbidden: User \"system:serviceaccount:a:b\" cannot create resource \"pods\" in API group \"\"";
        let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
        let cases = [
            (error(403, "Forbidden", quota), Reason::QuotaExceeded),
            (
                error(403, "Forbidden", account),
                Reason::ServiceAccountMissing,
            ),
            (error(403, "Forbidden", rights), Reason::ApiRefused),
            (
                error(429, "TooManyRequests", budget),
                Reason::EvictionRefused,
            ),
            (
                error(429, "TooManyRequests", "slow down"),
                Reason::ApiFailing,
            ),
            (error(409, "AlreadyExists", ""), Reason::NameTaken),
            (error(409, "Conflict", ""), Reason::Conflict),
            (error(422, "Invalid", "spec.x: no"), Reason::CreateRefused),
            (error(503, "", ""), Reason::ApiFailing),
        ];
        for (error, reason) in cases {
            assert_eq!(classify(&error), reason, "{error:?}");
        }
    }

    /// The pauses after so many failures in a row.
    fn pauses_ms(reason: Reason, tries: u32) -> Vec<i64> {
        let mut last = None;
        let mut now = Time(0);
        let mut pauses = Vec::new();
        for _ in 0..tries {
            let next = failure(last.as_ref(), reason, String::new(), now);
            pauses.push(next.retry_at.0 - now.0);
            now = next.retry_at;
            last = Some(next);
        }
        pauses
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let seconds = pauses_ms(Reason::ApiFailing, 9);
        let seconds: Vec<i64> = seconds.iter().map(|ms| ms / 1000).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn conflict_after_conflict_is_given_more_time_up_to_eight_seconds() {
        let pauses = pauses_ms(Reason::Conflict, 8);
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
    }
}
