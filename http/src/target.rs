//! What a request is for: decided once, so that what is served is what the login was judged by.

use crate::guard::Head;
use crate::problem::Problem;
use crate::response::Response;
use crate::routes::{self, Found, Route};
use crate::server::Settings;

/// See the module.
pub(crate) enum Target {
    /// The dashboard.
    Page,
    /// Live updates, which never end.
    Live,
    /// A route and the parts of its path.
    Route(&'static Route, Vec<String>),
    /// It is answered already.
    Answer(Response),
}

impl Target {
    pub(crate) fn of(head: &Head, settings: &Settings) -> Self {
        let path = path_of(head);
        let is_get = matches!(head.method.as_str(), "GET" | "HEAD");
        let path = match settings.metrics_path.as_deref() {
            Some(configured) if configured == path => METRICS,
            None if path == METRICS => {
                let problem = Problem::missing("not found", "metrics are switched off");
                return Self::Answer(problem.response());
            }
            _ if is_get && is_page(path) => return Self::Page,
            _ if head.method == "GET" && routes::is_live(path) => return Self::Live,
            _ => path,
        };
        match routes::find(&head.method, path) {
            Found::Route(route, parts) => Self::Route(route, parts),
            Found::Answer(response) => Self::Answer(response),
        }
    }

    /// Whether nobody has to say who they are for it.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Page => true,
            Self::Route(route, _) => route.is_open,
            Self::Live | Self::Answer(_) => false,
        }
    }
}

/// Where metrics are, whatever is configured besides.
const METRICS: &str = "/metrics";

/// Whether metrics may be at this path too: one that nothing else is at, as requests write it.
#[must_use]
pub fn is_metrics_path(path: &str) -> bool {
    let is_written = path.starts_with('/')
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && !path.contains(['?', '#']);
    is_written && (path == METRICS || !(is_page(path) || routes::is_known(path)))
}

/// The path of a request, without its query.
pub(crate) fn path_of(head: &Head) -> &str {
    head.target.split('?').next().unwrap_or_default()
}

fn is_page(path: &str) -> bool {
    path == "/" || path == "/dashboard" || path.starts_with("/dashboard/")
}
