//! What can be typed.

use crate::commands::explore::scenario_name;
use crate::output::Format;
use clap::{Args, Parser, Subcommand, ValueEnum};
use ensemble_rehearsal::fault::{self, Fault, What};
use ensemble_rehearsal::forecast::Trouble;
use ensemble_rehearsal::scenario::Scenario;
use std::net::SocketAddr;
use std::time::Duration;

/// The image that `install` names if none is given.
pub const IMAGE: &str = concat!("ensemble.dev/ensemble:", env!("CARGO_PKG_VERSION"));
/// Where the controller lives if nothing else is said.
pub const HOME: &str = "ensemble-system";

/// Runs databases and quorum systems on Kubernetes, and always tells you what it is waiting for.
#[derive(Debug, Parser)]
#[command(
    name = "ensemble",
    version,
    after_long_help = crate::exit::help(),
    after_help = "Exit codes and details: --help",
    arg_required_else_help = true,
    disable_help_subcommand = true,
    term_width = 100
)]
pub struct Cli {
    /// Which cluster and how the answer is written.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// The namespace; default: that of the current context
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The kubeconfig to use; default: $KUBECONFIG, ~/.kube/config, or the pod's own account
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<std::path::PathBuf>,
    /// How data is written to stdout; talk goes to stderr
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub output: Format,
    /// Whether to colour; NO_COLOR turns it off, and colour is never the only signal
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List ensembles, or show one with its members and its plan
    ///
    /// Shows what the controller wrote into the status; it computes nothing of its own. With a name
    /// the exit code says how the ensemble stands.
    Status(Status),
    /// Say what an ensemble waits for, since when, and what clears it
    ///
    /// Shows the plan in the status: the step that does not move, because of what, since when, what
    /// clears it, what is safe meanwhile, which safety rules hold (it is not those), and what you
    /// may do. The exit code says how the ensemble stands.
    Why(Named),
    /// Foretell what a change would do to an ensemble, step by step; nothing is changed
    ///
    /// Reads the ensemble's pods, claims and nodes, asks the API server whether it would accept the
    /// file (a dry run), then plays the controller's own decisions to their end on a copy of the
    /// cluster in memory. Durations are guesses: how long your containers take to start is not known
    /// beforehand. Exits with 0 if there is nothing to do, 2 if there is, 3 if it would wait for
    /// something, 4 if it would be stuck.
    Plan(Plan),
    /// Play a file on a cluster in memory, with what goes wrong; needs no cluster
    ///
    /// Brings the Ensemble of the file up on simulated nodes and says what happens, step by step.
    /// With --from the Ensemble of that file is brought up first and then changed. Faults and drains
    /// come once the first member is touched, or once all is well if none is. Every write is checked
    /// against the rules. Exits with 0 if all ends well, 3 if it would wait for something, 4 if it
    /// would be stuck or a rule was broken.
    Simulate(Simulate),
    /// Explain a reason or a safety rule that `why` names; needs no cluster
    ///
    /// Prints what the reason means, what clears it and what you can do, or what the rule demands. The
    /// pages are part of this binary. Without a word it lists all of them.
    Explain(Explain),
    /// List the revisions of an ensemble's template
    History(Named),
    /// Hold the rollout where it is; members that fail are still repaired
    ///
    /// Sets spec.rollout.paused as you, with your rights. If the Ensemble is kept in Git, Git wins at
    /// its next sync.
    Pause(Change),
    /// Let a paused rollout go on
    Resume(Change),
    /// Hand the lead to another member
    ///
    /// Creates an EnsembleRequest as you and waits for its outcome. Refused unless the member is in
    /// sync with the primary; the old primary stays if the lead does not arrive in time.
    Switch(Switch),
    /// Remove one member for good; the next ordinal takes its place
    ///
    /// Creates an EnsembleRequest as you and waits for its outcome. Refused if the member is the last
    /// replica in sync or its vote is needed. A primary hands over first. Its ordinal is never used again.
    Remove(crate::commands::removal::Remove),
    /// Replace one member by another under the next ordinal
    ///
    /// As `remove`, but the new member is in sync before the old one leaves. Deleting the
    /// EnsembleRequest before that calls it off.
    Replace(crate::commands::removal::Member),
    /// Let a supervised rollout hand the lead over and update the primary
    ///
    /// Needed where spec.rollout.primary is Supervised. Approves one revision: the one that is being
    /// rolled out, unless --revision names another.
    Approve(Approve),
    /// Suspend one safety rule for one member and a while
    ///
    /// Creates an EnsembleRequest as you and waits until the controller has accepted it. You take the
    /// risk that the rule guards against: only for this member, only until the time is up, and only
    /// while the same controller runs. Every other rule holds. It needs the verb `waive` on the
    /// Ensemble, which the ClusterRole `ensemble-waiver` grants. Rules about identity, ownership, claims
    /// and data cannot be waived. To end a waiver early, delete its EnsembleRequest.
    ///
    /// Example: ensemble waive orders within-budget --member orders-2 --reason "orders-1 is beyond
    /// repair" --for 10m
    Waive(Waive),
    /// Go back to an earlier template
    ///
    /// Without --to: to the revision that last reached all members, or, if that is the one asked for
    /// now, to the one before. Writes spec.template as you, with your rights; if the Ensemble is kept
    /// in Git, Git wins at its next sync.
    Undo(Undo),
    /// Print all that the controller needs, or apply it
    ///
    /// Without --apply nothing is touched: the manifests are printed. The controller gets no right to
    /// read Secrets and none to run commands in pods.
    Install(Install),
    /// Remove the controller; databases stay
    ///
    /// Members, their volumes and Services go on without a controller. With --crds every Ensemble is
    /// deleted too, each as an orphan: its pods and claims stay and are taken up again if an Ensemble
    /// of that name is created later.
    Uninstall(Uninstall),
    /// Print the CustomResourceDefinitions
    Crd,
    /// Run the controller
    ///
    /// It looks after all namespaces, or after one with --watch-namespace, and works only while it
    /// holds its Lease.
    Controller(Controller),
    /// Show what Ensemble does, on a cluster in memory
    ///
    /// Plays a script on the real conductor and a simulated Kubernetes with three nodes in three
    /// zones: create, upgrade, an image that does not exist, its correction, a node that dies, out
    /// and in. Needs no cluster, no root and no network. Every write is checked; exits with 1 if a
    /// rule was broken.
    Demo(Demo),
    /// Try everything that can go wrong, at every call, on a cluster in memory
    ///
    /// Plays every kind of fault at every call that the controller makes in each scenario, then
    /// sampled pairs, on the real conductor and a simulated Kubernetes; checks every write, then
    /// requires that all ends well. Exits with 4 if a rule was broken, and prints what to type to see
    /// it again.
    Explore(Explore),
    /// Print a completion script for a shell
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version,
    /// Print pages of the documentation that are made from the code
    #[command(hide = true)]
    Docs {
        /// The page
        page: crate::docs::Page,
    },
}

