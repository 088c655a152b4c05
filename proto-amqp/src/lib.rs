//! AMQP 1.0, sans-IO.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
