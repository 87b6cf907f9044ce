//! Who may knock, how often, with what; who gets locked out, and who can't be.

use gateway::{CertificateRule, GatewayConfig, Rate, Refusal, decode_work};
use types::{Address, AddressRange, Certificate, ConnId, Remote};
use wire::soupbin::ClientSession;

use crate::bench::{Bench, SECOND, config};

const HERE: Address = Address::v4(0x0A00_0001);
const THERE: Address = Address::v4(0x0B00_0001);

fn from(address: Address) -> Remote {
    Remote { address: Some(address), certificate: None }
}

fn with(address: Address, fingerprint: u8, name: &str) -> Remote {
    let name = name.as_bytes().to_vec();
    let certificate = Some(Certificate { fingerprint: [fingerprint; 32], name });
    Remote { address: Some(address), certificate }
}

/// Account 1 is bound to a certificate, account 2 to addresses, account 3's password is hashed.
fn bound() -> GatewayConfig {
    let mut config = config();
    config.connections_max = 5_000;
    config.access.logon_wait_ns = 10 * SECOND;
    let range = AddressRange::new(HERE, 24).expect("a range");
    config.logins[0].terms.certificates =
        vec![CertificateRule::Fingerprint([7; 32]), CertificateRule::Name(b"member1".to_vec())];
    config.logins[1].terms.addresses = vec![range];
    config.logins[2].terms.password_hash = Some("the hash".to_string());
    config
}

/// One attempt on a connection of its own: what came back.
fn attempt(bench: &mut Bench, conn: u32, remote: &Remote, user: &str, password: &str) -> String {
    bench.connect_from(conn, ClientSession::new(user, password).expect("short"), remote);
    if bench.client(conn).closed { "closed".to_string() } else { bench.ask_in(conn) }
}

fn refused(bench: &Bench, why: Refusal) -> u64 {
    bench.gateway.refusals().count(why)
}

#[test]
fn a_login_needs_its_certificate_or_its_address() {
    let mut bench = Bench::with(bound());
    let wrong = [from(HERE), with(HERE, 8, "member2"), with(HERE, 8, "")];
    for (conn, remote) in (1..).zip(wrong) {
        assert_eq!(attempt(&mut bench, conn, &remote, "USER1", "secret1"), "J");
    }
    assert_eq!(refused(&bench, Refusal::WrongCertificate), 3);
    assert_eq!(attempt(&mut bench, 11, &with(THERE, 7, "renamed"), "USER1", "secret1"), "A");
    bench.close(11);
    assert_eq!(attempt(&mut bench, 12, &with(THERE, 9, "member1"), "USER1", "secret1"), "A");
    for (conn, remote) in [(21, from(THERE)), (22, Remote::default())] {
        assert_eq!(attempt(&mut bench, conn, &remote, "USER2", "secret2"), "J");
    }
    assert_eq!(refused(&bench, Refusal::WrongAddress), 2);
    assert_eq!(attempt(&mut bench, 23, &from(Address(HERE.0 + 9)), "USER2", "secret2"), "A");
    // A certificate is no password.
    assert_eq!(attempt(&mut bench, 13, &with(THERE, 9, "member1"), "USER1", "secret2"), "J");
    assert_eq!(refused(&bench, Refusal::WrongPassword), 1);
    assert_eq!(bench.gateway.strangers(), 0);
    let last = bench.gateway.refusals().last().last().cloned().expect("kept");
    assert_eq!(
        (last.why, last.from, &last.name[..]),
        (Refusal::WrongPassword, Some(THERE), &b"USER1"[..])
    );
}

#[test]
fn wrong_passwords_slow_down_the_address_they_come_from() {
    let mut bench = Bench::with(bound());
    let here = from(HERE);
    for conn in 1..=5 {
        assert_eq!(attempt(&mut bench, conn, &here, "USER2", "wrong"), "J");
    }
    assert_eq!(attempt(&mut bench, 11, &here, "USER2", "secret2"), "J", "not looked at");
    assert_eq!(refused(&bench, Refusal::Throttled), 1);
    let near = from(Address(HERE.0 + 1));
    assert_eq!(attempt(&mut bench, 12, &near, "USER2", "secret2"), "A", "from elsewhere");
    bench.close(12);
    bench.run(SECOND);
    assert_eq!(attempt(&mut bench, 13, &here, "USER2", "secret2"), "A");
}

#[test]
fn control_without_the_wait_a_guesser_goes_on() {
    let mut config = bound();
    config.access.guesses_free = u32::MAX;
    let mut bench = Bench::with(config);
    for conn in 1..=50 {
        assert_eq!(attempt(&mut bench, conn, &from(HERE), "USER2", "wrong"), "J");
    }
    assert_eq!(
        (refused(&bench, Refusal::WrongPassword), refused(&bench, Refusal::Throttled)),
        (50, 0)
    );
}

