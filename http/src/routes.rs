//! The routes: one table that serves, and that a test holds against the OpenAPI document.

use crate::api::{self, Answer, Call};
use crate::backend::Backend;
use crate::path;
use crate::problem::Problem;
use crate::response::Response;

/// The OpenAPI document.
pub(crate) const OPENAPI: &str = include_str!("../openapi.json");

type Handler = fn(&dyn Backend, &Call) -> Answer;

/// One route.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Parameters that a query may have.
    pub(crate) query: &'static [&'static str],
    /// Served without a login.
    pub(crate) is_open: bool,
    handler: Handler,
}

const PAGE: &[&str] = &["search", "offset", "limit"];
const SORTED: &[&str] = &["search", "offset", "limit", "sort"];
const NONE: &[&str] = &[];
const PEEK: &[&str] = &["limit", "from", "payload_max", "held"];

const fn route(
    method: &'static str,
    path: &'static str,
    query: &'static [&'static str],
    handler: Handler,
) -> Route {
    Route {
        method,
        path,
        query,
        is_open: false,
        handler,
    }
}

const fn open(path: &'static str, handler: Handler) -> Route {
    Route {
        is_open: true,
        ..route("GET", path, NONE, handler)
    }
}

/// All routes but those of live updates, which never end, and of the dashboard, which are files.
pub(crate) const ROUTES: &[Route] = &[
    open("/health", api::node::health),
    open("/health/live", api::node::health),
    open("/health/ready", api::node::ready),
    open("/api/v1/health", api::node::health),
    open("/api/v1/health/live", api::node::health),
    open("/api/v1/health/ready", api::node::ready),
    route("GET", "/metrics", NONE, api::node::metrics),
    route("GET", "/api/v1/openapi.json", NONE, api::node::openapi),
    route("GET", "/api/v1/stats", NONE, api::node::stats),
    route("GET", "/api/v1/alarms", NONE, api::node::alarms),
    route("GET", "/api/v1/config", NONE, api::node::config),
    route("GET", "/api/v1/limits", NONE, api::node::limits),
    route("GET", "/api/v1/cluster", NONE, api::node::cluster),
    route("GET", "/api/v1/users", NONE, api::node::users),
    route("GET", "/api/v1/tokens", NONE, api::node::tokens),
    route("GET", "/api/v1/queues", SORTED, api::queues::list),
    route("GET", "/api/v1/queues/{name}", NONE, api::queues::one),
    route("PUT", "/api/v1/queues/{name}", NONE, api::queues::declare),
    route(
        "DELETE",
        "/api/v1/queues/{name}",
        &["delete", "if_empty", "if_unused"],
        api::queues::delete,
    ),
    route(
        "POST",
        "/api/v1/queues/{name}/purge",
        NONE,
        api::queues::purge,
    ),
    route(
        "GET",
        "/api/v1/queues/{name}/bindings",
        NONE,
        api::exchanges::of_queue,
    ),
    route(
        "GET",
        "/api/v1/queues/{name}/consumers",
        NONE,
        api::conns::of_queue,
    ),
    route(
        "GET",
        "/api/v1/queues/{name}/messages",
        PEEK,
        api::messages::peek,
    ),
    route(
        "POST",
        "/api/v1/queues/{name}/messages",
        NONE,
        api::messages::publish,
    ),
    route(
        "GET",
        "/api/v1/queues/{name}/messages/{position}",
        NONE,
        api::messages::one,
    ),
    route(
        "GET",
        "/api/v1/queues/{name}/dlq",
        PEEK,
        api::messages::peek_dead,
    ),
    route(
        "DELETE",
        "/api/v1/queues/{name}/dlq",
        NONE,
        api::messages::purge_dead,
    ),
    route(
        "POST",
        "/api/v1/queues/{name}/dlq/retry",
        &["limit"],
        api::messages::retry_dead,
    ),
    route(
        "POST",
        "/api/v1/queues/{name}/move",
        NONE,
        api::messages::move_to,
    ),
    route(
        "POST",
        "/api/v1/queues/{name}/redrive",
        NONE,
        api::messages::redrive,
    ),
    route("POST", "/api/v1/publish", NONE, api::messages::publish_to),
    route("GET", "/api/v1/exchanges", PAGE, api::exchanges::list),
    route("GET", "/api/v1/exchanges/{name}", NONE, api::exchanges::one),
    route(
        "PUT",
        "/api/v1/exchanges/{name}",
        NONE,
        api::exchanges::declare,
    ),
    route(
        "DELETE",
        "/api/v1/exchanges/{name}",
        &["if_unused"],
        api::exchanges::delete,
    ),
    route(
        "GET",
        "/api/v1/exchanges/{name}/bindings",
        NONE,
        api::exchanges::of_exchange,
    ),
    route(
        "GET",
        "/api/v1/bindings",
        &["exchange", "queue", "to_exchange", "offset", "limit"],
        api::exchanges::bindings,
    ),
    route("POST", "/api/v1/bindings", NONE, api::exchanges::bind),
    route(
        "DELETE",
        "/api/v1/bindings",
        &[
            "exchange",
            "queue",
            "to_exchange",
            "routing_key",
            "arguments",
        ],
        api::exchanges::unbind,
    ),
    route("GET", "/api/v1/connections", PAGE, api::conns::list),
    route("GET", "/api/v1/connections/{id}", NONE, api::conns::one),
    route(
        "DELETE",
        "/api/v1/connections/{id}",
        &["reason"],
        api::conns::close,
    ),
    route(
        "GET",
        "/api/v1/sessions",
        &["connection", "offset", "limit"],
        api::conns::sessions,
    ),
    route(
        "GET",
        "/api/v1/links",
        &["connection", "queue", "offset", "limit"],
        api::conns::links,
    ),
    route("GET", "/api/v1/links/{id}", NONE, api::conns::link),
    route("DELETE", "/api/v1/links/{id}", NONE, api::conns::close_link),
    route("GET", "/api/v1/consumers", NONE, api::conns::consumers),
    route("GET", "/api/v1/schemas", NONE, api::schemas::list),
    route(
        "GET",
        "/api/v1/schemas/{name}",
        &["version"],
        api::schemas::one,
    ),
    route(
        "PUT",
        "/api/v1/schemas/{name}",
        NONE,
        api::schemas::register,
    ),
    route(
        "DELETE",
        "/api/v1/schemas/{name}",
        NONE,
        api::schemas::delete,
    ),
    route(
        "GET",
        "/api/v1/schemas/{name}/versions",
        NONE,
        api::schemas::versions,
    ),
    route("GET", "/api/v1/streams", SORTED, api::queues::streams),
    route("GET", "/api/v1/streams/{name}", NONE, api::queues::stream),
    route(
        "PUT",
        "/api/v1/streams/{name}",
        NONE,
        api::queues::declare_stream,
    ),
    route(
        "DELETE",
        "/api/v1/streams/{name}",
        &["delete", "if_empty", "if_unused"],
        api::queues::delete_stream,
    ),
    route(
        "GET",
        "/api/v1/streams/{name}/messages",
        PEEK,
        api::messages::peek,
    ),
    route("GET", "/api/v1/definitions", NONE, api::definitions::export),
    route(
        "POST",
        "/api/v1/definitions",
        NONE,
        api::definitions::import,
    ),
];

