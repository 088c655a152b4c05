//! Stores without a disk: [`MemStore`], which promises nothing beyond the life of the process; [`Ledger`], which keeps
//! what a disk would keep, through crashes that a seed repeats; and [`Faulty`], which makes any store late, torn or
//! broken on a plan.
#![forbid(unsafe_code)]

mod faulty;
mod keys;
mod ledger;
mod mem;
mod random;
mod table;

pub use faulty::{FaultPlan, Faulty};
pub use ledger::{FlushFault, Ledger};
pub use mem::MemStore;
