//! Subjects, versions and their bounds.

use std::sync::Arc;

use super::schema;
use crate::schema::{
    Candidate, Compatibility, Registry, RegistryLimits, SchemaRefused, SchemaVersion,
};
use crate::vocab::Reason;

const LIMITS: RegistryLimits = RegistryLimits {
    versions_max: 3,
    subjects_max: 2,
    bytes_max: 100_000,
};

fn candidate(subject: &str, fields: &str) -> Candidate {
    let text = format!("syntax = \"proto3\"; message M {{ {fields} }}");
    Candidate {
        subject: subject.to_owned(),
        schema: schema(&text, "M"),
        source: Some(text),
        compatibility: None,
        refuses_unknown_fields: None,
    }
}

fn register(
    registry: &mut Registry,
    candidate: Candidate,
    limits: &RegistryLimits,
) -> Result<Arc<SchemaVersion>, SchemaRefused> {
    let made = registry.decide_register(candidate, Compatibility::Backward, limits, 77)?;
    if let Some(version) = made.forgets {
        assert!(registry.apply_forgotten(&made.record.subject, version));
    }
    registry.apply_registered(Arc::clone(&made.record), Some(made.schema));
    Ok(made.record)
}

#[test]
fn versions_count_from_one_and_only_what_was_registered_counts() {
    let mut registry = Registry::default();
    let first = register(&mut registry, candidate("q", "int32 a = 1;"), &LIMITS).expect("taken");
    assert_eq!((first.version, first.registered_at_ms), (1, 77));
    let refused = register(&mut registry, candidate("q", "string a = 1;"), &LIMITS);
    let refused = refused.expect_err("another type");
    assert_eq!(
        (refused.reason, refused.findings.len()),
        (Reason::Invalid, 1)
    );
    assert!(
        refused.text.contains("M.a (field-type)"),
        "{}",
        refused.text
    );
    // Also one that is the same as the last.
    for version in [2, 3] {
        let next = register(&mut registry, candidate("q", "int32 a = 1;"), &LIMITS);
        assert_eq!(next.expect("taken").version, version);
    }
    assert_eq!(registry.version("q", 0).expect("newest").version, 3);
    assert_eq!(registry.version("q", 1).expect("kept").version, 1);
    assert_eq!(registry.version("q", 9), None);
    assert_eq!(registry.version("other", 0), None);
}

#[test]
fn the_rule_stays_until_another_one_is_named() {
    let mut registry = Registry::default();
    let mut first = candidate("q", "int32 a = 1;");
    first.compatibility = Some(Compatibility::None);
    first.refuses_unknown_fields = Some(true);
    register(&mut registry, first, &LIMITS).expect("taken");
    let second = register(&mut registry, candidate("q", "string a = 1;"), &LIMITS).expect("taken");
    assert_eq!(second.compatibility, Compatibility::None);
    assert!(second.refuses_unknown_fields);
    let mut third = candidate("q", "int32 a = 1;");
    third.compatibility = Some(Compatibility::Full);
    register(&mut registry, third.clone(), &LIMITS).expect_err("held to the rule that it names");
    third.compatibility = Some(Compatibility::None);
    third.refuses_unknown_fields = Some(false);
    let third = register(&mut registry, third, &LIMITS).expect("taken");
    assert!(!third.refuses_unknown_fields);
}

#[test]
fn numbers_of_removed_fields_are_remembered_over_versions() {
    let mut registry = Registry::default();
    for fields in [
        "int32 a = 1; string b = 2;",
        "int32 a = 1;",
        "int32 a = 1; bool c = 3;",
    ] {
        register(&mut registry, candidate("q", fields), &LIMITS).expect("taken");
    }
    let refused = register(
        &mut registry,
        candidate("q", "int32 a = 1; bool d = 2;"),
        &LIMITS,
    );
    assert_eq!(
        refused.expect_err("reused").findings[0].rule,
        "number-reused"
    );
}

#[test]
fn what_is_kept_is_bounded() {
    let mut registry = Registry::default();
    for _ in 0..5 {
        register(&mut registry, candidate("q", "int32 a = 1;"), &LIMITS).expect("taken");
    }
    let kept: Vec<u32> = registry.history("q").iter().map(|v| v.version).collect();
    assert_eq!(kept, [3, 4, 5]);
    register(&mut registry, candidate("r", "int32 a = 1;"), &LIMITS).expect("taken");
    let refused = register(&mut registry, candidate("s", "int32 a = 1;"), &LIMITS);
    assert_eq!(refused.expect_err("a third").reason, Reason::LimitExceeded);
    let tight = RegistryLimits {
        bytes_max: 300,
        ..LIMITS
    };
    let refused = register(&mut registry, candidate("r", "int32 a = 1;"), &tight);
    assert_eq!(refused.expect_err("too much").reason, Reason::LimitExceeded);
}

#[test]
fn names_of_the_broker_and_bad_names_have_no_schema() {
    let mut registry = Registry::default();
    for (name, reason) in [
        ("amq.gen-1", Reason::NotAllowed),
        ("_reply.x", Reason::NotAllowed),
        ("", Reason::Invalid),
        ("a\nb", Reason::Invalid),
    ] {
        let refused = register(&mut registry, candidate(name, "int32 a = 1;"), &LIMITS);
        assert_eq!(refused.expect_err("a bad name").reason, reason, "{name:?}");
    }
    assert_eq!(registry.list().count(), 0);
}

#[test]
fn a_registry_comes_back_from_what_was_stored() {
    let mut registry = Registry::default();
    register(&mut registry, candidate("q", "int32 a = 1;"), &LIMITS).expect("taken");
    register(
        &mut registry,
        candidate("q", "int32 a = 1; bool b = 2;"),
        &LIMITS,
    )
    .expect("taken");
    let mut again = Registry::default();
    // In whatever order.
    for record in registry.history("q").iter().rev() {
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        let read = SchemaVersion::read(&bytes).expect("it was written here");
        assert_eq!(read, **record);
        again.apply_registered(Arc::new(read), None);
        for len in 0..bytes.len() {
            assert!(SchemaVersion::read(&bytes[..len]).is_err(), "{len}");
        }
    }
    again.restore();
    let (before, after) = (registry.active("q"), again.active("q"));
    assert_eq!(before, after);
    assert!(again.apply_forgotten("q", 1) && again.apply_forgotten("q", 2));
    assert!(!again.apply_forgotten("q", 2));
    assert_eq!(again.list().count(), 0);
}
