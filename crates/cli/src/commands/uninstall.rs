//! `uninstall`: the controller goes, databases stay.
//!
//! With `--crds` the order matters more than anything else here. First the controller, and it must
//! have ended: it would take a deleted Ensemble for the user's wish to delete. Then every Ensemble
//! loses our finalizer and is deleted as an orphan, which takes its mark off pods and claims. Only
//! when none is left may the definitions go, since their deletion deletes what is left of a kind,
//! and that takes pods along.

use super::apply::{place, remove, title};
use crate::args::{Global, Uninstall};
use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::exit::Exit;
use crate::failure::{Failure, kind_is_unknown};
use crate::manifests::{self, NAME, Place};
use crate::output::{self, Format};
use ensemble_api::labels::FINALIZER;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// What all pods of controllers carry, and nothing else does.
const CONTROLLERS: &str = "app.kubernetes.io/name=ensemble,app.kubernetes.io/component=controller";
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Says what it would do, and does it with `--yes`.
pub async fn run(cluster: &Cluster, global: &Global, args: &Uninstall) -> Result<Exit, Failure> {
    let place = Place::of(global.namespace.as_deref(), args.watch_namespace.as_deref());
    let ensembles = ensembles(cluster, &place, args).await?;
    announce(&place, args, &ensembles);
    if args.crds {
        no_other_controller(cluster, &place).await?;
    }
    if !args.yes {
        // Never asked for in the middle of a script: said once, or not at all.
        return Err(Failure::with_exit(Exit::Refused, "nothing was removed")
            .hint("that is what would happen; add --yes to do it"));
    }
    let mut removal = Removal {
        cluster,
        quiet: global.output != Format::Table,
        done: Vec::new(),
        deadline: Instant::now() + args.timeout,
    };
    tokio::select! {
        ended = removal.all(&place, args) => ended?,
        _ = tokio::signal::ctrl_c() => {
            output::say("interrupted; run the same command again to finish");
            return Ok(Exit::Interrupted);
        }
    }
    if global.output != Format::Table {
        let done = removal
            .done
            .iter()
            .map(|title| json!({"object": title, "deleted": true}))
            .collect();
        output::print(&output::render(
            global.output,
            &output::list(done),
            String::new,
        )?)?;
    }
    Ok(Exit::Converged)
}

/// Every Ensemble that loses its controller; none if the kind is not known any more.
async fn ensembles(
    cluster: &Cluster,
    place: &Place,
    args: &Uninstall,
) -> Result<Vec<DynamicObject>, Failure> {
    let api = match &place.watched {
        // The definitions are everybody's: all ensembles of the cluster go with them.
        Some(watched) if !args.crds => Cluster {
            namespace: watched.clone(),
            ..cluster.clone()
        }
        .ensembles(),
        _ => cluster.all_ensembles(),
    };
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if kind_is_unknown(&status) => Ok(Vec::new()),
        Err(error) => Err(Failure::of_call("cannot list ensembles", error)),
    }
}

/// The definitions are everybody's: a controller elsewhere would see its Ensembles vanish.
async fn no_other_controller(cluster: &Cluster, place: &Place) -> Result<(), Failure> {
    let pods: Api<Pod> = Api::all(cluster.client.clone());
    let found = pods.list(&ListParams::default().labels(CONTROLLERS)).await;
    let found =
        found.map_err(|error| Failure::of_call("cannot look for other controllers", error))?;
    let mut homes = found.items.iter().filter_map(ResourceExt::namespace);
    match homes.find(|home| *home != place.home) {
        None => Ok(()),
        Some(home) => Err(Failure::with_exit(
            Exit::Refused,
            format!("nothing was removed: another controller runs in namespace '{home}'"),
        )
        .hint(format!(
            "remove that one first: ensemble uninstall -n {home}"
        ))),
    }
}

fn announce(place: &Place, args: &Uninstall, ensembles: &[DynamicObject]) {
    output::say(format!(
        "removes the controller from namespace '{}'",
        place.home
    ));
    let count = ensembles.len();
    match (args.crds, count) {
        (_, 0) => output::say("no Ensemble is there that would miss it"),
        (false, _) => output::say(format!(
            "{count} Ensemble(s) stay; their members go on running, and nobody repairs or rolls them \
             until Ensemble is installed again"
        )),
        (true, _) => {
            output::say(format!(
                "deletes {count} Ensemble(s) as orphans; their pods and claims stay:"
            ));
            for one in ensembles {
                output::say(format!(
                    "  {}/{}",
                    one.namespace().unwrap_or_default(),
                    one.name_any()
                ));
            }
        }
    }
    if args.crds {
        output::say(
            "deletes the definitions of Ensemble and EnsembleRequest, and the policy that says who may waive",
        );
    }
}

