//! The whole cluster: API server, actors, nodes, time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::actors::kubelet::NodeSim;
use crate::actors::volumes::Attachment;
use crate::actors::{Actors, Queue, Task};
use crate::api::{Answer, Server};
use crate::config::{Config, ImageRule, PodQuota};
use crate::crd::Crd;
use crate::request::{Request, Response};
use crate::resource::{Info, Resource};
use crate::status::Status;
use crate::store::{Entry, Key, key};
use crate::time::SimTime;
use crate::value::Object;
use crate::watch::{Watch, WatchEvent, WatchId, WatchOptions};
use crate::workload::Workload;

/// A Kubernetes cluster in memory.
///
/// A clone is an independent cluster in the same state; compiled definitions
/// and all objects are shared until one side changes them.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) server: Server,
    pub(crate) config: Arc<Config>,
    pub(crate) queue: Queue,
    pub(crate) actors: Arc<Actors>,
    pub(crate) nodes: BTreeMap<Arc<str>, NodeSim>,
    pub(crate) attachments: BTreeMap<Key, Attachment>,
    /// Work of volume drivers under way: by claim uid, when it is done.
    pub(crate) provisioning: BTreeMap<Arc<str>, SimTime>,
    pub(crate) expanding: BTreeMap<Arc<str>, SimTime>,
    /// When the next node of a zone may be tainted.
    pub(crate) zone_pace: BTreeMap<Arc<str>, SimTime>,
    /// Since when pods name a node that does not exist.
    pub(crate) orphaned_since: BTreeMap<Arc<str>, SimTime>,
    /// Pods that found no node, to be tried again when something changes.
    pub(crate) unschedulable: BTreeSet<Key>,
    /// Who is owned by which uid.
    pub(crate) dependents: BTreeMap<Arc<str>, BTreeSet<(Resource, Key)>>,
    /// How much of the journal the actors have seen.
    pub(crate) routed: usize,
    pub(crate) paused: BTreeSet<crate::faults::Part>,
    pub(crate) workload: Option<Box<dyn Workload>>,
    watches: Vec<Watch>,
    steps_now: u32,
}

const MAX_STEPS_AT_ONCE: u32 = 100_000;

impl Cluster {
    /// An empty cluster with the namespaces `default` and `kube-system`. The
    /// seed decides everything that is random elsewhere.
    #[must_use]
    pub fn new(seed: u64) -> Cluster {
        Cluster::with_config(seed, Config::default())
    }

    /// An empty cluster that behaves as `config` says.
    #[must_use]
    pub fn with_config(seed: u64, config: Config) -> Cluster {
        let mut cluster = Cluster {
            server: Server::new(seed),
            config: Arc::new(config),
            queue: Queue::default(),
            actors: Arc::new(Actors::new()),
            nodes: BTreeMap::new(),
            attachments: BTreeMap::new(),
            provisioning: BTreeMap::new(),
            expanding: BTreeMap::new(),
            zone_pace: BTreeMap::new(),
            orphaned_since: BTreeMap::new(),
            unschedulable: BTreeSet::new(),
            dependents: BTreeMap::new(),
            routed: 0,
            paused: BTreeSet::new(),
            workload: None,
            watches: Vec::new(),
            steps_now: 0,
        };
        for namespace in ["default", "kube-system"] {
            cluster.add_namespace(namespace);
        }
        cluster
    }

    /// Creates a namespace; one that exists is left alone.
    pub fn add_namespace(&mut self, name: &str) {
        let body = json!({"metadata": {"name": name}});
        let _existing = self.call(&Request::create(Resource::Namespaces, "", body));
    }

    /// Registers a CustomResourceDefinition (its storage version) and returns
    /// the resource it brings. Registering the same kind again replaces the
    /// schema and keeps the objects.
    ///
    /// # Errors
    /// A Status that says what in the definition cannot be compiled.
    pub fn register_crd(&mut self, definition: &Value) -> Result<Resource, Status> {
        let of = |path: &str| crate::value::text_or_empty(definition, path);
        let (group, plural) = (of("spec.group"), of("spec.names.plural"));
        let same = |known: &Arc<Crd>| known.info.group == group && known.info.plural == plural;
        let known = self.server.crds.iter().position(same);
        let crd = Crd::compile(definition, known.is_some())?;
        let number = match known {
            Some(n) => {
                self.server.crds[n] = crd;
                n
            }
            None => {
                self.server.crds.push(crd);
                self.server.store.add_table();
                self.server.crds.len() - 1
            }
        };
        u16::try_from(number)
            .map(Resource::Custom)
            .map_err(|_| Status::internal("too many custom resources"))
    }

