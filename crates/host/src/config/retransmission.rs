//! `[retransmission]`: how much the public retransmission server answers.

use overlay::answers::{AnswerConfig, ByteRate, KNOWN_MAX};
use serde::{Deserialize, Serialize};
use types::AddressRange;

use super::doors::{NONE, items, range};
use super::load::Both;

/// Rates of its answers. An address that has not proved itself gets three times the bytes of its
/// requests, unless it is `known`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Retransmission {
    /// To everybody, in KiB per second.
    pub kib_per_s: u64,
    /// To one proven address, in KiB per second.
    pub address_kib_per_s: u64,
    /// To all that are not proven, in KiB per second.
    pub unproven_kib_per_s: u64,
    /// Networks whose addresses need no proof, like `10.1.0.0/16`, up to eight; or `none`.
    pub known: String,
}

impl Default for Retransmission {
    fn default() -> Self {
        let AnswerConfig { address, unproven, all, .. } = AnswerConfig::default();
        Retransmission {
            kib_per_s: all.per_s >> 10,
            address_kib_per_s: address.per_s >> 10,
            unproven_kib_per_s: unproven.per_s >> 10,
            known: NONE.to_string(),
        }
    }
}

impl Retransmission {
    fn ranges(&self) -> Result<Vec<AddressRange>, String> {
        let list = if self.known == NONE { "" } else { &self.known };
        let ranges = items(list).map(range).collect::<Result<Vec<_>, _>>()?;
        match ranges.len() {
            0..=KNOWN_MAX => Ok(ranges),
            more => Err(format!("must be at most {KNOWN_MAX} networks, is {more}")),
        }
    }

    /// As the server takes it.
    pub fn answers(&self) -> AnswerConfig {
        let known = self.ranges().unwrap_or_default();
        let rate = |kib: u64| ByteRate::per_s(kib << 10);
        AnswerConfig {
            address: rate(self.address_kib_per_s),
            unproven: rate(self.unproven_kib_per_s),
            all: rate(self.kib_per_s),
            known: std::array::from_fn(|place| known.get(place).copied()),
            ..AnswerConfig::default()
        }
    }
}

/// What `known` may be.
pub(super) fn relations(config: &super::Config, both: &mut Both<'_>) {
    if let Err(why) = config.retransmission.ranges() {
        let key = "retransmission.known";
        both((key, why.clone()), (key, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_networks_are_read_and_others_are_refused_with_the_reason() {
        let of = |known: &str| Retransmission { known: known.to_string(), ..Default::default() };
        let count = |known| of(known).answers().known.iter().flatten().count();
        assert_eq!((count("none"), count("10.1.0.0/16, 127.0.0.1")), (0, 2));
        let nine = ["10.0.0.1"; KNOWN_MAX + 1].join(",");
        for (known, why) in [("here", "write addresses like"), (&nine, "at most 8 networks, is 9")]
        {
            let complaint = of(known).ranges().expect_err(known);
            assert!(complaint.contains(why), "{complaint}");
        }
    }
}
