//! Whatever is answered, looking does not fail.

#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod fake;

use ensemble_engines::Access;
use ensemble_engines::patroni::{Patroni, Role};
use fake::{Fake, Says, says};
use proptest::prelude::*;

fn any_json() -> impl Strategy<Value = String> {
    let words = "(role|state|running|master|replica|members|name|pg-0|leader|timeline|lag)";
    let leaf = prop_oneof![
        Just("null".to_string()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        words.prop_map(|s| format!("{s:?}")),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        let entry = (words, inner.clone()).prop_map(|(k, v)| format!("{k:?}:{v}"));
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec(entry, 0..6).prop_map(|v| format!("{{{}}}", v.join(","))),
        ]
    })
}

fn any_answer() -> impl Strategy<Value = Says> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64).prop_map(Says::Bytes),
        (
            prop::sample::select(vec![200, 200, 200, 404, 503]),
            any_json()
        )
            .prop_map(|(status, body)| says(status, &body)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn nonsense_never_leads(status in any_answer(), cluster in any_answer()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said = runtime.block_on(async {
            let fake = Fake::start(&[("GET /health", status), ("GET /cluster", cluster)]).await;
            let patroni = Patroni::new(&Access::default()).unwrap();
            patroni.look(&fake.target("pg-0")).await
        });
        prop_assert_ne!(said.role, Role::Leader);
    }
}
