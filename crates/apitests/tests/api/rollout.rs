//! A changed template: tried first, pulled first, then one by one; a bad one hurts nobody.

use anyhow::Result;
use ensemble_api::Reason;
use ensemble_apitests::Stage;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use serde_json::{Value, json};

async fn running(test: &str) -> Result<(Stage, ensemble_apitests::Controller)> {
    let stage = Stage::new(test).await?;
    let controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    Ok((stage, controller))
}

async fn images(stage: &Stage) -> Result<Vec<String>> {
    let pods = stage.members().await?;
    let image = |p: &Pod| p.spec.as_ref().and_then(|s| s.containers[0].image.clone());
    Ok(pods.iter().filter_map(image).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_image_reaches_everybody_and_the_old_revision_is_kept_for_undo() -> Result<()> {
    let (stage, _controller) = running("new_image").await?;
    stage.image("fake/db:2").await?;
    let status = stage.ready().await?;
    assert_eq!(images(&stage).await?, ["fake/db:2"; 3]);
    assert_eq!(status.revision(), status.current_revision());
    let revisions = stage.api::<k8s_openapi::api::apps::v1::ControllerRevision>();
    let mut numbers: Vec<i64> = revisions
        .list(&Default::default())
        .await?
        .items
        .iter()
        .map(|r| r.revision)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
    // Helpers that pulled the image are cleared away.
    stage
        .eventually("no helper is left", async || {
            let all = stage
                .api::<Pod>()
                .list(&Default::default())
                .await?
                .items
                .len();
            Ok((all == 3).then_some(()))
        })
        .await
}

/// How often containers were restarted, and the CPU that each has by its kubelet's word.
async fn restarts_and_cpu(stage: &Stage) -> Result<Vec<(i32, String)>> {
    let pods = stage.members().await?;
    let read = |p: &Pod| {
        let status = p.status.as_ref()?.container_statuses.as_ref()?.first()?;
        let requests = status.resources.as_ref()?.requests.as_ref()?;
        Some((status.restart_count, requests.get("cpu")?.0.clone()))
    };
    Ok(pods.iter().filter_map(read).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn more_cpu_and_another_label_reach_the_running_pods_and_nothing_restarts() -> Result<()> {
    let stage = Stage::new("more_cpu").await?;
    let _controller = stage.controller("one").await?;
    let mut orders = stage.orders();
    orders["spec"]["rollout"]["method"] = "InPlaceIfPossible".into();
    let template = &mut orders["spec"]["template"];
    template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m"}});
    template["metadata"]["labels"]["tier"] = "silver".into();
    stage.create(&orders).await?;
    stage.ready().await?;
    let before = stage.uids().await?;
    let template = &mut orders["spec"]["template"];
    template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "200m"}});
    template["metadata"]["labels"] = json!({"team": "shop"});
    stage
        .patch(json!({"spec": {"template": {
            "spec": {"containers": template["spec"]["containers"]},
            "metadata": {"labels": {"tier": null, "team": "shop"}},
        }}}))
        .await?;
    stage.ready().await?;
    assert_eq!(stage.uids().await?, before);
    let expected = (0, "200m".to_owned());
    assert_eq!(restarts_and_cpu(&stage).await?, vec![expected; 3]);
    for pod in stage.members().await? {
        let labels = pod.metadata.labels.unwrap_or_default();
        let label = |key: &str| labels.get(key).map(String::as_str);
        assert_eq!((label("tier"), label("team")), (None, Some("shop")));
    }
    Ok(())
}

/// Changes the template, waits for the reason, and sees that nobody was touched; then corrects it.
async fn refused_before_anyone_is_touched(
    test: &str,
    patch: Value,
    reason: Reason,
    words: &str,
) -> Result<()> {
    let (stage, _controller) = running(test).await?;
    let before = stage.uids().await?;
    stage.patch(patch).await?;
    let step = stage.blocked(reason).await?;
    let message = step.blocker.map(|b| b.message).unwrap_or_default();
    assert!(message.contains(words), "{message}");
    assert_eq!(stage.uids().await?, before);
    assert_eq!(stage.status().await?.ready_replicas, 3);
    stage.image("fake/db:3").await?;
    stage
        .patch(json!({"spec": {"template": {"spec": {
        "serviceAccountName": null, "dnsPolicy": null, "nodeSelector": null}}}}))
        .await?;
    stage.ready().await?;
    assert_eq!(images(&stage).await?, ["fake/db:3"; 3]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_the_api_server_refuses_touches_nobody() -> Result<()> {
    let patch = json!({"spec": {"template": {"spec": {"dnsPolicy": "Wrong"}}}});
    refused_before_anyone_is_touched(
        "template_refused",
        patch,
        Reason::TemplateRefused,
        "dnsPolicy",
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_does_not_exist_is_named_and_touches_nobody() -> Result<()> {
    let (stage, _controller) = running("unknown_field").await?;
    let before = stage.uids().await?;
    stage
        .patch(json!({"spec": {"template": {"spec": {"nodeSelectr": {"a": "b"}}}}}))
        .await?;
    let step = stage.blocked(Reason::TemplateRefused).await?;
    let message = step.blocker.map(|b| b.message).unwrap_or_default();
    assert!(message.contains("nodeSelectr"), "{message}");
    assert_eq!(stage.uids().await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_image_is_named_while_everybody_is_still_up() -> Result<()> {
    let container = json!([{"name": "db", "image": "fake/missing:2"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": container}}}});
    refused_before_anyone_is_touched(
        "image_missing",
        patch,
        Reason::ImageMissing,
        "fake/missing:2",
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_service_account_is_named_while_everybody_is_still_up() -> Result<()> {
    let patch = json!({"spec": {"template": {"spec": {"serviceAccountName": "nobody"}}}});
    refused_before_anyone_is_touched("no_account", patch, Reason::ServiceAccountMissing, "nobody")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_stops_within_the_budget_and_a_corrected_template_gets_through() -> Result<()>
{
    let (stage, _controller) = running("crash_loop").await?;
    stage.image("fake/db:crash").await?;
    let step = stage.blocked(Reason::CrashLooping).await?;
    assert_eq!(step.member.as_deref(), Some("orders-2"));
    let crashed = images(&stage)
        .await?
        .iter()
        .filter(|i| i.ends_with("crash"))
        .count();
    assert_eq!(crashed, 1);
    let status = stage.status().await?;
    assert!(
        status
            .condition("Stalled")
            .is_some_and(|c| c.status == "True")
    );
    stage.image("fake/db:3").await?;
    stage.ready().await?;
    assert_eq!(images(&stage).await?, ["fake/db:3"; 3]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unschedulable_member_stops_the_rollout_and_going_back_gets_through() -> Result<()> {
    let (stage, _controller) = running("unschedulable").await?;
    stage
        .patch(json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "none"}}}}}))
        .await?;
    let step = stage.blocked(Reason::Unschedulable).await?;
    assert_eq!(step.member.as_deref(), Some("orders-2"));
    assert_eq!(stage.status().await?.ready_replicas, 2);
    stage
        .patch(json!({"spec": {"template": {"spec": {"nodeSelector": null}}}}))
        .await?;
    stage.ready().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_named_and_growing_it_is_enough() -> Result<()> {
    let stage = Stage::new("quota").await?;
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": {"name": "small"}, "spec": {"hard": {"pods": "2"}}}))?;
    stage
        .api::<ResourceQuota>()
        .create(&Default::default(), &quota)
        .await?;
    let quotas = stage.api::<ResourceQuota>();
    stage
        .eventually("the quota is counted", async || {
            let status = quotas.get("small").await?.status.and_then(|s| s.hard);
            Ok(status.filter(|h| !h.is_empty()).map(|_| ()))
        })
        .await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    let step = stage.blocked(Reason::QuotaExceeded).await?;
    let message = step.blocker.map(|b| b.message).unwrap_or_default();
    assert!(message.contains("small"), "{message}");
    let more = kube::api::Patch::Merge(json!({"spec": {"hard": {"pods": "10"}}}));
    quotas.patch("small", &Default::default(), &more).await?;
    stage.ready().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_means_the_same_rolls_nobody() -> Result<()> {
    let (stage, _controller) = running("same_meaning").await?;
    let before = stage.uids().await?;
    // What the API server would set anyway.
    stage.patch(json!({"spec": {"template": {"spec": {"dnsPolicy": "ClusterFirst", "enableServiceLinks": true}}}})).await?;
    let status = stage.ready().await?;
    assert_eq!(status.updated_replicas, 3);
    assert_eq!(stage.uids().await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_rollout_touches_nobody_and_still_repairs_at_the_old_revision() -> Result<()> {
    let (stage, _controller) = running("paused").await?;
    stage
        .patch(json!({"spec": {"rollout": {"paused": true}}}))
        .await?;
    stage.image("fake/db:2").await?;
    stage.blocked(Reason::Paused).await?;
    let before = stage.uids().await?;
    stage.delete::<Pod>("orders-0").await?;
    stage
        .eventually("orders-0 is back", async || {
            let after = stage.uids().await?;
            let ready = stage.status().await?.ready_replicas == 3;
            Ok((after.len() == 3 && after != before && ready).then_some(()))
        })
        .await?;
    assert_eq!(images(&stage).await?, ["fake/db:1"; 3]);
    stage
        .patch(json!({"spec": {"rollout": {"paused": false}}}))
        .await?;
    stage.ready().await?;
    assert_eq!(images(&stage).await?, ["fake/db:2"; 3]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_after_a_crash_loop_makes_the_old_revision_the_newest() -> Result<()> {
    let (stage, _controller) = running("back_from_crash").await?;
    let before = stage.uids().await?;
    stage.image("fake/db:crash").await?;
    stage.blocked(Reason::CrashLooping).await?;
    stage.image("fake/db:1").await?;
    let status = stage.ready().await?;
    let revisions = stage.api::<k8s_openapi::api::apps::v1::ControllerRevision>();
    assert_eq!(revisions.get(status.revision()).await?.revision, 3);
    let after = stage.uids().await?;
    let kept = after.iter().filter(|pair| before.contains(pair)).count();
    assert_eq!(kept, 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_works_whatever_characters_a_template_has() -> Result<()> {
    let stage = Stage::new("characters").await?;
    let _controller = stage.controller("one").await?;
    let mut orders = stage.orders();
    orders["spec"]["template"]["metadata"]["annotations"]["note"] =
        "a && b < c > d \u{2028}\u{2029} ä \"\\ \u{7f} \u{1f3bb}".into();
    stage.create(&orders).await?;
    stage.ready().await?;
    stage.image("fake/db:2").await?;
    stage.ready().await?;
    stage.image("fake/db:1").await?;
    let status = stage.ready().await?;
    let revisions = stage.api::<k8s_openapi::api::apps::v1::ControllerRevision>();
    stage
        .eventually("the old revision is the newest", async || {
            let revision = revisions.get(status.revision()).await?.revision;
            Ok((revision == 3).then_some(()))
        })
        .await
}