/// Where live updates are; only `GET` opens them.
const LIVE: [&str; 2] = ["/api/v1/events", "/api/v1/ws"];

/// Whether live updates are at this path.
pub(crate) fn is_live(path: &str) -> bool {
    LIVE.contains(&path)
}

/// What a request asks for.
pub(crate) enum Found {
    /// A route and the parts of its path.
    Route(&'static Route, Vec<String>),
    /// It is answered already.
    Answer(Response),
}

/// Whether something is at this path, for any method.
pub(crate) fn is_known(path: &str) -> bool {
    let mut routes = ROUTES.iter();
    is_live(path) || routes.any(|route| path::matched(route.path, path).is_some())
}

/// The route of a request. Live updates are none: what asks for them in the wrong way is told so.
pub(crate) fn find(method: &str, path: &str) -> Found {
    // What would be answered to GET is made, and its body left out.
    let wanted = if method == "HEAD" { "GET" } else { method };
    let mut allowed = Vec::new();
    if is_live(path) {
        allowed.push("GET");
    }
    for route in ROUTES {
        match path::matched(route.path, path) {
            None => {}
            Some(Err(())) => {
                let problem = Problem::invalid("the path is not percent-encoded UTF-8");
                return Found::Answer(problem.response());
            }
            Some(Ok(parts)) if route.method == wanted => return Found::Route(route, parts),
            Some(Ok(_)) => allowed.push(route.method),
        }
    }
    if allowed.is_empty() {
        let detail =
            format!("there is nothing at {path}; /api/v1/openapi.json lists what there is");
        return Found::Answer(Problem::missing("not found", detail).response());
    }
    let list = allowed.join(", ");
    if method == "OPTIONS" {
        return Found::Answer(Response::empty(204).with("Allow", list));
    }
    let problem = Problem::new(405, "not-allowed", format!("{method} is not one of {list}"));
    let problem = problem.with_short("method not allowed");
    Found::Answer(problem.response().with("Allow", list))
}

impl Route {
    /// Serves a request.
    pub(crate) fn serve(&self, backend: &dyn Backend, call: &Call) -> Response {
        let mut named = call.query.iter().map(|(name, _)| name);
        let unknown = named.find(|name| !self.query.contains(&name.as_str()));
        if let Some(name) = unknown {
            let known = match self.query {
                [] => "there is none".to_owned(),
                known => format!("there are {}", known.join(", ")),
            };
            let detail = format!("{name:?} is no parameter of this request; {known}");
            return Problem::invalid(detail)
                .with_field(Some(name.clone()))
                .response();
        }
        match (self.handler)(backend, call) {
            Ok(response) => response,
            Err(problem) if problem.status == 404 => {
                problem.with_short(missing(self.path)).response()
            }
            Err(problem) => problem.response(),
        }
    }
}

/// The short text when what the path names does not exist, which clients of the original compare.
fn missing(path: &str) -> &'static str {
    let is_below = |root: &str| path.starts_with(root);
    if is_below("/api/v1/queues/{name}") {
        "queue not found"
    } else if is_below("/api/v1/streams/{name}") {
        "stream not found"
    } else if is_below("/api/v1/schemas/{name}") {
        "schema not found"
    } else {
        "not found"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_and_the_routes_are_the_same() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).expect("JSON");
        let mut described = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                described.insert((method.to_uppercase(), path.clone()));
                let id = operation["operationId"].as_str().expect("a name");
                assert!(ids.insert(id.to_owned()), "two operations are called {id}");
                let Found::Route(route, _) = find(&method.to_uppercase(), path) else {
                    continue;
                };
                let parameters = operation["parameters"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                let named: BTreeSet<&str> = parameters
                    .iter()
                    .filter(|parameter| parameter["in"] == "query")
                    .filter_map(|parameter| parameter["name"].as_str())
                    .collect();
                let known: BTreeSet<&str> = route.query.iter().copied().collect();
                assert_eq!(named, known, "parameters of {method} {path}");
            }
        }
        let routes = ROUTES.iter().map(|route| (route.method, route.path));
        let served: BTreeSet<(String, String)> = routes
            .chain(LIVE.map(|path| ("GET", path)))
            .map(|(method, path)| (method.to_owned(), path.to_owned()))
            .collect();
        assert_eq!(described, served);
    }
    #[test]
    fn live_updates_are_opened_by_get_alone() {
        for path in LIVE {
            for (method, status) in [("POST", 405), ("HEAD", 405), ("OPTIONS", 204)] {
                let Found::Answer(response) = find(method, path) else {
                    panic!("{method} {path} is no route");
                };
                let allow = ("Allow".to_owned(), "GET".to_owned());
                assert_eq!(response.status, status, "{method} {path}");
                assert!(response.headers.contains(&allow), "{:?}", response.headers);
            }
        }
    }
}
