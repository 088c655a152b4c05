//! Who may ask: which pages and names of this machine, and whose login, before a body may come.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::backend::{Credentials, Entry};
use crate::guard::Head;
use crate::problem::Problem;
use crate::response::Response;
use crate::routes;
use crate::server::Shared;
use crate::target::{Target, path_of};

/// What is wrong with a request before its body has come.
pub(crate) fn refuse_head(
    head: &Head,
    target: &Target,
    peer: IpAddr,
    shared: &Shared,
) -> Option<Response> {
    let node = shared.backend.node();
    let host = head.header("host").unwrap_or_default();
    let is_change = !matches!(head.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    if let Some(origin) = head.header("origin") {
        let own = [format!("http://{host}"), format!("https://{host}")];
        if !own.iter().any(|own| own.eq_ignore_ascii_case(origin))
            && (is_change || routes::is_live(path_of(head)))
        {
            let detail = "pages of other origins may not do this";
            return Some(Problem::new(403, "not-allowed", detail).response());
        }
    }
    if !node.is_login_required && !is_local_name(host) {
        let detail = "without a login only an address or localhost is taken as host, so that no page can rebind its name to this one";
        return Some(Problem::new(403, "not-allowed", detail).response());
    }
    if !node.is_login_required || target.is_open() {
        return None;
    }
    let Some(credentials) = credentials(head) else {
        return Some(Problem::invalid("the authorization header cannot be read").response());
    };
    match shared.backend.admit(&credentials, peer) {
        Entry::Granted => None,
        Entry::Denied(delay) => {
            // Waiting holds a connection, of which there are few. Who fails so often that none of these places is left
            // is held off by the number of failures that an address has.
            if !delay.is_zero()
                && let Ok(_seat) = shared.delayed.take(peer)
            {
                std::thread::sleep(delay);
            }
            let response =
                Problem::new(401, "unauthorized", "log in with Basic or Bearer").response();
            Some(response.with(
                "WWW-Authenticate",
                "Basic realm=\"quark-queue\", charset=\"UTF-8\"",
            ))
        }
    }
}

/// Whether a host header names an address or this machine.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => return rest.contains(']'),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.is_empty()
        || name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
}

fn credentials(head: &Head) -> Option<Credentials> {
    let Some(value) = head.header("authorization") else {
        return Some(Credentials::None);
    };
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials::Bearer(rest.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Credentials::Basic {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}
