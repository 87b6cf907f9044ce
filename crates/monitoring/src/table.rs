//! Records as tables: Parquet or CSV, a file of which is seen under its name once it is whole.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::record::{Bytes, Order, POINTS, RecordKind, Release, Web};

/// Rows that are in memory before they are written.
const GROUP_ROWS: usize = 65_536;

/// Form of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Parquet, compressed by zstd.
    Parquet,
    /// Lines with commas, names in the first one.
    Csv,
}

impl Format {
    /// Ending of its files' names.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
        }
    }
}

/// Names of a table's columns; all hold whole numbers but `point`.
pub fn columns(kind: RecordKind) -> &'static [&'static str] {
    match kind {
        RecordKind::Orders => &[
            "life",
            "number",
            "input",
            "came",
            "logged",
            "gateway",
            "account",
            "instrument",
            "command",
            "flags",
        ],
        RecordKind::Releases => {
            &["life", "number", "point", "node", "shard", "stream", "datagram", "at", "deadline"]
        }
        RecordKind::Web => &[
            "life", "number", "came", "sent", "logged", "answered", "account", "request",
            "command", "flags",
        ],
    }
}

/// What stands in a column.
enum Cell {
    Number(u64),
    Text(&'static str),
}

/// A row: the life of its producer, its number, and the record.
type Row = (u64, u64, Bytes);

fn cells(kind: RecordKind, (life, number, record): &Row) -> Vec<Cell> {
    let numbers: Vec<u64> = match kind {
        RecordKind::Orders => {
            let Order { input, came, logged, gateway, account, instrument, command, flags } =
                Order::decode(record);
            let small = [gateway, account, instrument, command.into(), flags.into()];
            [*life, *number, input, came, logged].into_iter().chain(small.map(u64::from)).collect()
        }
        RecordKind::Releases => {
            let Release { node, message, at, deadline, .. } = Release::decode(record);
            let (shard, stream) = (message >> 56, message >> 48 & 0xff);
            let datagram = message & ((1 << 48) - 1);
            vec![*life, *number, node.into(), shard, stream, datagram, at, deadline]
        }
        RecordKind::Web => {
            let Web { came, logged, sent, answered, request, account, command, flags } =
                Web::decode(record);
            let [sent, answered] = [sent, answered].map(|after| came.saturating_add(after.into()));
            let small = [account.into(), request.into(), command.into(), flags.into()];
            [*life, *number, came, sent, logged, answered].into_iter().chain(small).collect()
        }
    };
    let mut cells: Vec<Cell> = numbers.into_iter().map(Cell::Number).collect();
    if kind == RecordKind::Releases {
        let point = usize::from(Release::decode(record).point);
        cells.insert(2, Cell::Text(POINTS.get(point).copied().unwrap_or("unknown")));
    }
    cells
}

enum To {
    Parquet(Box<SerializedFileWriter<File>>),
    Csv(BufWriter<File>),
}

/// A file being written.
pub struct Table {
    path: PathBuf,
    partial: PathBuf,
    kind: RecordKind,
    to: To,
    rows: Vec<Row>,
    written: u64,
}

impl Table {
    /// A file without rows.
    ///
    /// # Errors
    /// The system's, with the name.
    pub fn create(path: &Path, kind: RecordKind, format: Format) -> Result<Table, String> {
        let partial = path.with_extension("partial");
        let on = |error: &dyn std::fmt::Display| format!("{}: {error}", partial.display());
        let file = File::create(&partial).map_err(|error| on(&error))?;
        let to = match format {
            Format::Parquet => {
                let column = |name: &&str| match *name {
                    "point" => "required binary point (utf8);".to_string(),
                    number => format!("required int64 {number};"),
                };
                let fields: Vec<String> = columns(kind).iter().map(column).collect();
                let schema = format!("message {} {{ {} }}", kind.name(), fields.join(" "));
                let schema = parse_message_type(&schema).map_err(|error| on(&error))?;
                let level = ZstdLevel::try_new(3).map_err(|error| on(&error))?;
                let properties =
                    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
                let writer =
                    SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties));
                To::Parquet(Box::new(writer.map_err(|error| on(&error))?))
            }
            Format::Csv => {
                let mut to = BufWriter::new(file);
                writeln!(to, "{}", columns(kind).join(",")).map_err(|error| on(&error))?;
                To::Csv(to)
            }
        };
        let path = path.to_path_buf();
        Ok(Table { path, partial, kind, to, rows: Vec::new(), written: 0 })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The system's, with the name.
    pub fn push(&mut self, life: u64, number: u64, record: Bytes) -> Result<(), String> {
        self.rows.push((life, number, record));
        if self.rows.len() >= GROUP_ROWS { self.write() } else { Ok(()) }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.written + self.rows.len() as u64
    }

    fn write(&mut self) -> Result<(), String> {
        let Table { partial, kind, to, rows, .. } = self;
        let on = |error: &dyn std::fmt::Display| format!("{}: {error}", partial.display());
        match to {
            To::Csv(to) => {
                for row in rows.iter() {
                    let text = |cell| match cell {
                        Cell::Number(number) => number.to_string(),
                        Cell::Text(text) => text.to_string(),
                    };
                    let line: Vec<String> = cells(*kind, row).into_iter().map(text).collect();
                    writeln!(to, "{}", line.join(",")).map_err(|error| on(&error))?;
                }
            }
            To::Parquet(to) => {
                let all: Vec<Vec<Cell>> = rows.iter().map(|row| cells(*kind, row)).collect();
                group(to, &all).map_err(|error| on(&error))?;
            }
        }
        self.written += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }

    /// Ends the file and gives it its name; the name.
    ///
    /// # Errors
    /// The system's, with the name.
    pub fn finish(mut self) -> Result<PathBuf, String> {
        self.write()?;
        let on = |error: &dyn std::fmt::Display| format!("{}: {error}", self.path.display());
        match self.to {
            To::Csv(mut to) => to.flush().map_err(|error| on(&error))?,
            To::Parquet(to) => drop(to.close().map_err(|error| on(&error))?),
        }
        fs::rename(&self.partial, &self.path).map_err(|error| on(&error))?;
        Ok(self.path)
    }
}

fn group(to: &mut SerializedFileWriter<File>, rows: &[Vec<Cell>]) -> parquet::errors::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut group = to.next_row_group()?;
    let mut at = 0;
    while let Some(mut column) = group.next_column()? {
        let (mut numbers, mut texts) = (Vec::new(), Vec::new());
        for row in rows {
            match row.get(at) {
                Some(Cell::Number(number)) => numbers.push(*number as i64),
                Some(Cell::Text(text)) => texts.push(ByteArray::from(*text)),
                None => {}
            }
        }
        match texts.is_empty() {
            true => column.typed::<Int64Type>().write_batch(&numbers, None, None)?,
            false => column.typed::<ByteArrayType>().write_batch(&texts, None, None)?,
        };
        column.close()?;
        at += 1;
    }
    group.close()?;
    Ok(())
}
