#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

use super::*;
use crate::world::{container, orders};
use ensemble_api::report::Action;
use serde_json::json;

fn with_image(tag: &str) -> Value {
    let mut ensemble = orders();
    ensemble["spec"]["template"]["spec"]["containers"] = json!([container(tag)]);
    ensemble
}

fn begun() -> Stage {
    let mut stage = Stage::blank("shop", "orders", 3, &["disk".into()]);
    stage.put(&with_image("1")).unwrap();
    stage.play(&[]);
    stage
}

fn forecast_of(given: &Given, ensemble: &Value) -> Forecast {
    let mut stage = Stage::like(given).unwrap();
    stage.put(ensemble).unwrap();
    stage.play(&[]);
    stage.forecast()
}

fn words(forecast: &Forecast) -> Vec<String> {
    let word = |s: &Stride| format!("{:?} {}", s.action, s.member.as_deref().unwrap_or("-"));
    forecast.steps.iter().map(word).collect()
}

#[test]
fn creating_is_told_step_by_step() {
    let forecast = begun().forecast();
    assert_eq!(forecast.end, End::Converged, "{forecast:?}");
    assert_eq!(forecast.created_pods, 3);
    assert_eq!(forecast.created_claims, 6);
    assert_eq!(forecast.broken, None);
    let expected = [
        "Check -",
        "Create orders-0",
        "Create orders-1",
        "Create orders-2",
    ];
    assert_eq!(words(&forecast), expected);
}

#[test]
fn a_forecast_from_a_real_state_tells_what_then_happens() {
    let mut real = begun();
    let forecast = forecast_of(&real.given(), &with_image("2"));
    real.put(&with_image("2")).unwrap();
    real.play(&[]);
    let truth = real.forecast();
    assert_eq!(words(&forecast), words(&truth));
    let expected = [
        "Check -",
        "Pull -",
        "Recreate orders-2",
        "Recreate orders-1",
        "Recreate orders-0",
    ];
    assert_eq!(words(&forecast), expected);
    assert_eq!(forecast.plan, truth.plan);
    assert_eq!(forecast.recreated_pods, 3);
    assert_eq!((forecast.created_pods, forecast.removed_pods), (0, 0));
    assert_eq!(forecast.lowest_tolerance, 0);
}

#[test]
fn more_cpu_is_foretold_to_restart_nothing() {
    let sized = |cpu: &str| {
        let mut ensemble = with_image("1");
        ensemble["spec"]["rollout"]["method"] = "InPlaceIfPossible".into();
        ensemble["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": cpu}});
        ensemble
    };
    let mut real = Stage::blank("shop", "orders", 3, &["disk".into()]);
    real.put(&sized("1")).unwrap();
    real.play(&[]);
    let forecast = forecast_of(&real.given(), &sized("2"));
    let expected = [
        "Check -",
        "Resize orders-2",
        "Resize orders-1",
        "Resize orders-0",
    ];
    assert_eq!(words(&forecast), expected);
    assert_eq!(forecast.end, End::Converged, "{forecast:?}");
    assert_eq!((forecast.restarts, forecast.recreated_pods), (0, 0));
    let causes = |s: &Stride| s.action != Action::Resize || s.cause.ends_with("nothing restarts");
    assert!(forecast.steps.iter().all(causes), "{:?}", forecast.steps);
}

#[test]
fn nothing_to_do_is_told_as_such() {
    let real = begun();
    let forecast = forecast_of(&real.given(), &with_image("1"));
    assert_eq!(forecast.end, End::Nothing, "{forecast:?}");
}

#[test]
fn what_is_broken_there_is_broken_here() {
    let mut real = begun();
    real.scene
        .world
        .cluster
        .config_mut()
        .images
        .set("db:9", simkube::config::Behaviour::crashing(1));
    real.put(&with_image("9")).unwrap();
    real.play(&[]);
    let given = real.given();
    let stuck = forecast_of(&given, &with_image("9"));
    assert_ne!(stuck.end, End::Converged, "{stuck:?}");
    assert!(stuck.blocked.is_some());
    let corrected = forecast_of(&given, &with_image("2"));
    assert_eq!(corrected.end, End::Converged, "{corrected:?}");
}

#[test]
fn without_the_right_to_read_nodes_and_volumes_there_is_still_a_forecast() {
    let real = begun();
    let mut given = real.given();
    given.nodes.clear();
    given.volumes.clear();
    given.classes.clear();
    let forecast = forecast_of(&given, &with_image("2"));
    assert_eq!(forecast.end, End::Converged, "{forecast:?}");
    assert_eq!(forecast.recreated_pods, 3);
}

#[test]
fn a_drain_on_the_way_breaks_no_rule_and_ends_well() {
    let mut stage = begun();
    stage.put(&with_image("2")).unwrap();
    stage.play(&[
        Trouble::drain("node-c"),
        "PodDeleted@orders-1".parse().unwrap(),
    ]);
    let forecast = stage.forecast();
    assert_eq!(forecast.end, End::Converged, "{forecast:?}");
    assert_eq!(forecast.broken, None);
    assert!(forecast.events.iter().any(|e| e.what == "node-c is empty"));
}

#[test]
fn a_spec_that_our_rules_refuse_is_refused_as_the_api_server_would() {
    let mut ensemble = orders();
    ensemble["spec"]["replicas"] = json!(-1);
    let mut stage = Stage::blank("shop", "orders", 3, &["disk".into()]);
    let refused = stage.put(&ensemble).unwrap_err();
    assert_eq!(refused.code, 422);
    assert!(
        refused.message.contains("spec.replicas"),
        "{}",
        refused.message
    );
}

#[test]
fn two_changes_at_once_are_foretold_as_they_then_happen() {
    let mut real = begun();
    let mut wanted = with_image("2");
    wanted["spec"]["replicas"] = json!(4);
    let forecast = forecast_of(&real.given(), &wanted);
    real.put(&wanted).unwrap();
    real.play(&[]);
    assert_eq!(words(&forecast), words(&real.forecast()));
    assert_eq!(forecast.end, End::Converged);
}
