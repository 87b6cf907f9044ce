//! One Parquet file: a column for each part of a [`Tick`], row groups of [`GROUP_ROWS`].

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use feed::plant::Update;
use parquet::basic::{Compression, Type as Physical, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::{GROUP_ROWS, Tick};

/// Schema of the Parquet table, as readers of Parquet show it.
const SCHEMA: &str = "message tick {
    required int64 heard (TIMESTAMP(NANOS,true));
    required int64 time;
    required int32 line;
    required int64 sequence;
    required binary kind (STRING);
    optional binary symbol (STRING);
    optional binary participant (STRING);
    optional binary contract (STRING);
    optional int64 price (DECIMAL(18,8));
    optional int64 size;
    optional int64 trade;
    optional binary taker (STRING);
    optional int64 bid (DECIMAL(18,8));
    optional int64 bid_size;
    optional int64 offer (DECIMAL(18,8));
    optional int64 offer_size;
    optional int64 until;
}";

/// Value of one column of a tick.
enum Cell<'t> {
    Number(Option<i64>),
    Text(Option<&'t str>),
}

fn cell(tick: &Tick, column: usize) -> Cell<'_> {
    match column {
        0 => Cell::Number(Some(tick.heard)),
        1 => Cell::Number(Some(tick.time)),
        2 => Cell::Number(Some(tick.line.into())),
        3 => Cell::Number(Some(tick.sequence)),
        4 => Cell::Text(Some(&tick.kind)),
        5 => Cell::Text(tick.symbol.as_deref()),
        6 => Cell::Text(tick.participant.as_deref()),
        7 => Cell::Text(tick.contract.as_deref()),
        8 => Cell::Number(tick.price),
        9 => Cell::Number(tick.size),
        10 => Cell::Number(tick.trade),
        11 => Cell::Text(tick.taker.as_deref()),
        12 => Cell::Number(tick.bid),
        13 => Cell::Number(tick.bid_size),
        14 => Cell::Number(tick.offer),
        15 => Cell::Number(tick.offer_size),
        _ => Cell::Number(tick.until),
    }
}

fn set_number(tick: &mut Tick, column: usize, value: Option<i64>) {
    match column {
        0 => tick.heard = value.unwrap_or(0),
        1 => tick.time = value.unwrap_or(0),
        2 => tick.line = value.and_then(|line| i32::try_from(line).ok()).unwrap_or(0),
        3 => tick.sequence = value.unwrap_or(0),
        8 => tick.price = value,
        9 => tick.size = value,
        10 => tick.trade = value,
        12 => tick.bid = value,
        13 => tick.bid_size = value,
        14 => tick.offer = value,
        15 => tick.offer_size = value,
        _ => tick.until = value,
    }
}

fn set_text(tick: &mut Tick, column: usize, value: Option<String>) {
    match column {
        4 => tick.kind = value.unwrap_or_default(),
        5 => tick.symbol = value,
        6 => tick.participant = value,
        7 => tick.contract = value,
        _ => tick.taker = value,
    }
}

fn failed(error: impl std::fmt::Display) -> std::io::Error {
    std::io::Error::other(error.to_string())
}

/// Writes a file of these; how many they were. It is on the disk when this returns.
pub(crate) fn write(path: &Path, rows: impl Iterator<Item = Update>) -> std::io::Result<u64> {
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
    let level = ZstdLevel::try_new(1).map_err(failed)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by("fairbell".to_string())
        .build();
    let file = File::create(path)?;
    let mut writer = SerializedFileWriter::new(file.try_clone()?, schema, Arc::new(properties))
        .map_err(failed)?;
    let mut group = Vec::with_capacity(GROUP_ROWS.min(1 << 12));
    let mut written = 0;
    for update in rows {
        group.push(Tick::of(&update));
        if group.len() >= GROUP_ROWS {
            written += write_group(&mut writer, &mut group)?;
        }
    }
    written += write_group(&mut writer, &mut group)?;
    writer.close().map_err(failed)?;
    file.sync_all()?;
    Ok(written)
}

fn write_group(
    writer: &mut SerializedFileWriter<File>,
    group: &mut Vec<Tick>,
) -> std::io::Result<u64> {
    if group.is_empty() {
        return Ok(0);
    }
    let mut to = writer.next_row_group().map_err(failed)?;
    write_columns(&mut to, group).map_err(failed)?;
    to.close().map_err(failed)?;
    let rows = group.len() as u64;
    group.clear();
    Ok(rows)
}

