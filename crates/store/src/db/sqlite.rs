//! Stores in SQLite files: opening, writing, replacing.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, Value as SqliteValue, ValueRef};
use rusqlite::{Connection, OpenFlags, Row, ToSql, params_from_iter};

use super::{Intent, Value, Visit};
use crate::error::StoreError;
use crate::schema::{self, APPLICATION, Many, SCHEMA};

/// Longest wait for a lock that another connection holds.
const BUSY: Duration = Duration::from_secs(5);
/// Size of SQLite's page cache, KiB.
const CACHE_KIB: i64 = 32 << 10;
/// Size that the write-ahead log is cut back to, bytes.
const WAL_BYTES: i64 = 64 << 20;
/// Suffixes of the files that SQLite keeps beside a database.
const ENDS: [&str; 3] = ["", "-wal", "-shm"];

/// The header of a database file: how it begins, its length, and where `application_id` is in it (SQLite's
/// "Database File Format", 1.3).
const HEAD_BEGIN: &[u8] = b"SQLite format 3\0";
const HEAD_LEN: u64 = 100;
const HEAD_APPLICATION: std::ops::Range<usize> = 68..72;

pub(crate) struct Sqlite(Connection);

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Value::Null => ToSqlOutput::Owned(SqliteValue::Null),
            Value::Int(value) => ToSqlOutput::Owned(SqliteValue::Integer(*value)),
            Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

fn values_of(row: &Row<'_>, columns: usize, into: &mut Vec<Value>) -> Result<(), StoreError> {
    into.clear();
    for at in 0..columns {
        into.push(match row.get_ref(at)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(value) => Value::Int(value),
            ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned().into()),
            ValueRef::Real(_) | ValueRef::Blob(_) => return Err(StoreError::Foreign),
        });
    }
    Ok(())
}

impl Sqlite {
    pub(super) fn reading(path: &Path) -> Result<Sqlite, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(BUSY)?;
        Ok(Sqlite(db))
    }

    pub(super) fn writing(path: &Path) -> Result<Sqlite, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(BUSY)?;
        let db = Sqlite(db);
        // Another program's file stays as it is.
        db.version()?;
        // Readers don't wait for the writer. A crash of the machine may lose transactions, whole
        // ones: the log has them.
        db.0.pragma_update(None, "journal_mode", "WAL")?;
        db.0.pragma_update(None, "synchronous", "NORMAL")?;
        db.0.pragma_update(None, "cache_size", -CACHE_KIB)?;
        db.0.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
        Ok(db)
    }

    pub(super) fn version(&self) -> Result<Option<i64>, StoreError> {
        let number = |name: &str| self.0.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (application, found) = (number("application_id")?, number("user_version")?);
        if application == 0 && found == 0 {
            let tables = "SELECT count(*) FROM sqlite_schema";
            let count: i64 = self.0.query_row(tables, [], |row| row.get(0))?;
            return if count == 0 { Ok(None) } else { Err(StoreError::Foreign) };
        }
        if application == APPLICATION { Ok(Some(found)) } else { Err(StoreError::Foreign) }
    }

    pub(super) fn create(&self) -> Result<(), StoreError> {
        self.0.execute_batch(schema::CREATE)?;
        self.0.pragma_update(None, "application_id", APPLICATION)?;
        Ok(self.0.pragma_update(None, "user_version", SCHEMA)?)
    }

    pub(super) fn begin(&self, intent: Intent) -> Result<(), StoreError> {
        self.script(match intent {
            Intent::Write => "BEGIN IMMEDIATE",
            Intent::Read => "BEGIN",
        })
    }

    pub(super) fn script(&self, text: &str) -> Result<(), StoreError> {
        Ok(self.0.execute_batch(text)?)
    }

    pub(super) fn execute(&self, text: &str, values: &[Value]) -> Result<u64, StoreError> {
        Ok(self.0.prepare(text)?.execute(params_from_iter(values))? as u64)
    }

    pub(super) fn put(&self, many: &Many, rows: &[Vec<Value>]) -> Result<u64, StoreError> {
        let (mut one, mut count) = (self.0.prepare(&many.row)?, 0);
        for row in rows {
            count += one.execute(params_from_iter(row))? as u64;
        }
        Ok(count)
    }

    pub(super) fn each(
        &self,
        text: &str,
        values: &[Value],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let mut select = self.0.prepare(text)?;
        let (columns, mut found) = (select.column_count(), Vec::new());
        let mut rows = select.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            values_of(row, columns, &mut found)?;
            visit(&found)?;
        }
        Ok(())
    }

    pub(super) fn hurry(&self) -> Result<(), StoreError> {
        Ok(self.0.pragma_update(None, "synchronous", "OFF")?)
    }

    /// Moves everything into the file itself: nothing else belongs to it then.
    pub(super) fn close(self) -> Result<(), StoreError> {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.0.query_row(checkpoint, [], |_| Ok(()))?;
        self.0.close().map_err(|(_, error)| StoreError::Sqlite(error))
    }
}

/// Whether the file may be removed as a store: it is one, or a damaged one, or there is nothing in it.
fn is_own(file: &Path) -> Result<bool, StoreError> {
    let found = match std::fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        found => found.map_err(StoreError::File)?,
    };
    if !found.is_file() || found.len() == 0 {
        return Ok(found.is_file());
    }
    let (mut head, mut read) = (Vec::new(), std::fs::File::open(file).map_err(StoreError::File)?);
    read.by_ref().take(HEAD_LEN).read_to_end(&mut head).map_err(StoreError::File)?;
    let application = head.get(HEAD_APPLICATION).and_then(|bytes| bytes.try_into().ok());
    if application.map(i32::from_be_bytes).map(i64::from) == Some(APPLICATION) {
        return Ok(head.starts_with(HEAD_BEGIN));
    }
    // What a new store says of itself may still be in the log beside it.
    Ok(Sqlite::reading(file).and_then(|db| db.version()).is_ok())
}

/// Removes the file and the files that SQLite keeps beside it, if it is a store.
pub(super) fn remove(file: &Path) -> Result<(), StoreError> {
    if !is_own(file)? {
        return Err(StoreError::Foreign);
    }
    for end in ENDS {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::File(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What SQLite kept beside the old file belongs to nothing any more.
pub(super) fn replace(file: &Path, made: &Path) -> Result<(), StoreError> {
    std::fs::File::open(made).and_then(|made| made.sync_all()).map_err(StoreError::File)?;
    remove(file)?;
    std::fs::rename(made, file).map_err(StoreError::File)
}
