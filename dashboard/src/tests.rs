//! Tests of what is served, and rules that the files of the page keep.
#![allow(
    clippy::disallowed_methods,
    reason = "the files are compared with those on the disk"
)]

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn header(page: &Page, name: &str) -> String {
    let found = page.headers.iter().find(|(key, _)| *key == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {page:?}"))
        .1
        .clone()
}

fn text(asset: &Asset) -> &'static str {
    std::str::from_utf8(asset.body).expect("UTF-8")
}

#[test]
fn the_page_and_its_files_are_served_with_a_strict_policy() {
    let page = serve("/dashboard/", None).expect("the page");
    assert_eq!(
        (page.status, header(&page, "content-type").as_str()),
        (200, "text/html; charset=utf-8")
    );
    for (path, kind) in [
        ("app.css", "text/css"),
        ("main.js", "text/javascript"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let page = serve(&format!("/dashboard/{path}"), None).expect("a file");
        assert_eq!(page.status, 200);
        assert!(header(&page, "content-type").starts_with(kind), "{path}");
        let policy = header(&page, "content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(header(&page, "x-content-type-options"), "nosniff");
    }
    for path in ["/dashboard", "/"] {
        let page = serve(path, None).expect("a redirection");
        assert_eq!(
            (page.status, header(&page, "location").as_str()),
            (307, "/dashboard/")
        );
    }
}

#[test]
fn a_file_that_the_browser_has_is_not_sent_again() {
    let tag = header(&serve("/dashboard/main.js", None).expect("a file"), "etag");
    for known in [tag.clone(), format!("\"other\", {tag}")] {
        let page = serve("/dashboard/main.js", Some(&known)).expect("a file");
        assert_eq!((page.status, page.body.len()), (304, 0));
    }
    assert_eq!(
        serve("/dashboard/main.js", Some("\"other\""))
            .expect("a file")
            .status,
        200
    );
}

#[test]
fn other_paths_are_not_the_dashboards() {
    for path in [
        "/dashboard/../Cargo.toml",
        "/dashboard/no.js",
        "/dashboard/views",
        "/dashboard/views/",
    ] {
        assert_eq!(
            serve(path, None).expect("below the page").status,
            404,
            "{path}"
        );
    }
    for path in ["/api/v1/queues", "/dashboards", "", "/metrics"] {
        assert_eq!(serve(path, None), None, "{path}");
    }
}

#[test]
fn every_file_is_embedded() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut names = BTreeSet::new();
    for (dir, prefix) in [(base.clone(), ""), (base.join("views"), "views/")] {
        for entry in std::fs::read_dir(dir).expect("a folder").flatten() {
            if entry.path().is_file() {
                names.insert(format!(
                    "{prefix}{}",
                    entry.file_name().to_str().expect("UTF-8")
                ));
            }
        }
    }
    assert_eq!(
        names,
        ASSETS.iter().map(|asset| asset.name.to_owned()).collect()
    );
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_runs_nothing_inline() {
    for asset in ASSETS {
        let text = text(asset);
        for word in [
            "https://",
            "//cdn",
            "@import",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "document.write",
        ] {
            assert!(!text.contains(word), "{} has {word}", asset.name);
        }
        let plain = text.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !plain.contains("http://"),
            "{} names another place",
            asset.name
        );
    }
    let html = text(&ASSETS[0]);
    for word in ["<style", " style=", " onclick=", " onload=", "javascript:"] {
        assert!(!html.contains(word), "{word}");
    }
    let scripts: Vec<&str> = html.split("<script").skip(1).collect();
    assert!(!scripts.is_empty() && scripts.iter().all(|script| script.contains(" src=\"")));
}

#[test]
fn every_import_leads_to_a_file() {
    for asset in ASSETS.iter().filter(|asset| asset.name.ends_with(".js")) {
        let folder = Path::new(asset.name).parent().expect("a folder");
        let imports = text(asset)
            .lines()
            .filter(|line| line.starts_with("import "));
        for line in imports {
            let path = line.rsplit('"').nth(1).expect("a path in quotes");
            let target = match path.strip_prefix("../") {
                Some(rest) => folder.parent().expect("above it").join(rest),
                None => folder.join(path.strip_prefix("./").expect("a relative path")),
            };
            let name = target.to_str().expect("UTF-8");
            assert!(
                ASSETS.iter().any(|asset| asset.name == name),
                "{}: {line}",
                asset.name
            );
        }
    }
}
