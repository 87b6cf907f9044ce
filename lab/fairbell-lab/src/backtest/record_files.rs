//! `trades.csv` and `best.csv`: what happened at the exchange, line by line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use backtest::{Best, Compared, Fill, Lots, Observer, Recording};
use strategy::MarketTrade;
use types::{InstrumentId, Liquidity, Nanos, Side, Symbol};

const TRADES: &str = "time_ns,symbol,kind,side,price,qty";
const BEST: &str = "time_ns,symbol,state,bid_price,bid_qty,ask_price,ask_qty,\
                    data_bid_price,data_bid_qty,data_ask_price,data_ask_qty";

/// Both files, written as the backtest goes on. The first error is kept for the end.
pub struct RecordFiles<W> {
    trades: W,
    best: W,
    symbols: BTreeMap<InstrumentId, Symbol>,
    decimals: usize,
    /// Last line of each instrument, without its time.
    last: BTreeMap<InstrumentId, (bool, Best, Best)>,
    error: Option<io::Error>,
}

impl RecordFiles<BufWriter<File>> {
    /// Creates both files in `folder`, which is made if need be.
    ///
    /// # Errors
    /// The disk's.
    pub fn create(folder: &Path, recording: &Recording) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let open = |name: &str| host::files::create(&folder.join(name)).map(BufWriter::new);
        RecordFiles::new(open("trades.csv")?, open("best.csv")?, recording)
    }
}

impl<W: Write> RecordFiles<W> {
    fn new(mut trades: W, mut best: W, recording: &Recording) -> io::Result<RecordFiles<W>> {
        writeln!(trades, "{TRADES}")?;
        writeln!(best, "{BEST}")?;
        let symbols = recording.instruments().iter().map(|one| (one.id, one.symbol)).collect();
        let decimals = recording.price_decimals as usize;
        Ok(RecordFiles { trades, best, symbols, decimals, last: BTreeMap::new(), error: None })
    }

    /// Writes out what is left.
    ///
    /// # Errors
    /// The first of the disk's.
    pub fn finish(mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.trades.flush().and_then(|()| self.best.flush()),
        }
    }

    fn symbol(&self, instrument: InstrumentId) -> String {
        self.symbols.get(&instrument).map_or(String::new(), |symbol| symbol.as_str().to_string())
    }

    /// A price in whole money, with all its decimals.
    fn price(&self, units: i64) -> String {
        let (sign, units) = (if units < 0 { "-" } else { "" }, units.unsigned_abs());
        let scale = 10_u64.pow(self.decimals as u32);
        format!("{sign}{}.{:0width$}", units / scale, units % scale, width = self.decimals)
    }

    fn level(&self, level: Option<Lots>) -> String {
        level.map_or(",".to_string(), |(price, lots)| format!("{},{lots}", self.price(price)))
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

fn side(side: Option<Side>) -> &'static str {
    match side {
        Some(Side::Buy) => "buy",
        Some(Side::Sell) => "sell",
        None => "",
    }
}

impl<W: Write> Observer for RecordFiles<W> {
    fn trade(&mut self, trade: &MarketTrade) {
        let (symbol, price) = (self.symbol(trade.instrument), self.price(trade.price.0));
        let (time, side, qty) = (trade.time.0, side(trade.aggressor), trade.qty.0);
        let result = writeln!(self.trades, "{time},{symbol},market,{side},{price},{qty}");
        self.keep(result);
    }

    fn fill(&mut self, fill: &Fill) {
        let (symbol, price) = (self.symbol(fill.instrument), self.price(fill.price.0));
        let kind = if fill.liquidity == Liquidity::Added { "maker" } else { "taker" };
        let (time, side, qty) = (fill.time.0, side(Some(fill.side)), fill.qty.0);
        let result = writeln!(self.trades, "{time},{symbol},{kind},{side},{price},{qty}");
        self.keep(result);
    }

    fn best(&mut self, now: Nanos, compared: &Compared) {
        let line = (compared.open, compared.engine, compared.data);
        if self.last.insert(compared.instrument, line) == Some(line) {
            return;
        }
        let (symbol, state) =
            (self.symbol(compared.instrument), if compared.open { "open" } else { "call" });
        let [bid, ask] = compared.engine.map(|level| self.level(level));
        let [data_bid, data_ask] = compared.data.map(|level| self.level(level));
        let result =
            writeln!(self.best, "{},{symbol},{state},{bid},{ask},{data_bid},{data_ask}", now.0);
        self.keep(result);
    }
}

#[cfg(test)]
mod tests {
    use types::{Price, Qty};

    use super::*;

    #[test]
    fn lines_have_prices_with_their_decimals_and_repeat_nothing() {
        let mut recording = Recording::new(4);
        let instrument = recording.instrument(Symbol::new("A").expect("short")).expect("room");
        let mut files = RecordFiles::new(Vec::new(), Vec::new(), &recording).expect("memory");
        let price = Price(48_000_500);
        let (time, qty) = (Nanos(7), Qty(3));
        files.trade(&MarketTrade { time, instrument, price, qty, aggressor: None });
        let liquidity = Liquidity::Removed;
        files.fill(&Fill { time, instrument, side: Side::Sell, qty, price, liquidity });
        let best = [Some((500, 2)), None];
        for (now, open) in [(8, false), (9, false), (10, true)] {
            files.best(Nanos(now), &Compared { instrument, open, engine: best, data: best });
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let trades = format!("{TRADES}\n7,A,market,,4800.0500,3\n7,A,taker,sell,4800.0500,3\n");
        assert_eq!(text(&files.trades), trades);
        let line = "0.0500,2,,,0.0500,2,,";
        assert_eq!(text(&files.best), format!("{BEST}\n8,A,call,{line}\n10,A,open,{line}\n"));
        // Each line has as many fields as the head.
        let commas = |line: &str| line.matches(',').count();
        assert!(text(&files.best).lines().all(|line| commas(line) == commas(BEST)));
        files.finish().expect("memory");
    }
}