fn write_columns(
    to: &mut SerializedRowGroupWriter<'_, File>,
    group: &[Tick],
) -> parquet::errors::Result<()> {
    let mut at = 0;
    while let Some(mut column) = to.next_column()? {
        let (mut numbers, mut texts) = (Vec::new(), Vec::new());
        let mut there = Vec::with_capacity(group.len());
        for tick in group {
            let present = match cell(tick, at) {
                Cell::Number(value) => {
                    numbers.extend(value);
                    value.is_some()
                }
                Cell::Text(value) => {
                    texts.extend(value.map(ByteArray::from));
                    value.is_some()
                }
            };
            there.push(i16::from(present));
        }
        let required = at < 5;
        let levels = (!required).then_some(there.as_slice());
        match (at, numbers.is_empty(), texts.is_empty()) {
            (2, ..) => {
                let numbers: Vec<i32> = numbers.iter().map(|&number| number as i32).collect();
                column.typed::<Int32Type>().write_batch(&numbers, levels, None)?;
            }
            (4..=7 | 11, ..) => {
                column.typed::<ByteArrayType>().write_batch(&texts, levels, None)?;
            }
            _ => {
                column.typed::<Int64Type>().write_batch(&numbers, levels, None)?;
            }
        }
        column.close()?;
        at += 1;
    }
    Ok(())
}

/// A Parquet file of ticks that is open for reading.
pub(crate) struct TickFile {
    reader: SerializedFileReader<File>,
}

impl TickFile {
    /// Opens one.
    ///
    /// # Errors
    /// It cannot be read, is not finished, or is of another table.
    pub fn open(path: &Path) -> std::io::Result<TickFile> {
        let reader = SerializedFileReader::new(File::open(path)?).map_err(failed)?;
        let ours = parse_message_type(SCHEMA).map_err(failed)?;
        let found = reader.metadata().file_metadata().schema();
        let same = |(ours, found): (&Arc<parquet::schema::types::Type>, &Arc<_>)| {
            let found: &parquet::schema::types::Type = found;
            let kind = |of: &parquet::schema::types::Type| -> Option<(Physical, bool)> {
                of.is_primitive().then(|| (of.get_physical_type(), of.is_optional()))
            };
            ours.name() == found.name() && kind(ours) == kind(found)
        };
        let (ours, found) = (ours.get_fields(), found.get_fields());
        match ours.len() == found.len() && ours.iter().zip(found).all(same) {
            true => Ok(TickFile { reader }),
            false => Err(failed("a Parquet file, but not of ticks")),
        }
    }

    /// Number of row groups of the file.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// First and last time of a group, where the file says them.
    pub fn heard(&self, group: usize) -> Option<(i64, i64)> {
        let group = self.reader.metadata().row_groups().get(group)?;
        match group.columns().first()?.statistics()? {
            Statistics::Int64(of) => Some((*of.min_opt()?, *of.max_opt()?)),
            _ => None,
        }
    }

    /// The ticks of a group.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn group(&self, group: usize) -> std::io::Result<Vec<Tick>> {
        let of = self.reader.get_row_group(group).map_err(failed)?;
        let rows = usize::try_from(of.metadata().num_rows()).unwrap_or(usize::MAX);
        if rows > GROUP_ROWS {
            return Err(failed(format!("a row group of {rows} rows, more than {GROUP_ROWS}")));
        }
        let mut ticks = vec![Tick::default(); rows];
        for column in 0..of.num_columns() {
            read_column(&*of, column, &mut ticks)?;
        }
        Ok(ticks)
    }
}

fn read_column(of: &dyn RowGroupReader, column: usize, ticks: &mut [Tick]) -> std::io::Result<()> {
    let (mut numbers, mut texts, mut there) = (Vec::new(), Vec::new(), Vec::new());
    let required = column < 5;
    let mut read = 0;
    let mut reader = of.get_column_reader(column).map_err(failed)?;
    while read < ticks.len() {
        let left = ticks.len() - read;
        let levels = (!required).then_some(&mut there);
        let (more, ..) = match &mut reader {
            ColumnReader::Int32ColumnReader(reader) => {
                let mut narrow = Vec::new();
                let counts =
                    reader.read_records(left, levels, None, &mut narrow).map_err(failed)?;
                numbers.extend(narrow.into_iter().map(i64::from));
                counts
            }
            ColumnReader::Int64ColumnReader(reader) => {
                reader.read_records(left, levels, None, &mut numbers).map_err(failed)?
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                reader.read_records(left, levels, None, &mut texts).map_err(failed)?
            }
            _ => return Err(failed("a column of another type")),
        };
        if more == 0 {
            return Err(failed("a column ends before its rows"));
        }
        read += more;
    }
    let (mut numbers, mut texts) = (numbers.into_iter(), texts.into_iter());
    let is_text = matches!(reader, ColumnReader::ByteArrayColumnReader(_));
    for (row, tick) in ticks.iter_mut().enumerate() {
        let present = required || there.get(row).is_some_and(|level| *level > 0);
        if is_text {
            let text: Option<ByteArray> = if present { texts.next() } else { None };
            let text = text.map(|text| String::from_utf8_lossy(text.data()).into_owned());
            set_text(tick, column, text);
        } else {
            set_number(tick, column, if present { numbers.next() } else { None });
        }
    }
    Ok(())
}
