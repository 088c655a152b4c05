//! What an error of SQLite means for what was promised.

use qq_core::store::StoreError;
use rusqlite::ErrorCode;

/// Failed writes in a row that are taken for a full or shaky disk; one more and the store gives up.
pub(crate) const WRITE_TRIES: u32 = 3;

/// Extended result codes that say that the disk may not have what it was told to keep: `SQLITE_IOERR_FSYNC` and
/// `SQLITE_IOERR_DIR_FSYNC`. After them the system may have thrown the pages away, and another try would succeed
/// without writing them.
const SYNC_CODES: [i32; 2] = [10 | (4 << 8), 10 | (5 << 8)];

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No room: the same again when there is some.
    Full,
    /// Somebody else has the database's write lock for now.
    Busy,
    /// A write or read failed; it may work the next time.
    Io,
    /// What is on disk is not what was written.
    Damaged,
    /// Nothing can be trusted after it.
    Fatal,
}

/// Sorts an error.
pub(crate) fn trouble(error: &rusqlite::Error) -> Trouble {
    let rusqlite::Error::SqliteFailure(failure, _) = error else {
        // A column of another type than was written, or a row that must be there and is not.
        return Trouble::Damaged;
    };
    if SYNC_CODES.contains(&failure.extended_code) {
        return Trouble::Fatal;
    }
    match failure.code {
        ErrorCode::DiskFull => Trouble::Full,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Trouble::Busy,
        ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory => Trouble::Io,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation => {
            Trouble::Damaged
        }
        _ => Trouble::Fatal,
    }
}

/// An error met while reading.
pub(crate) fn reading(what: &str, error: &rusqlite::Error) -> StoreError {
    let text = format!("{what}: {error}");
    match trouble(error) {
        Trouble::Damaged | Trouble::Io | Trouble::Busy | Trouble::Full => StoreError::damaged(text),
        Trouble::Fatal => StoreError::fatal(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn only_what_happened_before_the_sync_is_tried_again() {
        let kind = |code| trouble(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        assert_eq!(kind(ffi::SQLITE_FULL), Trouble::Full);
        assert_eq!(kind(ffi::SQLITE_IOERR_WRITE), Trouble::Io);
        assert_eq!(kind(ffi::SQLITE_IOERR_FSYNC), Trouble::Fatal);
        assert_eq!(kind(ffi::SQLITE_IOERR_DIR_FSYNC), Trouble::Fatal);
        assert_eq!(kind(ffi::SQLITE_CORRUPT), Trouble::Damaged);
        assert_eq!(kind(ffi::SQLITE_NOTADB), Trouble::Damaged);
        assert_eq!(kind(ffi::SQLITE_BUSY_SNAPSHOT), Trouble::Busy);
        assert_eq!(kind(ffi::SQLITE_READONLY), Trouble::Fatal);
        assert_eq!(
            trouble(&rusqlite::Error::QueryReturnedNoRows),
            Trouble::Damaged
        );
    }
}
