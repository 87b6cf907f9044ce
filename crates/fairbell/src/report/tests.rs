//! The verdict's reasons, the JSON's names, and that text and page carry the figures.

use super::*;

fn quantiles(p50: u64) -> Quantiles {
    let [p90, p99, p999, max] = [p50 * 2, p50 * 4, p50 * 8, p50 * 20];
    Quantiles { count: 301_027, min: p50 / 2, mean: p50, p50, p90, p99, p999, max }
}

fn passing() -> Report {
    let hop = |hop: &str, copies_received, copies_dropped| Hop {
        hop: hop.to_string(),
        copies_received,
        copies_dropped,
        copies_missing: 0,
    };
    let instrument = |symbol: &str, lot_decimals, bid, offer| InstrumentReport {
        symbol: symbol.to_string(),
        trades: 284,
        volume_lots: 12_345_678_900,
        lot_decimals,
        resting_orders: 6_516,
        best_bid: Some(Price(bid)),
        best_offer: Some(Price(offer)),
    };
    let names = ["BTCUSD", "GENA", "GENB"];
    Report {
        seed: 1,
        duration_ns: 30_200_000_000,
        orders_sent: 331_027,
        without_flow: false,
        orders_acknowledged: 331_027,
        books_equal: true,
        checkpoints_compared: names.map(|name| (name.to_string(), 120)).into(),
        checkpoints_required: 100,
        rtt_ns: quantiles(842_000),
        oml_arrival_ns: quantiles(151_000),
        oml_release_ns: quantiles(410_000),
        dws_ns: quantiles(700),
        p_on_time: 0.9912,
        p_fair: 0.9831,
        hold_ns_mean: 231_400,
        copies_received: 1_234_567,
        copies_dropped: 456_789,
        hops: vec![
            hop("root to layer 0", 400_000, 0),
            hop("layer 0 to receivers", 834_567, 456_789),
        ],
        repairs: 3,
        post_only_rejects: 100_518,
        cancels_too_late: 41,
        rejects: [("price_too_high".to_string(), 220), ("invalid_quantity".to_string(), 73)].into(),
        instruments: vec![
            instrument("BTCUSD", 8, 783_500_000, 783_510_000),
            instrument("GENA", 0, 999_900, 1_000_100),
            instrument("GENB", 0, 499_900, 500_100),
        ],
        auctions: vec![AuctionReport {
            symbol: "GENA".to_string(),
            kind: "opening",
            price: 1_000_100,
            volume_lots: 4_321,
            lot_decimals: 0,
        }],
        halts: vec![HaltReport {
            symbol: "GENB".to_string(),
            after_ns: 12_000_000_000,
            lasted_ns: 1_500_000_000,
        }],
        epoch: 2,
        tree_changes: vec![TreeChangeReport {
            epoch: 2,
            after_ns: 18_000_000_000,
            prepared_ns: 310_000,
            settled_ns: 5_200_000,
        }],
        dead_proxies: vec![DeadProxyReport {
            proxy: 3,
            after_ns: 10_400_000_000,
            silent_ns: 350_000_000,
        }],
        sealing: SealingReport {
            enabled: true,
            sealed: 4_711,
            opened: 4_700,
            refused: 11,
            unsent: 0,
            early: 0,
            other_life: 0,
        },
        feed_messages: 512_345,
        venue_trades: Some(284),
        venue_trades_reproduced_offline: Some(284),
        venue_trades_extra_offline: Some(0),
        venue_trades_reproduced_live: Some(279),
        venue_trades_extra_live: Some(6),
        sample: [("rows", 314_057), ("prices_of_zero_dropped", 27)]
            .map(|(name, n)| (name.to_string(), n))
            .into(),
        sequencer: SequencerReport { enabled: true, window_ns: 500_000, late: 12 },
        ..Report::default()
    }
}

/// Made-up points with the shapes of a real run.
fn plot_data() -> PlotData {
    let mut rng = types::SplitMix64::new(1);
    let release = (1..=9).map(|n| {
        let tail = 1.0 + rng.unit();
        let at = |q: u32| {
            let share = f64::from(q) / 200.0;
            (400_000.0 + 9_000.0 * f64::from(n) * (share * 6.0 * tail).exp() / 9.0) as u64
        };
        let points = (1..=200).map(|q| (at(q), f64::from(q) / 200.0)).collect();
        Curve { name: format!("receiver {n}"), points }
    });
    let release: Vec<Curve> = release.collect();
    let windows = (0..150).map(|slice| {
        let p50_ns = 300 + rng.below(600);
        let p99_ns = p50_ns * (2 + rng.below(20));
        WindowPoint {
            at_ns: slice * 200_000_000,
            p50_ns,
            p99_ns,
            max_ns: p99_ns * (2 + rng.below(60)),
        }
    });
    let windows = windows.collect();
    let mut side = |sign: f64| -> Vec<(f64, f64)> {
        (0..400).map(|n| (78_350.5 + sign * (0.5 + f64::from(n)), rng.unit() * 0.8)).collect()
    };
    let depth = vec![Depth { symbol: "BTCUSD".to_string(), bids: side(-1.0), asks: side(1.0) }];
    PlotData { release, windows, depth }
}

#[test]
fn a_good_run_passes() {
    assert_eq!(passing().failures(), Vec::<String>::new());
    assert!(passing().to_text().trim_end().lines().next_back().unwrap().starts_with("PASS: "));
}

