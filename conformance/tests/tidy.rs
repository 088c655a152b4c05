//! The house rules that the compiler does not check. Each list of exemptions may only shrink.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes, sockets, files and clocks"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file above which it must be on `LONG_FILES`.
const FILE_TRIPWIRE_LINES: usize = 600;
/// Lines of a source file that nothing may pass.
const FILE_WALL_LINES: usize = 800;
/// Lines of a function above which it must be on `LONG_FUNCTIONS`.
const FUNCTION_TRIPWIRE_LINES: usize = 70;
/// Lines of a runtime crate's sources.
const RUNTIME_WALL_LINES: usize = 900;

/// Files between tripwire and wall.
const LONG_FILES: &[&str] = &[];

/// Functions above the tripwire, as `file::function`.
const LONG_FUNCTIONS: &[&str] = &[
    "bins/qqd/src/config/limits.rs::keys",
    "bins/qqd/src/config/topology.rs::keys",
    "bins/qqd/tests/config.rs::cf_01_unknown_and_misplaced_keys_are_refused_with_a_hint",
    "conformance/interop/rust/src/values.rs::differences",
    "proto-amqp/src/connection/link/incoming.rs::on_first_transfer",
];

/// Words of impure code that pure sources must not hold.
const IMPURE: &[&str] = &[
    "std::time::Instant",
    "Instant::now",
    "SystemTime",
    "std::net",
    "std::fs",
    "std::thread",
    "thread::spawn",
    "thread_rng",
    "rand::",
    "getrandom",
    "std::env",
    "std::process",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::io",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace")
        .to_path_buf()
}

/// Files below `dir` with one of these endings; build output and foreign trees are left out.
fn files(dir: &Path, endings: &[&str], out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default()
            .to_string();
        if path.is_dir() {
            let is_foreign = name.starts_with('.')
                || ["target", "node_modules", "__pycache__"].contains(&name.as_str());
            if !is_foreign {
                files(&path, endings, out);
            }
        } else if endings.iter().any(|e| name.ends_with(e)) {
            out.push(path);
        }
    }
}

fn sources(dir: &str) -> Vec<PathBuf> {
    let mut out = vec![];
    files(&root().join(dir), &[".rs"], &mut out);
    out
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

/// The code of a line: what stands before a comment.
fn code(line: &str) -> &str {
    let line = line.trim_start();
    if line.starts_with("//") {
        ""
    } else {
        line.split(" // ").next().unwrap_or(line)
    }
}

fn is_test(path: &Path) -> bool {
    let text = shown(path);
    text.contains("/tests/")
        || text.ends_with("tests.rs")
        || text.contains("/examples/")
        || text.contains("/benches/")
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn pure_crates_hold_no_impure_word() {
    let mut found = vec![];
    for dir in ["proto-amqp/src", "proto-binary/src", "core/src"] {
        for path in sources(dir).iter().filter(|p| !is_test(p)) {
            for (n, line) in read(path).lines().enumerate() {
                for word in IMPURE.iter().filter(|w| code(line).contains(**w)) {
                    found.push(format!("{}:{}: {word}", shown(path), n + 1));
                }
            }
        }
    }
    assert_none("clock, net, fs, thread or random in a pure crate", &found);
}

#[test]
fn the_broker_knows_no_protocol() {
    let mut found = vec![];
    for dir in [
        "core/src/broker",
        "core/src/queue",
        "core/src/route",
        "core/src/vocab",
        "core/src/store",
    ] {
        let paths = sources(dir);
        assert!(!paths.is_empty(), "{dir} holds no source");
        for path in paths {
            for (n, line) in read(&path).lines().enumerate() {
                if code(line).contains("qq_proto") {
                    found.push(format!("{}:{}", shown(&path), n + 1));
                }
            }
        }
    }
    assert_none("protocol words in the broker", &found);
}

#[test]
fn every_file_says_what_it_is() {
    let mut found = vec![];
    for path in sources("") {
        if !read(&path).starts_with("//!") {
            found.push(shown(&path));
        }
    }
    assert_none("files without a module header in the first line", &found);
}

#[test]
fn every_crate_forbids_unsafe_code() {
    let mut manifests = vec![];
    files(&root(), &["Cargo.toml"], &mut manifests);
    let mut found = vec![];
    for manifest in manifests {
        if !read(&manifest).contains("[package]") {
            continue;
        }
        let dir = manifest.parent().expect("a folder");
        let mut roots = vec![dir.join("src/lib.rs"), dir.join("src/main.rs")];
        files(&dir.join("src/bin"), &[".rs"], &mut roots);
        for path in roots.into_iter().filter(|p| p.exists()) {
            // Fuzz entry points are made by a macro that needs an attribute of its own.
            if !read(&path).contains("#![forbid(unsafe_code)]")
                && !shown(&path).starts_with("fuzz/cargo-fuzz")
            {
                found.push(shown(&path));
            }
        }
    }
    assert_none("crate roots without #![forbid(unsafe_code)]", &found);
}

#[test]
fn files_stay_short() {
    let mut found = vec![];
    let mut long = BTreeSet::new();
    for path in sources("") {
        let lines = read(&path).lines().count();
        let name = shown(&path);
        if lines > FILE_WALL_LINES {
            found.push(format!(
                "{name}: {lines} lines, the wall is {FILE_WALL_LINES}"
            ));
        } else if lines > FILE_TRIPWIRE_LINES {
            if !LONG_FILES.contains(&name.as_str()) {
                found.push(format!(
                    "{name}: {lines} lines, the tripwire is {FILE_TRIPWIRE_LINES}"
                ));
            }
            long.insert(name);
        }
    }
    for name in LONG_FILES.iter().filter(|name| !long.contains(**name)) {
        found.push(format!("{name} is short again: take it off LONG_FILES"));
    }
    assert_none("long files", &found);
}

/// Name of the function that begins on this line.
fn function_name(line: &str) -> Option<String> {
    let code = code(line);
    let at = code.find("fn ")?;
    let before = &code[..at];
    let is_start = before.split_whitespace().all(|w| {
        ["async", "const", "extern", "unsafe"].contains(&w)
            || w.starts_with("pub")
            || w.starts_with("in")
            || w.ends_with(')')
    });
    let name: String = code[at + 3..]
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (is_start && !name.is_empty()).then_some(name)
}

/// Functions of a file with their length, by the indentation that rustfmt gives them.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let mut out = vec![];
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let stop = (start..lines.len()).find(|n| {
            lines[*n] == end || (*n == start && (line.ends_with(';') || line.ends_with('}')))
        });
        if let Some(stop) = stop {
            out.push((name, stop - start + 1));
        }
    }
    out
}

