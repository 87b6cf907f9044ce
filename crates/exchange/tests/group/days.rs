//! What the exchange itself says is said once, whoever leads.

use std::collections::BTreeMap;

use exchange::{Root, Timetable, group_root, set_phase};
use types::{ClockReading, Command, CommandKind, Input, InstrumentId, Nanos, Node, Outbox, Phase};
use zerocopy::TryFromBytes;

use crate::{
    common::{MS, START},
    plain,
    world::{Group, MEMBERS, ROUGH},
};

/// Calls and trading in turn, so that equal commands come again and again; what was planned.
fn planned(every_ms: u64) -> (Timetable, Vec<Phase>) {
    let all = InstrumentId(0);
    let mut table = Timetable::open_at_once();
    let mut phases = Vec::new();
    for n in 0..12u64 {
        let phase = if n % 2 == 0 { Phase::VolatilityCall } else { Phase::Continuous };
        table = table.at(START.after((2_000 + n * every_ms) * MS), set_phase(all, phase));
        phases.push(phase);
    }
    (table.every(40 * MS, Command::new(CommandKind::PublishIndicative)), phases)
}

#[test]
fn the_timetable_is_kept_once_across_failovers() {
    for seed in 0..8 {
        let mut config = plain();
        let (table, phases) = planned(150);
        config.timetable = table;
        let mut group = Group::new(&config, ROUGH, seed);
        group.login_all();
        // Leaders are cut off from the others a moment before something is due, so that they give
        // commands that nobody commits; then they come back.
        for n in 0..5u64 {
            let at = START.0 + (2_150 + n * 400) * MS - group.rng.below(60) * MS;
            group.run(at.saturating_sub(group.now));
            let Some(leader) = group.leader() else { continue };
            group.alone[leader] = true;
            let ns = (100 + group.rng.below(250)) * MS;
            group.run(ns);
            group.alone = [false; MEMBERS];
        }
        group.run((START.0 + 6_000 * MS).saturating_sub(group.now));
        let leader = group.leader().expect("a leader");
        let scheduled = group
            .root(leader)
            .log()
            .iter()
            .filter(|input| input.command.kind == CommandKind::SetPhase);
        let given: Vec<u8> = scheduled.map(|input| input.command.param).collect();
        let wanted: Vec<u8> = phases.iter().map(|phase| *phase as u8).collect();
        assert_eq!(given, wanted, "seed {seed}: each once, in order");
        let mut opened: BTreeMap<u8, u32> = BTreeMap::new();
        for input in group.root(leader).log().iter() {
            if input.command.kind == CommandKind::StartOfDay {
                *opened.entry(0).or_default() += 1;
            }
        }
        assert_eq!(opened.get(&0), Some(&1), "seed {seed}");
        group.check(&format!("seed {seed}"));
    }
}

/// A leader that gave a command nobody committed gives it again when it leads again; one that
/// another leader gave, and the group committed, it does not.
#[test]
fn a_command_that_was_taken_back_is_given_again() {
    let mut config = plain();
    let halt = set_phase(InstrumentId(1), Phase::Halt);
    let later = START.after(50 * MS);
    // Twice the same: whoever gave the first still has to give the second.
    config.timetable = Timetable::open_at_once().at(START, halt).at(later, halt);
    let (mut root, _) = group_root(&config, || None).expect("a possible exchange");
    let mut out = Outbox::default();
    let mut given = |root: &mut Root, term: u64, at: Nanos| {
        let now = ClockReading { now: at, bound_ns: 0 };
        root.lead(now, term, &mut out);
        root.handle_timeout(now, &mut out);
        let (inputs, rest) = out.journaled().as_chunks::<{ size_of::<Input>() }>();
        assert!(rest.is_empty());
        let read = |bytes: &[u8; size_of::<Input>()]| Input::try_read_from_bytes(bytes).unwrap();
        let inputs: Vec<Input> = inputs.iter().map(read).collect();
        out.clear();
        inputs
    };
    root.join_group();
    assert!(root.follows());
    let first = given(&mut root, 1, START);
    let kinds: Vec<CommandKind> = first.iter().map(|input| input.command.kind).collect();
    assert_eq!(kinds, [CommandKind::StartOfDay, CommandKind::SetPhase]);
    root.follow().expect("all is in memory");
    assert!(root.log().is_empty() && root.follows());
    assert_eq!(given(&mut root, 2, START), first, "taken back, and given again");
    // Of them another leader's group has committed one, and one of its own.
    root.follow().expect("all is in memory");
    let now = ClockReading { now: START, bound_ns: 0 };
    root.commit(now, &first[0], &mut Outbox::default()).expect("it goes on");
    let again = given(&mut root, 4, START);
    assert_eq!(again, first[1..], "what is left");
    root.follow().expect("all is in memory");
    root.commit(now, &first[1], &mut Outbox::default()).expect("it goes on");
    assert!(given(&mut root, 5, START).is_empty());
    let second = given(&mut root, 5, later);
    assert_eq!((second.len(), second[0].command), (1, first[1].command));
    // What can't come next is refused.
    root.follow().expect("all is in memory");
    assert!(root.commit(now, &first[1], &mut Outbox::default()).is_ok(), "it has that");
    let strange = root.commit(now, &Input { t_in: later, ..first[1] }, &mut Outbox::default());
    assert!(strange.is_err());
}
