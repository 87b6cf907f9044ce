//! Hosts sans-I/O nodes on real sockets: UDP, TCP, timers, one thread per [`Loop`].
//!
//! Contract: a [`Loop`] owns its nodes, their sockets and connections, and keeps the contract of
//! [`types::Node`]: one call at a time, `now` from one monotonic clock that never steps, timers
//! asked for after every call, the outbox drained in order. It never looks into the bytes.
//!
//! What may get lost, and where it is counted ([`Counters`]): datagrams, when a socket buffer is
//! full; traces, when their reader is slow; connections whose reader leaves more than a bounded
//! amount unread. Streams lose nothing else.
//!
//! Order of service: edge-triggered epoll reports sockets in the order in which they became
//! readable, and the loop serves them in that order, one bounded portion each. So the time stamps
//! which gateways of one loop give to orders follow the order of arrival of the connections'
//! first unread byte. Beside `now`, which never runs backwards, a node hears when the kernel had the
//! bytes ([`types::Node::expect_arrival`]), where stamps are asked for ([`LoopConfig::kernel_stamps`]).
//!
//! TLS: a door, or what a node opens, may speak it; the node sees clear bytes, and with the opening
//! of a stream what the handshake has proved. Handshakes are bounded in number, bytes and time, and
//! served one at a time after everything else.
//!
//! Besides, [`ring`] and [`packet_ring`]: records and packets for other processes through mapped memory,
//! and [`plane`]: other ways for datagrams than a system call each. `unsafe` is what maps memory and calls bpf(2). No allocation once buffers are warm (accepting a connection allocates, and so does
//! every record of TLS).

mod addr;
mod bundle;
mod clock;
mod conn;
mod connected;
mod control;
mod counters;
mod event_loop;
mod filters;
pub mod floor;
mod handshake;
mod inbox;
mod io;
mod kernel;
mod mailbox;
mod mapped;
pub mod packet_ring;
pub mod plane;
mod poller;
pub mod ring;
mod sealed;
mod secure;
mod streams;
mod subject;
mod tls;
mod trace;
mod worker;

pub use addr::{Directory, DuplicateEntry, LeaderEndpoint, address_of, peer_addr, socket_addr};
pub use clock::{Clock, Timekeeper};
pub use control::{ControlError, LoopHandle};
pub use counters::Counters;
pub use event_loop::Loop;
pub use io::LoopConfig;
pub use kernel::kernel_drops;
pub use mailbox::Mailbox;
pub use poller::{WaitStrategy, sharpen_timers};
pub use sealed::{Sealed, read_until};
pub use tls::{CertificateFacts, ClientTls, Clients, Identity, ServerTls, TlsError};
pub use trace::{TraceReceiver, TraceSender, trace_channel};
pub use worker::{JobReceiver, JobSender, job_channel};
