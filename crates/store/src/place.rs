//! Location of a store: a SQLite file, or tables on a PostgreSQL server.

use std::fmt;
use std::path::{Path, PathBuf};

/// Beginnings of a server's address.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// Schema for an address that names none.
const SCHEMA: &str = "fairbell";
/// Longest name of a schema, bytes: with a suffix it stays below 64, where PostgreSQL cuts names
/// off.
const SCHEMA_MAX: usize = 48;

/// Location of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A SQLite file with this path.
    File(PathBuf),
    /// Tables in a schema on a PostgreSQL server.
    Server(ServerPlace),
}

/// Tables on a PostgreSQL server.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerPlace {
    /// Address of the server, which may contain a password.
    pub(crate) url: String,
    /// Schema that holds the tables.
    pub(crate) schema: String,
}

impl ServerPlace {
    /// The location with `end` appended to the schema's name.
    pub(crate) fn beside(&self, end: &str) -> ServerPlace {
        ServerPlace { url: self.url.clone(), schema: format!("{}{end}", self.schema) }
    }
}

impl Place {
    /// What somebody has written: an address `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, where `#NAME`
    /// may name another schema than `fairbell`, or else a file.
    ///
    /// # Errors
    /// Text that says what is wrong with an address.
    pub fn read(text: &str) -> Result<Place, String> {
        if text.is_empty() {
            return Err("empty: name a file or the address of a PostgreSQL server".to_string());
        }
        if !SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            // A password must not become the name of a file.
            let lower = text.to_ascii_lowercase();
            let is_server = ["postgres:", "postgresql:"].iter().any(|of| lower.starts_with(of));
            return match is_server || text.contains("://") {
                true => Err(format!(
                    "no address that is known: one of a PostgreSQL server begins with {}, a file's name has \
                     no ://",
                    SCHEMES[0]
                )),
                false => Ok(Place::File(PathBuf::from(text))),
            };
        }
        let (url, schema) = text.split_once('#').unwrap_or((text, SCHEMA));
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = schema.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        if !begins || schema.len() > SCHEMA_MAX || !schema.bytes().all(is_name) {
            return Err(format!(
                "the schema behind # has to be of 1 to {SCHEMA_MAX} of a-z, 0-9 and _, with a letter first"
            ));
        }
        let known = url.parse::<postgres::Config>();
        // What is wrong with it is said without it: it may hold a password.
        known.map_err(|error| format!("no address of a PostgreSQL server: {error}"))?;
        Ok(Place::Server(ServerPlace { url: url.to_string(), schema: schema.to_string() }))
    }

    /// Path of the file; `None` for a server.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Place::File(path) => Some(path),
            Place::Server(_) => None,
        }
    }

    /// Whether the location is on a server.
    pub fn is_server(&self) -> bool {
        self.file().is_none()
    }

    /// The location with `end` appended to the name of the file or schema.
    pub fn beside(&self, end: &str) -> Place {
        match self {
            Place::File(path) => {
                let mut name = path.as_os_str().to_owned();
                name.push(format!(".{end}"));
                Place::File(PathBuf::from(name))
            }
            Place::Server(server) => Place::Server(server.beside(&format!("_{end}"))),
        }
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Place {
        Place::File(path.to_path_buf())
    }
}

impl From<&PathBuf> for Place {
    fn from(path: &PathBuf) -> Place {
        Place::File(path.clone())
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Place {
        place.clone()
    }
}

/// Shows the location without a password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => write!(f, "{}", path.display()),
            Place::Server(server) => write!(f, "{server:?}"),
        }
    }
}

/// Shows the server without a password.
impl fmt::Debug for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.url.parse::<postgres::Config>().unwrap_or_default();
        let hosts: Vec<String> = (config.get_hosts().iter())
            .map(|host| match host {
                postgres::config::Host::Tcp(name) => name.clone(),
                postgres::config::Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        let ports: Vec<String> = config.get_ports().iter().map(|port| format!(":{port}")).collect();
        let database = config.get_dbname().unwrap_or_default();
        write!(f, "postgres://{}{}/{database}#{}", hosts.join(","), ports.join(","), self.schema)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_place_is_read_and_told_without_its_password() {
        let place =
            Place::read("postgres://feeder:secret@db.venue:5433/trades#day_1").expect("good");
        assert_eq!(place.to_string(), "postgres://db.venue:5433/trades#day_1");
        assert!(!format!("{place:?}").contains("secret"));
        assert_eq!(place.beside("new").to_string(), "postgres://db.venue:5433/trades#day_1_new");
        let usual = Place::read("postgresql://db/trades").expect("good");
        assert_eq!(usual.to_string(), "postgres://db:5432/trades#fairbell");
        assert_eq!(Place::read("out/store.db"), Ok(Place::from(Path::new("out/store.db"))));
        for wrong in ["postgres://db/trades#", "postgres://db/t#A", "postgres://db:port/t#a"] {
            assert!(Place::read(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "postgres://a:secret@db:x/t",
            "Postgres://a:secret@db/t",
            "postgres:/a:secret@db/t",
            "redis://a:secret@db/0",
            "",
        ] {
            let why = Place::read(wrong).expect_err(wrong);
            assert!(!why.contains("secret"), "{why}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_written_makes_it_panic(text in "(postgres://)?.{0,40}") {
            if let Ok(place) = Place::read(&text) {
                let _ = place.to_string();
            }
        }
    }
}
