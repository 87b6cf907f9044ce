//! Tables on a PostgreSQL server: in a schema of their own, beside whatever else is in the database.
//!
//! The connection is not encrypted: the server is on this machine, or in a network that is.

use std::cell::RefCell;
use std::error::Error;
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, NoTls, Row};

use super::{Intent, Value, Visit};
use crate::error::StoreError;
use crate::place::ServerPlace;
use crate::schema::{self, APPLICATION, Many, SCHEMA};

/// Longest wait for a server's answer to a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection may be silent before the server is asked whether it is there, and how long what was sent
/// may wait for it.
const SILENT: Duration = Duration::from_secs(10);
const UNHEARD: Duration = Duration::from_secs(30);
/// Most rows that one statement changes.
const ROWS: usize = 4_096;

pub(crate) struct Postgres {
    client: RefCell<Client>,
    schema: String,
}

impl ToSql for Value {
    fn to_sql(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(value) => value.to_sql(of, out),
            Value::Text(text) => text.as_ref().to_sql(of, out),
        }
    }

    fn accepts(of: &Type) -> bool {
        [Type::INT8, Type::TEXT].contains(of)
    }

    to_sql_checked!();
}

fn values_of(row: &Row, into: &mut Vec<Value>) -> Result<(), StoreError> {
    into.clear();
    for (at, column) in row.columns().iter().enumerate() {
        into.push(match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at)?.into(),
            Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(i64::from).into(),
            Type::TEXT => row.try_get::<_, Option<&str>>(at)?.map_or(Value::Null, Value::from),
            _ => return Err(StoreError::Foreign),
        });
    }
    Ok(())
}

fn connect(place: &ServerPlace) -> Result<Client, StoreError> {
    let mut config: postgres::Config = place.url.parse()?;
    config.application_name("fairbell").keepalives_idle(SILENT).tcp_user_timeout(UNHEARD);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    Ok(config.connect(NoTls)?)
}

/// A statement with placeholders in PostgreSQL's form (`$1` for `?1`).
fn text_of(text: &str) -> String {
    text.replace('?', "$")
}

/// Key of the advisory lock of a schema.
fn lock_of(schema: &str) -> i64 {
    let mut digest = types::Digest(APPLICATION as u64);
    schema.bytes().for_each(|byte| digest.fold(u64::from(byte)));
    digest.0 as i64
}

impl Postgres {
    pub(super) fn open(place: &ServerPlace, intent: Intent) -> Result<Postgres, StoreError> {
        let mut client = connect(place)?;
        let schema = place.schema.clone();
        // A crash of the server may lose the last transactions, whole ones: the log has them.
        let steady = "SET synchronous_commit TO off; SET client_min_messages TO warning;";
        client.batch_execute(&format!("{steady} SET search_path TO {schema}"))?;
        let db = Postgres { client: RefCell::new(client), schema };
        if intent == Intent::Read && db.version()?.is_none() {
            return Err(StoreError::Missing);
        }
        Ok(db)
    }

    pub(super) fn version(&self) -> Result<Option<i64>, StoreError> {
        let mut client = self.client.borrow_mut();
        let mine = "SELECT count(*), count(*) FILTER (WHERE tablename = 'store_version') \
                    FROM pg_catalog.pg_tables WHERE schemaname = $1";
        let row = client.query_one(mine, &[&self.schema])?;
        match (row.try_get::<_, i64>(0)?, row.try_get::<_, i64>(1)?) {
            (0, _) => Ok(None),
            (_, 0) => Err(StoreError::Foreign),
            _ => {
                let row = client.query_one("SELECT version FROM store_version", &[])?;
                Ok(Some(row.try_get(0)?))
            }
        }
    }

    pub(super) fn create(&self) -> Result<(), StoreError> {
        let (schema, tables) = (&self.schema, schema::CREATE);
        let tables = tables.replace("INTEGER", "BIGINT").replace(") STRICT;", ");");
        self.script(&format!(
            "CREATE SCHEMA IF NOT EXISTS {schema}; {tables}; \
             CREATE TABLE store_version (version BIGINT PRIMARY KEY); \
             INSERT INTO store_version VALUES ({SCHEMA})"
        ))
    }

    /// Claims the store for this connection; a holder whose connection has ended no longer counts.
    pub(super) fn claim(&self) -> Result<bool, StoreError> {
        let ask = "SELECT pg_try_advisory_lock($1)";
        let row = self.client.borrow_mut().query_one(ask, &[&lock_of(&self.schema)])?;
        Ok(row.try_get(0)?)
    }

    pub(super) fn begin(&self, intent: Intent) -> Result<(), StoreError> {
        match intent {
            // Who makes the tables, or puts names into them, does so after another one.
            Intent::Write => {
                let lock = lock_of(&format!("{} changes", self.schema));
                self.script(&format!("BEGIN; SELECT pg_advisory_xact_lock({lock})"))
            }
            Intent::Read => self.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        }
    }