    /// What is known of a resource.
    ///
    /// # Errors
    /// 404 if it is a custom resource that nobody registered.
    pub fn info(&self, resource: Resource) -> Result<&Info, Status> {
        self.server.info(resource)
    }

    /// The resource of a kind, custom or not.
    #[must_use]
    pub fn resource_of(&self, group: &str, kind: &str) -> Option<Resource> {
        let custom = (0..self.server.crds.len()).filter_map(|n| u16::try_from(n).ok());
        let all = Resource::BUILT_INS
            .into_iter()
            .chain(custom.map(Resource::Custom));
        all.into_iter().find(|r| {
            self.server
                .info(*r)
                .is_ok_and(|info| info.group == group && info.kind == kind)
        })
    }

    /// One call to the API server. It happens now, at once and entirely.
    ///
    /// # Errors
    /// The Status with which the API server refuses.
    pub fn call(&mut self, request: &Request) -> Answer {
        let answer = self.server.call(request);
        self.route();
        answer
    }

    /// GET without a request; for drivers, tests and checkers.
    #[must_use]
    pub fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Object> {
        self.server
            .store
            .get(resource, &key(namespace, name))
            .cloned()
    }

    /// All objects of a resource in a namespace (all if empty), in key order.
    #[must_use]
    pub fn objects(&self, resource: Resource, namespace: &str) -> Vec<Object> {
        self.server
            .store
            .within(resource, namespace)
            .map(|(_, o)| o.clone())
            .collect()
    }

    /// Creates an object, for setting the stage.
    ///
    /// # Errors
    /// The Status with which the API server refuses.
    pub fn create(
        &mut self,
        resource: Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Object, Status> {
        let answer: Response = self.call(&Request::create(resource, namespace, body))?;
        answer
            .into_object()
            .ok_or_else(|| Status::internal("a create answered without an object"))
    }

    /// The present.
    #[must_use]
    pub fn now(&self) -> SimTime {
        self.server.now
    }

    /// The store-wide revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.server.store.revision()
    }

    /// Every write so far: who, when, what, at which revision.
    #[must_use]
    pub fn log(&self) -> &[Entry] {
        self.server.store.journal()
    }

    /// When the next actor has something to do.
    #[must_use]
    pub fn next_event_at(&self) -> Option<SimTime> {
        self.queue.next_at()
    }

    /// Lets time pass until `t`, with everything that the actors do on the way.
    pub fn advance_to(&mut self, t: SimTime) {
        while self.step_until(t) {}
        self.server.now = self.server.now.max(t);
    }

    /// Moves the clock alone: what the actors have to do is done late.
    pub fn jump_to(&mut self, t: SimTime) {
        self.server.now = self.server.now.max(t);
    }

    /// Lets `ms` milliseconds pass.
    pub fn advance_ms(&mut self, ms: u64) {
        self.advance_to(self.now().plus_ms(ms));
    }

    /// Runs the next single piece of an actor's work that is due by `t`, if
    /// there is one, so that a driver can look at the cluster in between.
    pub fn step_until(&mut self, t: SimTime) -> bool {
        let Some((at, task)) = self.queue.pop_due(t) else {
            return false;
        };
        self.guard_progress(at, &task);
        self.server.now = self.server.now.max(at);
        self.run(task);
        self.route();
        true
    }

    /// Lets time pass until a condition holds, but not beyond `limit_ms`.
    pub fn advance_until(&mut self, limit_ms: u64, holds: impl Fn(&Cluster) -> bool) -> bool {
        let limit = self.now().plus_ms(limit_ms);
        while !holds(self) {
            if !self.step_until(limit) {
                self.server.now = self.server.now.max(limit);
                return holds(self);
            }
        }
        true
    }

    /// Actors that keep waking each other without time passing are a bug in
    /// this crate, and better reported than waited for.
    fn guard_progress(&mut self, at: SimTime, task: &Task) {
        if at > self.server.now {
            self.steps_now = 0;
        }
        self.steps_now += 1;
        assert!(
            self.steps_now < MAX_STEPS_AT_ONCE,
            "{task:?} does not come to rest at {at}"
        );
    }

