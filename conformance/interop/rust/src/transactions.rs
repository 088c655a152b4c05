//! The tests of this client about transactions. Names and meanings are those of the Python and Node clients.
use crate::Args;
use crate::link::{Conn, Got, Login, R, credit, eq, left, send_all, take, unique, value, within};
use crate::tests::{one, to, word};
use fe2o3_amqp::Sender;
use fe2o3_amqp::transaction::{
    Controller, Transaction, TransactionAcquisition, TransactionDischarge, TransactionPosting,
    TransactionRetirement,
};
use fe2o3_amqp_types::definitions::SenderSettleMode;
use fe2o3_amqp_types::messaging::Outcome;
use serde_amqp::Value;

async fn open(a: &Args) -> R<Conn> {
    Conn::open(a.port, Login::Anonymous).await
}

async fn control(c: &mut Conn) -> R<Controller> {
    within(
        "attach of a control link",
        Controller::attach(&mut c.session, unique("control")),
    )
    .await
}

async fn declare(control: &Controller) -> R<Transaction<'_>> {
    within("declare", Transaction::declare(control, None)).await
}

async fn post(txn: &Transaction<'_>, tx: &mut Sender, text: &str) -> R {
    let outcome = within("posting", txn.post(tx, value(word(text)))).await?;
    match outcome {
        Outcome::Accepted(_) => Ok(()),
        other => Err(format!("outcome of a posting: {other:?}")),
    }
}

/// What a transaction left on its two queues: bodies and delivery-counts.
type Left = (Vec<(Value, u32)>, Vec<(Value, u32)>);

/// Takes one message and sends another in one transaction.
async fn transaction(a: &Args, name: &str, fail: bool) -> R<Left> {
    let (mut c, q) = (open(a).await?, a.queue_for(name));
    let target = a.queue_for(&format!("{name}-to"));
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, [word("in")]).await?;
    let mut rx = c.receiver(&q).await?;
    credit(&mut rx, 1).await?;
    let mut tx = c.sender(&target).await?;
    let control = control(&mut c).await?;
    let txn = declare(&control).await?;
    let d = take(&mut rx).await?;
    within("accept", txn.accept(&mut rx, &d)).await?;
    post(&txn, &mut tx, "out").await?;
    eq(
        left(&mut c, &target).await?,
        vec![],
        "seen before the discharge",
    )?;
    if fail {
        within("roll-back", txn.rollback()).await?;
    } else {
        within("commit", txn.commit()).await?;
    }
    within("close of the link", rx.close()).await?;
    let found = (left(&mut c, &q).await?, left(&mut c, &target).await?);
    within("close of the control link", control.close()).await?;
    c.close().await?;
    Ok(found)
}

async fn commit(a: &Args) -> R {
    let found = transaction(a, "transaction-commit", false).await?;
    eq(found, (vec![], vec![(word("out"), 0)]), "on the queues")?;
    let found = acquire(a, true).await?;
    eq(found, vec![(word("in"), 1)], "acquired and rolled back")?;
    let found = acquire(a, false).await?;
    eq(found, vec![], "acquired and committed")
}

/// In the first settle mode the library settles what it accepts under a transaction.
async fn rollback(a: &Args) -> R {
    let found = transaction(a, "transaction-rollback", true).await?;
    eq(found, (vec![(word("in"), 1)], vec![]), "on the queues")
}

/// Credit that is granted under a transaction: what comes by it is taken with the transaction, or comes again.
async fn acquire(a: &Args, fail: bool) -> R<Vec<(Value, u32)>> {
    let (mut c, q) = (open(a).await?, a.queue_for("transaction-commit"));
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, [word("in")]).await?;
    let mut rx = c.receiver(&q).await?;
    let control = control(&mut c).await?;
    let txn = declare(&control).await?;
    let mut acquired = within("acquisition", txn.acquire(&mut rx, 1)).await?;
    let d: Got = within("delivery", acquired.recv()).await?;
    within("accept", acquired.accept(&d)).await?;
    if fail {
        within("roll-back", acquired.rollback()).await?;
    } else {
        within("commit", acquired.commit()).await?;
    }
    within("close of the link", rx.close()).await?;
    let found = left(&mut c, &q).await?;
    c.close().await?;
    Ok(found)
}

async fn refused(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("transaction-refused"));
    let mut tx = c.sender(&q).await?;
    let mut relay = c
        .sender_with(None, unique("tx"), SenderSettleMode::Mixed)
        .await?;
    let control = control(&mut c).await?;
    let txn = declare(&control).await?;
    post(&txn, &mut tx, "m").await?;
    within(
        "posting",
        txn.post(&mut relay, to(&a.absent(), word("lost"))),
    )
    .await?;
    match within("commit", txn.commit()).await {
        Ok(()) => return Err("committed without one of its messages".into()),
        Err(e) if e.contains("Rollback") => {}
        Err(e) => return Err(format!("not amqp:transaction:rollback: {e}")),
    }
    eq(left(&mut c, &q).await?, vec![], "on the queue")?;
    c.close().await
}

async fn several(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("transaction-several"));
    let mut tx = c.sender(&q).await?;
    let control = control(&mut c).await?;
    let (first, second) = (declare(&control).await?, declare(&control).await?);
    post(&first, &mut tx, "one").await?;
    post(&second, &mut tx, "two").await?;
    within("commit", second.commit()).await?;
    within("roll-back", first.rollback()).await?;
    eq(
        left(&mut c, &q).await?,
        vec![(word("two"), 0)],
        "on the queue",
    )?;
    within("close of the control link", control.close()).await?;
    c.close().await
}

/// Runs every test and prints a line for each.
pub async fn run(a: &Args) {
    one(a, "transaction-commit", commit(a)).await;
    one(a, "transaction-rollback", rollback(a)).await;
    one(a, "transaction-refused", refused(a)).await;
    one(a, "transaction-several", several(a)).await;
}
