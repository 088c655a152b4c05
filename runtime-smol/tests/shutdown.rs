//! Going down, over loopback.

mod bed;

use std::net::TcpStream;
use std::sync::Arc;

use bed::{Bed, Echo};
use qq_core::broker::Now;
use qq_core::face::PeerInfo;

#[test]
fn op_03_a_shutdown_tells_every_peer_and_closes_the_listener() {
    for is_instant in [true, false] {
        let bed = Bed::start_with(
            is_instant,
            |config| config.io_threads = 2,
            Arc::new(|_: Now, _: PeerInfo| Box::<Echo>::default()),
        );
        let address = bed.address;
        let mut clients: Vec<_> = (0..20).map(|_| bed.connect()).collect();
        assert!(clients.iter_mut().all(bed::Client::is_served));
        let reader = std::thread::spawn(move || {
            clients
                .iter_mut()
                .map(|client| (client.line(), client.rest()))
                .collect::<Vec<_>>()
        });
        bed.stop().expect("drained");
        for (line, rest) in reader.join().expect("read") {
            assert!(line.starts_with("down: "), "{line}");
            assert_eq!(rest, b"");
        }
        assert!(
            TcpStream::connect(address).is_err(),
            "nobody listens any more"
        );
    }
}

#[test]
fn a_peer_that_ignores_the_shutdown_does_not_hold_it_up() {
    let bed = Bed::start(|_| {});
    let mut deaf = bed.connect();
    deaf.write(b"big 100000000\n");
    let mut other = bed.connect();
    assert!(other.is_served());
    // `deaf` never reads; without a bound this would not return.
    bed.stop().expect("drained");
    drop(deaf);
}
