//! The least that an acknowledgement can cost: a request over loopback TCP to a thread that writes
//! one block and syncs it, or has others do so too, and answers.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use telemetry::Recorder;

use crate::bench::journal::{BLOCK, FILE_BYTES, RECORD, batch_bytes, prepared};
use host::failure::{Failure, on};
use host::sockets::io;

/// An OUCH order, and its acceptance, each in its SoupBinTCP packet.
const REQUEST: usize = 50;
const REPLY: usize = 67;
/// Number of the request, then the record.
const FORWARDED: usize = 8 + RECORD;
const NUMBER: usize = 8;

/// A file like a journal's, and a block to be written to it again and again, further on each time.
struct Disk {
    file: OwnedFd,
    block: Vec<u8>,
    skip: usize,
    at: u64,
}

impl Disk {
    fn new(path: &Path) -> Result<Disk, Failure> {
        let file = prepared(path, true).map_err(|error| on(path, std::io::Error::from(error)))?;
        let block = vec![0x5a; batch_bytes(1) + BLOCK];
        let skip = block.as_ptr().align_offset(BLOCK);
        Ok(Disk { file, block, skip, at: 0 })
    }

    /// Writes a record and makes it durable.
    fn write(&mut self) -> std::io::Result<()> {
        let len = batch_bytes(1);
        let block = self.block.get(self.skip..self.skip + len).unwrap_or(&[]);
        rustix::io::pwrite(&self.file, block, self.at)?;
        rustix::fs::fdatasync(&self.file)?;
        self.at = (self.at + len as u64) % (FILE_BYTES - len as u64 + 1);
        self.at -= self.at % len as u64;
        Ok(())
    }
}

/// What stands between a request and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Between {
    /// Nothing.
    Nothing,
    /// A write with its sync.
    Disk,
    /// The same there, and on most of so many replicas, each behind a round trip of its own.
    Replicas(u32),
}

/// Sends a request every `every` for `slice`, each after the answer to the one before; how long
/// answers took, ns. Files are made in `dir`.
///
/// # Errors
/// Sockets and files that can't be had or break.
pub fn measure(
    between: Between,
    dir: &Path,
    (every, slice): (Duration, Duration),
) -> Result<Recorder, Failure> {
    std::fs::create_dir_all(dir).map_err(|error| on(dir, error))?;
    let disk = |number: u32| Disk::new(&dir.join(format!("floor-{number}")));
    let (own, others) = match between {
        Between::Nothing => (None, Vec::new()),
        Between::Disk => (Some(disk(1)?), Vec::new()),
        Between::Replicas(count) => {
            (Some(disk(1)?), (2..=count).map(disk).collect::<Result<Vec<_>, _>>()?)
        }
    };
    let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?;
    let mut client = TcpStream::connect(door.local_addr().map_err(io)?).map_err(io)?;
    client.set_nodelay(true).map_err(io)?;
    let (server, _) = door.accept().map_err(io)?;
    server.set_nodelay(true).map_err(io)?;
    thread::scope(|scope| {
        let others = others.into_iter().map(|disk| follower(scope, disk));
        let group = Group::new(scope, others.collect::<std::io::Result<Vec<_>>>().map_err(io)?)?;
        let serving = scope.spawn(move || serve(server, own, group));
        let mut latencies = Recorder::new();
        let outcome = ask(&mut client, (every, slice), &mut latencies);
        // The end of this stream is the end of all.
        drop(client);
        let served = serving.join();
        outcome.map_err(io)?;
        served.map_err(|_| Failure::Run("the floor's thread panicked".to_string()))?.map_err(io)?;
        Ok(latencies)
    })
}

fn ask(
    client: &mut TcpStream,
    (every, slice): (Duration, Duration),
    latencies: &mut Recorder,
) -> std::io::Result<()> {
    let (request, mut reply) = ([0x41; REQUEST], [0; REPLY]);
    let began = Instant::now();
    let mut due = began;
    while due.duration_since(began) < slice {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        client.write_all(&request)?;
        client.read_exact(&mut reply)?;
        latencies.record(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
        due += every;
    }
    Ok(())
}

fn serve(mut stream: TcpStream, mut own: Option<Disk>, mut group: Group) -> std::io::Result<()> {
    let (mut request, reply) = ([0; REQUEST], [0x42; REPLY]);
    for number in 0u64.. {
        if stream.read_exact(&mut request).is_err() {
            break;
        }
        group.forward(number)?;
        if let Some(disk) = &mut own {
            disk.write()?;
        }
        group.wait(number);
        stream.write_all(&reply)?;
    }
    Ok(())
}

/// The leader's ends of the streams to the others.
struct Group {
    streams: Vec<TcpStream>,
    answers: Receiver<u64>,
    /// Others that must have it.
    needed: usize,
}

impl Group {
    fn new<'scope>(
        scope: &'scope Scope<'scope, '_>,
        streams: Vec<TcpStream>,
    ) -> Result<Group, Failure> {
        let (answer, answers) = channel();
        for stream in &streams {
            let (mut stream, answer) = (stream.try_clone().map_err(io)?, answer.clone());
            scope.spawn(move || {
                let mut number = [0; NUMBER];
                while stream.read_exact(&mut number).is_ok() {
                    if answer.send(u64::from_be_bytes(number)).is_err() {
                        break;
                    }
                }
            });
        }
        // With itself most of them.
        let needed = streams.len().div_ceil(2);
        Ok(Group { streams, answers, needed })
    }

    fn forward(&mut self, number: u64) -> std::io::Result<()> {
        let mut record = [0x5a; FORWARDED];
        record[..NUMBER].copy_from_slice(&number.to_be_bytes());
        self.streams.iter_mut().try_for_each(|stream| stream.write_all(&record))
    }

    fn wait(&self, number: u64) {
        let mut have = 0;
        while have < self.needed {
            // Late answers to earlier ones count for nothing.
            match self.answers.recv() {
                Ok(of) => have += usize::from(of == number),
                Err(_) => return,
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Ends the others, and whoever hears them.
        for stream in &self.streams {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Another replica: writes what comes and answers with its number. The leader's end of its stream.
fn follower<'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut disk: Disk,
) -> std::io::Result<TcpStream> {
    let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let leader = TcpStream::connect(door.local_addr()?)?;
    leader.set_nodelay(true)?;
    let (mut stream, _) = door.accept()?;
    stream.set_nodelay(true)?;
    scope.spawn(move || {
        let mut record = [0; FORWARDED];
        while stream.read_exact(&mut record).is_ok() && disk.write().is_ok() {
            if stream.write_all(&record[..NUMBER]).is_err() {
                break;
            }
        }
    });
    Ok(leader)
}
