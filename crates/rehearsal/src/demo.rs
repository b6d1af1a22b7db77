//! The demo: a script in acts, played on the real conductor a piece at a time, so that whoever
//! watches decides how fast time passes.

use crate::driver::{Driver, Scene};
use crate::invariants::{Broken, Checker};
use crate::patroni;
use crate::role_rules::RoleRules;
use crate::roles::{found, settled};
use crate::scenario::{self, Line, image, replicas, waits_for};
use crate::world::{self, World};
use ensemble_api::Reason;
use ensemble_conductor::EngineCall;
use serde_json::{Value, json};
use std::sync::Arc;

/// How long one line may take, in virtual time.
const PATIENCE_MS: u64 = 40 * 60 * 1000;
/// The most time that passes in one piece.
const PIECE_MS: u64 = 1000;
/// The node that dies.
const VICTIM: &str = "node-b";
/// The act in which it does.
const NODE_DIES: &str = "a node dies";

/// Something to see, from beginning to end.
pub struct Act {
    /// What it is about.
    pub title: &'static str,
    /// What to look at.
    pub look: &'static str,
    lines: &'static [Line],
}

const SETTLED: Line = Line::Until(
    "all members serve, at the newest template, and follow the leader",
    settled,
);
/// Time to look at it.
const LOOK: Line = Line::Pass(20);

/// The script.
pub const ACTS: &[Act] = &[
    Act {
        title: "create",
        look: "PostgreSQL with three members: one leads, two follow, one of them synchronously.",
        lines: &[
            Line::Do("kubectl apply -f orders.yaml", |w| {
                found(w, true, json!({}))
            }),
            SETTLED,
            LOOK,
        ],
    },
    Act {
        title: "upgrade",
        look: "A new image, pulled ahead: replicas first, then the lead is handed over, the old primary last.",
        lines: &[
            Line::Do("the image becomes db:2", |w| image(w, "2")),
            SETTLED,
            LOOK,
        ],
    },
    Act {
        title: "an image that does not exist",
        look: "It is found out before anybody is touched: all members go on serving.",
        lines: &[
            Line::Do("the image becomes db:missing", |w| image(w, "missing")),
            Line::Until("it waits for ImageMissing", |w| {
                waits_for(w, Reason::ImageMissing)
            }),
            Line::Pass(60),
        ],
    },
    Act {
        title: "correct it",
        look: "The next template goes through at once; nothing has to be cleaned up.",
        lines: &[
            Line::Do("the image becomes db:3", |w| image(w, "3")),
            SETTLED,
            LOOK,
        ],
    },
    Act {
        title: NODE_DIES,
        look: "PostgreSQL sees to its lead itself; nobody takes the member's place, for it may still be writing.",
        lines: &[
            Line::Do("node-b loses its power", |w| w.cluster.kill_node(VICTIM)),
            Line::Until("a member does not serve", member_lost),
            Line::Pass(60),
            Line::Do("node-b is back", |w| w.cluster.heal_node(VICTIM)),
            SETTLED,
            LOOK,
        ],
    },
    Act {
        title: "scale out",
        look: "Two more members, each with volumes of its own.",
        lines: &[
            Line::Do("kubectl scale ens/orders --replicas 5", |w| replicas(w, 5)),
            SETTLED,
            LOOK,
        ],
    },
    Act {
        title: "scale in",
        look: "The two that came last go again; their volumes are kept.",
        lines: &[
            Line::Do("kubectl scale ens/orders --replicas 3", |w| replicas(w, 3)),
            SETTLED,
            LOOK,
        ],
    },
];

fn member_lost(world: &World) -> bool {
    scenario::status(world)
        .members
        .iter()
        .any(|m| m.presence != "Serving")
}

/// What has just happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// An act begins.
    Opens,
    /// Somebody did something.
    Did(&'static str),
    /// What was waited for has come.
    Seen(&'static str),
    /// Some time has passed.
    Later,
    /// The act is over.
    Closes,
    /// The script is over.
    Ends,
}

/// What the demo comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How long it took, in virtual time.
    pub virtual_ms: u64,
    /// How many calls the controller made.
    pub calls: u32,
    /// How many members it disrupted: told to end, or changed in place.
    pub disruptions: u32,
    /// How often the leader changed.
    pub leader_changes: u32,
    /// The longest time between two acknowledged writes, before the node dies.
    pub longest_pause_ms: u64,
    /// How many acknowledged writes were lost.
    pub writes_lost: u64,
    /// The fewest members that served at once, after all had.
    pub fewest_ready: Option<u32>,
    /// The lowest number of further losses that status said could be borne, after the first act.
    pub lowest_tolerance: Option<u32>,
    /// How many writes were checked against the rules.
    pub checks: u64,
}

/// A demo under way.
pub struct Demo {
    scene: Scene,
    checker: Checker,
    roles: RoleRules,
    began: u64,
    act: usize,
    /// 0 before the act opens, then one more than the line.
    at: usize,
    line_began: u64,
    lowest_tolerance: Option<u32>,
    longest_pause_ms: u64,
}

impl Default for Demo {
    fn default() -> Self {
        Self::new()
    }
}

impl Demo {
    /// A fresh cluster and a controller that has nothing to do yet.
    pub fn new() -> Self {
        let scene = Scene::new(world::fresh(), 1);
        let began = scene.now();
        Self {
            scene,
            checker: Checker::default(),
            roles: RoleRules::default(),
            began,
            act: 0,
            at: 0,
            line_began: began,
            lowest_tolerance: None,
            longest_pause_ms: 0,
        }
    }

