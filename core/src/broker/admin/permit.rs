//! Who may ask for what: every request of management passes here before anything else looks at it.
//!
//! Operators come by interfaces that have asked who they are. A connection may do what its protocol offers: declare,
//! delete, purge, bind and list. What concerns other connections, or messages of others one by one, is for operators.

use super::Asker;
use crate::admin::Request;
use crate::vocab::{Reason, Refusal};

/// Whether that one may ask that.
///
/// # Errors
/// `NotAllowed`.
pub(super) fn check(asker: Asker, request: &Request) -> Result<(), Refusal> {
    let is_permitted = match asker {
        Asker::Driver(_) => true,
        Asker::Conn(..) | Asker::Ask(..) => is_for_connections(request),
    };
    if is_permitted {
        return Ok(());
    }
    Err(Refusal {
        reason: Reason::NotAllowed,
        text: "this is for operators: ask by the HTTP API or with qqctl".to_owned(),
    })
}

const fn is_for_connections(request: &Request) -> bool {
    matches!(
        request,
        Request::Queues { .. }
            | Request::Queue { .. }
            | Request::DeclareQueue { .. }
            | Request::DeleteQueue { .. }
            | Request::Purge { .. }
            | Request::Exchanges { .. }
            | Request::Exchange { .. }
            | Request::DeclareExchange { .. }
            | Request::DeleteExchange { .. }
            | Request::Bindings { .. }
            | Request::Bind { .. }
            | Request::Unbind { .. }
            | Request::Publish { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::ConnId;

    #[test]
    fn connections_declare_and_list_and_operators_do_everything() {
        let conn = Asker::Conn(0, ConnId(1), 7);
        let of_operators = [
            Request::Stats,
            Request::Peek {
                queue: "q".to_owned(),
                from: 0,
                limit: 1,
                with_held: false,
            },
            Request::CloseConnection {
                conn: ConnId(2),
                text: String::new(),
            },
            Request::Connections { from: 0 },
        ];
        for request in of_operators {
            let refusal = check(conn, &request).expect_err("of operators");
            assert_eq!(refusal.reason, Reason::NotAllowed, "{request:?}");
            assert_eq!(check(Asker::Driver(7), &request), Ok(()));
        }
        let name = "q".to_owned();
        assert_eq!(check(conn, &Request::Queues { from: 0 }), Ok(()));
        assert_eq!(check(conn, &Request::Purge { name }), Ok(()));
    }
}
