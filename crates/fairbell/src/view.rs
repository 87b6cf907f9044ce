//! What a person sees while an exchange runs: a redrawn screen on a terminal, else a line a second.
//!
//! The caller fills a [`Snapshot`] once a second; nothing here measures. The keyboard stays in its
//! normal mode, so Ctrl-C is the process's to handle. Dropping the [`View`] restores the terminal.

use std::io::{self, IsTerminal, Stdout, Write};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, LineGauge, Paragraph, Row, Table};
use ratatui::{Frame, Terminal};
use types::{Price, Qty};

use crate::report::{Hop, Quantiles, numbers};

/// The state of a run at one moment. Rates and latencies are those of the last second, all other
/// figures totals since the start.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Time since the start.
    pub elapsed: Duration,
    /// What is going on, like `playing the sample`.
    pub phase: &'static str,
    /// How much of the phase is done, and of how much; none when it has no end.
    pub progress: Option<(u64, u64)>,
    /// Requests sent.
    pub orders_sent: u64,
    /// Requests answered.
    pub orders_acknowledged: u64,
    /// Requests sent in the last second.
    pub orders_per_s: u64,
    /// Trades in the last second.
    pub trades_per_s: u64,
    /// Feed messages in the last second.
    pub feed_per_s: u64,
    /// Order to acceptance.
    pub rtt_ns: Quantiles,
    /// From t_sent to the last release.
    pub oml_release_ns: Quantiles,
    /// Share of datagrams that no receiver released late, 0 to 1; none without a datagram.
    pub p_on_time: Option<f64>,
    /// Share of datagrams that all receivers released together, 0 to 1; none without a datagram.
    pub p_fair: Option<f64>,
    /// Copies by hop.
    pub hops: Vec<Hop>,
    /// Gaps closed by a retransmission.
    pub repairs: u64,
    /// Orders sent upward again.
    pub resends: u64,
    /// The instruments.
    pub books: Vec<TopOfBook>,
}

/// One instrument's best prices.
#[derive(Clone, Debug, Default)]
pub struct TopOfBook {
    /// Its name.
    pub symbol: String,
    /// Decimal places of one lot.
    pub lot_decimals: u8,
    /// Best bid and the quantity displayed there.
    pub bid: Option<(Price, Qty)>,
    /// Best offer and the quantity displayed there.
    pub offer: Option<(Price, Qty)>,
    /// Trades since the start.
    pub trades: u64,
}

/// Draws every so many frames from scratch, because typed keys may have soiled the screen.
const REDRAW_EVERY: u64 = 5;
/// Heads and frames.
const HEAD: Style = Style::new().fg(Color::DarkGray);

/// Where snapshots go.
pub struct View {
    mode: Mode,
    notes: Vec<String>,
}

enum Mode {
    Screen { terminal: Terminal<CrosstermBackend<Stdout>>, frames: u64 },
    Lines(Box<dyn Write>),
    Silent,
}

impl View {
    /// A screen when standard output is a terminal, else lines on standard output; with `json`
    /// lines on standard error; with `quiet` nothing.
    pub fn new(json: bool, quiet: bool) -> View {
        let mode = if quiet {
            Mode::Silent
        } else if json {
            Mode::Lines(Box::new(io::stderr()))
        } else if io::stdout().is_terminal() {
            screen().unwrap_or_else(|_| Mode::Lines(Box::new(io::stdout())))
        } else {
            Mode::Lines(Box::new(io::stdout()))
        };
        View { mode, notes: Vec::new() }
    }

    /// Says something that stays: an address, a login, a proxy that was killed. Multi-line text is
    /// split; on a screen the notes are printed again when the view ends.
    pub fn note(&mut self, text: &str) {
        match &mut self.mode {
            Mode::Screen { .. } => self.notes.extend(text.lines().map(str::to_string)),
            Mode::Lines(to) => ignore(writeln!(to, "{text}")),
            Mode::Silent => {}
        }
    }

    /// Says that something is wrong, or is over: also where nothing else is said.
    pub fn alarm(&mut self, text: &str) {
        match self.mode {
            Mode::Silent => eprintln!("{text}"),
            _ => self.note(text),
        }
    }

    /// Shows the state of the run.
    pub fn show(&mut self, snapshot: &Snapshot) {
        match &mut self.mode {
            Mode::Screen { terminal, frames } => {
                if frames.is_multiple_of(REDRAW_EVERY) {
                    ignore(terminal.clear());
                }
                *frames += 1;
                ignore(terminal.draw(|frame| draw(frame, snapshot, &self.notes)));
            }
            Mode::Lines(to) => ignore(writeln!(to, "{}", line(snapshot))),
            Mode::Silent => {}
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if matches!(self.mode, Mode::Screen { .. }) {
            ignore(execute!(io::stdout(), LeaveAlternateScreen, Show));
            self.notes.iter().for_each(|note| ignore(writeln!(io::stdout(), "{note}")));
        }
    }
}

/// A view that can't be written (its reader has gone away) never stops the exchange.
fn ignore<T>(result: io::Result<T>) {
    drop(result);
}

fn screen() -> io::Result<Mode> {
    let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)?;
    Ok(Mode::Screen { terminal, frames: 0 })
}

