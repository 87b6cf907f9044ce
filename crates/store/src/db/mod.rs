//! What the store needs of a database, by either engine: values, statements, one transaction at a time.
//!
//! Texts are the same for both: placeholders are `?1`, `?2` and so on, columns are whole numbers or text.
//! Where the engines differ it is decided here and in [`schema`](crate::schema).

mod postgres;
mod sqlite;

use std::borrow::Cow;

use crate::error::StoreError;
use crate::place::Place;
use crate::schema::Many;

/// A value of a row or of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(Cow<'static, str>),
}

impl Value {
    /// A value from a word of this program (not from outside).
    pub(crate) fn word(word: &'static str) -> Value {
        Value::Text(Cow::Borrowed(word))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Value {
        value.map_or(Value::Null, Value::Int)
    }
}

/// A text from outside, in a form that both engines take: PostgreSQL's texts cannot hold a zero
/// character.
impl From<String> for Value {
    fn from(text: String) -> Value {
        match text.contains('\0') {
            true => Value::Text(Cow::Owned(text.replace('\0', "\u{FFFD}"))),
            false => Value::Text(Cow::Owned(text)),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        text.to_string().into()
    }
}

/// Reads the columns of a row one after another.
pub(crate) struct Columns<'a>(std::slice::Iter<'a, Value>);

impl<'a> Columns<'a> {
    pub(crate) fn of(row: &'a [Value]) -> Columns<'a> {
        Columns(row.iter())
    }

    /// The next column as a whole number.
    pub(crate) fn int(&mut self) -> Result<i64, StoreError> {
        self.known()?.ok_or(StoreError::Foreign)
    }

    /// The next column as a whole number of a smaller type; an error when it does not fit.
    pub(crate) fn small<T: TryFrom<i64>>(&mut self) -> Result<T, StoreError> {
        T::try_from(self.int()?).map_err(|_| StoreError::Foreign)
    }

    /// The next column as a whole number; `None` for NULL.
    pub(crate) fn known(&mut self) -> Result<Option<i64>, StoreError> {
        match self.0.next() {
            Some(Value::Int(value)) => Ok(Some(*value)),
            Some(Value::Null) => Ok(None),
            _ => Err(StoreError::Foreign),
        }
    }

    /// The next column as text; `None` for NULL.
    pub(crate) fn said(&mut self) -> Result<Option<String>, StoreError> {
        match self.0.next() {
            Some(Value::Text(text)) => Ok(Some(text.to_string())),
            Some(Value::Null) => Ok(None),
            _ => Err(StoreError::Foreign),
        }
    }

    /// The next column as text; an error for NULL.
    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        self.said()?.ok_or(StoreError::Foreign)
    }
}

/// Purpose of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Intent {
    /// The transaction changes rows.
    Write,
    /// The transaction asks several questions about one moment.
    Read,
}

/// Function that is called with each row found.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[Value]) -> Result<(), StoreError>;

/// An open database of either engine.
pub(crate) enum Db {
    Sqlite(sqlite::Sqlite),
    Postgres(Box<postgres::Postgres>),
}

impl Db {
    /// Opens a database for reading; creates nothing.
    pub(crate) fn reading(place: &Place) -> Result<Db, StoreError> {
        match place {
            Place::File(path) => Ok(Db::Sqlite(sqlite::Sqlite::reading(path)?)),
            Place::Server(server) => {
                Ok(Db::Postgres(Box::new(postgres::Postgres::open(server, Intent::Read)?)))
            }
        }
    }

    /// Opens a database for the process that feeds it.
    pub(crate) fn writing(place: &Place) -> Result<Db, StoreError> {
        match place {
            Place::File(path) => Ok(Db::Sqlite(sqlite::Sqlite::writing(path)?)),
            Place::Server(server) => {
                Ok(Db::Postgres(Box::new(postgres::Postgres::open(server, Intent::Write)?)))
            }
        }
    }