    pub(super) fn script(&self, text: &str) -> Result<(), StoreError> {
        Ok(self.client.borrow_mut().batch_execute(text)?)
    }

    pub(super) fn execute(&self, text: &str, values: &[Value]) -> Result<u64, StoreError> {
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|one| one as _).collect();
        Ok(self.client.borrow_mut().execute(&text_of(text), &values)?)
    }

    /// Executes one statement for many rows, with one array of values for each column.
    pub(super) fn put(&self, many: &Many, rows: &[Vec<Value>]) -> Result<u64, StoreError> {
        let mut client = self.client.borrow_mut();
        let (statement, mut count) = (client.prepare(&many.columns)?, 0);
        for rows in rows.chunks(ROWS) {
            let columns = statement.params().iter().enumerate().map(|(at, of)| {
                let column = rows.iter().map(|row| row.get(at).unwrap_or(&Value::Null));
                let boxed: Box<dyn ToSql + Sync> = match *of {
                    Type::INT8_ARRAY => Box::new(column.map(number).collect::<Vec<Option<i64>>>()),
                    _ => Box::new(column.map(words).collect::<Vec<Option<&str>>>()),
                };
                boxed
            });
            let columns: Vec<Box<dyn ToSql + Sync + '_>> = columns.collect();
            let values: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|one| &**one as _).collect();
            count += client.execute(&statement, &values)?;
        }
        Ok(count)
    }

    pub(super) fn each(
        &self,
        text: &str,
        values: &[Value],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let mut client = self.client.borrow_mut();
        let mut found = Vec::new();
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|one| one as _).collect();
        let mut rows = client.query_raw(&text_of(text), values)?;
        while let Some(row) = rows.next()? {
            values_of(&row, &mut found)?;
            visit(&found)?;
        }
        Ok(())
    }

    pub(super) fn close(self) -> Result<(), StoreError> {
        Ok(self.client.into_inner().close()?)
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        _ => None,
    }
}

fn words(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// Statements that drop what a store has in a schema, and nothing else that is there. What somebody made that needs
/// it, a view for example, keeps it from being dropped.
fn drop_store(schema: &str) -> String {
    let tables: Vec<String> = tables().map(|table| format!("{schema}.{table}")).collect();
    format!("DROP VIEW IF EXISTS {schema}.fills; DROP TABLE IF EXISTS {}; ", tables.join(", "))
}

/// Statement that gives tables of `made` what others may do with those of the same name in `schema`.
fn keep_grants(schema: &str, made: &str) -> String {
    format!(
        "DO $$ DECLARE one record; BEGIN FOR one IN SELECT DISTINCT table_name, privilege_type, grantee \
         FROM information_schema.table_privileges WHERE table_schema = '{schema}' \
         AND grantee <> current_user AND to_regclass(format('{made}.%I', table_name)) IS NOT NULL \
         LOOP EXECUTE format('GRANT %s ON {made}.%I TO %s', one.privilege_type, one.table_name, \
         CASE one.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(one.grantee) END); \
         END LOOP; END $$; "
    )
}

/// Statement that drops a schema if there is nothing in it.
fn drop_empty(schema: &str) -> String {
    format!(
        "DO $$ BEGIN DROP SCHEMA IF EXISTS {schema}; \
         EXCEPTION WHEN dependent_objects_still_exist THEN NULL; END $$; "
    )
}

fn tables() -> impl Iterator<Item = &'static str> {
    let made = schema::CREATE.split("CREATE TABLE ").skip(1);
    made.filter_map(|text| text.split_whitespace().next()).chain(["store_version"])
}

/// Changes the schemas in one transaction, if there is a store or no table in each.
fn change(places: &[&ServerPlace], statements: &str) -> Result<(), StoreError> {
    let all = places.iter().map(|place| Postgres::open(place, Intent::Write));
    let all = all.collect::<Result<Vec<_>, StoreError>>()?;
    all.iter().try_for_each(|db| db.version().map(drop))?;
    let Some(db) = all.first() else { return Ok(()) };
    db.script(&format!("BEGIN; {statements} COMMIT"))
}

pub(super) fn remove(place: &ServerPlace) -> Result<(), StoreError> {
    let schema = &place.schema;
    change(&[place], &format!("{}{}", drop_store(schema), drop_empty(schema)))
}

/// At one moment for whoever asks.
pub(super) fn replace(place: &ServerPlace, made: &ServerPlace) -> Result<(), StoreError> {
    let (schema, from) = (&place.schema, &made.schema);
    let table = |table| format!("ALTER TABLE {from}.{table} SET SCHEMA {schema}; ");
    let tables: String = tables().map(table).collect();
    let statements = format!(
        "{}{}CREATE SCHEMA IF NOT EXISTS {schema}; {tables}\
         ALTER VIEW {from}.fills SET SCHEMA {schema}; {}",
        keep_grants(schema, from),
        drop_store(schema),
        drop_empty(from)
    );
    change(&[place, made], &statements)
}
