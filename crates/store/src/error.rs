//! Errors of a store.

use std::fmt;

/// Why a store refuses; what it says names what to do.
#[derive(Debug)]
pub enum StoreError {
    /// SQLite.
    Sqlite(rusqlite::Error),
    /// PostgreSQL, or the way to it.
    Postgres(postgres::Error),
    /// A file that can't be removed, or put in the place of another.
    File(std::io::Error),
    /// The tables are of another program.
    Foreign,
    /// The tables are of another version of the schema.
    Schema {
        /// Version that was found.
        found: i64,
    },
    /// The store was made from another log; the difference.
    Origin(&'static str),
    /// The next input is not the one after the last; both positions.
    Gap(u64, u64),
    /// The log's reports up to where the store holds are not those that it was made of.
    Reports(u64),
    /// Another process has fed it meanwhile.
    Moved(u64),
    /// A row that must be there is not; which table.
    Row(&'static str),
    /// There is no store.
    Missing,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Sqlite(error) => write!(f, "SQLite: {error}"),
            StoreError::Postgres(error) => match error.as_db_error() {
                Some(told) => write!(f, "PostgreSQL: {}", told.message()),
                None => {
                    write!(f, "PostgreSQL: {error}")?;
                    let why = std::error::Error::source(error);
                    why.map_or(Ok(()), |why| write!(f, ": {why}"))
                }
            },
            StoreError::File(error) => write!(f, "{error}"),
            StoreError::Foreign => {
                f.write_str("is no post-trade store; name another file or schema")
            }
            StoreError::Schema { found } => write!(
                f,
                "has tables of version {found}, this is {}: make it anew with `store rebuild`",
                crate::SCHEMA
            ),
            StoreError::Origin(what) => {
                write!(
                    f,
                    "was made of another log (its {what} differs): name another file or schema"
                )
            }
            StoreError::Gap(due, found) => {
                write!(f, "input {found} came where {due} was due: the log lacks some")
            }
            StoreError::Reports(at) => write!(
                f,
                "the log's reports up to input {at} are not those that the store was made of: \
                 make it anew with `store rebuild`"
            ),
            StoreError::Moved(at) => {
                write!(f, "somebody else feeds it: it is not at input {at} any more")
            }
            StoreError::Row(table) => write!(
                f,
                "a row of {table} that must be there is not: make it anew with `store rebuild`"
            ),
            StoreError::Missing => f.write_str("is not there yet: `store follow` makes it"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<postgres::Error> for StoreError {
    fn from(error: postgres::Error) -> StoreError {
        StoreError::Postgres(error)
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::Sqlite(error)
    }
}
