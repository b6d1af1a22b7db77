//! Members that are taken out by their ordinals: `[1, "3-5"]`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// The highest ordinal that can be listed.
pub const HIGHEST: u32 = 9999;

/// One ordinal, or the first and the last of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    /// `1`
    One(i64),
    /// `"3-5"`, or `"3"`
    Range(String),
}

impl Entry {
    /// The ordinals; none if it cannot be read, which the API server refuses.
    pub fn range(&self) -> Option<RangeInclusive<u32>> {
        let (from, to) = match self {
            Self::One(one) => {
                let one = u32::try_from(*one).ok()?;
                (one, one)
            }
            Self::Range(text) => {
                let (from, to) = text.split_once('-').unwrap_or((text, text));
                (from.parse().ok()?, to.parse().ok()?)
            }
        };
        (from <= to && to <= HIGHEST).then_some(from..=to)
    }
}

impl JsonSchema for Entry {
    fn schema_name() -> Cow<'static, str> {
        "OfflineEntry".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// API servers before 1.35 take a text in an int-or-string for as long as a whole request, whatever
    /// `maxLength` says: the rule splits it once, or with a list of twelve it would cost too much.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An ordinal from 0 to 9999, or a range of them: \"3-5\".",
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "maximum": HIGHEST,
            "maxLength": 9,
            "pattern": "^[0-9]{1,4}(-[0-9]{1,4})?$",
            "x-kubernetes-validations": [{
                "rule": "type(self) == int || [self.split('-')].all(ends, size(ends) != 2 || int(ends[0]) <= int(ends[1]))",
                "message": "the range ends before it begins; write the lower ordinal first, for example \"3-5\"",
            }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_ordinal_and_a_range_are_read_and_nothing_else_is() {
        let read = |value| serde_json::from_value::<Entry>(value).unwrap().range();
        assert_eq!(read(json!(1)), Some(1..=1));
        assert_eq!(read(json!("3")), Some(3..=3));
        assert_eq!(read(json!("3-5")), Some(3..=5));
        for wrong in [
            json!(-1),
            json!(10_000),
            json!("5-3"),
            json!("x"),
            json!("1-"),
            json!("1-2-3"),
        ] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }
}
