//! Which changes are found, in which direction, by which rule.

use std::collections::BTreeSet;

use super::schema;
use crate::schema::compat::{Retired, retire};
use crate::schema::{Compatibility, findings};

/// Fields and rules that a change breaks backward and forward.
fn broken(old: &str, new: &str) -> [BTreeSet<String>; 2] {
    let old = schema(&format!("syntax = \"proto2\"; {old}"), "M");
    let new = schema(&format!("syntax = \"proto2\"; {new}"), "M");
    let found = |rule| {
        let found = findings(&old, &new, &Retired::new(), rule);
        let found: BTreeSet<String> = found
            .iter()
            .map(|finding| format!("{} {}", finding.field, finding.rule))
            .collect();
        found
    };
    let [backward, forward] = [Compatibility::Backward, Compatibility::Forward].map(found);
    let both: BTreeSet<_> = backward.union(&forward).cloned().collect();
    assert_eq!(found(Compatibility::Full), both);
    assert_eq!(found(Compatibility::None), BTreeSet::new());
    [backward, forward]
}

fn set(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn changes_of_a_field_break_who_cannot_read_it() {
    let message = |field: &str| format!("message M {{ {field} }}");
    let (ok, kind): (&[&str], &[&str]) = (&[], &["M.a field-type"]);
    let list: &[&str] = &["M.a repeated-field"];
    let required: &[&str] = &["M.a required-field"];
    for (old, new, backward, forward) in [
        ("optional int32 a = 1;", "optional int32 a = 1;", ok, ok),
        ("optional int32 b = 1;", "optional int32 a = 1;", ok, ok),
        ("optional int32 a = 1;", "optional int64 a = 1;", ok, kind),
        ("optional uint32 a = 1;", "optional int64 a = 1;", ok, kind),
        (
            "optional int32 a = 1;",
            "optional uint32 a = 1;",
            kind,
            kind,
        ),
        ("optional bool a = 1;", "optional uint64 a = 1;", ok, kind),
        (
            "optional int32 a = 1;",
            "optional sint32 a = 1;",
            kind,
            kind,
        ),
        ("optional sint32 a = 1;", "optional sint64 a = 1;", ok, kind),
        (
            "optional fixed32 a = 1;",
            "optional fixed64 a = 1;",
            kind,
            kind,
        ),
        (
            "optional int32 a = 1;",
            "optional string a = 1;",
            kind,
            kind,
        ),
        ("optional string a = 1;", "optional bytes a = 1;", ok, kind),
        ("optional int32 a = 1;", "repeated int32 a = 1;", ok, list),
        (
            "repeated int32 a = 1 [packed = true];",
            "repeated int32 a = 1;",
            ok,
            ok,
        ),
        (
            "optional int32 a = 1;",
            "required int32 a = 1;",
            required,
            ok,
        ),
        ("", "required int32 a = 1;", required, ok),
        ("", "optional int32 a = 1;", ok, ok),
        ("optional int32 a = 1;", "", ok, ok),
        (
            "map<int32, string> a = 1;",
            "map<int32, string> a = 1;",
            ok,
            ok,
        ),
        (
            "map<int32, string> a = 1;",
            "repeated string a = 1;",
            kind,
            kind,
        ),
    ] {
        let found = broken(&message(old), &message(new));
        assert_eq!(found, [set(backward), set(forward)], "{old} -> {new}");
    }
}

#[test]
fn types_are_compared_where_they_are_used_and_cycles_end() {
    let with = |line: &str| {
        format!(
            "message M {{ repeated Line lines = 1; optional M next = 2; }} message Line {{ {line} }}"
        )
    };
    let found = broken(
        &with("optional int32 n = 1;"),
        &with("optional string n = 1;"),
    );
    assert_eq!(
        found,
        [set(&["Line.n field-type"]), set(&["Line.n field-type"])]
    );
    // Another name for the same type is the same on the wire.
    let renamed = "message M { repeated Row lines = 1; optional M next = 2; } message Row { optional int32 n = 1; }";
    assert_eq!(
        broken(&with("optional int32 n = 1;"), renamed),
        [set(&[]), set(&[])]
    );
    // Values of a map are compared as well.
    let map = |value: &str| format!("message M {{ map<string, {value}> m = 1; }}");
    let [backward, forward] = broken(&map("int32"), &map("int64"));
    assert_eq!((backward.len(), forward.len()), (0, 1));
}

#[test]
fn values_of_closed_enums_must_be_known_to_the_reader() {
    let with = |values: &str| format!("message M {{ optional E e = 1; }} enum E {{ {values} }}");
    let found = broken(&with("A = 1; B = 2;"), &with("A = 1;"));
    assert_eq!(found, [set(&["M.e enum-value"]), set(&[])]);
    let found = broken(&with("A = 1;"), &with("C = 1; B = 2;"));
    assert_eq!(found, [set(&[]), set(&["M.e enum-value"])]);
    let open = |values: &str| {
        let text = format!("syntax = \"proto3\"; message M {{ E e = 1; }} enum E {{ {values} }}");
        schema(&text, "M")
    };
    let (few, many) = (open("A = 0;"), open("A = 0; B = 1;"));
    assert_eq!(
        findings(&many, &few, &Retired::new(), Compatibility::Full),
        []
    );
}

#[test]
fn a_choice_takes_one_field_that_was_independent_and_not_two() {
    let apart =
        "message M { optional int32 a = 1; optional string b = 2; oneof o { int32 c = 3; } }";
    let one =
        "message M { oneof p { int32 a = 1; } optional string b = 2; oneof o { int32 c = 3; } }";
    let two = "message M { oneof o { int32 a = 1; string b = 2; int32 c = 3; } }";
    assert_eq!(broken(apart, one), [set(&[]), set(&[])]);
    let found = set(&["M.b oneof", "M.c oneof"]);
    assert_eq!(broken(apart, two), [found.clone(), set(&[])]);
    assert_eq!(broken(two, apart), [set(&[]), found]);
}

/// The candidates of a case that users meet, with the rule that holds where nobody says another one.
#[test]
fn a_new_version_is_held_to_the_old_one() {
    let rule = Compatibility::default();
    let message = |body: &str| format!("syntax = \"proto3\"; message M {{ {body} }}");
    let old = message("int32 a = 1; string b = 2; oneof o { int32 c = 3; }");
    let old = schema(&old, "M");
    let is_taken = |body: &str| {
        let new = schema(&message(body), "M");
        findings(&old, &new, &Retired::new(), rule).is_empty()
    };
    assert!(!is_taken(
        "string a = 1; string b = 2; oneof o { int32 c = 3; }"
    ));
    assert!(!is_taken(
        "int32 a = 1; int64 z = 2; oneof o { int32 c = 3; }"
    ));
    assert!(!is_taken(
        "oneof o { int32 a = 1; string b = 2; int32 c = 3; }"
    ));
    assert!(is_taken(
        "int32 a = 1; string renamed = 2; oneof o { int32 c = 3; }"
    ));
    assert!(is_taken(
        "int32 a = 1; reserved 2; oneof o { int32 c = 3; }"
    ));
    assert!(is_taken(
        "int64 a = 1; string b = 2; oneof o { int32 c = 3; }"
    ));
    let other = schema(
        "syntax = \"proto3\"; message Other { bytes x = 9; }",
        "Other",
    );
    let found = findings(&old, &other, &Retired::new(), rule);
    assert_eq!(found[0].rule, "message-type");
}

#[test]
fn a_number_that_was_given_up_does_not_come_back_as_another_type() {
    let message = |body: &str| schema(&format!("syntax = \"proto3\"; message M {{ {body} }}"), "M");
    let (first, second) = (
        message("int32 a = 1; string b = 2;"),
        message("int32 a = 1;"),
    );
    let retired = retire(&first, &second, Retired::new());
    let rules = |new: &str| {
        let found = findings(&second, &message(new), &retired, Compatibility::Backward);
        found.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules("int32 a = 1; int64 c = 2;"), ["number-reused"]);
    assert_eq!(
        rules("int32 a = 1; repeated string b = 2;"),
        ["number-reused"]
    );
    assert_eq!(rules("int32 a = 1; string again = 2;"), [] as [&str; 0]);
    // Once it is back it is a field as any other.
    let back = message("int32 a = 1; string again = 2;");
    assert_eq!(retire(&second, &back, retired.clone()), Retired::new());
    let reserved = message("int32 a = 1; reserved 5 to 7;");
    let found = findings(
        &reserved,
        &message("int32 a = 1; int32 b = 6;"),
        &Retired::new(),
        Compatibility::Forward,
    );
    assert_eq!(found[0].rule, "reserved-number");
    let found = findings(
        &reserved,
        &message("int32 a = 1; int32 b = 8;"),
        &Retired::new(),
        Compatibility::Forward,
    );
    assert_eq!(found, []);
}

#[test]
fn a_report_is_bounded() {
    let fields = |kind: &str| {
        let fields: String = (1..=100).map(|n| format!("{kind} f{n} = {n};")).collect();
        schema(
            &format!("syntax = \"proto3\"; message M {{ {fields} }}"),
            "M",
        )
    };
    let found = findings(
        &fields("int32"),
        &fields("string"),
        &Retired::new(),
        Compatibility::Full,
    );
    assert_eq!(found.len(), 32);
}