/// `status`.
#[derive(Args, Debug)]
pub struct Status {
    /// The ensemble; all of the namespace if absent
    #[arg(value_parser = ensemble_name)]
    pub name: Option<String>,
    /// In all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    pub all_namespaces: bool,
    /// Only those with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    pub selector: Option<String>,
    /// Go on showing: redrawn on a terminal, one line per change elsewhere
    #[arg(short, long)]
    pub watch: bool,
    /// Wait until the ensemble has converged; ends at once if it is stalled, paused or suspended
    #[arg(long, requires = "name", conflicts_with = "watch")]
    pub wait: bool,
    /// How long to wait at most: 90s, 10m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    pub timeout: Option<Duration>,
}

/// `switch`.
#[derive(Args, Debug)]
pub struct Switch {
    /// The ensemble
    #[arg(value_parser = ensemble_name)]
    pub name: String,
    /// Who is to lead: a member's name, such as orders-1; whoever is in sync and least behind if
    /// absent
    #[arg(long, value_name = "MEMBER")]
    pub to: Option<String>,
    /// Why, for those who read the request later
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// How long to wait for the outcome: 90s, 10m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2m")]
    pub timeout: Duration,
    /// Only ask
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
}

/// `approve`.
#[derive(Args, Debug)]
pub struct Approve {
    /// The ensemble
    #[arg(value_parser = ensemble_name)]
    pub name: String,
    /// The revision to approve; the newest if absent
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Why, for those who read the request later
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// `waive`.
#[derive(Args, Debug)]
pub struct Waive {
    /// The ensemble
    #[arg(value_parser = ensemble_name)]
    pub name: String,
    /// The rule, as `ensemble why NAME` names it
    #[arg(value_name = "RULE", value_parser = crate::commands::waive::WaivableRule)]
    pub rule: ensemble_api::Rule,
    /// The member for which the rule is suspended, such as orders-1
    #[arg(long, value_name = "MEMBER")]
    pub member: String,
    /// Why you take the risk, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = crate::commands::waive::reason)]
    pub reason: String,
    /// For how long: 10m, 1h; at least 1m, at most 24h
    #[arg(long = "for", value_name = "TIME", value_parser = crate::commands::waive::length)]
    pub length: Duration,
    /// How long to wait until the controller has accepted it: 90s, 10m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub timeout: Duration,
    /// Create the request and do not wait
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
}

/// One ensemble.
#[derive(Args, Debug)]
pub struct Named {
    /// The ensemble: NAME or ens/NAME
    #[arg(value_parser = ensemble_name)]
    pub name: String,
}

/// `plan`.
#[derive(Args, Debug)]
pub struct Plan {
    /// The ensemble: NAME or ens/NAME
    #[arg(value_parser = ensemble_name)]
    pub name: String,
    /// The Ensemble as it is to be, in YAML or JSON; '-' is stdin. Without it: what is left to do
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub file: Option<std::path::PathBuf>,
}

/// `simulate`.
#[derive(Args, Debug)]
pub struct Simulate {
    /// The Ensemble, in YAML or JSON; '-' is stdin
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub file: std::path::PathBuf,
    /// The Ensemble as it was before: it is brought up first, then changed
    #[arg(long, value_name = "FILE")]
    pub from: Option<std::path::PathBuf>,
    /// What goes wrong, several times for several: NodeDies@NODE, NodeParted@NODE,
    /// PodDeleted@MEMBER, ClaimDeleted@MEMBER, ControllerDies, StatusWiped, ImageMissing, CrashLoop,
    /// NeverReady
    #[arg(long, value_name = "KIND[@WHOM]")]
    pub fault: Vec<Trouble>,
    /// A node to drain: node-a, node-b, node-c and so on
    #[arg(long, value_name = "NODE")]
    pub drain: Vec<String>,
    /// How many nodes there are, in three zones in turn
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=26))]
    pub nodes: u8,
}