/// Access control that an account may be bound to nothing at.
fn unbound() -> GatewayConfig {
    let mut config = bound();
    config.logins[1].terms.addresses.clear();
    config
}

#[test]
fn eleven_wrong_passwords_from_eleven_addresses_lock_nobody_out() {
    for wrong in [11, 200] {
        let mut bench = Bench::with(unbound());
        for conn in 1..=wrong {
            let remote = from(Address(THERE.0 + u128::from(conn)));
            assert_eq!(attempt(&mut bench, conn, &remote, "USER2", "wrong"), "J");
        }
        assert_eq!(attempt(&mut bench, 301, &from(HERE), "USER2", "secret2"), "A", "{wrong}");
    }
}

#[test]
fn control_with_a_bucket_of_ten_eleven_addresses_keep_out_new_ones_but_no_home() {
    let mut config = unbound();
    config.access.new_address_guesses = 10;
    let mut bench = Bench::with(config);
    assert_eq!(attempt(&mut bench, 300, &from(HERE), "USER2", "secret2"), "A");
    bench.close(300);
    for conn in 1..=11 {
        let remote = from(Address(THERE.0 + u128::from(conn)));
        assert_eq!(attempt(&mut bench, conn, &remote, "USER2", "wrong"), "J");
    }
    assert_eq!(refused(&bench, Refusal::NewAddress), 1);
    let new = from(Address(HERE.0 + 1));
    assert_eq!(attempt(&mut bench, 301, &new, "USER2", "secret2"), "J", "the weapon of old");
    assert_eq!(attempt(&mut bench, 302, &from(HERE), "USER2", "secret2"), "A", "at home");
}

#[test]
fn another_account_of_the_same_address_is_served_on() {
    let mut bench = Bench::with(unbound());
    for conn in 1..=300 {
        let user = ["USER2", "NOBODY", "USER1"][conn as usize % 3];
        assert_eq!(attempt(&mut bench, conn, &from(HERE), user, "wrong"), "J");
    }
    for conn in 301..=350 {
        let soup = ClientSession::new("X", "x").expect("short");
        bench.connect_from(conn, soup, &from(HERE));
        bench.write(conn, b"\xFF\xFF\xFF\xFFgarbage");
        assert!(bench.client(conn).closed);
    }
    assert!(refused(&bench, Refusal::Throttled) >= 90);
    // The third account's password is hashed and looked at for the first time.
    assert_eq!(attempt(&mut bench, 401, &from(HERE), "USER3", "right"), "");
    bench.work(true);
    assert_eq!(bench.client(401).kinds(), "A");
    let member = with(HERE, 7, "member1");
    assert_eq!(attempt(&mut bench, 402, &member, "USER1", "secret1"), "A");
}

#[test]
fn an_open_session_does_not_feel_guesses_at_its_account() {
    let mut bench = Bench::with(unbound());
    assert_eq!(attempt(&mut bench, 4_001, &from(HERE), "USER2", "secret2"), "A");
    for conn in 1..=500 {
        let remote = match conn % 2 {
            0 => from(HERE),
            _ => from(Address(THERE.0 + u128::from(conn))),
        };
        assert_eq!(attempt(&mut bench, conn, &remote, "USER2", "wrong"), "J");
    }
    assert!(!bench.client(4_001).closed);
    assert_eq!(bench.gateway.logged_on().len(), 1);
}

#[test]
fn who_lacks_the_certificate_or_the_address_never_counts_against_an_account() {
    let mut bench = Bench::with(bound());
    // From the very address that account 1 comes from, and from elsewhere.
    for conn in 1..=200 {
        let remote = from(if conn % 2 == 0 { HERE } else { Address(THERE.0 + u128::from(conn)) });
        let (user, password) = if conn % 3 == 0 { ("USER2", "x") } else { ("USER1", "x") };
        let remote = if user == "USER2" { from(THERE) } else { remote };
        assert_eq!(attempt(&mut bench, conn, &remote, user, password), "J");
    }
    assert_eq!(refused(&bench, Refusal::WrongPassword), 0);
    let member = with(HERE, 7, "member1");
    assert_eq!(attempt(&mut bench, 301, &member, "USER1", "secret1"), "A");
    let near = from(Address(HERE.0 + 1));
    assert_eq!(attempt(&mut bench, 302, &near, "USER2", "secret2"), "A");
}

#[test]
fn many_connections_at_once_get_no_more_guesses_looked_at() {
    let mut config = bound();
    config.access.checks = Rate { burst: 1_000, per_s: 1_000 };
    config.access.tries_per_source = Rate { burst: 1_000, per_s: 1_000 };
    let mut bench = Bench::with(config);
    for conn in 1..=100 {
        assert_eq!(attempt(&mut bench, conn, &from(THERE), "USER3", "guess"), "");
    }
    let mut looked_at = 0;
    while !bench.jobs.is_empty() {
        bench.work(false);
        looked_at += 1;
    }
    assert_eq!(looked_at, 5);
}

