//! The registry is whole, rows come from running code, and pages, result file and registry agree.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers")
}

fn committed() -> Outcome {
    let text = std::fs::read_to_string(folder().join(pages::FILE)).expect("the result file");
    serde_json::from_str(&text).expect("a result file")
}

fn items() -> impl Iterator<Item = (&'static str, &'static Item)> {
    SOURCES.iter().flat_map(|source| source.items.iter().map(|item| (source.page, item)))
}

fn found(page: &str, name: &str) -> &'static Item {
    let wanted = |(known, item): &(&str, &Item)| *known == page && item.name() == name;
    items().find(wanted).map(|(_, item)| item).expect(name)
}

#[test]
fn every_item_has_a_runner_or_a_reason_and_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    for (page, item) in items() {
        let name = format!("{page}: {}", item.name());
        assert_eq!(item.run.is_none(), item.kind == Kind::Impossible, "{name}");
        assert!(item.run.is_some() || !item.note.is_empty(), "{name}: neither number nor reason");
        assert!(item.published.is_none_or(|[low, high]| low <= high), "{name}");
        assert!(!item.at.contains(": "), "{name}: where ends with the first colon");
        assert!(names.insert(name.clone()), "{name} twice");
        let text = [item.at, item.what, item.note].concat();
        assert!(!text.contains(['|', '"', '\n']), "{name}: not for a table");
    }
    assert!(names.len() > 150, "{}", names.len());
}

#[test]
fn figures_are_judged_by_which_way_is_better() {
    let item = |aim, note| {
        let run: Runner = |_| Err(Failure::Run(String::new()));
        Item::new(("x", "y"), (100.0, "us"), aim, Kind::Measured, run).note(note)
    };
    let verdict = |aim, value| item(aim, "").verdict(&Ours { value, interval: None });
    assert_eq!(verdict(Aim::Same(0.1), 109.0), "reproduced");
    assert_eq!(verdict(Aim::Same(0.1), 120.0), "not reached: 20 % above");
    assert_eq!(verdict(Aim::Less, 60.0), "better: 40 % below");
    assert_eq!(verdict(Aim::Less, 103.0), "reproduced");
    assert_eq!(verdict(Aim::Less, 150.0), "not reached: 50 % above");
    assert_eq!(verdict(Aim::Less, 700.0), "not reached: 7.0 times");
    assert_eq!(verdict(Aim::More, 150.0), "better: 50 % above");
    assert_eq!(verdict(Aim::More, 50.0), "not reached: 50 % below");
    assert_eq!(verdict(Aim::More, f64::NAN), "not reached: no figure came about");
    let reasoned = item(Aim::Same(0.1), "why").verdict(&Ours { value: 50.0, interval: None });
    assert_eq!(reasoned, "refuted: 50 % below; why");
    let wide = Ours { value: 50.0, interval: Some([0.0, 100.0]) };
    let undecided = item(Aim::Same(0.1), "why").verdict(&wide);
    assert_eq!(undecided, "not decided: 50 % below, within the interval");
    for (aim, value) in
        [(Aim::Less, 50.0), (Aim::Less, 150.0), (Aim::More, 150.0), (Aim::More, 50.0)]
    {
        let side = if value < 100.0 { "below" } else { "above" };
        let of = |interval| item(aim, "why").verdict(&Ours { value, interval: Some(interval) });
        let open = format!("not decided: 50 % {side}, within the interval");
        assert_eq!(of([value - 51.0, value + 51.0]), open, "{aim:?} {value}");
        assert!(!of([value - 9.0, value + 9.0]).contains("decided"), "{aim:?} {value}: a control");
    }
    let zero = item(Aim::Same(0.0), "").printed(0.0, 0.0, "us");
    assert_eq!(zero.verdict(&Ours { value: 0.5, interval: None }), "not reached: 0.5 us above");
    let range = item(Aim::Less, "").printed(55.0, 124.0, "us");
    assert_eq!(range.verdict(&Ours { value: 100.0, interval: None }), "reproduced");
    assert_eq!(range.verdict(&Ours { value: 40.0, interval: None }), "better: 27 % below");
}

