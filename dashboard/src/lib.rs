//! The dashboard: a static page that lives on the HTTP API, embedded in the binary that serves it.
//!
//! The files below `assets/` are written by hand and served as they are: there is no build step and nothing comes from
//! elsewhere. This crate knows which files there are, with which headers they go out, and nothing about the broker: the
//! page asks the API like everybody else.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

/// What the page may do: run its own scripts and ask its own origin, nothing else. Names of queues and clients are text
/// everywhere; should one ever become markup by mistake, it still could not run.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Where the page is.
const ROOT: &str = "/dashboard/";

/// A file of the page.
struct Asset {
    name: &'static str,
    body: &'static [u8],
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset { name: $name, body: include_bytes!(concat!("../assets/", $name)) }),*]
    };
}

const ASSETS: &[Asset] = assets![
    "index.html",
    "app.css",
    "icon.svg",
    "main.js",
    "api.js",
    "chart.js",
    "dialog.js",
    "dom.js",
    "format.js",
    "live.js",
    "table.js",
    "views/bindings.js",
    "views/connections.js",
    "views/exchanges.js",
    "views/links.js",
    "views/map.js",
    "views/messages.js",
    "views/overview.js",
    "views/parts.js",
    "views/publish.js",
    "views/queue.js",
    "views/queues.js",
    "views/schemas.js",
    "views/settings.js",
];

/// An answer to a request for the page, without its length, which the server adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Status of HTTP: 200, 304, 307 or 404.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<(&'static str, String)>,
    /// The body; empty for a redirection, and when the browser has it already.
    pub body: &'static [u8],
}

/// Answers a `GET` of `path`, which is without its query; `if_none_match` is that header of the request. None: the path is
/// none of the dashboard's. The same holds for `HEAD`, with the body left out.
#[must_use]
pub fn serve(path: &str, if_none_match: Option<&str>) -> Option<Page> {
    if path == "/" || path == "/dashboard" {
        // Not for ever: browsers keep that, and something else may be at this port tomorrow.
        return Some(Page {
            status: 307,
            headers: vec![("location", ROOT.to_owned())],
            body: b"",
        });
    }
    let name = path.strip_prefix(ROOT)?;
    let name = if name.is_empty() { "index.html" } else { name };
    let mut headers = vec![
        (
            "content-security-policy",
            CONTENT_SECURITY_POLICY.to_owned(),
        ),
        ("x-content-type-options", "nosniff".to_owned()),
        ("referrer-policy", "no-referrer".to_owned()),
    ];
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        headers.push(("content-type", "text/plain; charset=utf-8".to_owned()));
        return Some(Page {
            status: 404,
            headers,
            body: b"not found\n",
        });
    };
    let tag = etag(asset.body);
    let is_known =
        if_none_match.is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
    headers.push(("content-type", content_type(name).to_owned()));
    // Asked for each time, so that a new broker never runs with an old page.
    headers.push(("cache-control", "no-cache".to_owned()));
    headers.push(("etag", tag));
    Some(Page {
        status: if is_known { 304 } else { 200 },
        headers,
        body: if is_known { b"" } else { asset.body },
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "image/svg+xml",
    }
}

/// A number of the content (FNV-1a, 64 bits): enough to tell one version of a file from the next.
fn etag(body: &[u8]) -> String {
    let hash = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\"{hash:016x}\"")
}
