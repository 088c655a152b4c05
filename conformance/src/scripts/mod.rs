//! The scripts, one module per area. `all` is the table that every runner walks.

mod codec;
mod deadletter;
mod delivery;
mod encoding;
mod filter;
mod flow;
mod frame;
mod haste;
mod header;
mod heartbeat;
mod link;
mod manage;
mod message;
mod open;
mod outcome;
mod performative;
mod quirk;
mod quirk_python;
mod resume;
mod routing;
mod sasl;
mod session;
mod settle;
mod stream;
mod teardown;
mod terminus;
mod transaction;
mod transfer;
mod window;

use crate::script::Script;

/// Every script, area by area.
pub fn all() -> Vec<Script> {
    [
        header::SCRIPTS,
        frame::SCRIPTS,
        codec::SCRIPTS,
        encoding::SCRIPTS,
        open::SCRIPTS,
        performative::SCRIPTS,
        message::SCRIPTS,
        session::SCRIPTS,
        window::SCRIPTS,
        flow::SCRIPTS,
        transfer::SCRIPTS,
        settle::SCRIPTS,
        outcome::SCRIPTS,
        link::SCRIPTS,
        terminus::SCRIPTS,
        filter::SCRIPTS,
        transaction::SCRIPTS,
        teardown::SCRIPTS,
        heartbeat::SCRIPTS,
        sasl::SCRIPTS,
        quirk::SCRIPTS,
        quirk_python::SCRIPTS,
        haste::SCRIPTS,
        routing::SCRIPTS,
        resume::SCRIPTS,
        stream::SCRIPTS,
        deadletter::SCRIPTS,
        manage::SCRIPTS,
        delivery::SCRIPTS,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn ids_are_unique_and_clauses_exist() {
        let scripts = all();
        for script in &scripts {
            assert_eq!(
                scripts.iter().filter(|s| s.id == script.id).count(),
                1,
                "{}",
                script.id
            );
            assert!(!script.clauses.is_empty(), "{} names no clause", script.id);
            for clause in script.clauses {
                assert!(
                    crate::clauses::find(clause).is_some(),
                    "{}: no {clause}",
                    script.id
                );
            }
        }
    }
}
