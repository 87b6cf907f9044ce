//! How long participants went without service after a fault, by what each of them noted.

use participant::load::Seen;
use serde::Serialize;
use types::Nanos;

/// What a client noted, in order.
pub type Notes = [(Nanos, Seen)];

/// What a fault cost participants: requests due between it and the next one, sessions that ended then.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Service {
    /// From the fault until the client that waited longest had a normal answer to a request due after it,
    /// ns; `None`: one was refused everything.
    pub to_serve_ns: Option<u64>,
    /// The longest that a request due after the fault waited for its answer, ns.
    pub longest_wait_ns: u64,
    /// By session that ended: how long until the client was logged in again, ns; `None`: never.
    pub reconnects_ns: Vec<Option<u64>>,
}

impl Service {
    /// Between `from` and `to`.
    pub fn between<'a>(
        clients: impl IntoIterator<Item = &'a Notes>,
        (from, to): (Nanos, Nanos),
    ) -> Service {
        let mut all = Service { to_serve_ns: Some(0), ..Service::default() };
        for notes in clients {
            let own = Service::of(notes, (from, to));
            all.to_serve_ns = all.to_serve_ns.zip(own.to_serve_ns).map(|(one, two)| one.max(two));
            all.longest_wait_ns = all.longest_wait_ns.max(own.longest_wait_ns);
            all.reconnects_ns.extend(own.reconnects_ns);
        }
        all
    }

    fn of(notes: &Notes, (from, to): (Nanos, Nanos)) -> Service {
        let mut own = Service::default();
        let mut asked = false;
        // A session is on from a login to the next end of a connection.
        let (mut is_on, mut ended) = (false, None::<Nanos>);
        for (at, what) in notes {
            match *what {
                Seen::Answered { due, taken } if due >= from && due < to => {
                    asked = true;
                    own.longest_wait_ns = own.longest_wait_ns.max(at.since(due));
                    if taken {
                        own.to_serve_ns.get_or_insert(at.since(from));
                    }
                }
                Seen::Answered { .. } => {}
                Seen::Ended => {
                    if std::mem::take(&mut is_on) && *at >= from && *at < to {
                        ended = Some(*at);
                    }
                }
                Seen::LoggedIn => {
                    is_on = true;
                    own.reconnects_ns.extend(ended.take().map(|ended| Some(at.since(ended))));
                }
            }
        }
        own.reconnects_ns.extend(ended.map(|_| None));
        if !asked {
            own.to_serve_ns = Some(0);
        }
        own
    }

    /// Sessions that were not on again within `most_ns`.
    pub fn late(&self, most_ns: u64) -> usize {
        let late = |took: &&Option<u64>| took.is_none_or(|ns| ns > most_ns);
        self.reconnects_ns.iter().filter(late).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(at: u64, due: u64) -> (Nanos, Seen) {
        (Nanos(at), Seen::Answered { due: Nanos(due), taken: true })
    }

    fn between(clients: &[&Notes]) -> Service {
        Service::between(clients.iter().copied(), (Nanos(100), Nanos(1_000)))
    }

    #[test]
    fn the_client_that_waits_longest_decides() {
        let one = [answered(90, 80), answered(130, 95), answered(150, 120), answered(500, 200)];
        let two = [answered(170, 140)];
        let both = between(&[&one, &two]);
        assert_eq!((both.to_serve_ns, both.longest_wait_ns), (Some(70), 300));
        // What is due before the fault, or after the next one, is not its own.
        let other = [answered(5_000, 99), answered(9_000, 1_000)];
        assert_eq!(between(&[&other]).longest_wait_ns, 0);
        assert_eq!(between(&[&one, &other]).to_serve_ns, Some(50));
        let refused = [(Nanos(110), Seen::Answered { due: Nanos(105), taken: false })];
        assert_eq!(between(&[&refused]).to_serve_ns, None, "a refusal is no service");
    }

    #[test]
    fn a_session_that_ends_is_late_unless_it_is_on_again_in_time() {
        let on = |at| (Nanos(at), Seen::LoggedIn);
        let off = |at| (Nanos(at), Seen::Ended);
        // The second attempt fails: it is one session that ended.
        let came_back = [on(1), off(200), off(250), on(280), off(2_000), on(2_100)];
        let service = between(&[&came_back]);
        assert_eq!(service.reconnects_ns, [Some(80)]);
        assert_eq!((service.late(80), service.late(79)), (0, 1));
        let gone = [on(1), off(200), off(300)];
        assert_eq!(between(&[&gone]).reconnects_ns, [None]);
        assert_eq!(between(&[&gone]).late(u64::MAX), 1);
    }
}