#[test]
fn rows_without_clock_or_socket_come_out_and_move_with_what_the_code_is_told() {
    let play =
        |page, name, session: &mut Session| play(page, found(page, name), session).expect(name);
    let mut own = Session { seeds: Some(1), ..Session::new(true) };
    for (page, name) in [
        ("jasper", "table 3: proxies, N=1000 H=2"),
        ("treebuilder", "table 5.1: VMs of the tree, D=3 F=2"),
        ("treebuilder", "figure A.35: leaves, D=3 F=2"),
        ("treebuilder", "figure A.35: inner nodes, D=3 F=2"),
        ("opra-decoder", "figure 3: bytes of a message, mean"),
        ("opra-decoder", "figure 5: quotes"),
        (
            "opra-decoder",
            "figure 7: encoded integers below two bytes, more than (ours: all fields)",
        ),
    ] {
        let row = play(page, name, &mut own);
        assert!(row.ours.is_some(), "{row:?}");
        assert!(["reproduced", "better"].iter().any(|is| row.verdict.starts_with(is)), "{row:?}");
    }
    let copies = "appendix A: copies of a message that come through the filter, H=2";
    assert_eq!(play("jasper", copies, &mut own).ours, Some(1.0));
    // Stragglers by an option of the library: the tail without hedging grows.
    let tail = "figure 6: (c) H=0, p99 of the delivery window";
    let usual = play("jasper", tail, &mut own).ours.expect("a figure");
    let options = Options {
        straggler_ppm: Some(400_000),
        straggler_extra_permille: Some(3_000),
        ..Options::default()
    };
    let mut told = Session { seeds: Some(1), options, ..Session::new(true) };
    let slow = play("jasper", tail, &mut told).ours.expect("a figure");
    assert!(slow > usual * 1.5, "{usual} {slow}");
    let again = Session { seeds: Some(1), ..Session::new(true) };
    assert_eq!(play("jasper", tail, &mut { again }).ours, Some(usual), "control: the same");
}

#[test]
fn what_is_not_to_be_had_is_a_row_with_the_reason() {
    let row = play(
        "jasper",
        found("jasper", "figure 13: violations of the triangle inequality in GCP"),
        &mut Session::new(true),
    );
    let row = row.expect("a row");
    assert_eq!((row.ours, row.kind.as_str()), (None, "not possible here"));
    assert!(row.verdict.contains("provider's network"), "{row:?}");
    let refused: Runner = |_| Err(Failure::Unavailable("no such server".to_string()));
    let item = Item::new(("x", "y"), (1.0, "us"), Aim::Less, Kind::Measured, refused);
    let row = play("x", &item, &mut Session::new(true)).expect("a row");
    assert_eq!((row.kind.as_str(), row.verdict.as_str()), ("not possible here", "no such server"));
    let broken: Runner = |_| Err(Failure::Run("it broke".to_string()));
    let item = Item::new(("x", "y"), (1.0, "us"), Aim::Less, Kind::Measured, broken);
    assert!(play("x", &item, &mut Session::new(true)).is_err(), "control: a failure is one");
}

