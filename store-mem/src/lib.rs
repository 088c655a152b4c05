//! Stores without a disk: [`MemStore`], which promises nothing beyond the life of the process, and [`Faulty`], which
//! makes any store late, torn or broken on a plan that a seed repeats.
#![forbid(unsafe_code)]

mod faulty;
mod mem;

pub use faulty::{FaultPlan, Faulty};
pub use mem::MemStore;
