//! Planning is linear in members: a thousand of them take well under 5 ms on one core.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use common::World;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ensemble_planner::{Snapshot, plan};
use serde_json::json;
use std::hint::black_box;

const MEMBERS: [u32; 4] = [1, 10, 100, 1000];

/// Everybody serves, nothing is to do.
fn converged(members: u32) -> Snapshot {
    World::settled(members).snapshot()
}

/// Half of the members run the new revision; one is on its way.
fn mid_rollout(members: u32) -> Snapshot {
    let mut world = World::settled(members);
    world.prepared("2");
    for ordinal in members / 2..members {
        world.member(ordinal, "2");
    }
    world.unhealthy(members / 2, 0).store_status();
    world.snapshot()
}

/// All are outdated and all may go at once: as many questions of safety as there are members.
fn all_at_once(members: u32) -> Snapshot {
    let mut world = World::settled(members);
    world
        .prepared("2")
        .spec(&json!({"rollout": {"maxUnavailable": members}}));
    world.snapshot()
}

/// The status is lost: the ledger is rebuilt from what exists.
fn status_lost(members: u32) -> Snapshot {
    let mut world = World::settled(members);
    world.lose_status();
    world.snapshot()
}

type Situation = (&'static str, fn(u32) -> Snapshot);

fn benches(criterion: &mut Criterion) {
    let situations: [Situation; 4] = [
        ("converged", converged),
        ("mid-rollout", mid_rollout),
        ("all-at-once", all_at_once),
        ("status-lost", status_lost),
    ];
    for (name, make) in situations {
        let mut group = criterion.benchmark_group(name);
        for members in MEMBERS {
            let snap = make(members);
            group.throughput(Throughput::Elements(u64::from(members)));
            group.bench_function(BenchmarkId::from_parameter(members), |bencher| {
                bencher.iter(|| black_box(plan(black_box(&snap))));
            });
        }
        group.finish();
    }
}

criterion_group!(plans, benches);
criterion_main!(plans);
