//! Tests of the broker by commands, without faces.

mod harness;
mod smoke;
