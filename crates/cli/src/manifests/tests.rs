use super::*;
use clap::Parser;
use ensemble_controller::{KINDS, KindInfo};
use std::collections::BTreeSet;

fn installed(line: &str) -> Vec<Value> {
    let words = ["ensemble", "install"]
        .into_iter()
        .chain(line.split_whitespace());
    let cli = crate::args::Cli::parse_from(words);
    let crate::args::Command::Install(args) = cli.command else {
        panic!("not install")
    };
    let place = Place::of(
        cli.global.namespace.as_deref(),
        args.watch_namespace.as_deref(),
    );
    all(&place, &args)
}

fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Vec<&'o Value> {
    objects
        .iter()
        .filter(|object| object["kind"] == kind)
        .collect()
}

/// `(group/resource, verb)` of every rule of every role that the controller gets.
fn rights(objects: &[Value]) -> Vec<(String, String)> {
    let strings = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s.as_str().unwrap().to_owned())
            .collect()
    };
    let roles = of_kind(objects, "ClusterRole")
        .into_iter()
        .chain(of_kind(objects, "Role"));
    let roles = roles.filter(|role| role["metadata"]["name"].as_str().unwrap().starts_with(NAME));
    let mut rights = Vec::new();
    for rule in roles.flat_map(|role| role["rules"].as_array().unwrap()) {
        for group in strings(&rule["apiGroups"]) {
            for resource in strings(&rule["resources"]) {
                let verbs = strings(&rule["verbs"]);
                rights.extend(
                    verbs
                        .into_iter()
                        .map(|verb| (format!("{group}/{resource}"), verb)),
                );
            }
        }
    }
    rights
}

#[test]
fn the_controller_may_not_read_secrets_run_commands_or_write_a_spec() {
    for line in ["", "--watch-namespace shop"] {
        for (resource, verb) in rights(&installed(line)) {
            assert!(!resource.contains('*') && verb != "*", "{resource} {verb}");
            assert!(!resource.contains("secrets"), "{resource}");
            assert!(
                !["/pods/exec", "/pods/attach", "/pods/portforward"].contains(&resource.as_str())
            );
            let whole = resource == "ensemble.dev/ensembles";
            assert!(
                !(whole && ["update", "create", "delete"].contains(&verb.as_str())),
                "{verb}"
            );
        }
    }
}

/// `(group/resource, verb)` of all that the table of kinds asks for.
fn needed(wanted: impl Fn(&KindInfo) -> bool) -> BTreeSet<(String, String)> {
    let mut needed = BTreeSet::new();
    for info in KINDS.iter().filter(|info| wanted(info)) {
        let mut need = |part: &str, verb: &str| {
            let of = format!("{}/{}{part}", info.group, info.plural);
            needed.insert((of, verb.to_owned()));
        };
        ["get", "list", "watch"]
            .iter()
            .for_each(|verb| need("", verb));
        for right in info.rights {
            let part = match right.part {
                "" => String::new(),
                part => format!("/{part}"),
            };
            right.verbs.iter().for_each(|verb| need(&part, verb));
        }
    }
    needed
}

#[test]
fn the_controllers_rights_are_those_of_the_table_of_kinds_and_of_its_own_housekeeping() {
    let own = ["events.k8s.io/events", "coordination.k8s.io/leases"];
    let granted = |line: &str| -> BTreeSet<(String, String)> {
        let rights = rights(&installed(line)).into_iter();
        rights
            .filter(|(of, _)| !own.contains(&of.as_str()))
            .collect()
    };
    assert_eq!(granted(""), needed(|_| true));
    let shop = granted("--watch-namespace shop");
    assert_eq!(shop, needed(KindInfo::is_namespaced));
    let all = rights(&installed(""));
    let housekeeping: BTreeSet<(&str, &str)> = all
        .iter()
        .filter(|(of, _)| own.contains(&of.as_str()))
        .map(|(of, verb)| (of.as_str(), verb.as_str()))
        .collect();
    let expected = [
        (own[0], "create"),
        (own[0], "patch"),
        (own[1], "get"),
        (own[1], "create"),
        (own[1], "update"),
    ];
    assert_eq!(housekeeping, expected.into());
}

