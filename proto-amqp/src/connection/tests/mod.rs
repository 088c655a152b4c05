//! Machine tests.
