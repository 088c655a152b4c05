//! The QWER-Q binary protocol: frames, messages and a connection machine for both roles, without IO.
#![no_std]
#![forbid(unsafe_code)]