#[test]
fn with_one_namespace_nothing_but_the_definitions_is_cluster_wide() {
    let objects = installed("--watch-namespace shop");
    for kind in ["ClusterRole", "ClusterRoleBinding", "Namespace"] {
        assert!(of_kind(&objects, kind).is_empty(), "{kind}");
    }
    assert!(
        rights(&objects)
            .iter()
            .all(|(resource, _)| resource != "/nodes")
    );
    let bare = installed("--watch-namespace shop --skip-crds");
    assert!(
        bare.iter()
            .all(|object| object["metadata"]["namespace"] == "shop")
    );
    let deployment = of_kind(&objects, "Deployment")[0];
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(
        args.to_string().contains("--watch-namespace=shop"),
        "{args}"
    );
}

#[test]
fn who_may_waive_is_asked_wherever_the_definitions_are_installed() {
    for line in ["", "--watch-namespace shop"] {
        let objects = installed(line);
        let policy = of_kind(&objects, "ValidatingAdmissionPolicy")[0];
        let asked = policy["spec"]["validations"][0]["expression"]
            .as_str()
            .unwrap();
        assert!(asked.contains("check('waive').allowed()"), "{asked}");
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
        let binding = of_kind(&objects, "ValidatingAdmissionPolicyBinding")[0];
        assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
        assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
        let removed = with_definitions();
        for kind in [
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ] {
            assert_eq!(of_kind(&removed, kind).len(), 1, "{kind}");
        }
        let bare = installed(&format!("{line} --skip-crds"));
        assert!(of_kind(&bare, "ValidatingAdmissionPolicy").is_empty());
    }
}

#[test]
fn the_right_to_waive_is_in_no_role_but_its_own() {
    for line in ["", "--watch-namespace shop"] {
        let objects = installed(line);
        let roles = of_kind(&objects, "ClusterRole");
        let roles = roles.into_iter().chain(of_kind(&objects, "Role"));
        let granting: Vec<&str> = roles
            .filter(|role| role["rules"].to_string().contains("waive"))
            .map(|role| role["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(granting, ["ensemble-waiver"]);
        let labels = objects
            .iter()
            .find(|o| o["metadata"]["name"] == "ensemble-waiver");
        let labels = labels.unwrap()["metadata"]["labels"].to_string();
        assert!(!labels.contains("aggregate-to"), "{labels}");
    }
}

#[test]
fn the_controller_may_live_elsewhere_than_it_watches() {
    let objects = installed("--namespace tools --watch-namespace shop");
    let binding = of_kind(&objects, "RoleBinding")
        .into_iter()
        .find(|b| b["metadata"]["namespace"] == "shop");
    assert_eq!(binding.unwrap()["subjects"][0]["namespace"], "tools");
    assert_eq!(
        of_kind(&objects, "Deployment")[0]["metadata"]["namespace"],
        "tools"
    );
}

#[test]
fn the_workload_is_what_pod_security_restricted_wants() {
    let objects = installed("--image example.com/ensemble:dev --replicas 2");
    let spec = &of_kind(&objects, "Deployment")[0]["spec"];
    assert_eq!(spec["replicas"], 2);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "example.com/ensemble:dev");
    let security = &container["securityContext"];
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"]["drop"][0], "ALL");
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
}

#[test]
fn the_workloads_arguments_are_ones_that_the_controller_understands() {
    for line in ["", "--watch-namespace shop"] {
        let objects = installed(line);
        let spec = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
        let args: Vec<String> =
            serde_json::from_value(spec["containers"][0]["args"].clone()).unwrap();
        let cli = crate::args::Cli::try_parse_from(["ensemble".to_owned()].into_iter().chain(args));
        assert!(matches!(
            cli.unwrap().command,
            crate::args::Command::Controller(_)
        ));
    }
}

#[test]
fn uninstall_takes_away_all_that_install_made_but_namespace_and_definitions() {
    let place = Place::of(None, None);
    let name = |o: &Value| {
        format!(
            "{}/{}",
            o["kind"].as_str().unwrap(),
            o["metadata"]["name"].as_str().unwrap()
        )
    };
    let mut made: Vec<String> = installed("").iter().map(name).collect();
    made.retain(|n| {
        let stays = [
            "Namespace/",
            "CustomResourceDefinition/",
            // Goes with the definitions.
            "ValidatingAdmissionPolicy",
            "Deployment/",
        ];
        !stays.iter().any(|k| n.starts_with(k))
    });
    let mut removed: Vec<String> = to_remove(&place).iter().map(name).collect();
    made.sort();
    removed.sort();
    assert_eq!(made, removed);
}