    /// Version of the schema that is there. `None`: nobody's tables, it is empty.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] for tables of another program.
    pub(crate) fn version(&self) -> Result<Option<i64>, StoreError> {
        match self {
            Db::Sqlite(db) => db.version(),
            Db::Postgres(db) => db.version(),
        }
    }

    /// Creates the tables, inside a transaction.
    pub(crate) fn create(&self) -> Result<(), StoreError> {
        match self {
            Db::Sqlite(db) => db.create(),
            Db::Postgres(db) => db.create(),
        }
    }

    /// Claims the right to feed the store, until it is closed; false when another process has it. A
    /// SQLite file can always be claimed: the second feeder finds the store moved.
    pub(crate) fn claim(&self) -> Result<bool, StoreError> {
        match self {
            Db::Sqlite(_) => Ok(true),
            Db::Postgres(db) => db.claim(),
        }
    }

    /// Begins a transaction; there is at most one at a time.
    pub(crate) fn begin(&self, intent: Intent) -> Result<(), StoreError> {
        match self {
            Db::Sqlite(db) => db.begin(intent),
            Db::Postgres(db) => db.begin(intent),
        }
    }

    fn end(&self, text: &'static str) -> Result<(), StoreError> {
        match self {
            Db::Sqlite(db) => db.script(text),
            Db::Postgres(db) => db.script(text),
        }
    }

    /// Runs `work` in a transaction: all of its changes are made, or none.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&Db) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.begin(Intent::Write)?;
        match change(self) {
            Ok(done) => self.end("COMMIT").map(|()| done),
            Err(error) => {
                // Of a connection that is lost nothing is left either.
                let _ = self.end("ROLLBACK");
                Err(error)
            }
        }
    }

    /// Executes one statement; returns how many rows it changed.
    pub(crate) fn execute(&self, text: &str, values: &[Value]) -> Result<u64, StoreError> {
        match self {
            Db::Sqlite(db) => db.execute(text, values),
            Db::Postgres(db) => db.execute(text, values),
        }
    }

    /// Executes a statement for many rows of values; returns how many rows it changed.
    pub(crate) fn put(&self, many: &Many, rows: &[Vec<Value>]) -> Result<u64, StoreError> {
        match self {
            _ if rows.is_empty() => Ok(0),
            Db::Sqlite(db) => db.put(many, rows),
            Db::Postgres(db) => db.put(many, rows),
        }
    }

    /// Calls `visit` with each row that a question finds.
    pub(crate) fn each(
        &self,
        text: &str,
        values: &[Value],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        match self {
            Db::Sqlite(db) => db.each(text, values, visit),
            Db::Postgres(db) => db.each(text, values, visit),
        }
    }

    /// The only row that a question finds, read by `read`.
    pub(crate) fn row<T>(
        &self,
        text: &str,
        read: impl Fn(&mut Columns<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut found = None;
        self.each(text, &[], &mut |row| {
            found = Some(read(&mut Columns::of(row))?);
            Ok(())
        })?;
        found.ok_or(StoreError::Missing)
    }

    /// Writes faster and less safely from now on, for a store that counts only once it is complete.
    pub(crate) fn hurry(&self) -> Result<(), StoreError> {
        match self {
            Db::Sqlite(db) => db.hurry(),
            // A server's transactions are never waited for.
            Db::Postgres(_) => Ok(()),
        }
    }

    /// Closes the database, with everything in its main file.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        match self {
            Db::Sqlite(db) => db.close(),
            Db::Postgres(db) => db.close(),
        }
    }
}

/// Moves the store `made` to `place` and removes what was there.
pub(crate) fn replace(place: &Place, made: &Place) -> Result<(), StoreError> {
    match (place, made) {
        (Place::Server(place), Place::Server(made)) => postgres::replace(place, made),
        (Place::File(place), Place::File(made)) => sqlite::replace(place, made),
        _ => Err(StoreError::Foreign),
    }
}

/// Removes a store, if there is one.
pub(crate) fn remove(place: &Place) -> Result<(), StoreError> {
    match place {
        Place::Server(server) => postgres::remove(server),
        Place::File(path) => sqlite::remove(path),
    }
}
