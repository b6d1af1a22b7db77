//! Who leads: the lock, elections, switchovers, slots and the synchronous standby.

use super::{
    Change, Handing, LOOK_MS, LOOP_WAIT_MS, Patroni, REWIND_MS, Run, START_MS, State, TTL_MS,
    Trouble,
};
use serde_json::json;
use simkube::{Request, Resource, WorkloadApi};

/// A released lock is taken after so long.
const TAKE_MS: u64 = 200;
/// A replica attaches so long after it could.
const ATTACH_MS: u64 = 500;
/// A new leader takes writes so long after it took the lock.
const PROMOTE_MS: u64 = 70;
/// So long after if promotions are late.
const LATE_MS: u64 = 5_000;
/// A replica that is slow over the end of the old term takes so long.
const OLD_TERM_MS: u64 = 15_000;
/// A leader that cannot renew the lock gives up after so long.
const GIVE_UP_MS: u64 = 20_000;
/// How far behind one may be and still take over, in writes: a megabyte.
const MAX_BEHIND: u64 = 16;

impl Patroni {
    /// Lets time pass: the leader takes writes, its replicas get them.
    pub(super) fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        for (name, member) in &self.members {
            if member.run.as_ref().is_some_and(Run::streams) {
                self.last_streamed.insert(name.clone(), self.now);
            }
        }
        let Some(name) = self.leader().map(str::to_owned) else {
            return;
        };
        self.last_led.insert(name.clone(), self.now);
        if let Some(standby) = self.sync.1.clone() {
            self.last_named.insert(standby, self.now);
        }
        let frozen = self.is(Trouble::Lag);
        let blocked = match &self.sync.1 {
            Some(standby) => frozen || !self.in_sync(standby),
            None => false,
        };
        let now = self.now;
        let Some(run) = self.run_mut(&name).filter(|r| r.takes_from <= now) else {
            return;
        };
        if blocked || !run.reachable {
            run.takes_from = now;
            return;
        }
        let from = run.takes_from;
        let count = self.writer.due(from, now);
        self.writer.acknowledged.append(count);
        if let Some(leader) = self.members.get_mut(&name) {
            leader.log.append(count);
        }
        if !frozen {
            self.ship(&name, 1);
        }
    }

    /// Replicas get all but the last few of the leader's writes; the synchronous one all.
    fn ship(&mut self, leader: &str, behind: u64) {
        let Some(log) = self.members.get(leader).map(|m| m.log.clone()) else {
            return;
        };
        let standby = self.sync.1.clone();
        for (name, member) in &mut self.members {
            let streams = member.run.as_ref().is_some_and(Run::streams);
            if streams {
                let behind = if standby.as_ref() == Some(name) {
                    0
                } else {
                    behind
                };
                let to = log.end().saturating_sub(behind).max(member.log.end());
                member.log.follow(&log, to);
            }
        }
    }

    /// A leader that stops cleanly lets its replicas have everything.
    pub(super) fn flush(&mut self, leader: &str) {
        if !self.is(Trouble::Lag) {
            self.ship(leader, 0);
        }
    }

    pub(super) fn no_streams(&mut self) {
        for run in self.members.values_mut().filter_map(|m| m.run.as_mut()) {
            run.streams_since = None;
            run.attach_at = None;
        }
    }

    fn eligible(&self, name: &str) -> bool {
        let Some(run) = self.run(name) else {
            return false;
        };
        let known =
            self.sync.0.is_empty() || self.sync.0 == name || self.sync.1.as_deref() == Some(name);
        let end = self.members.get(name).map_or(0, |m| m.log.end());
        run.state == State::Up
            && run.reachable
            && (!self.synchronous || known)
            && self.writer.acknowledged.end() <= end + MAX_BEHIND
    }

    pub(super) fn somebody_has_all(&self, leader: &str) -> bool {
        let Some(log) = self.members.get(leader).map(|m| &m.log) else {
            return false;
        };
        let has = |name: &String| {
            self.members
                .get(name)
                .is_some_and(|m| m.log.shared(log) == log.end())
        };
        self.members
            .keys()
            .any(|n| n != leader && self.eligible(n) && has(n))
    }

    pub(super) fn release(&mut self) {
        self.holder = None;
        self.vacant_from = self.now + TAKE_MS;
    }

    /// Everything that is due.
    pub(super) fn advance_ha(&mut self) {
        self.start_again();
        self.starts_end();
        self.hand_on();
        self.leader_gives_up();
        self.lock_expires();
        self.elect();
        self.leader_looks();
        self.attach();
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> u64 {
        let mut due = Vec::new();
        if let Some(handing) = &self.handing {
            due.push(match (handing.stopped, handing.released) {
                (false, _) => handing.stops_at,
                (true, false) => handing.releases_at,
                (true, true) => handing.takes_at,
            });
        }
        if self.holder.is_none() && self.vacant_from > self.now {
            due.push(self.vacant_from);
        }
        for run in self.members.values().filter_map(|m| m.run.as_ref()) {
            if let State::Starting(until) | State::Halted(until) = run.state {
                due.push(until);
            }
            due.push(run.next_loop);
            due.extend(run.attach_at);
            due.extend(run.old_term.map(|(until, _)| until));
        }
        // What was due and could not be done is looked at again in a while.
        let later = due.into_iter().filter(|at| *at > self.now).min();
        later.map_or(self.next_look, |at| at.min(self.next_look))
    }

    /// Notices which nodes are cut off.
    pub(super) fn look(&mut self, api: &WorkloadApi<'_>) {
        self.next_look = self.now + LOOK_MS;
        let leader = self
            .leader()
            .and_then(|l| self.run(l))
            .map(|r| r.node.clone());
        let now = self.now;
        for run in self.members.values_mut().filter_map(|m| m.run.as_mut()) {
            run.reachable = api.reachable(&run.node);
            let cut = leader.as_ref().is_none_or(|l| !api.connected(l, &run.node));
            if cut {
                run.streams_since = None;
            }
        }
        self.part();
        let usurped = self.troubles.contains_key(&Trouble::Usurped);
        self.troubles.retain(|_, until| *until > now);
        if usurped && !self.troubles.contains_key(&Trouble::Usurped) {
            self.usurper_gives_up();
        }
    }

    fn starts_end(&mut self) {
        let now = self.now;
        for run in self.members.values_mut().filter_map(|m| m.run.as_mut()) {
            if matches!(run.state, State::Halted(until) if until <= now) {
                self.starts += 1;
                run.start = self.starts;
                run.state = State::Starting(now + START_MS);
                run.started_at = now;
            }
        }
        let due = |s: State| matches!(s, State::Starting(until) if until <= now);
        let up: Vec<String> = self
            .members
            .iter()
            .filter(|(_, m)| m.run.as_ref().is_some_and(|r| due(r.state)))
            .map(|(n, _)| n.clone())
            .collect();
        for name in up {
            let holds = self.holder.as_ref() == Some(&name);
            let Some(run) = self.run_mut(&name) else {
                continue;
            };
            run.state = State::Up;
            run.rewinds_since = None;
            self.version += 1;
            let Some(run) = self.run_mut(&name) else {
                continue;
            };
            run.label = Some("replica");
            if run.leads && holds {
                // PostgreSQL was restarted under the lock.
                run.label = Some("primary");
                run.takes_from = now + PROMOTE_MS;
                run.next_loop = now + LOOP_WAIT_MS;
            } else if holds && run.reachable {
                self.promote(&name);
            } else {
                // Whoever cannot reach the lock does not know that it has it.
                run.leads = false;
            }
        }
    }

    /// Moves a switchover on.
    fn hand_on(&mut self) {
        let Some(mut handing) = self.handing.take() else {
            return;
        };
        let now = self.now;
        if !handing.stopped && handing.stops_at <= now {
            handing.stopped = true;
            if self.leader() != Some(&handing.from) {
                return;
            }
            self.flush(&handing.from);
            self.no_streams();
            if let Some(run) = self.run_mut(&handing.from) {
                run.takes_from = u64::MAX;
                run.state = State::Starting(u64::MAX);
            }
        }
        if handing.stopped && !handing.released && handing.releases_at <= now {
            handing.released = true;
            let alive = self.run(&handing.from).is_some();
            if self.holder.as_ref() != Some(&handing.from) || !alive {
                return;
            }
            if !self.caught_up(&handing) {
                // Nobody has everything: the old leader starts again.
                if let Some(run) = self.run_mut(&handing.from) {
                    run.state = State::Starting(now + START_MS);
                }
                return;
            }
            self.holder = None;
            self.vacant_from = u64::MAX;
            let applied = self.kept().clone();
            if let Some(run) = self.run_mut(&handing.from) {
                run.applied = applied;
                run.leads = false;
                run.label = None;
                run.next_loop = u64::MAX;
                run.state = State::Starting(handing.restarts_at);
            }
        }
        if handing.released && handing.takes_at <= now {
            if self.eligible(&handing.to) && self.holder.is_none() {
                self.promote(&handing.to);
            } else {
                self.vacant_from = now;
            }
            return;
        }
        self.handing = Some(handing);
    }

    fn caught_up(&self, handing: &Handing) -> bool {
        let log = |name: &str| self.members.get(name).map(|m| &m.log);
        let (Some(old), Some(new)) = (log(&handing.from), log(&handing.to)) else {
            return false;
        };
        self.eligible(&handing.to) && new.shared(old) == old.end()
    }

    fn leader_gives_up(&mut self) {
        let now = self.now;
        let late = self.renewed + GIVE_UP_MS <= now;
        for run in self.members.values_mut().filter_map(|m| m.run.as_mut()) {
            if run.leads && run.state == State::Up && late && !run.reachable {
                run.leads = false;
                run.takes_from = u64::MAX;
                run.next_loop = u64::MAX;
                run.label = None;
                run.state = State::Starting(now + START_MS);
            }
        }
    }

    fn lock_expires(&mut self) {
        let Some(holder) = self.holder.clone() else {
            return;
        };
        if self.renewed + TTL_MS > self.now {
            return;
        }
        self.holder = None;
        self.vacant_from = self.now;
        self.no_streams();
        if let Some(run) = self.run_mut(&holder) {
            run.leads = false;
            run.takes_from = u64::MAX;
            run.next_loop = u64::MAX;
        }
    }

    fn elect(&mut self) {
        if self.holder.is_some() || self.vacant_from > self.now || self.is(Trouble::Paused) {
            return;
        }
        let end = |n: &String| self.members.get(n).map_or(0, |m| m.log.end());
        let mut candidates: Vec<String> = self
            .members
            .keys()
            .filter(|n| self.eligible(n))
            .cloned()
            .collect();
        candidates.sort_by_key(|n| (std::cmp::Reverse(end(n)), n.clone()));
        if let Some(best) = candidates.first().cloned() {
            self.promote(&best);
        }
    }

    fn promote(&mut self, name: &str) {
        self.version += 1;
        self.no_streams();
        self.handing = None;
        self.term += 1;
        let (term, now) = (self.term, self.now);
        let late = self.is(Trouble::LatePromotion);
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        let promoted = now + PROMOTE_MS + if late { LATE_MS } else { 0 };
        member.log.begin(term);
        let log = member.log.clone();
        let Some(run) = member.run.as_mut() else {
            return;
        };
        run.leads = true;
        run.slots.clear();
        run.promoted_at = promoted;
        run.takes_from = promoted;
        run.next_loop = now + LOOP_WAIT_MS;
        run.label = Some("primary");
        let (uid, start) = (run.uid.clone(), run.start);
        let lost = self.writer.led_by(&log);
        let former = self.last_leader.replace((name.to_owned(), (uid, start)));
        let (from, from_run) = former.unzip();
        self.holder = Some(name.to_owned());
        self.renewed = now;
        self.sync = (name.to_owned(), None);
        self.last_led.insert(name.to_owned(), now);
        self.changes.push(Change {
            at: now,
            from,
            from_run,
            to: name.to_owned(),
            promoted,
            term,
            lost,
            asked_by_us: std::mem::take(&mut self.asked_by_us),
        });
    }

    /// The leader's loop: it renews the lock, makes slots, names the standby.
    fn leader_looks(&mut self) {
        let Some(name) = self.leader().map(str::to_owned) else {
            return;
        };
        let now = self.now;
        let here: std::collections::BTreeSet<String> = self
            .members
            .iter()
            .filter(|(n, m)| m.run.is_some() && **n != name)
            .map(|(n, _)| n.clone())
            .collect();
        let Some(run) = self.run_mut(&name).filter(|r| r.next_loop <= now) else {
            return;
        };
        run.next_loop = now + LOOP_WAIT_MS;
        if !run.reachable {
            return;
        }
        run.slots.clone_from(&here);
        self.renewed = now;
        self.version += 1;
        if !self.synchronous {
            return;
        }
        let streams = |n: &String| {
            self.run(n)
                .is_some_and(|r| r.streams() && r.state == State::Up)
        };
        let kept = self.sync.1.clone().filter(|s| streams(s));
        self.sync.1 = kept.or_else(|| here.iter().find(|n| streams(n)).cloned());
        if let Some(standby) = self.sync.1.clone()
            && let Some(log) = self.members.get(&name).map(|m| m.log.clone())
            && let Some(member) = self.members.get_mut(&standby)
        {
            // It is named once it has everything.
            let end = log.end();
            member.log.follow(&log, end);
        }
    }

    /// Replicas with a slot begin to stream; one whose log has parted is rewound first.
    fn attach(&mut self) {
        let Some(leader) = self.leader().map(str::to_owned) else {
            return;
        };
        let Some((log, slots)) = self.members.get(&leader).and_then(|m| {
            let run = m.run.as_ref().filter(|r| r.reachable)?;
            Some((m.log.clone(), run.slots.clone()))
        }) else {
            return;
        };
        let now = self.now;
        let slow = self.is(Trouble::OldTerm);
        let written = self.writer.acknowledged.end();
        for (name, member) in &mut self.members {
            let Some(run) = member
                .run
                .as_mut()
                .filter(|_| *name != leader && slots.contains(name))
            else {
                continue;
            };
            if run.old_term.is_some_and(|(until, _)| until <= now) {
                run.old_term = None;
                self.version += 1;
            }
            let apart = self.apart.as_ref() == Some(name);
            if run.state != State::Up || run.streams_since.is_some() || !run.reachable || apart {
                run.attach_at = None;
                continue;
            }
            let at = *run.attach_at.get_or_insert(now + ATTACH_MS);
            if at > now {
                continue;
            }
            run.attach_at = None;
            let shared = member.log.shared(&log);
            if shared < member.log.end() {
                member.log.cut(shared);
                run.state = State::Starting(now + REWIND_MS);
                run.rewinds_since = Some(now);
                run.label = None;
            } else {
                run.streams_since = Some(now);
                let behind = written.saturating_sub(member.log.end());
                let newer = member.log.term() < log.term();
                run.old_term = (slow && newer).then_some((now + OLD_TERM_MS, behind));
                self.version += 1;
            }
        }
    }

    /// Somebody asks for a switchover.
    pub(super) fn hand_over(&mut self, from: &str, to: &str, ours: bool) -> Result<(), String> {
        if self.leader() != Some(from) {
            return Err("leader name does not match".into());
        }
        if self.handing.is_some() {
            return Err("a switchover is under way".into());
        }
        if !self.eligible(to) || to == from {
            return Err(format!("{to} is no good candidate"));
        }
        let now = self.now;
        self.handing = Some(Handing {
            from: from.to_owned(),
            to: to.to_owned(),
            stops_at: now + 260,
            releases_at: now + 1_400,
            takes_at: now + 1_590,
            restarts_at: now + 3_000,
            stopped: false,
            released: false,
        });
        self.asked_by_us = ours;
        Ok(())
    }

    /// The leader's loop runs now.
    pub(super) fn nudge(&mut self) {
        let now = self.now;
        if let Some(leader) = self.leader().map(str::to_owned)
            && let Some(run) = self.run_mut(&leader)
        {
            run.next_loop = now;
        }
    }

    /// PostgreSQL of a member is restarted in its container.
    pub(super) fn restart(&mut self, name: &str) {
        let now = self.now;
        if self.run(name).is_some_and(|r| r.leads) {
            self.flush(name);
            self.no_streams();
        }
        self.starts += 1;
        let (start, applied) = (self.starts, self.kept().clone());
        let takes = self.starts_in(name);
        if let Some(run) = self.run_mut(name) {
            run.failed = takes.is_none();
            run.state = takes.map_or(State::Failing, |takes| State::Starting(now + takes));
            run.takes_from = u64::MAX;
            run.streams_since = None;
            run.start = start;
            run.started_at = now;
            run.applied = applied;
        }
    }

    /// Agents write their labels, if they can reach the API server.
    pub(super) fn write_labels(&mut self, api: &mut WorkloadApi<'_>) {
        let [key, primary, replica] = self.label.clone();
        for (name, member) in &mut self.members {
            let Some(run) = member.run.as_mut().filter(|r| r.label != r.written) else {
                continue;
            };
            let primary = run.calls_primary.unwrap_or(primary.as_str());
            let role = run
                .label
                .map(|l| if l == "primary" { primary } else { &replica });
            let body = json!({"metadata": {"uid": run.uid, "labels": {&key: role}}});
            let request = Request::patch(Resource::Pods, &self.namespace, name, body);
            let request = request.client("patroni");
            if api.call(&run.node, &request).is_some() {
                run.written = run.label;
            }
        }
    }
}
