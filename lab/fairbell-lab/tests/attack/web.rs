//! The web door: attacks on it, sessions over it beside those of the other doors, a load, TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::PoisonError;
use std::time::Duration;

use fairbell_lab::web::attack::{WebAttackArgs, attacks};
use fairbell_lab::web::load::{LoadArgs, load};
use fairbell_lab::web::sessions::{SCENARIOS, agree, compare};
use fairbell_lab::web::venue::{Terms, Venue};
use host::authority::{Authority, End};
use net::ClientTls;
use web::server::Tls;

use super::ALONE;

fn args(control: bool) -> WebAttackArgs {
    WebAttackArgs { name: "all".to_string(), idle: 400, orders: 60, seed: 28, control }
}

#[test]
fn attacks_on_the_web_door_are_contained_and_found_out_without_its_bounds() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    println!("seed 28");
    for one in attacks(&args(false)).expect("an exchange") {
        assert!(
            one.complaints.is_empty(),
            "{}: {:?} {:?}",
            one.name,
            one.complaints,
            one.seen.told
        );
    }
    let controls = attacks(&args(true)).expect("an exchange");
    assert_eq!(controls.len(), 2);
    for one in controls {
        assert!(!one.complaints.is_empty(), "{} was not found out: {:?}", one.name, one.seen.told);
    }
}

#[test]
fn sessions_over_all_doors_leave_the_same_in_the_log() {
    for of in &SCENARIOS {
        let played = compare(of).unwrap_or_else(|failure| panic!("{}: {failure}", of.name));
        assert!(agree(of, &played), "{}: {played:#?}", of.name);
        assert!(played.iter().all(|(_, story, _)| !story.is_empty()), "{}", of.name);
    }
    // Control: sessions that differ are not taken for the same.
    let (one, other) = (compare(&SCENARIOS[0]), compare(&SCENARIOS[1]));
    let mixed = [one.expect("played").remove(0), other.expect("played").remove(1)];
    assert!(!agree(&SCENARIOS[0], &mixed));
}

#[test]
fn many_clients_are_all_answered() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let args = LoadArgs { clients: 60, rate: 10, orders: 5, seconds: 2, json: false };
    let loaded = load(&args).expect("an exchange");
    assert!(loaded.complaints().is_empty(), "{:?}: {:?}", loaded.complaints(), loaded.seen.refusal);
    assert_eq!(loaded.seen.sent, 60 * 10 * 2);
    assert!(loaded.logged > 60, "orders and cancels came through: {}", loaded.logged);
}

#[test]
fn the_door_speaks_tls() {
    let authority = Authority::new("trusted").expect("an authority");
    let pair = authority.sign("door", &["localhost".to_string()], End::Server).expect("a pair");
    let tls = Tls::new(pair.certificate.as_bytes(), pair.key.as_bytes()).expect("a door's");
    assert!(Tls::new(b"", pair.key.as_bytes()).is_err());
    let mut terms = Terms::default();
    terms.settings.tls = Some(tls);
    let venue = Venue::start(&terms).expect("an exchange");
    let ask = |client: &ClientTls| -> std::io::Result<String> {
        let stream = TcpStream::connect(venue.web)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut sealed = client.over(stream)?;
        sealed
            .write_all(b"GET /v1/time HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        sealed.flush()?;
        let mut answer = vec![0; 512];
        let read = sealed.read(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
    };
    let trusting = ClientTls::new(authority.pair.certificate.as_bytes(), "localhost", None);
    let answer = ask(&trusting.expect("a client")).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let other = Authority::new("unknown").expect("an authority");
    let foreign = ClientTls::new(other.pair.certificate.as_bytes(), "localhost", None);
    assert!(ask(&foreign.expect("a client")).is_err(), "a door of another authority");
    venue.end().expect("it ends");
}
