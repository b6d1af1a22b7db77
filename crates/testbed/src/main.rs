//! The `testbed` command.

mod fault_command;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use ensemble_testbed::phase::say;
use ensemble_testbed::volumes::{self, Backing};
use ensemble_testbed::{NodeTimers, Version, forward, full, image, parts, standing};

/// A real Kubernetes on this machine, for tests.
#[derive(Parser)]
#[command(name = "testbed")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// etcd, API server and controller manager; no root needed.
    ControlPlane,
    /// The control plane, a scheduler and simulated nodes; no root needed.
    FakeNodes,
    /// Three real nodes, cluster DNS, volumes and images; needs root.
    Full,
}

#[derive(Subcommand)]
enum Command {
    /// Build everything that a profile needs, without starting it.
    Build {
        #[arg(long, value_enum, default_value = "full")]
        profile: Profile,
        /// Which Kubernetes; only the control plane is built for the oldest.
        #[arg(long, value_enum, default_value = "current")]
        version: Version,
    },
    /// Start a testbed; harmless if it is up.
    Up {
        #[arg(long, value_enum, default_value = "full")]
        profile: Profile,
        #[arg(long, value_enum, default_value = "current")]
        version: Version,
        /// How many API servers (not for full).
        #[arg(long, default_value_t = 1)]
        api_servers: usize,
        /// How many simulated nodes (for fake-nodes).
        #[arg(long, default_value_t = 3)]
        nodes: usize,
        /// Seconds without a sign of life until a node counts as unreachable.
        #[arg(long, default_value_t = NodeTimers::SHORT.unreachable_after_seconds)]
        unreachable_after: u32,
        /// Seconds until the pods of an unreachable node are evicted.
        #[arg(long, default_value_t = NodeTimers::SHORT.evict_after_seconds)]
        evict_after: u32,
    },
    /// Stop what `up` started, and remove everything it made.
    Down {
        #[arg(long, value_enum, default_value = "full")]
        profile: Profile,
    },
    /// Say what runs.
    Status {
        #[arg(long, value_enum, default_value = "full")]
        profile: Profile,
    },
    /// Print the path of the administrator's kubeconfig file.
    Kubeconfig {
        #[arg(long, value_enum, default_value = "full")]
        profile: Profile,
    },
    /// Make the image of a program of ours from its release build.
    Image {
        /// The program; the image has its name.
        #[arg(long)]
        binary: PathBuf,
        /// Where to write the OCI archive.
        #[arg(long)]
        archive: PathBuf,
        #[arg(long, default_value = "latest")]
        tag: String,
    },
    /// Put the images of an OCI archive into the registry of the running full testbed.
    Push { archive: PathBuf },
    /// Break the running full testbed on purpose, or mend it.
    Fault {
        #[command(subcommand)]
        fault: fault_command::Fault,
    },
    /// Carry connections from loopback into a network namespace; used by `up`.
    #[command(hide = true)]
    Forward {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        namespace: String,
        #[arg(long)]
        target: SocketAddr,
    },
    /// Provision volumes; used by `up`.
    #[command(hide = true)]
    ServeVolumes {
        #[arg(long)]
        kubeconfig: PathBuf,
        /// Where volumes are; without it there is nothing behind them.
        #[arg(long)]
        directory: Option<PathBuf>,
    },
    /// Simulate nodes; used by `up`.
    #[command(hide = true)]
    SimulateNodes {
        #[arg(long)]
        kubeconfig: PathBuf,
        #[arg(long)]
        count: usize,
        #[arg(long)]
        beat_seconds: u32,
    },
}

fn main() -> ExitCode {
    match start(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn start(command: Command) -> Result<()> {
    match command {
        // It moves its thread to another network namespace, so it makes a runtime of its own.
        Command::Forward {
            listen,
            namespace,
            target,
        } => forward::serve(listen, &namespace, target),
        command => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("failed to start the async runtime")?
            .block_on(run(command)),
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Build {
            profile: Profile::Full,
            ..
        } => full::build(),
        Command::Build { version, .. } => parts::control_plane(version).map(|_| ()),
        Command::Up {
            profile,
            version,
            api_servers,
            nodes,
            unreachable_after,
            evict_after,
        } => {
            let timers = NodeTimers {
                unreachable_after_seconds: unreachable_after,
                evict_after_seconds: evict_after,
            };
            match profile {
                Profile::Full => full::up(timers).await?,
                Profile::ControlPlane => {
                    standing::up(profile.dir()?, options(version, api_servers, 0, timers)).await?;
                }
                Profile::FakeNodes => {
                    let options = options(version, api_servers, nodes, timers);
                    standing::up(profile.dir()?, options).await?;
                }
            }
            say(&format!(
                "export KUBECONFIG={}",
                profile.kubeconfig()?.display()
            ));
            Ok(())
        }
        Command::Down {
            profile: Profile::Full,
        } => full::down(),
        Command::Down { profile } => standing::down(&profile.dir()?),
        Command::Status { profile } => standing::status(&profile.dir()?).await,
        Command::Kubeconfig { profile } => {
            println!("{}", profile.kubeconfig()?.display());
            Ok(())
        }
        Command::Image {
            binary,
            archive,
            tag,
        } => {
            let name = binary.file_name().and_then(|name| name.to_str());
            let name = name.context("--binary names no program")?;
            image::program(name, &binary, &tag)?.write_archive(&archive)?;
            say(&format!("wrote {}", archive.display()));
            Ok(())
        }
        Command::Fault { fault } => fault_command::run(fault).await,
        Command::Push { archive } => {
            for name in image::publish_archive(&archive, &full::registry_storage()?)? {
                say(&format!("pushed {}/{name}", full::layout::REGISTRY));
            }
            Ok(())
        }
        Command::ServeVolumes {
            kubeconfig,
            directory,
        } => {
            let backing = directory.map_or(Backing::Nothing, Backing::Directories);
            volumes::serve(&kubeconfig, backing).await
        }
        Command::SimulateNodes {
            kubeconfig,
            count,
            beat_seconds,
        } => ensemble_testbed::fake::serve(&kubeconfig, count, beat_seconds).await,
        Command::Forward { .. } => Ok(()),
    }
}

fn options(
    version: Version,
    api_servers: usize,
    fake_nodes: usize,
    timers: NodeTimers,
) -> ensemble_testbed::Options {
    ensemble_testbed::Options {
        version,
        api_servers,
        fake_nodes,
        timers,
        bare: false,
    }
}

impl Profile {
    fn dir(self) -> Result<PathBuf> {
        let name = match self {
            Profile::ControlPlane => "control-plane",
            Profile::FakeNodes => "fake-nodes",
            Profile::Full => "full",
        };
        Ok(ensemble_testbed::cache::root()?.join("run").join(name))
    }

    fn kubeconfig(self) -> Result<PathBuf> {
        Ok(self.dir()?.join("kubeconfig-0"))
    }
}
