//! `[retransmission]`: how much the public retransmission server answers.

use overlay::answers::{AnswerConfig, ByteRate};
use serde::{Deserialize, Serialize};

/// Rates of its answers. An address that has not proved itself gets three times the bytes of its
/// requests, whatever is said here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Retransmission {
    /// To everybody, in KiB per second.
    pub kib_per_s: u64,
    /// To one proven address, in KiB per second.
    pub address_kib_per_s: u64,
    /// To all that are not proven, in KiB per second.
    pub unproven_kib_per_s: u64,
}

impl Default for Retransmission {
    fn default() -> Self {
        let AnswerConfig { address, unproven, all, .. } = AnswerConfig::default();
        Retransmission {
            kib_per_s: all.per_s >> 10,
            address_kib_per_s: address.per_s >> 10,
            unproven_kib_per_s: unproven.per_s >> 10,
        }
    }
}

impl Retransmission {
    /// As the server takes it.
    pub fn answers(&self) -> AnswerConfig {
        let rate = |kib: u64| ByteRate::per_s(kib << 10);
        AnswerConfig {
            address: rate(self.address_kib_per_s),
            unproven: rate(self.unproven_kib_per_s),
            all: rate(self.kib_per_s),
            ..AnswerConfig::default()
        }
    }
}
