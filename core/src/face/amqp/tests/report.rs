//! What operators see of a connection.

use super::{Bench, client_config};
use crate::admin::{ConnDetail, Reply, Request};
use crate::vocab::ConnId;

fn detail(bench: &mut Bench, conn: ConnId) -> ConnDetail {
    bench
        .node
        .manage(bench.now, 1, Request::Connection { conn });
    bench.settle();
    match bench.replies.pop() {
        Some(Reply::Connection(detail)) => *detail,
        other => panic!("{other:?}"),
    }
}

fn codes(detail: &ConnDetail) -> Vec<&'static str> {
    detail.links[0].waits.iter().map(|why| why.code).collect()
}

#[test]
fn a_connection_tells_its_sessions_its_links_and_why_they_wait() {
    let mut bench = Bench::new();
    let client = bench.connect(client_config());
    let session = bench.clients[client].machine.begin().expect("open");
    bench.settle();
    let link = bench.link((client, session), false);
    let conn = bench.clients[client].conn;
    let told = detail(&mut bench, conn);
    assert!(told.is_fresh);
    assert_eq!(told.row.about.container.as_deref(), Some("client"));
    assert_eq!((told.sessions.len(), told.sessions[0].link_count), (1, 1));
    assert_eq!(told.links[0].address.as_deref(), Some("q1"));
    assert_eq!(told.links[0].credit, Some(0));
    assert_eq!(codes(&told), ["no-message", "no-credit"]);

    let machine = &mut bench.clients[client].machine;
    machine.grant(link, 7).expect("attached");
    bench.settle();
    let told = detail(&mut bench, conn);
    assert_eq!(told.links[0].credit, Some(7));
    assert_eq!(codes(&told), ["no-message"]);

    assert_eq!(bench.node.broker().node_stats().sessions, 1);
    let machine = &mut bench.clients[client].machine;
    machine.end(session, None).expect("open");
    bench.settle();
    assert_eq!(bench.node.broker().node_stats().sessions, 0);
}