/// One line for logs and pipes.
fn line(snapshot: &Snapshot) -> String {
    let mut parts = vec![format!("{:>6.1}s  {}", snapshot.elapsed.as_secs_f64(), snapshot.phase)];
    if let Some((done, of)) = snapshot.progress {
        parts.push(format!("{}/{}", numbers::grouped(done), numbers::grouped(of)));
    }
    parts.push(format!("orders {}/s", numbers::grouped(snapshot.orders_per_s)));
    parts.push(format!("trades {}/s", numbers::grouped(snapshot.trades_per_s)));
    parts.push(format!("feed {}/s", numbers::grouped(snapshot.feed_per_s)));
    parts.push(format!("rtt {}", p50_p99(&snapshot.rtt_ns)));
    parts.push(format!("OML {}", p50_p99(&snapshot.oml_release_ns)));
    parts.push(format!("on time {}", share(snapshot.p_on_time)));
    parts.push(format!("P(F) {}", share(snapshot.p_fair)));
    let sum = |count: fn(&Hop) -> u64| snapshot.hops.iter().map(count).sum::<u64>();
    parts.push(format!("dup {}", numbers::grouped(sum(|hop| hop.copies_dropped))));
    parts.push(format!("missing {}", numbers::grouped(sum(|hop| hop.copies_missing))));
    for book in &snapshot.books {
        let price = |side: &Option<(Price, Qty)>| match side {
            Some((price, _)) => price.to_string(),
            None => "-".to_string(),
        };
        parts.push(format!("{} {}/{}", book.symbol, price(&book.bid), price(&book.offer)));
    }
    parts.join("  ")
}

fn p50_p99(q: &Quantiles) -> String {
    match q.count {
        0 => "-".to_string(),
        _ => format!("{}/{} us", numbers::micros(q.p50), numbers::micros(q.p99)),
    }
}

fn share(p: Option<f64>) -> String {
    p.map_or("-".to_string(), numbers::percent)
}

fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot, notes: &[String]) {
    let rows = |n: usize| Constraint::Length(n as u16 + 3);
    let areas: [Rect; 5] = Layout::vertical([
        Constraint::Length(2),
        rows(snapshot.books.len()),
        Constraint::Length(7),
        rows(snapshot.hops.len()),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    head(frame, areas[0], snapshot);
    books(frame, areas[1], &snapshot.books);
    figures(frame, areas[2], snapshot);
    hops(frame, areas[3], &snapshot.hops);
    let notes: Vec<Line<'_>> = notes.iter().map(|note| Line::from(note.as_str())).collect();
    frame.render_widget(Paragraph::new(notes), areas[4]);
}

fn head(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let [title, gauge]: [Rect; 2] =
        Layout::horizontal([Constraint::Length(52), Constraint::Min(10)]).areas(area);
    let elapsed = format!("  {:.0} s  ", snapshot.elapsed.as_secs_f64());
    let line = Line::from(vec!["Fairbell".bold(), elapsed.into(), snapshot.phase.cyan()]);
    frame.render_widget(Paragraph::new(line), title);
    if let Some((done, of)) = snapshot.progress.filter(|(_, of)| *of > 0) {
        let ratio = (done as f64 / of as f64).clamp(0.0, 1.0);
        let gauge_line = Rect { height: gauge.height.min(1), ..gauge };
        let bar = LineGauge::default().ratio(ratio).filled_style(Style::new().fg(Color::Cyan));
        frame.render_widget(bar.label(format!("{:.0} %", (ratio * 100.0).floor())), gauge_line);
    }
}

fn books(frame: &mut Frame<'_>, area: Rect, books: &[TopOfBook]) {
    let rows = books.iter().map(|book| {
        let side = |side: &Option<(Price, Qty)>| match side {
            Some((price, qty)) => (price.to_string(), numbers::lots(qty.0, book.lot_decimals)),
            None => ("-".to_string(), String::new()),
        };
        let ((bid, bid_qty), (offer, offer_qty)) = (side(&book.bid), side(&book.offer));
        Row::new([
            Cell::from(book.symbol.clone()).bold(),
            right(bid_qty),
            right(bid).green(),
            right(offer).red(),
            Cell::from(offer_qty),
            right(numbers::grouped(book.trades)),
        ])
    });
    let widths = [10, 18, 13, 13, 18, 12].map(Constraint::Length);
    let heads = ["", "quantity", "bid", "offer", "quantity", "trades"];
    let heads = heads.iter().enumerate().map(|(i, text)| match i {
        0 | 4 => Cell::from(*text),
        _ => right((*text).to_string()),
    });
    let table = Table::new(rows, widths).header(Row::new(heads).style(HEAD));
    frame.render_widget(table.block(block(" Top of book ")), area);
}

fn figures(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let [left, right_area]: [Rect; 2] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(area);
    let open = snapshot.orders_sent.saturating_sub(snapshot.orders_acknowledged);
    let rates = [
        ("orders/s", numbers::grouped(snapshot.orders_per_s)),
        ("trades/s", numbers::grouped(snapshot.trades_per_s)),
        ("feed messages/s", numbers::grouped(snapshot.feed_per_s)),
        ("orders sent", numbers::grouped(snapshot.orders_sent)),
        ("not answered yet", numbers::grouped(open)),
    ];
    let fairness = [
        ("order to acceptance, p50/p99", p50_p99(&snapshot.rtt_ns)),
        ("OML, last release, p50/p99", p50_p99(&snapshot.oml_release_ns)),
        ("on time", share(snapshot.p_on_time)),
        ("P(F)", share(snapshot.p_fair)),
        ("gaps repaired", numbers::grouped(snapshot.repairs)),
        ("orders sent again", numbers::grouped(snapshot.resends)),
    ];
    named(frame, left, " Rates ", rates);
    named(frame, right_area, " Last second; repairs since the start ", fairness);
}

fn named<const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    pairs: [(&'static str, String); N],
) {
    let rows = pairs.map(|(name, value)| Row::new([Cell::from(name), right(value)]));
    let widths = [Constraint::Min(12), Constraint::Length(22)];
    frame.render_widget(Table::new(rows, widths).block(block(title)), area);
}

fn hops(frame: &mut Frame<'_>, area: Rect, hops: &[Hop]) {
    let rows = hops.iter().map(|hop| {
        let missing = right(numbers::grouped(hop.copies_missing));
        Row::new([
            Cell::from(hop.hop.clone()),
            right(numbers::grouped(hop.copies_received)),
            right(numbers::grouped(hop.copies_dropped)),
            if hop.copies_missing > 0 { missing.yellow() } else { missing },
        ])
    });
    let widths = [30, 18, 18, 18].map(Constraint::Length);
    let heads = ["", "copies received", "duplicates", "missing"];
    let heads = heads.map(|text| right(text.to_string()));
    let table = Table::new(rows, widths).header(Row::new(heads).style(HEAD));
    frame.render_widget(table.block(block(" Overlay, hop by hop ")), area);
}

fn block(title: &str) -> Block<'_> {
    Block::bordered().title(title).border_style(HEAD).title_style(Modifier::BOLD)
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;

    fn snapshot() -> Snapshot {
        let quantiles =
            Quantiles { count: 9, p50: 310_000, p99: 1_250_000, ..Quantiles::default() };
        let hop = |name: &str, missing| Hop {
            hop: name.to_string(),
            copies_received: 24_680,
            copies_dropped: 12_340,
            copies_missing: missing,
        };
        Snapshot {
            elapsed: Duration::from_millis(12_000),
            phase: "playing the sample",
            progress: Some((120_000, 301_000)),
            orders_sent: 131_000,
            orders_acknowledged: 130_988,
            orders_per_s: 11_002,
            trades_per_s: 14,
            feed_per_s: 8_100,
            rtt_ns: quantiles,
            oml_release_ns: quantiles,
            p_on_time: Some(0.9954),
            p_fair: Some(0.9871),
            hops: vec![hop("root to layer 0", 0), hop("layer 0 to receivers", 3)],
            repairs: 3,
            resends: 0,
            books: vec![
                TopOfBook {
                    symbol: "BTCUSD".to_string(),
                    lot_decimals: 8,
                    bid: Some((Price::from_whole(78_350), Qty(153_453_667))),
                    offer: Some((Price::from_whole(78_351), Qty(11_204_900))),
                    trades: 101,
                },
                TopOfBook { symbol: "GENA".to_string(), ..TopOfBook::default() },
            ],
        }
    }

    fn rendered(width: u16, height: u16, snapshot: &Snapshot) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let notes = ["order entry 127.0.0.1:26400, login GUEST".to_string()];
        terminal.draw(|frame| draw(frame, snapshot, &notes)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_screen_shows_books_rates_fairness_hops_and_notes() {
        let screen = rendered(100, 30, &snapshot());
        for expected in [
            "playing the sample",
            "39 %",
            "78350",
            "78351",
            "1.53453667",
            "11,002",
            "P(F)",
            "98.71 %",
            "310.0/1,250.0 us",
            "layer 0 to receivers",
            "12,340",
            "login GUEST",
        ] {
            assert!(screen.contains(expected), "no {expected:?} in\n{screen}");
        }
    }

    #[test]
    fn any_size_and_an_empty_snapshot_are_drawn() {
        for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            rendered(width, height, &snapshot());
            rendered(width, height, &Snapshot::default());
        }
    }

    #[test]
    fn the_plain_line_is_one_line() {
        let line = line(&snapshot());
        assert_eq!(
            line,
            "  12.0s  playing the sample  120,000/301,000  orders 11,002/s  trades 14/s  \
             feed 8,100/s  rtt 310.0/1,250.0 us  OML 310.0/1,250.0 us  on time 99.54 %  P(F) 98.71 %  dup 24,680  \
             missing 3  BTCUSD 78350/78351  GENA -/-"
        );
    }
}
