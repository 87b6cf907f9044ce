//! Both engines under the same tests: a file of SQLite's, and a schema of a PostgreSQL server.
//!
//! The server's address is in `FAIRBELL_POSTGRES`, and `scripts/with-postgres.sh` starts one. Without it the tests
//! of PostgreSQL are skipped with a word, but where `CI` is set: there they fail.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use store::Place;

/// The server's address.
const SERVER: &str = "FAIRBELL_POSTGRES";

/// What a test's stores are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Sqlite,
    /// On this server.
    Postgres(String),
}

impl Kind {
    /// PostgreSQL's, where there is a server.
    pub(crate) fn postgres() -> Option<Kind> {
        let known = std::env::var(SERVER).ok().filter(|url| !url.is_empty());
        if known.is_none() {
            let way =
                format!("{SERVER} names no server; scripts/with-postgres.sh COMMAND starts one");
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is to be tested: {way}");
            eprintln!("PostgreSQL is not tested: {way}");
        }
        known.map(Kind::Postgres)
    }
}

/// The same test for each engine.
macro_rules! on_both {
    ($body:ident) => {
        mod $body {
            #[test]
            fn sqlite() {
                super::$body($crate::Kind::Sqlite);
            }

            #[test]
            fn postgres() {
                $crate::Kind::postgres().into_iter().for_each(super::$body);
            }
        }
    };
}
pub(crate) use on_both;

/// A folder, or schemas, for one test; gone with it.
pub(crate) struct Scratch {
    kind: Kind,
    path: PathBuf,
    /// Schemas begin so.
    name: String,
    made: std::cell::RefCell<Vec<Place>>,
}

impl Scratch {
    pub(crate) fn new(name: &str, kind: Kind) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("store-{name}-{process}-{number}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        let name = format!("{name}_{process}_{number}");
        Scratch { kind, path, name, made: std::cell::RefCell::default() }
    }

    /// A store of this test.
    pub(crate) fn at(&self, name: &str) -> Place {
        let text = match &self.kind {
            Kind::Sqlite => self.path.join(format!("{name}.db")).display().to_string(),
            Kind::Postgres(url) => format!("{url}#{}_{name}", self.name),
        };
        let place = Place::read(&text).expect("a place");
        self.made.borrow_mut().push(place.clone());
        place
    }

    /// A file of this test.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Does something to a store behind everybody's back; says how many rows that changed.
    pub(crate) fn change(&self, place: &Place, text: &str) -> u64 {
        match place {
            Place::File(path) => {
                let db = rusqlite::Connection::open(path).expect("a file");
                db.execute(text, []).expect("changed") as u64
            }
            Place::Server(_) => self.client(place).execute(text, &[]).expect("changed"),
        }
    }

    /// A number out of it.
    pub(crate) fn number(&self, place: &Place, text: &str) -> i64 {
        match place {
            Place::File(path) => {
                let db = rusqlite::Connection::open(path).expect("a file");
                db.query_row(text, [], |row| row.get(0)).expect("a number")
            }
            Place::Server(_) => self.client(place).query_one(text, &[]).expect("a number").get(0),
        }
    }

    /// A connection to the schema of a place.
    pub(crate) fn client(&self, place: &Place) -> postgres::Client {
        let Kind::Postgres(url) = &self.kind else { panic!("no server") };
        let mut client = postgres::Client::connect(url, postgres::NoTls).expect("a server");
        let told = place.to_string();
        let schema = told.rsplit('#').next().expect("a schema");
        client.batch_execute(&format!("SET search_path TO {schema}")).expect("a schema");
        client
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.made.borrow().iter().for_each(|place| drop(store::remove(place)));
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
