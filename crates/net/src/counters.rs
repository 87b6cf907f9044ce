//! What a loop did and what it dropped, readable from any thread.
//!
//! One writer (the loop), any number of readers: plain relaxed loads and stores, no locked
//! instruction. Readers see each figure recent, not all of one instant.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A snapshot of a loop's counters since its start.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Default)]
        pub(crate) struct SharedCounters {
            $(pub $name: Counter,)*
        }

        impl SharedCounters {
            pub fn snapshot(&self) -> Counters {
                Counters { $($name: self.$name.0.load(Relaxed),)* }
            }
        }

        impl std::ops::AddAssign for Counters {
            /// Sums two loops' figures (maxima add up too: take them per loop).
            fn add_assign(&mut self, other: Counters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

/// One figure with one writer.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub fn raise(&self, to: u64) {
        if to > self.0.load(Relaxed) {
            self.0.store(to, Relaxed);
        }
    }
}

counters! {
    /// Packets taken from UDP sockets; one may hold several datagrams of the overlay.
    datagrams_in,
    /// Their bytes.
    datagram_bytes_in,
    /// Of the packets taken those that the kernel had stamped.
    datagrams_stamped,
    /// Sum of how long these waited from the kernel's stamp to the call that took them, in nanoseconds: the
    /// part of a one-way delay that is the machine's and not the network's.
    datagram_wait_ns,
    /// The longest of them, in nanoseconds.
    datagram_wait_ns_max,
    /// Copies of datagrams that a filter dropped in front of nodes, and told them of.
    copies_filtered,
    /// Packets given to UDP sockets.
    datagrams_out,
    /// Their bytes.
    datagram_bytes_out,
    /// Packets dropped because the socket's send buffer was full.
    datagrams_blocked,
    /// Packets the kernel refused for another reason, failed receives, and bundles cut short.
    datagram_errors,
    /// Packets and connects to a peer without address, or from a channel without socket.
    unroutable,
    /// Datagrams delivered in memory to a node of the same loop.
    local_datagrams,
    /// The same, dropped because the queue was full.
    local_dropped,
    /// Bytes read from streams.
    stream_bytes_in,
    /// Bytes nodes wrote to streams.
    stream_bytes_out,
    /// Writes to a connection that is gone.
    stream_strays,
    /// Connections accepted.
    accepted,
    /// Connections refused because the listener's limit was reached.
    refused,
    /// Times that a connection could not be accepted because no descriptor was free.
    accepts_starved,
    /// Connections opened.
    connected,
    /// Connections that could not be opened, or failed.
    stream_errors,
    /// Connections cut because the other side left too much unread.
    slow_consumers,
    /// TLS handshakes that came to an end.
    handshakes,
    /// TLS handshakes that were none, broke its rules or lacked a certificate we trust.
    handshakes_failed,
    /// TLS handshakes that took too long.
    handshakes_late,
    /// Handshakes cut because newer ones needed their place.
    handshakes_refused,
    /// Work that no worker took.
    jobs_dropped,
    /// Calls of `handle_timeout`.
    timeouts,
    /// Sum of how late they were, in nanoseconds.
    timeout_late_ns,
    /// The latest of them, in nanoseconds.
    timeout_late_ns_max,
    /// Traces dropped because their reader was slow.
    traces_dropped,
    /// Times the thread slept.
    parks,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_raises_and_sums() {
        let shared = SharedCounters::default();
        shared.parks.add(2);
        shared.parks.add(3);
        shared.timeout_late_ns_max.raise(9);
        shared.timeout_late_ns_max.raise(4);
        let mut sum = shared.snapshot();
        assert_eq!((sum.parks, sum.timeout_late_ns_max), (5, 9));
        sum += shared.snapshot();
        assert_eq!(sum.parks, 10);
    }
}
