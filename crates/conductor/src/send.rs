//! What a plan wants written becomes a call, one at a time for each object.

use crate::call::{ApiCall, CallId, Verb};
use crate::conductor::{Conductor, Pending, Purpose};
use crate::{Kind, Output};
use ensemble_api::status::EnsembleStatus;
use ensemble_api::{GROUP, VERSION};
use ensemble_planner::Write;
use ensemble_planner::memory::Key;
use serde_json::{Value, json};

impl Conductor {
    pub(crate) fn send(
        &mut self,
        key: Key,
        purpose: Purpose,
        call: ApiCall,
        out: &mut Vec<Output>,
    ) {
        if !self.busy.insert(key.clone()) {
            return;
        }
        let id = self.new_call();
        self.pending.insert(id, Pending { key, purpose });
        out.push(Output::Call(id, call));
    }

    pub(crate) fn new_call(&mut self) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        id
    }

    pub(crate) fn send_write(&mut self, write: Write, out: &mut Vec<Output>) {
        let key = write.key();
        let namespace = self.world.snap.ensemble.namespace.clone();
        let (purpose, call) = match write {
            Write::Create { kind, body } => {
                let verb = Verb::Create { dry_run: false };
                (
                    Purpose::Create,
                    ApiCall::new(verb, kind, &namespace, &key.1, body),
                )
            }
            Write::Patch {
                kind,
                pin,
                mut body,
            } => {
                body["metadata"]["uid"] = pin.uid.into();
                body["metadata"]["resourceVersion"] = pin.resource_version.into();
                (
                    Purpose::Patch,
                    ApiCall::new(Verb::MergePatch, kind, &namespace, &pin.name, body),
                )
            }
            Write::Uncount { budget, pods } => {
                // Our own eviction of one of them may be just between its entry and its delete.
                let evicting = |pod: &String| self.busy.contains(&(Kind::Pod, pod.clone()));
                if pods.iter().any(evicting) {
                    return;
                }
                (Purpose::Patch, ApiCall::uncount(&namespace, &budget, &pods))
            }
            Write::Discard { kind, pin } => {
                let call = ApiCall::discard(kind, &namespace, &pin);
                (Purpose::Discard { uid: pin.uid }, call)
            }
            Write::Check { revision, body } => {
                let name = body["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let verb = Verb::Create { dry_run: true };
                let call = ApiCall::new(verb, Kind::Pod, &namespace, &name, body);
                (Purpose::Check { revision }, call)
            }
            Write::Look { key } => (
                Purpose::Look,
                ApiCall::new(Verb::Get, key.0, &namespace, &key.1, Value::Null),
            ),
            Write::Status(new) => self.status_call(&namespace, new),
            Write::Answer { pin, body } => {
                let body = json!({
                    "metadata": {"resourceVersion": pin.resource_version},
                    "status": body,
                });
                let verb = Verb::MergePatchStatus;
                (
                    Purpose::Answer,
                    ApiCall::new(verb, Kind::Request, &namespace, &pin.name, body),
                )
            }
        };
        self.send(key, purpose, call, out);
    }

    pub(crate) fn status_call(
        &self,
        namespace: &str,
        new: Box<EnsembleStatus>,
    ) -> (Purpose, ApiCall) {
        let view = &self.world.snap.ensemble;
        let pin = &view.meta.pin;
        let body = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "Ensemble",
            "metadata": {
                "name": pin.name,
                "namespace": namespace,
                "uid": pin.uid,
                "resourceVersion": pin.resource_version,
            },
            "spec": *view.spec,
            "status": *new,
        });
        let call = ApiCall::new(
            Verb::ReplaceStatus,
            Kind::Ensemble,
            namespace,
            &pin.name,
            body,
        );
        (
            Purpose::Status {
                old: Box::new(view.status.clone()),
                new,
            },
            call,
        )
    }
}
