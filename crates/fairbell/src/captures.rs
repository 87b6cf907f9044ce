//! `fairbell feed`: captures of market data decoded, counted, and sent again. The ticker
//! plant, whose commands are here, too, is elsewhere.
//!
//! The format of a datagram is told from its bytes unless `--format` says it: MoldUDP64 with ITCH
//! 5.0 (ours and Nasdaq's), OPRA's binary blocks, or FAST for OPRA; FAST of any other kind by the
//! templates of the user. Files of DBN and of ITCH messages without packets are read, too. Everything
//! is decoded to the last field; what cannot be is told with its number in the file, and the command
//! fails.

mod files;
mod shown;
mod user;

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use fast::opra::checksum::Checksum;
use fast::opra::{Event, Opra, V1, V2, binary, fast_templates, to_event};
use fast::slots::{Description, Message, SlotDecoder, SlotSink};
use feed::pcap::{Captured, Payload, Pcap};
use feed::{Arbiter, ArbiterConfig, Delivery, LineSink, Notice, TopOfBook};
use types::Nanos;
use wire::moldudp::Packet;
use wire::soupbin::Framer;

use host::failure::Failure;
use shown::Form;
use user::{User, UserArgs};

/// Options of `fairbell feed`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell feed decode capture.pcap            every message, one line each\n  \
    fairbell feed stats capture.pcap --json      counts, gaps, best prices\n  \
    fairbell feed decode other.pcap --templates theirs.xml\n  \
    fairbell feed templates --print opra > opra.xml\n  \
    fairbell feed play capture.pcap --to 127.0.0.1:9000 --speed 10\n  \
    fairbell feed serve --ring /dev/shm/ticks    a ticker plant of 24 lines")]
pub struct FeedArgs {
    /// What to do.
    #[command(subcommand)]
    pub feed: Feed,
}

/// What to do with a capture or a line.
#[derive(Subcommand, Clone, Debug)]
pub enum Feed {
    /// Print every message of a capture
    #[command(after_help = "Examples:\n  \
        fairbell feed decode capture.pcap --json\n  \
        fairbell feed decode glbx.mbo.dbn.zst                 DBN, by its first bytes\n  \
        fairbell feed decode other.pcap --templates theirs.xml --preamble 4 --number MsgSeqNum")]
    Decode(FileArgs),
    /// Count messages, gaps and best prices of a capture
    #[command(after_help = "Examples:\n  \
        fairbell feed stats capture.pcap\n  \
        fairbell feed stats opra.pcap --templates opra.xml    the same checksum as without")]
    Stats(FileArgs),
    /// Print the templates of a built-in format as XML, or check those of a file
    #[command(after_help = "Examples:\n  \
        fairbell feed templates --print opra > opra.xml\n  \
        fairbell feed templates --check theirs.xml")]
    Templates(TemplatesArgs),
    /// Send the datagrams of a capture again, with their distances in time
    #[command(after_help = "Example: fairbell feed play capture.pcap --to 127.0.0.1:9000")]
    Play(PlayArgs),
    /// Run the ticker plant: lines in, updates out by datagrams and shared memory
    Serve(Box<crate::plant::ServeArgs>),
    /// Subscribe to a ticker plant
    Subscribe(crate::plant::SubscribeArgs),
    /// Send lines of made-up market data over two sides
    Generate(crate::plant::GenerateArgs),
}