    /// The act that is played, and its number from 1; the last one once all is over.
    pub fn act(&self) -> (usize, &'static Act) {
        let at = self.act.min(ACTS.len() - 1);
        (at + 1, &ACTS[at])
    }

    /// The cluster's time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.scene.now()
    }

    /// The Ensemble as the API server has it.
    pub fn ensemble(&self) -> Option<Value> {
        scenario::ensemble(&self.scene.world).map(|object| (*object).clone())
    }

    /// What it has come to so far.
    pub fn summary(&self) -> Summary {
        let changes = patroni::of(&self.scene.world).map_or(&[][..], |m| m.changes());
        Summary {
            leader_changes: u32::try_from(changes.len().saturating_sub(1)).unwrap_or(0),
            longest_pause_ms: self.longest_pause_ms,
            writes_lost: changes.iter().map(|c| c.lost).sum(),
            virtual_ms: self.now_ms() - self.began,
            calls: self.scene.calls,
            disruptions: self.checker.disruptions + self.roles.in_place,
            fewest_ready: self.checker.fewest_ready,
            lowest_tolerance: self.lowest_tolerance,
            checks: self.checker.checks,
        }
    }

    /// Plays one piece: at most a second, or one call, or one line of the script.
    pub fn advance(&mut self) -> Result<Moment, Broken> {
        let Some(act) = ACTS.get(self.act) else {
            return Ok(Moment::Ends);
        };
        if self.at == 0 {
            return Ok(self.turn_page(Moment::Opens));
        }
        match act.lines.get(self.at - 1) {
            Some(line) => self.line(line),
            None if self.at == act.lines.len() + 1 => Ok(self.turn_page(Moment::Closes)),
            None => {
                self.act += 1;
                self.at = 0;
                self.advance()
            }
        }
    }

    fn turn_page(&mut self, moment: Moment) -> Moment {
        self.at += 1;
        self.line_began = self.now_ms();
        moment
    }

    fn line(&mut self, line: &Line) -> Result<Moment, Broken> {
        let passed = self.now_ms() - self.line_began;
        match line {
            Line::Do(what, act) => {
                act(&mut self.scene.world);
                self.check()?;
                return Ok(self.turn_page(Moment::Did(what)));
            }
            Line::Until(what, holds) if holds(&self.scene.world) => {
                return Ok(self.turn_page(Moment::Seen(what)));
            }
            Line::Until(what, _) if passed >= PATIENCE_MS => {
                return Err(Broken {
                    rule: "converges",
                    seen: format!("not within 40 minutes: {what}"),
                });
            }
            Line::Pass(seconds) if passed >= seconds * 1000 => {
                return Ok(self.turn_page(Moment::Later));
            }
            Line::Until(..) | Line::Repeat(..) | Line::Pass(_) => {}
        }
        self.step(self.now_ms() + PIECE_MS)?;
        Ok(Moment::Later)
    }

    /// What happens once the node has died is not an upgrade's doing.
    fn note_pause(&mut self) {
        let upgrades = ACTS.iter().take_while(|a| a.title != NODE_DIES).count();
        if self.act < upgrades
            && let Some(model) = patroni::of(&self.scene.world)
        {
            self.longest_pause_ms = model.longest_pause_ms();
        }
    }

    fn check(&mut self) -> Result<(), Broken> {
        let before = self.checker.checks;
        self.checker.check(&self.scene.world)?;
        self.roles.check(&self.scene.world)?;
        if self.checker.checks > before && self.act > 0 {
            let tolerance = scenario::status(&self.scene.world).plan.tolerance;
            let lowest = self
                .lowest_tolerance
                .map_or(tolerance, |t| t.min(tolerance));
            self.lowest_tolerance = Some(lowest);
        }
        Ok(())
    }
}

impl Driver for Demo {
    type Stop = Broken;

    fn scene(&mut self) -> &mut Scene {
        &mut self.scene
    }

    fn asks(&mut self, _: &Arc<str>, call: &EngineCall) -> Result<(), Broken> {
        self.roles.asked(&self.scene.world, call)
    }

    fn thought(&mut self) -> Result<(), Broken> {
        self.note_pause();
        Ok(())
    }

    fn written(&mut self) -> Result<(), Broken> {
        self.check()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on may as well stop
mod tests {
    use super::*;

    /// By act: how many members were told to end, and what was seen.
    fn play() -> (Vec<u32>, Vec<&'static str>, Summary) {
        let mut demo = Demo::new();
        let (mut acts, mut seen, mut before) = (Vec::new(), Vec::new(), 0);
        loop {
            match demo.advance().unwrap() {
                Moment::Ends => return (acts, seen, demo.summary()),
                Moment::Seen(what) => seen.push(what),
                Moment::Closes => {
                    acts.push(demo.summary().disruptions - before);
                    before = demo.summary().disruptions;
                }
                _ => {}
            }
        }
    }

    #[test]
    fn the_script_plays_to_its_end_and_breaks_no_rule() {
        let (acts, seen, summary) = play();
        assert_eq!(acts.len(), ACTS.len());
        assert_eq!(acts[1], 3, "an upgrade changes each member once");
        assert_eq!(acts[2], 0, "a missing image costs nobody");
        assert!(seen.contains(&"it waits for ImageMissing"));
        assert_eq!(summary.fewest_ready, Some(2), "{summary:?}");
        assert!(summary.checks > 100);
        assert_eq!(summary.writes_lost, 0);
        assert!(summary.longest_pause_ms < 2_000, "{summary:?}");
        assert!(summary.leader_changes >= 2, "one for each upgrade");
    }
}