struct Removal<'c> {
    cluster: &'c Cluster,
    quiet: bool,
    done: Vec<String>,
    deadline: Instant,
}

impl Removal<'_> {
    async fn all(&mut self, place: &Place, args: &Uninstall) -> Result<(), Failure> {
        self.delete(&json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": place.home},
        }))
        .await?;
        self.controller_ended(place).await?;
        if args.crds {
            self.orphan_all(place, args).await?;
            for object in manifests::with_definitions() {
                self.delete(&object).await?;
            }
        }
        for object in manifests::to_remove(place) {
            self.delete(&object).await?;
        }
        Ok(())
    }

    async fn delete(&mut self, object: &Value) -> Result<(), Failure> {
        if remove(&self.cluster.client, object).await? {
            self.tell(title(object), "deleted")?;
        }
        Ok(())
    }

    fn tell(&mut self, title: String, what: &str) -> Result<(), Failure> {
        if !self.quiet {
            output::print(&format!("{title} {what}\n"))?;
        }
        self.done.push(title);
        Ok(())
    }

    async fn controller_ended(&self, place: &Place) -> Result<(), Failure> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &place.home);
        let params = ListParams::default().labels(CONTROLLERS);
        loop {
            let left = pods.list(&params).await;
            let left = left.map_err(|error| {
                Failure::of_call("cannot see whether the controller has ended", error)
            })?;
            let names: Vec<String> = left.items.iter().map(ResourceExt::name_any).collect();
            if names.is_empty() {
                return Ok(());
            }
            self.in_time(|| format!("the controller has not ended: {}", names.join(", ")))?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Until none is left: one may be created meanwhile.
    async fn orphan_all(&mut self, place: &Place, args: &Uninstall) -> Result<(), Failure> {
        loop {
            let left = ensembles(self.cluster, place, args).await?;
            if left.is_empty() {
                return Ok(());
            }
            for ensemble in left
                .iter()
                .filter(|e| e.metadata.deletion_timestamp.is_none())
            {
                orphan(&self.cluster.client, ensemble).await?;
                let name = format!(
                    "Ensemble {}/{}",
                    ensemble.namespace().unwrap_or_default(),
                    ensemble.name_any()
                );
                self.tell(name, "deleted; its pods and claims stay")?;
            }
            // One that was being deleted already waits for a finalizer of ours that nobody clears now.
            for ensemble in left
                .iter()
                .filter(|e| e.metadata.deletion_timestamp.is_some())
            {
                without_finalizer(&self.cluster.client, ensemble).await?;
            }
            self.in_time(|| {
                let names: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
                format!(
                    "Ensembles are still there: {}; the definitions were not touched",
                    names.join(", ")
                )
            })?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn in_time(&self, why: impl FnOnce() -> String) -> Result<(), Failure> {
        if Instant::now() < self.deadline {
            return Ok(());
        }
        Err(Failure::with_exit(Exit::TimedOut, why()).hint("run the same command again to finish"))
    }
}

/// Deletes an Ensemble so that its pods and claims stay.
async fn orphan(client: &Client, ensemble: &DynamicObject) -> Result<(), Failure> {
    without_finalizer(client, ensemble).await?;
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        preconditions: Some(Preconditions {
            uid: ensemble.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let (api, name) = api_of(client, ensemble);
    match api.delete(&name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Failure::of_call(
            &format!("cannot delete Ensemble '{name}'"),
            error,
        )),
    }
}

/// Takes our finalizer off, so that nobody waits for a controller that is gone.
async fn without_finalizer(client: &Client, ensemble: &DynamicObject) -> Result<(), Failure> {
    if !ensemble
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == FINALIZER)
    {
        return Ok(());
    }
    let rest: Vec<&String> = ensemble
        .finalizers()
        .iter()
        .filter(|f| *f != FINALIZER)
        .collect();
    let patch = json!({"metadata": {
        "finalizers": rest,
        "resourceVersion": ensemble.resource_version(),
    }});
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let (api, name) = api_of(client, ensemble);
    match api.patch(&name, &params, &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Failure::of_call(
            &format!("cannot take the finalizer off Ensemble '{name}'"),
            error,
        )),
    }
}

fn api_of(client: &Client, ensemble: &DynamicObject) -> (Api<DynamicObject>, String) {
    let object = json!({
        "apiVersion": format!("{}/{}", ensemble_api::GROUP, ensemble_api::VERSION),
        "kind": "Ensemble",
        "metadata": {"name": ensemble.name_any(), "namespace": ensemble.namespace()},
    });
    place(client, &object)
}