/// A change of one ensemble.
#[derive(Args, Debug)]
pub struct Change {
    /// The ensemble: NAME or ens/NAME
    #[arg(value_parser = ensemble_name)]
    pub name: String,
    /// Ask the API server whether it would be accepted, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `undo`.
#[derive(Args, Debug)]
pub struct Undo {
    /// Which one, and whether in earnest.
    #[command(flatten)]
    pub change: Change,
    /// The revision to go back to, as `ensemble history NAME` numbers them
    #[arg(long, value_name = "REVISION")]
    pub to: Option<i64>,
}

/// `install`.
#[derive(Args, Clone, Debug)]
pub struct Install {
    /// The controller's image
    #[arg(long, default_value = IMAGE)]
    pub image: String,
    /// Look after this namespace alone, with a Role in place of a ClusterRole
    #[arg(long, value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// How many controllers run; one works, the others wait for its Lease
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=5))]
    pub replicas: u32,
    /// Leave out the CustomResourceDefinitions, which need cluster-wide rights
    #[arg(long)]
    pub skip_crds: bool,
    /// Apply the manifests in place of printing them
    #[arg(long)]
    pub apply: bool,
    /// Wait until the controller is available
    #[arg(long, requires = "apply")]
    pub wait: bool,
    /// How long to wait at most: 90s, 10m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    pub timeout: Duration,
}

/// `uninstall`.
#[derive(Args, Debug)]
pub struct Uninstall {
    /// Also delete every Ensemble (its pods and claims stay) and the definitions
    #[arg(long)]
    pub crds: bool,
    /// The namespace that was given to `install --watch-namespace`
    #[arg(long, value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// Do it; without this flag it is only said what would be done
    #[arg(long)]
    pub yes: bool,
    /// How long to wait at most for the controller to end and for orphans to be let go
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    pub timeout: Duration,
}

/// `controller`.
#[derive(Args, Clone, Debug)]
pub struct Controller {
    /// Look after this namespace alone; default: all
    #[arg(long, value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// Read nodes although it looks after one namespace alone; needs a ClusterRole for nodes
    #[arg(long, requires = "watch_namespace")]
    pub read_nodes: bool,
    /// Where health and metrics are served: /healthz, /readyz, /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// The namespace of the Lease; default: that of the controller's pod
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "POD_NAMESPACE",
        hide_env_values = true
    )]
    pub lease_namespace: Option<String>,
    /// The name of the Lease
    #[arg(long, value_name = "NAME", default_value = "ensemble-controller")]
    pub lease_name: String,
    /// Who we are in the Lease; default: the pod's name, or the host's
    #[arg(long, value_name = "NAME", env = "POD_NAME", hide_env_values = true)]
    pub identity: Option<String>,
    /// How many calls to the API server may be under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub concurrency: usize,
    /// How logs are written to stderr
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub log_format: LogFormat,
}

