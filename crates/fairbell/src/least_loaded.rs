//! Doors for `fairbell load --least-loaded`: which edges take participants, and which client begins where.
//!
//! A subscription door names the edges, least loaded first, with their sessions and requests a second.
//! Each client goes where there is least to do by then: what the clients before it bring counts, too.

use std::net::SocketAddr;

use host::failure::Failure;
use host::subscriber::Session;
use net::ClientTls;
use wire::subscription::EdgeLoad;

/// Order doors, and the place among them at which each client begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Doors {
    /// The doors of all edges that were named, least loaded first.
    pub at: Vec<SocketAddr>,
    /// By client.
    pub first: Vec<usize>,
}

impl Doors {
    /// Asks the subscription doors in turn until one knows; `pick` gives the port of the order door.
    ///
    /// # Errors
    /// None lets us in, or those that do know of no edge.
    pub fn ask(
        places: &[String],
        login: (&str, &str),
        tls: Option<&ClientTls>,
        (clients, rate): (usize, u64),
        pick: impl Fn(&EdgeLoad) -> u16,
    ) -> Result<Doors, Failure> {
        let mut last = Failure::Usage("--least-loaded: no door".to_string());
        for place in places {
            match edges(place, login, tls) {
                Ok(edges) => {
                    let door = |edge: &EdgeLoad| {
                        crate::load::resolve(&host::sockets::with_port(&edge.host, pick(edge)))
                    };
                    let at = edges.iter().map(door).collect::<Result<_, _>>()?;
                    return Ok(Doors { at, first: spread(&edges, clients, rate) });
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }
}

/// The edges that a door names.
fn edges(
    place: &str,
    login: (&str, &str),
    tls: Option<&ClientTls>,
) -> Result<Vec<EdgeLoad>, Failure> {
    let at = crate::load::resolve(place)?;
    let session = Session::open(at, login, tls)?;
    let (_, edges) = session.edges();
    let edges = edges.to_vec();
    session.leave();
    match edges.is_empty() {
        true => Err(Failure::Run(format!("{at}: the edge knows nothing recent of others"))),
        false => Ok(edges),
    }
}

/// Where each of so many clients begins, which bring `rate` requests a second together: as edges are
/// listed, by requests up to a factor of two and then by sessions, then in their order.
fn spread(edges: &[EdgeLoad], clients: usize, rate: u64) -> Vec<usize> {
    let each = rate / clients.max(1) as u64;
    let mut loads: Vec<(u64, u64)> =
        edges.iter().map(|edge| (edge.requests_per_s.into(), edge.sessions.into())).collect();
    let next = |_| {
        let rank = |(requests, sessions): &(u64, u64)| {
            (requests.checked_next_power_of_two().unwrap_or(u64::MAX), *sessions)
        };
        let least = (0..loads.len()).min_by_key(|at| loads.get(*at).map(rank)).unwrap_or(0);
        if let Some((requests, sessions)) = loads.get_mut(least) {
            *requests = requests.saturating_add(each);
            *sessions += 1;
        }
        least
    };
    (0..clients).map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(requests_per_s: u32, sessions: u32) -> EdgeLoad {
        let host = "edge".to_string();
        EdgeLoad { host, ports: [7_010, 7_011, 7_014], sessions, requests_per_s }
    }

    #[test]
    fn clients_go_where_there_is_least_to_do_and_count_themselves() {
        let idle = [edge(0, 0), edge(0, 0), edge(0, 0)];
        assert_eq!(spread(&idle, 7, 700), [0, 1, 2, 0, 1, 2, 0]);
        // The second one has enough to do until the first has as much.
        assert_eq!(spread(&[edge(0, 0), edge(400, 4)], 8, 800), [0, 0, 0, 0, 0, 1, 0, 1]);
        // Control: turns would have sent half of them to the busy one.
        let busy = spread(&[edge(0, 0), edge(100_000, 90)], 8, 800);
        assert_eq!(busy, [0; 8]);
        // Without requests sessions count.
        assert_eq!(spread(&[edge(0, 5), edge(0, 3)], 4, 0), [1, 1, 0, 1]);
        assert_eq!(spread(&[edge(u32::MAX, u32::MAX); 1], 2, u64::MAX), [0, 0]);
        assert_eq!(spread(&idle, 0, 10), Vec::<usize>::new());
    }
}