#[test]
fn a_hashed_password_is_asked_about_once_and_then_known() {
    let mut bench = Bench::with(bound());
    assert_eq!(attempt(&mut bench, 1, &from(HERE), "USER3", "right"), "", "the worker has it");
    let job = bench.jobs[0].1.clone();
    assert_eq!(decode_work(&job), Some((&b"the hash"[..], &b"right"[..])));
    bench.work(true);
    assert_eq!(bench.client(1).kinds(), "A");
    bench.close(1);
    assert_eq!(attempt(&mut bench, 2, &from(HERE), "USER3", "right"), "A");
    bench.close(2);
    assert_eq!(attempt(&mut bench, 3, &from(HERE), "USER3", "wrong"), "J");
    assert!(bench.jobs.is_empty(), "neither needed the worker");
    assert_eq!((refused(&bench, Refusal::WrongPassword), bench.gateway.strangers()), (1, 0));
}

#[test]
fn the_worker_has_one_job_at_a_time_and_sources_take_turns() {
    let mut bench = Bench::with(bound());
    for conn in 1..=20 {
        assert_eq!(attempt(&mut bench, conn, &from(THERE), "USER3", "guess"), "");
    }
    assert_eq!(attempt(&mut bench, 30, &from(HERE), "USER3", "right"), "");
    assert_eq!(bench.jobs.len(), 1);
    bench.work(false);
    assert_eq!(bench.client(1).kinds(), "J");
    let (_, job) = &bench.jobs[0];
    assert_eq!(decode_work(job).map(|(_, password)| password), Some(&b"right"[..]));
    bench.work(true);
    assert_eq!(bench.client(30).kinds(), "A");
    // An answer for somebody who has left is no harm.
    bench.close(2);
    bench.work(true);
    bench.gateway.handle_work(bench.now, 99, &[1], &mut types::Outbox::default());
    assert_eq!(bench.gateway.strangers(), 18);
}

#[test]
fn guesses_wait_when_the_worker_has_done_enough() {
    let mut config = bound();
    config.access.checks = Rate { burst: 2, per_s: 1 };
    let mut bench = Bench::with(config);
    for conn in 1..=6 {
        assert_eq!(attempt(&mut bench, conn, &from(THERE), "USER3", "guess"), "");
    }
    let mut done = 0;
    while !bench.jobs.is_empty() {
        bench.work(false);
        done += 1;
    }
    assert_eq!(done, 2);
    bench.run(SECOND);
    assert_eq!(bench.jobs.len(), 1);
    bench.run(20 * SECOND);
    assert_eq!(bench.gateway.strangers(), 0, "nobody waits for ever");
    assert_eq!(refused(&bench, Refusal::TooSlow), 4);
}

#[test]
fn the_oldest_stranger_makes_room_and_nobody_stays_for_ever() {
    let mut config = bound();
    (config.access.strangers_max, config.access.strangers_per_source_max) = (12, 8);
    let mut bench = Bench::with(config);
    bench.connect_from(5_000, ClientSession::new("USER2", "secret2").expect("short"), &from(HERE));
    for conn in 1..=1_000 {
        bench.connect_from(conn, ClientSession::new("X", "x").expect("short"), &from(THERE));
        assert!(bench.gateway.strangers() <= 9);
    }
    assert_eq!(refused(&bench, Refusal::HalfOpen), 992);
    assert_eq!(bench.ask_in(5_000), "A", "one of another source is not pushed out");
    for conn in 1_001..=1_020 {
        let remote = from(Address(THERE.0 + u128::from(conn)));
        bench.connect_from(conn, ClientSession::new("X", "x").expect("short"), &remote);
    }
    assert_eq!(bench.gateway.strangers(), 12);
    bench.run(11 * SECOND);
    assert_eq!((bench.gateway.strangers(), refused(&bench, Refusal::TooSlow)), (0, 12));
    assert!(!bench.client(5_000).closed);
}

#[test]
fn garbage_before_a_login_ends_the_connection_and_nothing_else() {
    let mut bench = Bench::with(bound());
    for conn in 1..=60 {
        let soup = ClientSession::new("X", "x").expect("short");
        bench.connect_from(conn, soup, &from(THERE));
        bench.write(conn, b"\xFF\xFF\xFF\xFFgarbage");
        assert!(bench.client(conn).closed);
    }
    assert_eq!(refused(&bench, Refusal::NoLogon), 60);
    assert_eq!(attempt(&mut bench, 61, &with(THERE, 7, "member1"), "USER1", "secret1"), "A");
    let fix = ConnId(1 << 28 | 77);
    let mut out = types::Outbox::default();
    bench.gateway.handle_accept(bench.now, fix, &from(HERE), &mut out);
    bench.gateway.handle_stream(bench.now, fix, b"GET / HTTP/1.1\r\n\r\n8=FIX.4.4\x01", &mut out);
    bench.gateway.handle_close(bench.now, fix, &mut out);
    assert_eq!(bench.gateway.strangers(), 0);
}
