//! What a running pod can be given, what it takes, and what its kubelet says of it.

use crate::common::*;
use ensemble_api::report::Action;
use ensemble_api::{Step, labels};
use ensemble_engines::patroni::Sighting;
use ensemble_planner::engine::WhyUnknown;
use ensemble_planner::memory::{Check, Refused};
use ensemble_planner::method::{InPlace, in_place};
use ensemble_planner::{Plan, Time, render, revision};
use serde_json::{Map, Value, json};

type Edit = fn(&mut Value);

fn base() -> Value {
    json!({
        "metadata": {"labels": {"app": "shop", "tier": "silver"}, "annotations": {"note": "a"}},
        "spec": {
            "initContainers": [{"name": "prepare", "image": "prepare:1"}],
            "containers": [
                {"name": "app", "image": "app:1",
                 "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                 "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]},
                {"name": "exporter", "image": "exporter:1",
                 "env": [{"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}}],
                 "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "256Mi"}}},
            ],
        },
    })
}

fn edited(edit: Edit) -> Value {
    let mut template = base();
    edit(&mut template);
    template
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn name_of(template: &Value) -> String {
    revision::name("orders", &map(template))
}

/// Three members at the first template, orders-0 leads, and the second is asked for, tried and
/// pulled.
fn changed(from: &Value, to: &Value) -> World {
    let mut world = World::led(3, 0);
    for (template, number) in [(from, 2), (to, 3)] {
        let name = name_of(template);
        let mut body = render::revision(&world.snapshot(), &name, number);
        body["data"]["template"] = template.clone();
        body["metadata"]["uid"] = format!("rev-{number}").into();
        world.revisions.insert(name.clone(), body);
        let passed = Check::Passed(number.to_string());
        world.memory.checks.insert(name.clone(), passed);
        for node in ["n0", "n1", "n2"] {
            world.memory.pulled.insert((name.clone(), node.into()));
        }
    }
    for ordinal in 0..3 {
        bring(&mut world, ordinal, from);
    }
    world.ensemble["spec"]["template"] = to.clone();
    world.ensemble["metadata"]["generation"] = 2.into();
    world.reached(&name_of(from));
    world
}

/// A member has a template, by its spec and by its kubelet.
fn bring(world: &mut World, ordinal: u32, template: &Value) -> Value {
    let revision = json!({"controller-revision-hash": name_of(template)});
    let pod = world.pods.get_mut(&format!("orders-{ordinal}")).unwrap();
    pod["spec"]["containers"] = template["spec"]["containers"].clone();
    pod["status"]["containerStatuses"][0]["resources"] =
        template["spec"]["containers"][0]["resources"].clone();
    let resources = &template["spec"]["containers"][1]["resources"];
    let exporter = json!({"name": "exporter", "restartCount": 0, "containerID": "run-1",
                          "resources": resources, "state": {"running": {}}});
    let statuses = pod["status"]["containerStatuses"].as_array_mut().unwrap();
    statuses.truncate(1);
    statuses.push(exporter);
    world.pod(ordinal, &json!({"metadata": {"labels": revision}}));
    world.pods[&format!("orders-{ordinal}")].clone()
}

/// What is written next to a pod so that it gets the second template.
fn next_write(world: &World, ordinal: u32, from: &Value, to: &Value) -> InPlace {
    let pod = &world.pods[&format!("orders-{ordinal}")];
    let images = world.memory.images(&name_of(to));
    in_place(pod, &name_of(to), 3, &map(from), &map(to), images).unwrap()
}

/// Both writes are done to a member, and its kubelet has not looked yet.
fn sent(world: &mut World, ordinal: u32, from: &Value, to: &Value) {
    for _ in 0..2 {
        sent_next(world, ordinal, from, to);
    }
}

/// One of them is.
fn sent_next(world: &mut World, ordinal: u32, from: &Value, to: &Value) {
    let next = next_write(world, ordinal, from, to);
    let (InPlace::Pod(mut pod) | InPlace::Resize(mut pod)) = next;
    pod["metadata"]["generation"] = 2.into();
    world.pods.insert(format!("orders-{ordinal}"), pod);
}

/// Its kubelet has looked, and says that.
fn says(world: &mut World, ordinal: u32, condition: &Value) {
    let pod = world.pods.get_mut(&format!("orders-{ordinal}")).unwrap();
    pod["status"]["observedGeneration"] = 2.into();
    let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(condition.clone());
}

/// Its kubelet has given what is asked for.
fn given(world: &mut World, ordinal: u32) {
    let pod = world.pods.get_mut(&format!("orders-{ordinal}")).unwrap();
    pod["status"]["observedGeneration"] = 2.into();
    for at in 0..2 {
        pod["status"]["containerStatuses"][at]["resources"] =
            pod["spec"]["containers"][at]["resources"].clone();
    }
}

fn step(plan: &Plan, member: &str) -> Step {
    let mut steps = plan.report.steps.iter();
    let found = steps.find(|s| s.member.as_deref() == Some(member) && s.action != Action::Start);
    found
        .cloned()
        .unwrap_or_else(|| panic!("{:?}", plan.report))
}

fn blocked(plan: &Plan) -> String {
    let blocker = step(plan, "orders-2").blocker;
    blocker.map(|b| b.reason.to_string()).unwrap_or_default()
}

fn pending(reason: &str) -> Value {
    json!({"type": "PodResizePending", "status": "True", "reason": reason, "message": "no room"})
}

const CPU: Edit = |t| t["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2".into();
const MEMORY: Edit =
    |t| t["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1536Mi".into();

#[test]
fn the_least_disruptive_method_that_suffices_is_chosen() {
    use Action::{InPlace, Recreate, Relabel, Resize};
    let cases: &[(&str, Edit, Action, &str)] = &[
        ("cpu", CPU, Resize, ""),
        ("memory, which restarts", MEMORY, InPlace, ""),
        (
            "cpu of another container",
            |t| {
                t["spec"]["containers"][1]["resources"]["requests"]["cpu"] = "200m".into();
            },
            Resize,
            "",
        ),
        (
            "image and cpu",
            |t| {
                t["spec"]["containers"][0]["image"] = "app:2".into();
                CPU(t);
            },
            InPlace,
            "",
        ),
        (
            "image and memory, which restarts",
            |t| {
                t["spec"]["containers"][0]["image"] = "app:2".into();
                MEMORY(t);
            },
            Recreate,
            "app would restart twice",
        ),
        (
            "a lower memory limit, which restarts",
            |t| {
                t["spec"]["containers"][0]["resources"]["limits"]["memory"] = "1536Mi".into();
            },
            InPlace,
            "",
        ),
        (
            "a lower memory limit while it runs",
            |t| {
                t["spec"]["containers"][1]["resources"]["limits"]["memory"] = "128Mi".into();
            },
            Recreate,
            "more memory than its new limit",
        ),
        (
            "a new limit",
            |t| {
                t["spec"]["containers"][1]["resources"]["limits"]["cpu"] = "1".into();
            },
            Resize,
            "",
        ),
        (
            "a limit goes",
            |t| {
                t["spec"]["containers"][0]["resources"]["limits"] = json!({});
            },
            Recreate,
            "app loses its limit of memory",
        ),
        (
            "another resource",
            |t| {
                t["spec"]["containers"][0]["resources"]["limits"]["ephemeral-storage"] =
                    "1Gi".into();
            },
            Recreate,
            "of ephemeral-storage of app",
        ),
        (
            "another class of service",
            |t| {
                for at in 0..2 {
                    t["spec"]["containers"][at]["resources"] =
                        json!({"limits": {"cpu": "1", "memory": "2Gi"}});
                }
                t["spec"]["initContainers"][0]["resources"] =
                    json!({"limits": {"cpu": "1", "memory": "2Gi"}});
            },
            Recreate,
            "init container prepare",
        ),
        (
            "what an init container asks for",
            |t| {
                t["spec"]["initContainers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
            },
            Recreate,
            "init container prepare",
        ),
        (
            "an annotation",
            |t| t["metadata"]["annotations"]["note"] = "b".into(),
            Relabel,
            "",
        ),
        (
            "a label",
            |t| t["metadata"]["labels"]["app"] = "store".into(),
            Relabel,
            "",
        ),
        (
            "a label that an environment reads",
            |t| {
                t["metadata"]["labels"]["tier"] = "gold".into();
            },
            Recreate,
            "exporter reads metadata.labels['tier']",
        ),
        (
            "the engine's own label",
            |t| {
                t["metadata"]["labels"]["role"] = "primary".into();
            },
            Recreate,
            "label role is kept by the engine",
        ),
        (
            "a wish to restart",
            |t| {
                t["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "now".into();
            },
            Recreate,
            "asks for a new start",
        ),
        (
            "a new configuration, as charts say it",
            |t| {
                t["metadata"]["annotations"]["checksum/config"] = "abc".into();
            },
            Recreate,
            "asks for a new start",
        ),
        (
            "an argument",
            |t| t["spec"]["containers"][0]["args"] = json!(["-v"]),
            Recreate,
            "",
        ),
        (
            "cpu and an argument",
            |t| {
                t["spec"]["containers"][0]["args"] = json!(["-v"]);
                CPU(t);
            },
            Recreate,
            "",
        ),
    ];
    for (name, edit, action, words) in cases {
        let world = changed(&base(), &edited(*edit));
        let step = step(&world.plan(), "orders-2");
        assert_eq!(step.action, *action, "{name}: {}", step.cause);
        let says = if words.is_empty() {
            !step.cause.contains("recreated")
        } else {
            step.cause.contains(words)
        };
        assert!(says, "{name}: {}", step.cause);
    }
}

#[test]
fn a_class_of_service_that_would_change_needs_a_new_pod() {
    let equal = json!({"cpu": "1", "memory": "1Gi"});
    let with = |resources: Value| json!({"spec": {"containers": [{"name": "app", "image": "app:1", "resources": resources}]}});
    let cases = [
        (
            with(json!({})),
            with(json!({"requests": equal})),
            "BestEffort -> Burstable",
        ),
        (
            with(json!({"requests": equal})),
            with(json!({"limits": equal})),
            "Burstable -> Guaranteed",
        ),
    ];
    for (from, to, words) in cases {
        let old = map(&from);
        let why = ensemble_planner::change::between(&old, &map(&to)).unwrap_err();
        assert!(format!("{why:?}").contains(words), "{why:?}");
    }
    let windows = |cpu: &str| {
        let mut template = with(json!({"requests": {"cpu": cpu}}));
        template["spec"]["os"] = json!({"name": "windows"});
        map(&template)
    };
    let why = ensemble_planner::change::between(&windows("1"), &windows("2")).unwrap_err();
    assert!(format!("{why:?}").contains("Windows"), "{why:?}");
}

#[test]
fn the_same_amount_in_other_words_changes_nothing() {
    let other = edited(|t| {
        t["spec"]["containers"][0]["resources"]["requests"] =
            json!({"cpu": "1000m", "memory": "1024Mi"});
    });
    let change = ensemble_planner::change::between(&map(&base()), &map(&other)).unwrap();
    assert!(change.is_empty(), "{change:?}");
}

#[test]
fn the_method_recreate_gives_a_new_pod_for_everything() {
    let mut world = changed(&base(), &edited(CPU));
    world.spec(&json!({"rollout": {"method": "Recreate"}}));
    assert_eq!(step(&world.plan(), "orders-2").action, Action::Recreate);
}

#[test]
fn more_cpu_goes_member_by_member_and_moves_no_leader() {
    let (from, to) = (base(), edited(CPU));
    let mut world = changed(&from, &to);
    for member in ["orders-2", "orders-1", "orders-0"] {
        assert_eq!(granted(&world), [member]);
        assert_eq!(switchover(&world.plan()), None);
        let ordinal = member.rsplit('-').next().unwrap().parse().unwrap();
        sent(&mut world, ordinal, &from, &to);
        assert!(granted(&world).is_empty(), "{member} is not given it yet");
        assert_eq!(step(&world.plan(), member).action, Action::Resize);
        given(&mut world, ordinal);
    }
    assert!(granted(&world).is_empty());
}

#[test]
fn a_member_is_updated_once_its_kubelet_gave_it_and_the_note_goes() {
    let (from, to) = (base(), edited(CPU));
    let mut world = changed(&from, &to);
    sent(&mut world, 2, &from, &to);
    assert_eq!(status(&world.plan()).unwrap().updated_replicas, 0);
    let notes = |plan: &Plan| -> Vec<String> {
        let patches = written(plan).into_iter();
        patches.filter(|p| p == "Patch Pod orders-2").collect()
    };
    assert!(notes(&world.plan()).is_empty());
    given(&mut world, 2);
    assert_eq!(status(&world.plan()).unwrap().updated_replicas, 1);
    assert_eq!(notes(&world.plan()).len(), 1);
    // Given and at once wanted again by somebody else: that is theirs.
    world.pod(
        2,
        &json!({"metadata": {"annotations": {labels::RESIZES: null}}}),
    );
    world.pods.get_mut("orders-2").unwrap()["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
        "7".into();
    assert_eq!(status(&world.plan()).unwrap().updated_replicas, 1);
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn memory_that_restarts_the_engine_waits_for_the_lead_to_be_handed_over() {
    let (from, to) = (base(), edited(MEMORY));
    let mut world = changed(&from, &to);
    for ordinal in [2, 1] {
        assert_eq!(granted(&world), [format!("orders-{ordinal}")]);
        sent(&mut world, ordinal, &from, &to);
        assert!(granted(&world).is_empty());
        assert_eq!(world.plan().report.tolerance, 0, "it is about to restart");
        given(&mut world, ordinal);
    }
    assert!(granted(&world).is_empty());
    assert!(switchover(&world.plan()).is_some());
}

#[test]
fn one_that_leads_by_now_is_not_sent_what_restarts_it() {
    let (from, to) = (base(), edited(MEMORY));
    let mut world = changed(&from, &to);
    let InPlace::Pod(pod) = next_write(&world, 0, &from, &to) else {
        panic!("resources before the note");
    };
    world.pods.insert("orders-0".into(), pod);
    for ordinal in [1, 2] {
        bring(&mut world, ordinal, &to);
    }
    assert!(granted(&world).is_empty());
    assert!(switchover(&world.plan()).is_some());
}

#[test]
fn a_node_without_room_is_waited_for_unless_a_new_pod_is_asked_for() {
    let (from, to) = (base(), edited(CPU));
    let mut world = changed(&from, &to);
    sent(&mut world, 2, &from, &to);
    says(&mut world, 2, &pending("Deferred"));
    let plan = world.plan();
    assert!(granted(&world).is_empty());
    let blocker = step(&plan, "orders-2").blocker.unwrap();
    assert_eq!(blocker.reason.to_string(), "ResizeDeferred");
    for words in ["n2", "cpu request 2", "no room"] {
        assert!(blocker.message.contains(words), "{}", blocker.message);
    }
    world.spec(&json!({"rollout": {"method": "Recreate"}}));
    assert_eq!(granted(&world), ["orders-2"]);
    assert_eq!(step(&world.plan(), "orders-2").action, Action::Recreate);
}

#[test]
fn a_kubelet_that_fails_is_named() {
    let (from, to) = (base(), edited(CPU));
    let mut world = changed(&from, &to);
    sent(&mut world, 2, &from, &to);
    let failing = json!({"type": "PodResizeInProgress", "status": "True", "reason": "Error",
                         "message": "cgroup: device busy"});
    says(&mut world, 2, &failing);
    given(&mut world, 2);
    let plan = world.plan();
    assert_eq!(blocked(&plan), "ResizeFailing");
    assert_eq!(status(&plan).unwrap().updated_replicas, 0);
    assert!(granted(&world).is_empty());
}

#[test]
fn what_a_node_can_never_give_needs_a_new_pod_if_some_node_is_large_enough() {
    let (from, to) = (base(), edited(CPU));
    let mut world = changed(&from, &to);
    sent(&mut world, 2, &from, &to);
    says(&mut world, 2, &pending("Infeasible"));
    let small = json!({"status": {"allocatable": {"cpu": "1", "memory": "64Gi"}}});
    for node in ["n0", "n1", "n2"] {
        world.node(node, &small);
    }
    assert!(granted(&world).is_empty());
    assert_eq!(blocked(&world.plan()), "ResizeInfeasible");
    let cordoned =
        json!({"status": {"allocatable": {"cpu": "8"}}, "spec": {"unschedulable": true}});
    world.node("n1", &cordoned);
    assert!(granted(&world).is_empty());
    world.node("n1", &json!({"spec": {"unschedulable": null}}));
    assert_eq!(granted(&world), ["orders-2"]);
    let step = step(&world.plan(), "orders-2");
    assert_eq!(step.action, Action::Recreate);
    assert!(step.cause.contains("no room"), "{}", step.cause);
    world.nodes = None;
    assert!(granted(&world).is_empty(), "nobody knows whether one is");
}

#[test]
fn a_corrected_template_gets_through_whatever_the_kubelet_said_before() {
    let (from, to) = (base(), edited(CPU));
    let next = edited(|t| {
        t["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m".into();
    });
    let mut world = changed(&to, &next);
    bring(&mut world, 2, &from);
    bring(&mut world, 1, &from);
    bring(&mut world, 0, &from);
    let mut body = render::revision(&world.snapshot(), &name_of(&from), 1);
    body["data"]["template"] = from.clone();
    world.revisions.insert(name_of(&from), body);
    sent(&mut world, 2, &from, &to);
    says(&mut world, 2, &pending("Infeasible"));
    assert_eq!(granted(&world), ["orders-2"]);
    assert_eq!(step(&world.plan(), "orders-2").action, Action::Resize);
}

#[test]
fn what_the_api_server_refuses_in_place_needs_a_new_pod() {
    let (from, to) = (base(), edited(CPU));
    let mut world = changed(&from, &to);
    let refused = Refused {
        revision: name_of(&to),
        message: "the API server refuses: no".into(),
    };
    world.memory.pod_mut("pod-2").refused = Some(refused);
    let step = step(&world.plan(), "orders-2");
    assert_eq!(step.action, Action::Recreate);
    assert!(step.cause.contains("refuses: no"), "{}", step.cause);
}

#[test]
fn the_note_comes_before_the_resources_and_says_what_is_wanted() {
    let (from, to) = (base(), edited(CPU));
    let mut world = changed(&from, &to);
    let InPlace::Pod(pod) = next_write(&world, 2, &from, &to) else {
        panic!("resources before the note");
    };
    let cpu = "/spec/containers/0/resources/requests/cpu";
    assert_eq!(pod.pointer(cpu), Some(&"1".into()));
    let note = pod["metadata"]["annotations"][labels::RESIZES].as_str();
    let wanted = r#"{"app":{"requests":{"cpu":"2"}}}"#;
    assert_eq!(note, Some(wanted), "only what this change changes");
    world.pods.insert("orders-2".into(), pod);
    let InPlace::Resize(pod) = next_write(&world, 2, &from, &to) else {
        panic!("the note twice");
    };
    assert_eq!(pod.pointer(cpu), Some(&"2".into()));
}

#[test]
fn labels_that_go_from_the_template_go_from_the_pod_and_ours_stay() {
    let from = edited(|t| {
        t["metadata"]["labels"] = json!({"app": "shop", "old": "x", "ensemble.dev/ordinal": "9",
                                         "app.kubernetes.io/instance": "mine"});
    });
    let to = edited(|t| {
        t["metadata"]["labels"] = json!({"app": "store", "new": "y"});
        t["metadata"]["annotations"] = json!({"more": "z"});
    });
    let mut world = changed(&from, &to);
    let theirs = json!({"labels": {"app": "shop", "old": "x", "by-others": "1",
                                   "app.kubernetes.io/instance": "mine"},
                        "annotations": {"note": "a", "by-others": "2"}});
    world.pod(2, &json!({"metadata": theirs}));
    let InPlace::Pod(pod) = next_write(&world, 2, &from, &to) else {
        panic!("nothing is resized");
    };
    let label = |key: &str| pod["metadata"]["labels"][key].as_str();
    assert_eq!(label("app"), Some("store"));
    assert_eq!(label("new"), Some("y"));
    assert_eq!(label("old"), None);
    assert_eq!(label("by-others"), Some("1"));
    assert_eq!(label("ensemble.dev/ordinal"), Some("2"));
    assert_eq!(label("app.kubernetes.io/instance"), Some("orders"));
    assert_eq!(label("controller-revision-hash"), Some(&*name_of(&to)));
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(
        (&annotations["note"], &annotations["more"]),
        (&Value::Null, &"z".into())
    );
    assert_eq!(annotations["by-others"], "2");
    assert!(annotations[labels::RESIZES].is_null());
}

#[test]
fn taken_back_half_way_the_old_resources_are_asked_for_again() {
    let (from, to) = (base(), edited(CPU));
    let mut world = changed(&to, &from);
    bring(&mut world, 2, &from);
    sent(&mut world, 2, &from, &to);
    assert_eq!(granted(&world), ["orders-2"]);
    sent(&mut world, 2, &to, &from);
    let cpu = "/spec/containers/0/resources/requests/cpu";
    assert_eq!(world.pods["orders-2"].pointer(cpu), Some(&"1".into()));
}

#[test]
fn an_image_that_is_taken_back_before_its_kubelet_looked_is_not_waited_for() {
    let image: Edit = |t| t["spec"]["containers"][0]["image"] = "app:2".into();
    let (from, to) = (base(), edited(image));
    let mut world = changed(&to, &from);
    bring(&mut world, 2, &from);
    sent_next(&mut world, 2, &from, &to);
    assert_eq!(granted(&world), ["orders-2"]);
    sent_next(&mut world, 2, &to, &from);
    let pod = |world: &World| world.snapshot().pods["orders-2"].clone();
    assert!(pod(&world).is_changing(), "its kubelet may be about to act");
    given(&mut world, 2);
    assert!(!pod(&world).is_changing() && pod(&world).put_back().is_none());
}

#[test]
fn a_resize_of_one_that_does_not_come_up_ends_its_pod_and_is_judged_so() {
    let (from, to) = (base(), edited(CPU));
    for paused in [false, true] {
        let mut world = changed(&from, &to);
        for ordinal in 0..3 {
            world.unhealthy(ordinal, NOW - 600_000);
            let mut said = Sighting::unknown(WhyUnknown::Unreadable("start failed".into()));
            said.paused = paused;
            world.says(ordinal, said);
        }
        world.memory.leaderless_since = Some(Time(NOW - 600_000));
        let goes: &[&str] = if paused { &[] } else { &["orders-2"] };
        assert_eq!(granted(&world), goes);
    }
}
