//! `--capture`: what receiver 1 released, for readers of other makes.

use feed::CaptureConfig;
use std::path::Path;

use exchange::Role;
use types::NodeId;

use host::config::Config;
use host::failure::Failure;

/// Packets and messages that `--capture` keeps.
pub const KEPT: CaptureConfig = CaptureConfig {
    // Multicast set aside for documents (RFC 5771): the released packets come by unicast.
    to: ([233, 252, 0, 1], 26_400),
    packet_bytes_max: 256 << 20,
    message_bytes_max: 256 << 20,
    quote_every: host::deployment::CHECKPOINT_EVERY,
    quotes_max: 1 << 16,
};

/// Writes what receiver 1 released, and our own best prices, for readers of other makes.
pub fn write(path: &Path, nodes: &[(NodeId, Role)], config: &Config) -> Result<(), Failure> {
    let listener = nodes.iter().find_map(|(_, role)| role.as_listener());
    let channels = listener.map_or(&[][..], |listener| listener.channels());
    for (channel, number) in channels.iter().zip(1..) {
        let Some(capture) = channel.capture() else { continue };
        let mut name = path.as_os_str().to_owned();
        // What the second tree carried, and so on.
        if number > 1 {
            name.push(format!(".tree{number}"));
        }
        one(Path::new(&name), capture, config)?;
    }
    Ok(())
}

fn one(path: &Path, capture: &feed::Capture, config: &Config) -> Result<(), Failure> {
    let quotes: Vec<serde_json::Value> = capture
        .quotes()
        .iter()
        .map(|quote| {
            let symbol = usize::from(quote.instrument.0)
                .checked_sub(1)
                .and_then(|index| config.instruments.0.get(index))
                .map(|entry| entry.symbol.clone());
            let price = |level: Option<feed::Level>| level.map(|level| level.price.0);
            let qty = |level: Option<feed::Level>| level.map(|level| level.qty.0);
            serde_json::json!({
                "feed_seq": quote.seq.0,
                "symbol": symbol,
                "bid_price": price(quote.bid),
                "bid_qty": qty(quote.bid),
                "ask_price": price(quote.ask),
                "ask_qty": qty(quote.ask),
            })
        })
        .collect();
    let mut beside = path.as_os_str().to_owned();
    beside.push(".bbo.json");
    let json = serde_json::Value::Array(quotes).to_string();
    host::files::write(path, capture.packets())
        .and_then(|()| host::files::write(Path::new(&beside), json))
        .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))
}
