//! Names of revisions, and sets of ordinals as text.

use ensemble_api::names::Ordinals;
use ensemble_planner::revision;
use ensemble_planner::roster::{MemberId, Roster};
use ensemble_planner::view::EnsembleView;
use proptest::prelude::*;
use serde_json::{Map, Value};

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..5)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn template() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[a-z]{1,3}", json(), 1..5).prop_map(|m| m.into_iter().collect())
}

/// The same content, with the keys of every object put in the other way round.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.clone(), reversed(v))).collect();
            entries.reverse();
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(reversed).collect(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_order_of_keys_makes_no_revision(template in template()) {
        let other = reversed(&Value::Object(template.clone()));
        let other = other.as_object().unwrap();
        prop_assert_eq!(revision::name("orders", &template), revision::name("orders", other));
    }

    #[test]
    fn any_other_content_makes_another_revision(a in template(), b in template()) {
        let same = revision::name("orders", &a) == revision::name("orders", &b);
        prop_assert_eq!(same, a == b);
    }

    #[test]
    fn canonical_text_reads_back_as_what_it_was(value in json()) {
        let read: Value = serde_json::from_str(&revision::canonical(&value)).unwrap();
        prop_assert_eq!(read, value);
    }

    #[test]
    fn a_revision_name_is_a_name_that_kubernetes_takes(template in template()) {
        let name = revision::name("orders", &template);
        prop_assert!(name.len() == "orders-".len() + 10);
        prop_assert!(name.bytes().all(|b| b.is_ascii_hexdigit() || b"orders-".contains(&b)));
    }

    #[test]
    fn ordinals_are_read_back_as_they_were_written(set in prop::collection::btree_set(0..200u32, 0..60)) {
        let ordinals = Ordinals(set);
        let (read, unreadable) = Ordinals::parse(&ordinals.to_string());
        prop_assert_eq!((read, unreadable), (ordinals, 0));
    }

    #[test]
    fn no_text_makes_ordinals_panic(text in "[0-9,x -]{0,20}") {
        let (ordinals, _) = Ordinals::parse(&text);
        prop_assert_eq!(Ordinals::parse(&ordinals.to_string()).1, 0);
    }

    #[test]
    fn a_member_name_gives_back_its_member(ensemble in "[a-z]([-a-z0-9]{0,10}[a-z0-9])?", ordinal: u32) {
        let mut view = EnsembleView::default();
        view.meta.pin.name = ensemble;
        let roster = Roster::of(&view);
        let member = MemberId { ordinal, ..MemberId::default() };
        prop_assert_eq!(roster.named(&roster.name(member)), Some(member));
    }
}
