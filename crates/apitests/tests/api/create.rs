//! Creation, and what it looks like.

use anyhow::Result;
use ensemble_apitests::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn three_members_come_up_on_their_own_claims() -> Result<()> {
    let stage = Stage::new("create").await?;
    let controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    let status = stage.ready().await?;
    assert_eq!(status.summary.ready, "3/3");
    assert_eq!(stage.claims().await?.len(), 6);
    controller.stop().await
}