/// `demo`.
#[derive(Args, Clone, Debug)]
pub struct Demo {
    /// Play to the end without waiting for a key between acts
    #[arg(long)]
    pub exit: bool,
    /// How many times as fast as ours the cluster's time passes; 0: as fast as it can
    #[arg(long, value_name = "TIMES", default_value_t = 20)]
    pub speed: u32,
}

/// `explain`.
#[derive(Args, Clone, Debug)]
pub struct Explain {
    /// A reason such as ImageMissing, or a rule such as within-budget; all of them if absent
    #[arg(value_name = "WORD")]
    pub word: Option<String>,
}

/// `explore`.
#[derive(Args, Clone)]
pub struct Explore {
    /// The scenario, several times for several; all if absent
    #[arg(long, value_name = "NAME", value_parser = scenario_name)]
    pub scenario: Vec<Scenario>,
    /// How many pairs of faults are sampled for each scenario, beside every single fault
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub schedules: u64,
    /// Where the samples begin
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Go on for so long: single faults first, a part of them in every scenario in turn, then pairs
    #[arg(long, value_name = "MINUTES", value_parser = minutes, conflicts_with = "schedules")]
    pub minutes: Option<f64>,
    /// The kinds of fault, separated by commas; all if absent
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = fault::named)]
    pub faults: Vec<What>,
    /// Play one scenario with these faults, as in CrashAfter@12,Stale@3, and print its trace
    #[arg(long, value_name = "FAULTS", value_delimiter = ',', num_args = 0.., requires = "scenario", conflicts_with_all = ["schedules", "seed", "faults", "minutes"])]
    pub replay: Option<Vec<Fault>>,
}

impl std::fmt::Debug for Explore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.scenario.iter().map(|s| s.name).collect();
        f.debug_struct("Explore")
            .field("scenario", &names)
            .field("replay", &self.replay)
            .finish_non_exhaustive()
    }
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// A time in minutes, as in 5 or 0.5.
fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse::<f64>().ok();
    let usable = minutes.filter(|m| *m > 0.0 && *m <= 60.0 * 24.0 * 7.0);
    usable.ok_or_else(|| "it takes minutes, as in 5 or 0.5, up to a week".to_owned())
}

/// `orders`, `ens/orders`, `ensemble/orders` and kubectl's long forms are one name.
pub(crate) fn ensemble_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        None => text,
        Some((kind, name)) => {
            let kinds = [
                "ens",
                "ensemble",
                "ensembles",
                "ensemble.ensemble.dev",
                "ensembles.ensemble.dev",
            ];
            if !kinds.contains(&kind) {
                return Err(format!(
                    "'{kind}' is not an ensemble; write NAME or ens/NAME"
                ));
            }
            name
        }
    };
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if name.is_empty() || !name.chars().all(letters) {
        return Err("not a name: lower-case letters, digits and '-', for example 'orders'".into());
    }
    Ok(name.to_owned())
}

/// `90s`, `10m`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time with its unit: 90s, 10m, 1h30m".to_owned();
    let mut total = 0_u64;
    let mut digits = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            _ => return Err(wrong()),
        };
        let count: u64 = digits.parse().map_err(|_| wrong())?;
        let seconds = count.checked_mul(unit).ok_or_else(wrong)?;
        total = total.checked_add(seconds).ok_or_else(wrong)?;
        digits.clear();
    }
    if !digits.is_empty() || text.is_empty() {
        Err(wrong())
    } else {
        Ok(Duration::from_secs(total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_name_may_carry_its_kind_as_in_kubectl() {
        for text in [
            "orders",
            "ens/orders",
            "ensemble/orders",
            "ensembles.ensemble.dev/orders",
        ] {
            assert_eq!(ensemble_name(text).unwrap(), "orders");
        }
        for text in ["sts/orders", "ens/", "", "Orders", "a b"] {
            assert!(ensemble_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("90s").unwrap().as_secs(), 90);
        assert_eq!(duration("1h30m").unwrap().as_secs(), 5400);
        for text in ["", "10", "m", "5d", "-1s", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