#[test]
fn pages_result_file_and_registry_agree() {
    let outcome = committed();
    let known: Vec<(String, String, String)> = items()
        .map(|(page, item)| (page.to_string(), item.name(), item.unit.to_string()))
        .collect();
    let stored: Vec<(String, String, String)> = (outcome.rows.iter())
        .map(|row| (row.page.clone(), row.item.clone(), row.unit.clone()))
        .collect();
    assert_eq!(
        stored, known,
        "the items are others: run `reproduce all --full --into docs/papers`"
    );
    for (row, (_, item)) in outcome.rows.iter().zip(items()) {
        let published = row.published.map(|of| match of {
            Published::One(value) => [value; 2],
            Published::Range(range) => range,
        });
        assert_eq!(published, item.published, "{}", row.item);
        assert_eq!(row.ours.is_none(), row.kind == Kind::Impossible.name(), "{row:?}");
        assert!(item.run.is_some() || row.verdict == item.note, "{row:?}");
        if let Some(value) = row.ours {
            let ours = Ours { value, interval: row.interval };
            assert_eq!(row.verdict, item.verdict(&ours), "{}", row.item);
        }
    }
    assert!(!outcome.machine.is_empty() && outcome.commit.len() >= 7, "{outcome:?}");
    for source in &SOURCES {
        let path = folder().join(format!("{}.md", source.page));
        let document = std::fs::read_to_string(&path).expect("a page");
        let drawn = |name: &str| folder().join(format!("figures/{name}.svg")).exists();
        let tables = pages::tables(&outcome, source.page, &pages::pictures(source.page, drawn));
        let there = pages::between(&document).expect("marks");
        assert_eq!(there, tables, "{}: another table than the file's", source.page);
        let other = pages::replaced(&document, "other\n").expect("marks");
        assert_eq!(pages::between(&other), Some("other\n"), "control: another table is seen");
    }
}

#[test]
fn rows_of_a_later_run_take_their_place_and_say_so() {
    let known = committed();
    let mut later = Outcome { rows: vec![known.rows[3].clone()], ..known.clone() };
    (later.rows[0].ours, later.load) = (Some(7.5), "12.5".to_string());
    let merged = pages::merged(known.clone(), &later).expect("all rows");
    assert_eq!(merged.rows.len(), known.rows.len());
    let row = &merged.rows[3];
    assert_eq!((row.ours, row.again.as_ref().map(|of| &of.load[..])), (Some(7.5), Some("12.5")));
    assert!(pages::tables(&merged, &row.page, &[]).contains("load average 12.5 |"));
    let other = |at: &usize| *at != 3;
    assert!((0..known.rows.len()).filter(other).all(|at| merged.rows[at] == known.rows[at]));
    let lacking = Outcome { rows: known.rows[1..].to_vec(), ..known.clone() };
    assert!(pages::merged(lacking, &later).is_err(), "a control: nobody ran the first one");
}

#[test]
fn rows_of_an_earlier_run_are_judged_as_the_registry_says_today() {
    let known = committed();
    let mut stale = known.clone();
    let at = stale.rows.iter().position(|row| row.interval.is_some()).expect("an interval");
    (stale.rows[at].verdict, stale.rows[at].published) = ("better".to_string(), None);
    let other = Outcome { rows: vec![known.rows[0].clone()], ..known.clone() };
    let merged = pages::merged(stale, &other).expect("all rows");
    assert_eq!(merged.rows[at], known.rows[at]);
}

#[test]
fn gains_of_one_kind_of_tree_over_another_have_an_interval_and_are_judged_alike() {
    let gain =
        |(page, item): &(&str, &Item)| *page == "treebuilder" && item.what.contains(" below ");
    let gains: Vec<_> = items().filter(gain).collect();
    assert_eq!(gains.len(), 4);
    assert!(gains.iter().all(|(_, item)| item.aim == Aim::More && item.unit == "%"));
    let mut session = Session { seeds: Some(2), ..Session::new(true) };
    let row = play(gains[0].0, gains[0].1, &mut session).expect("a row");
    let [low, high] = row.interval.expect("an interval over seeds");
    assert!(row.ours.is_some_and(|ours| low < ours && ours < high), "{row:?}");
}

#[test]
fn commands_of_the_pages_choose_their_items() {
    for (page, item) in items() {
        let line = command(page, item.at);
        let only = line.split('"').nth(1).expect("a quoted text");
        let chosen = chosen(Some(only));
        assert!(chosen.iter().all(|(known, of)| *known == page && of.at == item.at), "{line}");
        assert!(chosen.iter().any(|(_, of)| of.name() == item.name()), "{line}");
    }
    assert!(chosen(Some("table 77")).is_empty(), "a control");
    assert_eq!(chosen(None).len(), items().count());
}
