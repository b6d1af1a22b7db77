//! Members come and go, a leader is voted for, writes are acknowledged.

use super::{CATCH_UP_MS, Change, ELECTION_MS, Etcd, LOOK_MS, Run, START_MS, Trouble, WRITE_MS};
use simkube::{Process, WorkloadApi};

impl Etcd {
    pub(super) fn started(&mut self, process: &Process) {
        self.starts += 1;
        let up_at = if process.image.ends_with(":deaf") {
            u64::MAX
        } else {
            self.now + START_MS
        };
        let run = Run {
            uid: process.pod_uid.to_string(),
            node: process.node.to_string(),
            up_at,
            synced_at: up_at.saturating_add(CATCH_UP_MS),
            stopping: false,
            reachable: true,
            start: self.starts,
        };
        let member = self.members.entry(process.pod.clone()).or_default();
        member.run = Some(run);
    }

    /// A leader that is told to stop does not hand over by itself.
    pub(super) fn stopping(&mut self, name: &str) {
        if let Some(run) = self.members.get_mut(name).and_then(|m| m.run.as_mut()) {
            run.stopping = true;
        }
        self.live();
    }

    pub(super) fn stopped(&mut self, name: &str) {
        if let Some(member) = self.members.get_mut(name) {
            member.run = None;
        }
        self.live();
    }

    /// Lets time pass: what is written is acknowledged once a majority has it.
    pub(super) fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        let present: Vec<String> = self.names().filter(|n| self.in_sync(n)).collect();
        for name in &present {
            self.last_synced.insert(name.clone(), self.now);
        }
        let Some(leader) = self.leader.clone() else {
            return;
        };
        self.last_led.insert(leader.clone(), self.now);
        if !self.is_up(&leader) {
            return;
        }
        if present.len() >= self.majority() {
            self.write();
        }
        for name in present {
            if let Some(member) = self.members.get_mut(&name) {
                member.index = self.acknowledged;
            }
        }
    }

    /// A client writes, and a majority has it.
    fn write(&mut self) {
        let pause = self.now.saturating_sub(self.written_at);
        let writes = pause / WRITE_MS;
        if writes == 0 {
            return;
        }
        if self.acknowledged > 0 && pause > LOOK_MS {
            self.longest_pause_ms = self.longest_pause_ms.max(pause);
        }
        self.written_at = self.now;
        self.acknowledged += writes;
    }

    pub(super) fn next_due(&self) -> u64 {
        let runs = self.members.values().filter_map(|m| m.run.as_ref());
        let mut due: Vec<u64> = runs.flat_map(|r| [r.up_at, r.synced_at]).collect();
        if self.leader.is_none() {
            due.push(self.vacant_since + ELECTION_MS);
        }
        let later = due.into_iter().filter(|at| *at > self.now).min();
        later.map_or(self.next_look, |at| at.min(self.next_look))
    }

    /// Notices which nodes are cut off: those cannot be heard, and hear nobody.
    pub(super) fn look(&mut self, api: &WorkloadApi<'_>) {
        self.next_look = self.now + LOOK_MS;
        let now = self.now;
        let lag = self.is(Trouble::Lag);
        for run in self.members.values_mut().filter_map(|m| m.run.as_mut()) {
            let reachable = api.reachable(&run.node);
            if reachable && !run.reachable || lag {
                run.synced_at = run.synced_at.max(now + CATCH_UP_MS);
            }
            run.reachable = reachable;
        }
        self.troubles.retain(|_, until| *until > now);
    }

    /// A leader without a majority steps down; without a leader one is voted for.
    pub(super) fn live(&mut self) {
        let up: Vec<String> = self.names().filter(|n| self.is_up(n)).collect();
        let heard = up.len() >= self.majority();
        if self
            .leader
            .as_ref()
            .is_some_and(|l| !heard || !up.contains(l))
        {
            self.leader = None;
            self.vacant_since = self.now;
            self.version += 1;
        }
        if self.leader.is_none() && heard && self.vacant_since + ELECTION_MS <= self.now {
            let index = |n: &&String| self.members.get(*n).map_or(0, |m| m.index);
            if let Some(winner) = up.iter().max_by_key(index).cloned() {
                self.elect(&winner, false);
            }
        }
    }

    /// That member leads from now on; it has all that anybody has who is heard.
    pub(super) fn elect(&mut self, to: &str, asked_by_us: bool) {
        self.term += 1;
        let lost = self
            .members
            .get(to)
            .map_or(0, |m| self.acknowledged.saturating_sub(m.index));
        let uid = self.run(to).map(|r| r.uid.clone()).unwrap_or_default();
        self.changes.push(Change {
            at: self.now,
            from: self.last_leader.take(),
            to: to.to_owned(),
            term: self.term,
            lost,
            asked_by_us,
        });
        self.last_leader = Some((to.to_owned(), uid));
        self.leader = Some(to.to_owned());
        if let Some(run) = self.members.get_mut(to).and_then(|m| m.run.as_mut()) {
            run.synced_at = run.synced_at.min(self.now);
        }
        self.version += 1;
        self.next_look = self.now;
    }
}