#[test]
fn every_defect_is_a_reason_of_its_own() {
    type Spoil = fn(&mut Report);
    let defects: [(Spoil, &str); 9] = [
        (|r| r.orders_sent = 0, "no order was sent"),
        (|r| (r.orders_lost, r.orders_acknowledged) = (2, 331_025), "2 orders were never answered"),
        (|r| r.orders_acknowledged -= 1, "331027 orders sent are not"),
        (|r| r.duplicates = 1, "1 answers came twice"),
        (|r| r.books_equal = false, "receivers and engine hold different books"),
        (|r| r.checkpoints_compared.clear(), "no books were compared"),
        (
            |r| *r.checkpoints_compared.get_mut("GENA").unwrap() = 99,
            "GENA: books were compared at 99 feed positions, 100 required",
        ),
        (
            |r| r.venue_trades_reproduced_offline = Some(283),
            "the offline replay made 283 of the venue's 284 trades and 0 others",
        ),
        (|r| r.complaints.push("a node died".to_string()), "a node died"),
    ];
    for (spoil, reason) in defects {
        let mut report = passing();
        spoil(&mut report);
        let failures = report.failures();
        assert!(failures.iter().any(|line| line.contains(reason)), "{reason}: {failures:?}");
        let last = report.to_text().trim_end().lines().next_back().map(str::to_string);
        assert!(last.unwrap().starts_with("FAIL: "));
    }
}

#[test]
fn auctions_and_halts_are_shown() {
    let text = passing().to_text();
    let line = |of: &str| text.lines().find(|line| line.contains(of)).unwrap_or("").to_string();
    assert!(line("opening GENA").contains("100.0100") && line("opening GENA").ends_with("4,321"));
    let halt = text.lines().skip_while(|line| !line.starts_with("Halts")).nth(1).unwrap();
    assert!(halt.contains("GENB") && halt.contains("12.0 s") && halt.ends_with("1.5 s"), "{halt}");
    let many = Report { auctions: vec![passing().auctions[0].clone(); 30], ..passing() };
    assert!(many.to_text().contains("others"));
}

#[test]
fn trees_deaths_and_seals_are_shown() {
    let text = passing().to_text();
    let line = |of: &str| text.lines().find(|line| line.contains(of)).unwrap_or("").to_string();
    let tree = line("tree of epoch 2");
    assert!(
        tree.contains("18.0 s") && tree.contains("310.0") && tree.ends_with("5,200.0"),
        "{tree}"
    );
    assert!(line("proxy 3 dead").ends_with("10.4 s") && line("feed messages lost").ends_with(" 0"));
    assert!(line("datagrams between nodes").ends_with("11"), "{text}");
    let mut clear = passing();
    clear.sealing = SealingReport::default();
    assert!(!clear.to_text().contains("Sealing"));
}

#[test]
fn a_wrong_book_is_named() {
    let mut report = passing();
    report.books_equal = false;
    report.books_unequal =
        vec![UnequalBook { receiver: 3, symbol: "GENA".to_string(), feed_seq: 77 }];
    assert_eq!(
        report.failures(),
        ["receivers and engine hold different books: GENA at receiver 3, feed position 77"]
    );
}

#[test]
fn the_json_has_the_promised_names() {
    let json: serde_json::Value = serde_json::from_str(&passing().to_json()).unwrap();
    for name in [
        "orders_sent",
        "orders_acknowledged",
        "orders_lost",
        "duplicates",
        "books_equal",
        "rtt_ns",
        "oml_arrival_ns",
        "oml_release_ns",
        "dws_ns",
        "p_on_time",
        "p_fair",
        "hold_ns_mean",
        "venue_trades",
        "venue_trades_reproduced_offline",
        "venue_trades_reproduced_live",
        "seed",
    ] {
        assert!(!json[name].is_null(), "no {name}");
    }
    for name in ["p50", "p99", "p999", "max"] {
        assert!(json["rtt_ns"][name].is_u64(), "no rtt_ns.{name}");
    }
    assert_eq!(json["verdict"], "pass");
    assert_eq!(json["config"]["overlay"]["fanout"], 3);
    assert_eq!(json["instruments"][0]["best_bid"], 783_500_000);
    let mut without = passing();
    without.venue_trades = None;
    let json: serde_json::Value = serde_json::from_str(&without.to_json()).unwrap();
    assert!(json["venue_trades"].is_null() && json.get("venue_trades").is_some());
}

#[test]
fn the_text_is_aligned_and_has_no_trailing_spaces() {
    let text = passing().to_text();
    assert!(text.starts_with("Fairbell: 30.2 s of play, 9 receivers, D=2 F=3 H=1, sequencer on"));
    assert!(text.lines().all(|line| line == line.trim_end()));
    for expected in ["284 of 284", "100,518", "842.0", "98.31 %", "123.456789", "price too high"] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
}

#[test]
fn the_page_is_whole_and_escapes_what_it_is_given() {
    let mut report = passing();
    report.notices.push("<script>alert(1)</script>".to_string());
    let page = report.to_html(&plot_data());
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(!page.contains("<script>"));
    assert!(
        !page.contains("http://") || page.matches("http://").count() == 3,
        "only svg namespaces"
    );
    assert!(report.to_html(&PlotData::default()).contains("PASS"));
}

#[test]
fn both_files_are_written() {
    let folder = std::env::temp_dir().join(format!("fairbell-report-{}", std::process::id()));
    let paths = passing().write(&folder, &plot_data()).unwrap();
    for path in &paths {
        assert!(std::fs::metadata(path).unwrap().len() > 1_000);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