/// A capture and how to read it.
#[derive(Args, Clone, Debug)]
pub struct FileArgs {
    /// Capture (pcap or pcapng), DBN plain or compressed, or ITCH messages behind their lengths
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format of the datagrams
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: Format,
    /// Templates of the user.
    #[command(flatten)]
    pub user: UserArgs,
    /// Print JSON: one document a message, or one in all
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell feed templates`.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub struct TemplatesArgs {
    /// Print the templates of this format
    #[arg(long, value_name = "FORMAT")]
    pub print: Option<BuiltIn>,
    /// Compile the templates of this file and say what is in it
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
}

/// Formats whose description is one of FAST 1.1, too.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuiltIn {
    /// FAST for OPRA, version 2
    Opra,
}

/// Options of `fairbell feed play`.
#[derive(Args, Clone, Debug)]
pub struct PlayArgs {
    /// Capture, pcap or pcapng
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where to send the datagrams
    #[arg(long, value_name = "ADDRESS")]
    pub to: SocketAddr,
    /// How many times as fast as recorded: 0.001 to 1000000; max sends as fast as possible
    #[arg(long, value_name = "X|max", default_value = "1", allow_hyphen_values = true,
          value_parser = speed)]
    pub speed: Speed,
}

/// How fast datagrams are sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Speed {
    /// So many times as fast as recorded.
    Times(f64),
    /// As fast as possible.
    Max,
}

/// `10`, `0.5` or `max`
fn speed(text: &str) -> Result<Speed, String> {
    let times = |times: &f64| (0.001..=1e6).contains(times);
    match text {
        "max" => Ok(Speed::Max),
        _ => text.parse().ok().filter(times).map(Speed::Times).ok_or_else(|| {
            "write a number from 0.001 to 1000000, or max for as fast as possible".to_string()
        }),
    }
}

/// Formats of datagrams.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Told from the bytes
    Auto,
    /// ITCH 5.0 in MoldUDP64
    Itch,
    /// OPRA's binary blocks
    Opra,
    /// FAST for OPRA, version 1
    OpraFastV1,
    /// FAST for OPRA, version 2
    OpraFastV2,
    /// FAST by the templates of the user
    Fast,
    /// Databento's DBN, a file of its own
    Dbn,
}

/// Runs a subcommand.
pub fn run(args: &FeedArgs) -> Result<(), Failure> {
    match &args.feed {
        Feed::Decode(args) => decode(args),
        Feed::Stats(args) => stats(args),
        Feed::Templates(args) => templates(args),
        Feed::Play(args) => play(args),
        Feed::Serve(args) => crate::plant::serve(args),
        Feed::Subscribe(args) => crate::plant::subscribe(args),
        Feed::Generate(args) => crate::plant::generate(args),
    }
}

/// Frames of a capture; a complaint names the file.
struct Frames<'a> {
    path: &'a Path,
    pcap: Pcap<'a>,
}

impl<'a> Frames<'a> {
    fn new(path: &'a Path, bytes: &'a [u8]) -> Result<Frames<'a>, Failure> {
        let pcap = Pcap::new(bytes);
        let pcap = pcap.map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
        Ok(Frames { path, pcap })
    }

    fn next(&mut self) -> Result<Option<Captured<'a>>, Failure> {
        let failed = |error| Failure::Run(format!("{}: {error}", self.path.display()));
        self.pcap.next().transpose().map_err(failed)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// What a capture held.
#[derive(Default)]
struct Seen {
    frames: u64,
    others: u64,
    messages: u64,
    /// By the name of the format and kind.
    kinds: BTreeMap<String, u64>,
    /// The first complaints.
    errors: Vec<String>,
    /// Number of messages that could not be decoded.
    not_decoded: u64,
    delivered: u64,
    lost: u64,
    print: bool,
    json: bool,
}

impl Seen {
    fn message(&mut self, format: &str, kind: &str, detail: impl Fn(Form) -> String) {
        self.messages += 1;
        *self.kinds.entry(format!("{format} {kind}")).or_default() += 1;
        if self.print && self.json {
            let quoted = |text: &str| shown::text(Form::Json, text);
            println!(
                "{{\"format\":{},\"frame\":{},\"kind\":{},\"message\":{}}}",
                quoted(format),
                self.frames,
                quoted(kind),
                detail(Form::Json)
            );
        } else if self.print {
            println!("{:>6} {format} {kind:<4} {}", self.frames, detail(Form::Text));
        }
    }

    fn error(&mut self, complaint: String) {
        self.not_decoded += 1;
        if self.errors.len() < ERRORS_TOLD {
            self.errors.push(format!("frame {}: {complaint}", self.frames));
        }
    }
}

impl LineSink for Seen {
    fn deliver(&mut self, _delivery: Delivery<'_>) {
        self.delivered += 1;
    }

    fn notice(&mut self, notice: Notice) {
        if let Notice::Gap { from, until } = notice {
            self.lost += until - from;
        }
    }
}

/// Decoders that last for a whole capture.
struct Reader {
    format: Format,
    v1: SlotDecoder<V1>,
    v2: SlotDecoder<V2>,
    /// Over all messages of version 2.
    v2_sum: Checksum,
    /// Templates of the user.
    user: Option<User>,
    top: TopOfBook,
    /// One line for each destination.
    lines: BTreeMap<([u8; 4], u16), Arbiter>,
    seen: Seen,
}

/// Series whose best prices are kept.
const SERIES_MAX: usize = 1 << 20;
/// Destinations whose sequence is followed.
const LINES_MAX: usize = 1_024;
/// Complaints that are told.
const ERRORS_TOLD: usize = 20;

impl Reader {
    fn new(args: &FileArgs, print: bool) -> Result<Reader, Failure> {
        let form = if args.json { Form::Json } else { Form::Text };
        let user = User::new(&args.user, print.then_some(form))?;
        let (format, json) = (args.format, args.json);
        match (format, &user) {
            (Format::Fast, None) => {
                return Err(Failure::Usage("--format fast: --templates says how".to_string()));
            }
            (Format::Auto | Format::Fast | Format::OpraFastV2, _) | (_, None) => {}
            _ => return Err(Failure::Usage("--templates are for FAST".to_string())),
        }
        Ok(Reader {
            format,
            v1: SlotDecoder::default(),
            v2: SlotDecoder::default(),
            v2_sum: Checksum::new(&[48, 49]),
            user,
            top: TopOfBook::new(SERIES_MAX),
            lines: BTreeMap::new(),
            seen: Seen { print, json, ..Seen::default() },
        })
    }

    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        match files::kind(path, self.format)? {
            files::Kind::Capture => {}
            files::Kind::Dbn => return files::dbn(path, &mut self.seen),
            files::Kind::Itch => return files::itch(path, &mut self.seen),
        }
        let bytes = read(path)?;
        let mut frames = Frames::new(path, &bytes)?;
        while let Some(frame) = frames.next()? {
            self.seen.frames += 1;
            match frame.payload {
                Payload::Udp(to, port, bytes) => self.datagram(frame.time, (to, port), bytes),
                Payload::Tcp(bytes) => self.segment(bytes),
                Payload::Other => self.seen.others += 1,
            }
        }
        for line in self.lines.values_mut() {
            line.poll(Nanos(u64::MAX), &mut self.seen);
        }
        Ok(())
    }

    /// Over all values of all messages of FAST; `None` where there are none.
    fn checksum(&self) -> Option<u64> {
        match &self.user {
            Some(user) => Some(user.checksum),
            None => (self.v2_sum.messages > 0).then_some(self.v2_sum.sum),
        }
    }

    fn datagram(&mut self, time: Nanos, to: ([u8; 4], u16), bytes: &[u8]) {
        if self.user.is_some() {
            return self.by_templates(time, to, bytes);
        }
        let format = match self.format {
            Format::Auto => guess(bytes),
            given => Some(given),
        };
        match format {
            Some(Format::Itch) => self.mold(time, to, bytes),
            Some(Format::Opra) => self.block(time, to, bytes),
            Some(Format::OpraFastV1) => self.fast::<V1>(time, to, bytes),
            Some(Format::OpraFastV2) => self.fast::<V2>(time, to, bytes),
            _ => self.seen.error("a datagram of no known format".to_string()),
        }
    }

    fn by_templates(&mut self, time: Nanos, to: ([u8; 4], u16), bytes: &[u8]) {
        let (Some(user), seen) = (&mut self.user, &mut self.seen) else { return };
        let outcome = user.datagram(bytes, |told| {
            seen.message("fast", told.template, |_| told.text.to_string());
        });
        let numbers = std::mem::take(&mut user.numbers);
        // Those before one that could not be decoded were there, too.
        numbers.iter().for_each(|&(first, count)| self.number(time, to, first, count));
        if let Err(complaint) = outcome {
            self.seen.error(format!("FAST: {complaint}"));
        }
    }

    fn number(&mut self, time: Nanos, to: ([u8; 4], u16), first: u64, count: u32) {
        if self.lines.len() < LINES_MAX || self.lines.contains_key(&to) {
            let config = ArbiterConfig::default();
            let line = self.lines.entry(to).or_insert_with(|| Arbiter::new(config));
            line.packet(time, 0, (first, count), &[], &mut self.seen);
        }
    }

    fn mold(&mut self, time: Nanos, to: ([u8; 4], u16), bytes: &[u8]) {
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => return self.seen.error(error.to_string()),
        };
        let mut count = 0;
        for message in packet.messages() {
            count += 1;
            match fast::itch::Message::parse(message) {
                Ok(view) => {
                    let kind = char::from(message.first().copied().unwrap_or(b'?')).to_string();
                    self.seen.message("itch", &kind, |form| shown::itch(form, &view));
                }
                Err(code) => self.seen.error(format!("ITCH: {code}")),
            }
        }
        self.number(time, to, packet.seq(), count);
    }

    fn block(&mut self, time: Nanos, to: ([u8; 4], u16), bytes: &[u8]) {
        let (seen, top) = (&mut self.seen, &mut self.top);
        match binary::block(bytes, |event| note(seen, top, "opra", event)) {
            Ok(header) => self.number(time, to, header.sequence().into(), 1),
            Err(code) => self.seen.error(format!("OPRA: {code}")),
        }
    }

    fn fast<F: Opra>(&mut self, time: Nanos, to: ([u8; 4], u16), bytes: &[u8]) {
        let mut sink = Noting::<F> {
            seen: &mut self.seen,
            top: &mut self.top,
            sum: &mut self.v2_sum,
            first: None,
            version: std::marker::PhantomData,
        };
        let outcome = match F::FORMAT.framing.version {
            Some(_) => self.v2.packet(bytes, &mut Again(&mut sink)),
            None => self.v1.packet(bytes, &mut Again(&mut sink)),
        };
        let first = sink.first;
        match outcome {
            Ok(packet) => {
                let first = if packet.sequence > 0 { packet.sequence } else { first.unwrap_or(0) };
                self.number(time, to, first, packet.messages);
            }
            Err(code) => self.seen.error(format!("FAST for OPRA: {code}")),
        }
    }

    /// SoupBinTCP, for captures of order entry; segments are taken to begin with a packet.
    fn segment(&mut self, bytes: &[u8]) {
        let (mut framer, mut rest) = (Framer::new(65_535), bytes);
        loop {
            match framer.next(&mut rest) {
                Ok(Some(frame)) => {
                    let kind = char::from(frame.first().copied().unwrap_or(b'?')).to_string();
                    let len = frame.len();
                    self.seen.message("soupbin", &kind, |form| {
                        shown::text(form, &format!("{len} bytes"))
                    });
                }
                Ok(None) => return,
                Err(error) => return self.seen.error(error.to_string()),
            }
        }
    }
}

/// Notes events of one version.
struct Noting<'s, F> {
    seen: &'s mut Seen,
    top: &'s mut TopOfBook,
    sum: &'s mut Checksum,
    first: Option<u64>,
    version: std::marker::PhantomData<F>,
}

/// The sink as either decoder wants it.
struct Again<'n, 's, F>(&'n mut Noting<'s, F>);

impl<F: Opra> SlotSink for Again<'_, '_, F> {
    fn message(&mut self, message: &Message<'_>) {
        if F::FORMAT.framing.version.is_some() {
            self.0.sum.message(message);
        }
        let event = to_event::<F>(message);
        self.0.first.get_or_insert(u64::from(message.number(F::NAMES.sequence)));
        note(self.0.seen, self.0.top, F::FORMAT.name, &event);
    }
}

fn note(seen: &mut Seen, top: &mut TopOfBook, format: &str, event: &Event<'_>) {
    let kind = match event {
        Event::Quote(header, quote) => {
            top.quote(header.participant, quote);
            "quote"
        }
        Event::LastSale(..) => "last sale",
        Event::OpenInterest(..) => "open interest",
        Event::Summary(..) => "summary",
        Event::Underlying(..) => "underlying",
        Event::Admin(..) => "admin",
        Event::Control(..) => "control",
        Event::Unknown(_) => "unknown",
    };
    seen.message(format, kind, |form| shown::opra(form, event));
}

/// The format of a datagram, where it shows.
fn guess(bytes: &[u8]) -> Option<Format> {
    match bytes {
        [1, 2, digit, ..] if digit.is_ascii_digit() && bytes.last() == Some(&3) => {
            Some(Format::OpraFastV2)
        }
        [_, high, low, b'O', ..]
            if usize::from(u16::from_be_bytes([*high, *low])) == bytes.len() =>
        {
            Some(Format::Opra)
        }
        _ if Packet::parse(bytes).is_ok() => Some(Format::Itch),
        [1, .., 3] => Some(Format::OpraFastV1),
        _ => None,
    }
}

fn finish(seen: &Seen) -> Result<(), Failure> {
    for error in &seen.errors {
        eprintln!("{error}");
    }
    match seen.not_decoded {
        0 => Ok(()),
        count => Err(Failure::Run(format!("{count} datagrams or messages were not decoded"))),
    }
}

fn decode(args: &FileArgs) -> Result<(), Failure> {
    let mut reader = Reader::new(args, true)?;
    reader.file(&args.file)?;
    finish(&reader.seen)
}

fn stats(args: &FileArgs) -> Result<(), Failure> {
    let mut reader = Reader::new(args, false)?;
    reader.file(&args.file)?;
    let seen = &reader.seen;
    let checksum = reader.checksum().map(|sum| format!("{sum:016x}"));
    if args.json {
        let document = serde_json::json!({
            "frames": seen.frames,
            "not_decoded": seen.not_decoded,
            "other_frames": seen.others,
            "messages": seen.messages,
            "kinds": seen.kinds,
            "lines": reader.lines.len(),
            "numbers_lost": seen.lost,
            "series": reader.top.len(),
            "checksum": checksum,
        });
        println!("{document:#}");
        return finish(seen);
    }
    println!("{} frames, {} of no market data", seen.frames, seen.others);
    println!("{} messages on {} lines", seen.messages, reader.lines.len());
    for (kind, count) in &seen.kinds {
        println!("  {kind:<32} {count:>10}");
    }
    if let Some(checksum) = checksum {
        println!("checksum of all values {checksum}");
    }
    println!("{} numbers missing, best prices of {} series", seen.lost, reader.top.len());
    finish(seen)
}

fn templates(args: &TemplatesArgs) -> Result<(), Failure> {
    if let Some(BuiltIn::Opra) = args.print {
        print!("{}", fast_templates(&V2::FORMAT));
    }
    let Some(path) = &args.check else { return Ok(()) };
    let templates = user::compile(path)?;
    for template in &templates.templates {
        let id = template.id.map_or("-".to_string(), |id| id.to_string());
        println!("{id:>10} {}", template.name.local);
    }
    println!("{} templates, {} fields", templates.templates.len(), templates.fields.len());
    Ok(())
}

fn play(args: &PlayArgs) -> Result<(), Failure> {
    let bytes = read(&args.file)?;
    let failed = |error: String| Failure::Run(error);
    let local = if args.to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).map_err(|error| failed(error.to_string()))?;
    let start = Instant::now();
    let (mut first, mut sent) = (None, 0_u64);
    let mut frames = Frames::new(&args.file, &bytes)?;
    while let Some(frame) = frames.next()? {
        let Payload::Udp(_, _, payload) = frame.payload else { continue };
        let since = frame.time.0.saturating_sub(*first.get_or_insert(frame.time.0));
        if let Speed::Times(times) = args.speed {
            let due = Duration::from_nanos((since as f64 / times) as u64);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
        socket.send_to(payload, args.to).map_err(|error| failed(error.to_string()))?;
        sent += 1;
    }
    println!("{sent} datagrams to {} in {:.3} s", args.to, start.elapsed().as_secs_f64());
    Ok(())
}
