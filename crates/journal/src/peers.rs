//! What a server knows of the others of its group: how far each was, by its own word.
//!
//! A register, `peers`: per server four words, its number (0: nobody), its starts, the newest term in
//! which it was heard, and how far it acknowledged the log of that term's leader.

use crate::error::JournalError;
use crate::register::{PEERS, PEERS_MAX, Register};
use crate::storage::Storage;

/// Number of 64-bit words of the register.
const WORDS: usize = 4 * PEERS_MAX;

/// Register with the promises of other servers.
pub(crate) type Peers = Register<WORDS>;

/// The promises of another server that are known here. The server has them on its disk, or its disk
/// is an older copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Peer {
    /// Number of the server, from 1.
    pub server: u64,
    /// How often it had been started.
    pub lives: u64,
    /// The newest term in which it spoke.
    pub term: u64,
    /// Position up to which it had the log of that term's leader.
    pub position: u64,
}

/// Opens the register of a folder that has one; a damaged one says nothing.
pub(crate) fn open(
    storage: &mut impl Storage,
    journal: u64,
    names: &[String],
) -> Result<Option<Peers>, JournalError> {
    if !names.iter().any(|name| name == PEERS) {
        return Ok(None);
    }
    match Register::open(storage, PEERS, Some(journal)) {
        Ok(opened) => Ok(Some(opened.register)),
        Err(JournalError::Register(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn read(peers: &Peers) -> Vec<Peer> {
    let (chunks, _) = peers.words.as_chunks::<4>();
    let peer = |[server, lives, term, position]: &[u64; 4]| Peer {
        server: *server,
        lives: *lives,
        term: *term,
        position: *position,
    };
    chunks.iter().filter(|words| words[0] > 0).map(peer).collect()
}

pub(crate) fn write(
    storage: &mut impl Storage,
    journal: u64,
    peers: &mut Option<Peers>,
    known: &[Peer],
) -> Result<(), JournalError> {
    assert!(known.len() <= PEERS_MAX, "nobody is left out");
    let mut words = [0; WORDS];
    let (chunks, _) = words.as_chunks_mut::<4>();
    for (chunk, peer) in chunks.iter_mut().zip(known) {
        *chunk = [peer.server, peer.lives, peer.term, peer.position];
    }
    match peers {
        Some(peers) => peers.write(storage, words)?,
        None => {
            *peers =
                Some(Register::create(storage, PEERS, journal, words).map_err(JournalError::full)?)
        }
    }
    Ok(())
}
