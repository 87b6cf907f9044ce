//! ITCH through its description against the hand-written views: every field of every message.
//!
//! A slice here; `FAIRBELL_MESSAGES=10000000 cargo test --release -p feed --test itch_description`
//! compares as many as wanted.

use fast::itch::Message;
use fast::layout::Fields;
use types::SplitMix64;

fn wanted() -> u64 {
    let given = std::env::var("FAIRBELL_MESSAGES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(300_000)
}

/// A message of a random type: mostly valid, sometimes with a wrong code or length.
fn draw(rng: &mut SplitMix64, bytes: &mut Vec<u8>) {
    let lengths = Message::LENGTHS;
    let (kind, len) = lengths[rng.below(lengths.len() as u64) as usize];
    bytes.clear();
    bytes.push(kind);
    for _ in 1..len {
        bytes.push(rng.below(256) as u8);
    }
    let code: &[u8] = match kind {
        b'S' => b"OSQMEC",
        b'H' => b"HPQT",
        b'A' | b'F' | b'P' => b"BS",
        b'C' => b"YN",
        _ => b"",
    };
    let at = match kind {
        b'S' => 11,
        b'A' | b'F' | b'P' | b'H' => 19,
        _ => 31,
    };
    if !code.is_empty() && rng.below(10) > 0 {
        bytes[at] = code[rng.below(code.len() as u64) as usize];
    }
    match rng.below(50) {
        0 => bytes.push(0),
        1 => bytes.truncate(len - 1),
        2 => bytes[0] = rng.below(256) as u8,
        _ => {}
    }
}

#[test]
fn every_field_of_every_message_is_the_same() {
    let mut rng = SplitMix64::new(5);
    let mut bytes = Vec::new();
    let mut valid = 0;
    for round in 0..wanted() {
        draw(&mut rng, &mut bytes);
        let (ours, theirs) = (Message::parse(&bytes), wire::itch::parse(&bytes));
        assert_eq!(ours.is_ok(), theirs.is_ok(), "round {round}: {bytes:02x?}");
        let (Ok(ours), Ok(theirs)) = (ours, theirs) else { continue };
        valid += 1;
        assert_eq!(common::described(&ours), common::written(&theirs), "round {round}");
    }
    assert!(valid > wanted() / 2);
    assert_eq!(Message::LENGTHS.len(), wire::itch::Message::LENGTHS.len());
}

#[test]
fn descriptions_say_how_long_and_what() {
    assert_eq!(fast::itch::SystemEvent::LEN, 12);
    assert_eq!(fast::itch::SystemEvent::NAMES, ["locate", "tracking", "time", "code"]);
}

mod common {
    use fast::itch::Message;

    /// All fields in order, mixed; text by its first eight bytes.
    pub fn described(message: &Message<'_>) -> u64 {
        let mut sum = 0_u64;
        message.each(|value| sum = sum.wrapping_mul(31).wrapping_add(value));
        sum
    }

    fn text(bytes: &[u8]) -> u64 {
        bytes.iter().take(8).fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    }

    /// The same through the views written by hand.
    pub fn written(message: &wire::itch::Message<'_>) -> u64 {
        use wire::itch::Message as M;
        let head = message.header();
        let mut sum = 0_u64;
        let all = |sum: &mut u64, values: &[u64]| {
            *sum = values.iter().fold(*sum, |sum, &value| sum.wrapping_mul(31).wrapping_add(value));
        };
        all(&mut sum, &[head.locate.get().into(), head.tracking.get().into(), head.time.get()]);
        match message {
            M::SystemEvent(m) => all(&mut sum, &[m.code as u64]),
            M::StockDirectory(m) => all(
                &mut sum,
                &[
                    text(&m.stock),
                    m.market_category.into(),
                    m.financial_status.into(),
                    m.round_lot_size.get().into(),
                    m.round_lots_only.into(),
                    m.issue_classification.into(),
                    text(&m.issue_sub_type),
                    m.authenticity.into(),
                    m.short_sale_threshold.into(),
                    m.ipo.into(),
                    m.luld_tier.into(),
                    m.etp.into(),
                    m.etp_leverage.get().into(),
                    m.inverse.into(),
                ],
            ),
            M::StockTradingAction(m) => {
                all(&mut sum, &[text(&m.stock), m.state as u64, m.reserved.into(), text(&m.reason)])
            }
            M::RegShoRestriction(m) => all(&mut sum, &[text(&m.stock), m.action.into()]),
            M::MarketParticipantPosition(m) => all(
                &mut sum,
                &[
                    text(&m.mpid),
                    text(&m.stock),
                    m.primary_market_maker.into(),
                    m.market_maker_mode.into(),
                    m.participant_state.into(),
                ],
            ),
            M::MwcbDeclineLevel(m) => {
                all(&mut sum, &[m.level1.get(), m.level2.get(), m.level3.get()])
            }
            M::MwcbStatus(m) => all(&mut sum, &[m.breached_level.into()]),
            M::IpoQuotingPeriod(m) => all(
                &mut sum,
                &[
                    text(&m.stock),
                    m.release_time.get().into(),
                    m.release_qualifier.into(),
                    m.price.get().into(),
                ],
            ),
            M::LuldAuctionCollar(m) => all(
                &mut sum,
                &[
                    text(&m.stock),
                    m.reference_price.get().into(),
                    m.upper_price.get().into(),
                    m.lower_price.get().into(),
                    m.extension.get().into(),
                ],
            ),
            M::OperationalHalt(m) => {
                all(&mut sum, &[text(&m.stock), m.market.into(), m.action.into()])
            }
            M::AddOrder(m) => all(
                &mut sum,
                &[
                    m.order_ref.get(),
                    m.side as u64,
                    m.shares.get().into(),
                    text(&m.stock),
                    m.price.get().into(),
                ],
            ),
            M::AddOrderMpid(m) => all(
                &mut sum,
                &[
                    m.order_ref.get(),
                    m.side as u64,
                    m.shares.get().into(),
                    text(&m.stock),
                    m.price.get().into(),
                    text(&m.attribution),
                ],
            ),
            M::OrderExecuted(m) => {
                all(&mut sum, &[m.order_ref.get(), m.shares.get().into(), m.match_number.get()])
            }
            M::OrderExecutedWithPrice(m) => all(
                &mut sum,
                &[
                    m.order_ref.get(),
                    m.shares.get().into(),
                    m.match_number.get(),
                    m.printable as u64,
                    m.price.get().into(),
                ],
            ),
            M::OrderCancel(m) => all(&mut sum, &[m.order_ref.get(), m.shares.get().into()]),
            M::OrderDelete(m) => all(&mut sum, &[m.order_ref.get()]),
            M::OrderReplace(m) => all(
                &mut sum,
                &[m.old_ref.get(), m.new_ref.get(), m.shares.get().into(), m.price.get().into()],
            ),
            M::Trade(m) => all(
                &mut sum,
                &[
                    m.order_ref.get(),
                    m.side as u64,
                    m.shares.get().into(),
                    text(&m.stock),
                    m.price.get().into(),
                    m.match_number.get(),
                ],
            ),
            M::CrossTrade(m) => all(
                &mut sum,
                &[
                    m.shares.get(),
                    text(&m.stock),
                    m.price.get().into(),
                    m.match_number.get(),
                    m.cross_type.into(),
                ],
            ),
            M::BrokenTrade(m) => all(&mut sum, &[m.match_number.get()]),
            M::NetOrderImbalance(m) => all(
                &mut sum,
                &[
                    m.paired_shares.get(),
                    m.imbalance_shares.get(),
                    m.direction.into(),
                    text(&m.stock),
                    m.far_price.get().into(),
                    m.near_price.get().into(),
                    m.reference_price.get().into(),
                    m.cross_type.into(),
                    m.price_variation.into(),
                ],
            ),
            M::RetailInterest(m) => all(&mut sum, &[text(&m.stock), m.interest.into()]),
            M::DirectListing(m) => all(
                &mut sum,
                &[
                    text(&m.stock),
                    m.open_eligibility.into(),
                    m.price_min.get().into(),
                    m.price_max.get().into(),
                    m.near_price.get().into(),
                    m.near_time.get(),
                    m.collar_lower.get().into(),
                    m.collar_upper.get().into(),
                ],
            ),
        }
        sum
    }
}
