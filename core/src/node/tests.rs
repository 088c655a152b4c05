//! Tests of the node with a scripted face.