#[test]
fn functions_stay_short() {
    let mut found = vec![];
    let mut long = BTreeSet::new();
    for path in sources("") {
        for (name, lines) in functions(&read(&path)) {
            if lines <= FUNCTION_TRIPWIRE_LINES {
                continue;
            }
            let full = format!("{}::{name}", shown(&path));
            if !LONG_FUNCTIONS.contains(&full.as_str()) {
                found.push(format!(
                    "{full}: {lines} lines, the tripwire is {FUNCTION_TRIPWIRE_LINES}"
                ));
            }
            long.insert(full);
        }
    }
    for name in LONG_FUNCTIONS.iter().filter(|name| !long.contains(**name)) {
        found.push(format!("{name} is short again: take it off LONG_FUNCTIONS"));
    }
    assert_none("long functions", &found);
}

#[test]
fn the_function_finder_sees_functions() {
    let text = "    pub(super) async fn a() {\n        1;\n    }\nfn b(\n    x: u8,\n) {\n}\nfn c() {}\n// fn d() {\n";
    let found = functions(text);
    assert_eq!(
        found,
        [
            ("a".to_string(), 3),
            ("b".to_string(), 4),
            ("c".to_string(), 1)
        ]
    );
}

#[test]
fn the_runtimes_mirror_each_other() {
    let shape = |dir: &str| -> (BTreeSet<String>, usize) {
        let base = root().join(dir);
        let mut names = BTreeSet::new();
        let mut lines = 0;
        let paths = sources(dir);
        assert!(!paths.is_empty(), "{dir} holds no source");
        for path in paths.iter().filter(|p| !is_test(p)) {
            let file = path
                .strip_prefix(&base)
                .expect("below the crate")
                .display()
                .to_string();
            let text = read(path);
            lines += text.lines().count();
            names.insert(file.clone());
            names.extend(
                functions(&text)
                    .into_iter()
                    .map(|(name, _)| format!("{file}::{name}")),
            );
        }
        (names, lines)
    };
    let (tokio, tokio_lines) = shape("runtime-tokio/src");
    let (smol, smol_lines) = shape("runtime-smol/src");
    let only: Vec<_> = tokio.symmetric_difference(&smol).cloned().collect();
    assert_none("files or functions in one runtime only", &only);
    for (name, lines) in [("runtime-tokio", tokio_lines), ("runtime-smol", smol_lines)] {
        assert!(
            lines <= RUNTIME_WALL_LINES,
            "{name}: {lines} lines, the wall is {RUNTIME_WALL_LINES}"
        );
    }
}

#[test]
fn markdown_links_work() {
    let mut pages = vec![];
    files(&root(), &[".md"], &mut pages);
    assert!(!pages.is_empty(), "no Markdown at all");
    let mut found = vec![];
    for page in pages {
        let text = read(&page);
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = link
                .split('#')
                .next()
                .unwrap_or_default()
                .split(' ')
                .next()
                .unwrap_or_default();
            let is_elsewhere =
                path.is_empty() || path.contains("://") || path.starts_with("mailto:");
            if !is_elsewhere && !page.parent().expect("a folder").join(path).exists() {
                found.push(format!("{}: {link}", shown(&page)));
            }
        }
    }
    assert_none("links to nowhere", &found);
}

/// Names of the workspace's own crates that a manifest's `[dependencies]` names.
fn own_dependencies(manifest: &str) -> BTreeSet<String> {
    let mut is_inside = false;
    let mut out = BTreeSet::new();
    for line in read(&root().join(manifest)).lines() {
        if line.starts_with('[') {
            is_inside = line == "[dependencies]";
        } else if is_inside && line.starts_with("qq-") {
            let name: String = line
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '-')
                .collect();
            out.insert(name);
        }
    }
    out
}

#[test]
fn crates_import_only_what_they_may() {
    let allowed: &[(&str, &[&str])] = &[
        ("proto-amqp/Cargo.toml", &[]),
        ("proto-binary/Cargo.toml", &[]),
        ("core/Cargo.toml", &["qq-proto-amqp", "qq-proto-binary"]),
        ("store-mem/Cargo.toml", &["qq-core"]),
        ("store-sqlite/Cargo.toml", &["qq-core"]),
        ("bins/qqctl/Cargo.toml", &[]),
        ("dashboard/Cargo.toml", &[]),
        ("runtime/Cargo.toml", &["qq-core"]),
        ("runtime-tokio/Cargo.toml", &["qq-core", "qq-runtime"]),
        ("runtime-smol/Cargo.toml", &["qq-core", "qq-runtime"]),
    ];
    let mut found = vec![];
    for (manifest, may) in allowed {
        for name in own_dependencies(manifest) {
            if !may.contains(&name.as_str()) {
                found.push(format!("{manifest} imports {name}"));
            }
        }
    }
    assert_none("imports against the layers", &found);
}
