//! The `testbed fault` commands.

use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use ensemble_testbed::Component;
use ensemble_testbed::full::Testbed;
use ensemble_testbed::full::faults::{Side, Target};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use rustix::process::Signal;

#[derive(Clone, Copy, ValueEnum)]
pub enum Part {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
}

#[derive(Subcommand)]
pub enum Fault {
    /// Shut a node down in order.
    StopNode { node: String },
    /// Take a node's power.
    KillNode { node: String },
    /// Start a node again.
    StartNode { node: String },
    /// Cut a node off; its pods run on.
    Partition {
        node: String,
        #[arg(long, value_enum, default_value = "control-plane")]
        from: Side,
    },
    /// End a partition.
    Heal { node: String },
    /// Let a node send only so many kilobits a second.
    Slow {
        node: String,
        #[arg(long, default_value_t = 128)]
        kilobits: u32,
    },
    /// Make a slow node quick again.
    Quick { node: String },
    /// Kill a process in a pod: the first one, or all of a name.
    KillInPod {
        namespace: String,
        pod: String,
        #[arg(long)]
        container: Option<String>,
        #[arg(long)]
        process: Option<String>,
    },
    /// Stop a part of the control plane.
    Stop {
        #[arg(value_enum)]
        part: Part,
    },
    /// Start a stopped part of the control plane.
    Start {
        #[arg(value_enum)]
        part: Part,
    },
    /// Make a part of the control plane hang.
    Freeze {
        #[arg(value_enum)]
        part: Part,
    },
    /// Let a frozen part go on.
    Thaw {
        #[arg(value_enum)]
        part: Part,
    },
    /// Delete a Node object.
    DeleteNode { node: String },
    /// Declare a node to be out of service for good.
    OutOfService {
        node: String,
        /// Take the declaration back.
        #[arg(long)]
        remove: bool,
    },
}

/// Breaks or mends the running full testbed.
pub async fn run(fault: Fault) -> Result<()> {
    let testbed = Testbed::connect()?;
    match fault {
        Fault::StopNode { node } => testbed.stop_node(&node),
        Fault::KillNode { node } => testbed.kill_node(&node),
        Fault::StartNode { node } => testbed.start_node(&node),
        Fault::Partition { node, from } => testbed.partition(&node, from),
        Fault::Heal { node } => testbed.heal(&node),
        Fault::Slow { node, kilobits } => testbed.slow_link(&node, kilobits),
        Fault::Quick { node } => testbed.quick_link(&node),
        Fault::KillInPod {
            namespace,
            pod,
            container,
            process,
        } => {
            let pods: Api<Pod> = Api::namespaced(testbed.client().await?, &namespace);
            let pod = pods
                .get(&pod)
                .await
                .with_context(|| format!("failed to read pod {pod}"))?;
            let target = Target {
                container: container.as_deref(),
                process: process.as_deref(),
            };
            testbed.signal_in_pod(&pod, &target, Signal::KILL)
        }
        Fault::Stop { part } => testbed.stop(part.component()),
        Fault::Start { part } => testbed.start(part.component()).await,
        Fault::Freeze { part } => testbed.freeze(part.component(), true),
        Fault::Thaw { part } => testbed.freeze(part.component(), false),
        Fault::DeleteNode { node } => testbed.delete_node_object(&node).await,
        Fault::OutOfService { node, remove } => testbed.set_out_of_service(&node, !remove).await,
    }
}

impl Part {
    fn component(self) -> Component {
        match self {
            Part::Etcd => Component::Etcd,
            Part::ApiServer => Component::ApiServer(0),
            Part::ControllerManager => Component::ControllerManager,
            Part::Scheduler => Component::Scheduler,
        }
    }
}
