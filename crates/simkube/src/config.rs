//! How the simulated world behaves: delays, images, volume drivers.

use std::collections::BTreeMap;

/// How long each actor takes to notice a write, and other durations, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Scheduler: from an unscheduled pod to an attempt.
    pub schedule_ms: u64,
    /// Kubelet: from a write to a pod to acting on it.
    pub kubelet_ms: u64,
    /// Kubelet: sandbox and network of a new pod.
    pub sandbox_ms: u64,
    /// Kubelet: applying new resources to a running container.
    pub resize_ms: u64,
    /// Volume binder: one look at a claim.
    pub bind_ms: u64,
    /// Garbage collector: from an owner's end to its dependents'.
    pub collect_ms: u64,
    /// Disruption controller: from a change to a new budget status.
    pub budget_ms: u64,
    /// Endpoint slice controller.
    pub endpoints_ms: u64,
    /// Job controller.
    pub job_ms: u64,
    /// Namespace controller.
    pub namespace_ms: u64,
    /// Node lifecycle: how long a silent node is still believed.
    pub node_grace_ms: u64,
    /// Node lifecycle and taint loops.
    pub node_monitor_ms: u64,
    /// Pod garbage collector's loop.
    pub pod_gc_ms: u64,
    /// How long a pod on a missing node is kept.
    pub orphan_quarantine_ms: u64,
    /// How long a volume is left attached to an unhealthy node before it is taken by force.
    pub force_detach_ms: u64,
}

impl Default for Delays {
    fn default() -> Delays {
        Delays {
            schedule_ms: 10,
            kubelet_ms: 50,
            sandbox_ms: 200,
            resize_ms: 500,
            bind_ms: 10,
            collect_ms: 20,
            budget_ms: 10,
            endpoints_ms: 10,
            job_ms: 10,
            namespace_ms: 50,
            node_grace_ms: 50_000,
            node_monitor_ms: 5000,
            pod_gc_ms: 20_000,
            orphan_quarantine_ms: 40_000,
            force_detach_ms: 360_000,
        }
    }
}

/// What pulling an image comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// It arrives after so many milliseconds.
    Ok {
        /// How long the pull takes.
        after_ms: u64,
    },
    /// It does not exist.
    Missing,
}

/// What a container does once it runs.
///
/// As in Kubernetes, a container without readiness and startup probes is ready
/// as soon as it runs: `ready_after_ms` and `NeverReady` matter only with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// It runs until it is stopped, and passes its probes after a while.
    Ok {
        /// How long until the probes pass.
        ready_after_ms: u64,
    },
    /// It runs but never passes its readiness probe.
    NeverReady,
    /// It ends by itself.
    Exit {
        /// How long it runs.
        after_ms: u64,
        /// Its exit code.
        code: i32,
    },
}

/// All that an image does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Pulling it.
    pub pull: Pull,
    /// Running it.
    pub run: Run,
    /// How long it takes to end after SIGTERM; `None` ignores the signal.
    pub stop_after_ms: Option<u64>,
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            pull: Pull::Ok { after_ms: 500 },
            run: Run::Ok {
                ready_after_ms: 1000,
            },
            stop_after_ms: Some(200),
        }
    }
}

impl Behaviour {
    /// An image that does not exist.
    #[must_use]
    pub fn missing() -> Behaviour {
        Behaviour {
            pull: Pull::Missing,
            ..Behaviour::default()
        }
    }

    /// An image whose container ends with `code` half a second after each start.
    #[must_use]
    pub fn crashing(code: i32) -> Behaviour {
        Behaviour {
            run: Run::Exit {
                after_ms: 500,
                code,
            },
            ..Behaviour::default()
        }
    }

    /// An image whose container never passes its readiness probe.
    #[must_use]
    pub fn never_ready() -> Behaviour {
        Behaviour {
            run: Run::NeverReady,
            ..Behaviour::default()
        }
    }

    /// An image whose container passes its probes after `ms`.
    #[must_use]
    pub fn ready_after(ms: u64) -> Behaviour {
        Behaviour {
            run: Run::Ok { ready_after_ms: ms },
            ..Behaviour::default()
        }
    }
}

/// Which image behaves how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageCatalog {
    known: BTreeMap<String, Behaviour>,
    /// What images do that are not listed.
    pub unknown: Behaviour,
}

impl ImageCatalog {
    /// Sets the behaviour of one image.
    pub fn set(&mut self, image: &str, behaviour: Behaviour) {
        self.known.insert(image.to_owned(), behaviour);
    }

    pub(crate) fn listed(&self, image: &str) -> Option<Behaviour> {
        self.known.get(image).copied()
    }

    /// The behaviour of an image.
    #[must_use]
    pub fn of(&self, image: &str) -> Behaviour {
        self.listed(image).unwrap_or(self.unknown)
    }
}

/// Where a provisioned volume can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only on the node it was made on.
    Node,
    /// On any node of its zone.
    Zone,
    /// Everywhere.
    Cluster,
}

/// How the volumes of a provisioner behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeDriver {
    /// Where its volumes can be used.
    pub reach: Reach,
    /// Whether volumes are attached to one node at a time.
    pub attach: bool,
    /// How long provisioning takes.
    pub provision_ms: u64,
    /// Whether provisioning fails.
    pub provision_fails: bool,
    /// How long attaching takes.
    pub attach_ms: u64,
    /// How long detaching takes.
    pub detach_ms: u64,
    /// How long the controller's part of an expansion takes.
    pub expand_ms: u64,
    /// Whether the file system grows while mounted; if not, only when a pod starts.
    pub online_expansion: bool,
}

impl Default for VolumeDriver {
    fn default() -> VolumeDriver {
        VolumeDriver {
            reach: Reach::Cluster,
            attach: true,
            provision_ms: 300,
            provision_fails: false,
            attach_ms: 300,
            detach_ms: 300,
            expand_ms: 300,
            online_expansion: true,
        }
    }
}

impl VolumeDriver {
    /// Volumes on a node's own disks.
    #[must_use]
    pub fn local() -> VolumeDriver {
        VolumeDriver {
            reach: Reach::Node,
            attach: false,
            ..VolumeDriver::default()
        }
    }
}

/// A rule of the cluster's owners about the images of pods, as a mutating webhook or policy has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ImageRule {
    /// There is none.
    #[default]
    AsSent,
    /// Every image comes from a mirror, whether the pod is new or changed.
    Mirror {
        /// What is put before each image.
        prefix: String,
    },
    /// The same, of new pods alone: a change of a pod is left as it was sent.
    MirrorNew {
        /// What is put before each image.
        prefix: String,
    },
    /// A pod that is changed keeps the images that it has.
    Keep,
}

/// A ResourceQuota that counts pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodQuota {
    /// Its name.
    pub name: String,
    /// How many pods there may be.
    pub pods: usize,
}

/// Everything that can be set about the simulated world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Durations.
    pub delays: Delays,
    /// Images.
    pub images: ImageCatalog,
    /// Volume drivers by provisioner; others behave as the default one.
    pub drivers: BTreeMap<String, VolumeDriver>,
}