    fn run(&mut self, task: Task) {
        if self.is_paused(&task) {
            return;
        }
        match task {
            Task::Schedule(pod) => self.schedule(&pod),
            Task::Claim(claim) => self.sync_claim(&claim),
            Task::Volume(volume) => self.sync_volume(&volume),
            Task::Attach(volume) => self.sync_attachment(&volume),
            Task::Kubelet(node, uid) => self.sync_pod(&node, &uid),
            Task::Collect(resource, key) => self.collect(resource, &key),
            Task::Budget(budget) => self.sync_budget(&budget),
            Task::Endpoints(service) => self.sync_endpoints(&service),
            Task::Node(node) => self.sync_node(&node),
            Task::Taint(pod) => self.sync_taints(&pod),
            Task::PodGc(pod) => self.sync_pod_gc(&pod),
            Task::Job(job) => self.sync_job(&job),
            Task::Namespace(namespace) => self.sync_namespace(&namespace),
            Task::Workload => self.wake_workload(),
        }
    }

    pub(crate) fn after(&mut self, ms: u64, task: Task) {
        let at = self.now().plus_ms(ms);
        self.queue.add(task, at);
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// 400 for selectors that cannot be read, 404 for unknown resources.
    pub fn watch(&mut self, resource: Resource, options: &WatchOptions) -> Result<WatchId, Status> {
        let selectors = self.server.selectors(
            resource,
            options.label_selector.as_deref(),
            options.field_selector.as_deref(),
        )?;
        let info = self.server.info(resource)?;
        let now = self.now();
        let watch = Watch::start(&self.server.store, info, resource, options, selectors, now);
        let id = u32::try_from(self.watches.len()).unwrap_or(u32::MAX);
        self.watches.push(watch);
        Ok(WatchId(id))
    }

    /// All events that a watch has not delivered yet.
    pub fn poll(&mut self, watch: WatchId) -> Vec<WatchEvent> {
        self.poll_until(watch, u64::MAX)
    }

    /// Undelivered events up to a revision: a view that lags behind.
    pub fn poll_until(&mut self, watch: WatchId, revision: u64) -> Vec<WatchEvent> {
        let now = self.now();
        let Some(watch) = self.watches.get_mut(watch.0 as usize) else {
            return Vec::new();
        };
        let Ok(info) = self.server.info(watch.resource()) else {
            return Vec::new();
        };
        watch.poll(&self.server.store, info, revision, now)
    }

    /// How many writes to its resource a watch has not delivered yet.
    #[must_use]
    pub fn watch_lag(&self, watch: WatchId) -> usize {
        self.watches
            .get(watch.0 as usize)
            .map_or(0, |w| w.behind(&self.server.store))
    }

    /// Whether a watch has ended.
    #[must_use]
    pub fn is_closed(&self, watch: WatchId) -> bool {
        self.watches
            .get(watch.0 as usize)
            .is_none_or(Watch::is_closed)
    }

    /// Ends a watch without a word, as servers do after a while.
    pub fn close(&mut self, watch: WatchId) {
        if let Some(watch) = self.watches.get_mut(watch.0 as usize) {
            watch.close();
        }
    }

    /// Makes a watch deliver 410 Expired at its next poll, and end.
    pub fn expire(&mut self, watch: WatchId) {
        if let Some(watch) = self.watches.get_mut(watch.0 as usize) {
            watch.expire(&self.server.store);
        }
    }

    /// Forgets a resource's history: watches and lists from before now expire.
    pub fn compact(&mut self, resource: Resource) {
        self.server.store.compact(resource);
    }

    /// The configuration, for changes on the way.
    pub fn config_mut(&mut self) -> &mut Config {
        Arc::make_mut(&mut self.config)
    }

    /// Whether pods get a service account, which must exist; off at first. The
    /// token volume that a real server adds is not modelled.
    pub fn require_service_accounts(&mut self, required: bool) {
        self.server.settings.service_accounts = required;
    }

    /// From now on that rule is applied to the images of pods; those that exist stay as they are.
    pub fn rewrite_images(&mut self, rule: ImageRule) {
        self.server.settings.admission.images = rule;
    }

    /// From now on a namespace has that quota, or none.
    pub fn limit_pods(&mut self, namespace: &str, quota: Option<PodQuota>) {
        let quotas = &mut self.server.settings.admission.quotas;
        match quota {
            Some(quota) => drop(quotas.insert(namespace.to_owned(), quota)),
            None => drop(quotas.remove(namespace)),
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("now", &self.now())
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}
