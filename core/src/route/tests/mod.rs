//! The table of exchanges as a whole.

mod random;
mod table;
