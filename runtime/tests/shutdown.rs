//! Going down, over loopback, on both front ends.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests drive real sockets, threads and clocks"
)]

mod bed;

use std::net::TcpStream;
use std::sync::Arc;

use bed::{Bed, FRONTS, Mood, TestStore};
use qq_core::store::Op;
use qq_runtime::RuntimeError;

#[test]
fn op_03_a_shutdown_tells_every_peer_and_closes_the_listener() {
    for front in FRONTS {
        for is_instant in [true, false] {
            let bed = Bed::start_with(front, TestStore::new(is_instant, Mood::Well), |config| {
                config.io_threads = 2
            });
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
}

#[test]
fn a_peer_that_ignores_the_shutdown_does_not_hold_it_up() {
    for front in FRONTS {
        let bed = Bed::start(front, |_| {});
        let mut deaf = bed.connect();
        deaf.write(b"big 100000000\n");
        let mut other = bed.connect();
        assert!(other.is_served());
        // `deaf` never reads; without a bound this would not return.
        bed.stop().expect("drained");
        drop(deaf);
    }
}

#[test]
fn op_03_what_is_settled_within_the_grace_is_settled() {
    for front in FRONTS {
        let store = TestStore::new(false, Mood::Well);
        let kept = Arc::clone(&store.kept);
        let bed = Bed::start_with(front, store, |_| {});
        let mut client = bed.connect();
        client.write(b"put\ntake\n");
        let mut words = [client.line(), client.line()];
        words.sort();
        assert_eq!(words, ["confirmed", "got"]);
        bed.shutdown.trigger();
        // The node is draining by now or will be; it waits for this.
        std::thread::sleep(std::time::Duration::from_millis(100));
        client.write(b"done\n");
        assert!(client.line().starts_with("down: "));
        bed.wait().expect("drained");
        assert!(
            kept.lock()
                .expect("no panic")
                .iter()
                .any(|op| matches!(op, Op::Removed { .. }))
        );
    }
}

#[test]
fn a_second_trigger_ends_the_grace() {
    for front in FRONTS {
        let bed = Bed::start(front, |config| {
            config.drain_grace = std::time::Duration::from_secs(1_000)
        });
        let mut client = bed.connect();
        client.write(b"put\ntake\n");
        let mut words = [client.line(), client.line()];
        words.sort();
        assert_eq!(words, ["confirmed", "got"]);
        bed.shutdown.trigger();
        bed.shutdown.trigger();
        assert!(client.line().starts_with("down: "));
        bed.wait().expect("drained");
    }
}

#[test]
fn a_store_that_fails_ends_the_run_and_every_client_is_told() {
    for front in FRONTS {
        for (is_instant, mood, words) in [
            (true, Mood::Fails, "disk on fire"),
            (false, Mood::Fails, "disk on fire"),
            (true, Mood::Panics, "the store panicked"),
            (false, Mood::Panics, "the store panicked"),
        ] {
            let bed = Bed::start_with(front, TestStore::new(is_instant, mood), |config| {
                config.io_threads = 2;
            });
            let address = bed.address;
            let mut clients: Vec<_> = (0..6).map(|_| bed.connect()).collect();
            assert!(clients.iter_mut().all(bed::Client::is_served));
            // A stranger is told as well. It was accepted when one that came later is served.
            let mut stranger = bed.connect();
            assert!(bed.connect().is_served());
            for client in clients.iter_mut().take(3) {
                client.write(b"put\nput\n");
            }
            for client in clients.iter_mut().chain([&mut stranger]) {
                // Nothing is confirmed, neither before nor after.
                let told = client.line();
                assert!(
                    told.starts_with("down: ") && told.contains(words),
                    "{}: {told}",
                    front.name
                );
                assert_eq!(client.rest(), b"");
            }
            match bed.wait() {
                Err(RuntimeError::Failed(text)) => assert!(text.contains(words), "{text}"),
                other => panic!("{other:?}"),
            }
            assert!(TcpStream::connect(address).is_err(), "nobody listens");
        }
    }
}

#[test]
fn du_08_a_full_disk_delays_confirmations_and_room_lets_them_through() {
    for front in FRONTS {
        for is_instant in [true, false] {
            let store = TestStore::new(is_instant, Mood::Full(3));
            let kept = Arc::clone(&store.kept);
            let bed = Bed::start_with(front, store, |_| {});
            let mut client = bed.connect();
            client.write(b"put\n");
            // Others are served meanwhile.
            assert!(bed.connect().is_served());
            assert_eq!(client.line(), "confirmed");
            bed.stop().expect("drained");
            let kept = kept.lock().expect("no panic");
            let messages = kept.iter().filter(|op| matches!(op, Op::Enqueued(_)));
            assert_eq!(messages.count(), 1);
        }
    }
}

#[test]
fn a_disk_that_stays_full_ends_the_run_with_an_error_and_without_a_confirmation() {
    for front in FRONTS {
        let store = TestStore::new(false, Mood::Full(u32::MAX));
        let bed = Bed::start_with(front, store, |config| {
            config.drain_grace = std::time::Duration::from_millis(200);
        });
        let mut client = bed.connect();
        client.write(b"put\n");
        assert!(bed.connect().is_served());
        bed.shutdown.trigger();
        assert!(client.line().starts_with("down: "));
        match bed.wait() {
            Err(RuntimeError::Store(error)) => assert_eq!(error.text, "full"),
            other => panic!("{other:?}"),
        }
    }
}
