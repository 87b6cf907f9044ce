//! Errors of a store, with what an operator can do about each.

use std::fmt;

/// Why a store refuses; what it says names what to do.
#[derive(Debug)]
pub enum StoreError {
    /// SQLite reported an error.
    Sqlite(rusqlite::Error),
    /// PostgreSQL, or the connection to it, reported an error.
    Postgres(postgres::Error),
    /// A file cannot be removed, or moved to the place of another.
    File(std::io::Error),
    /// The tables were made by another program.
    Foreign,
    /// The tables have another version of the schema.
    Schema {
        /// Version of the schema that was found.
        found: i64,
    },
    /// The store was made from another log; what differs.
    Origin(&'static str),
    /// The next input does not follow the last one: position expected, position found.
    Gap(u64, u64),
    /// The log's reports, up to where the store stands, are not those that the store was made from;
    /// the position up to which it stands.
    Reports(u64),
    /// Another process has fed the store meanwhile; the position at which it is now.
    Moved(u64),
    /// A row that is to be changed is missing; its table.
    Row(&'static str),
    /// There is no store at this place.
    Missing,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Sqlite(error) => write!(f, "SQLite: {error}"),
            StoreError::Postgres(error) => match error.as_db_error() {
                Some(told) => {
                    write!(f, "PostgreSQL: {}", told.message())?;
                    told.detail().map_or(Ok(()), |more| write!(f, ": {more}"))
                }
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
            StoreError::Missing => f.write_str("is not there yet: `store follow` makes it; that of a root is in its own folder (--file)"),
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
