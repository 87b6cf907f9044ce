//! What the paths between hosts are like: a [`Profile`], and those that have a name.
//!
//! The figures of `table1` and `standard` are the simulator's (`lab/sim/src/cloud/link.rs`), so
//! that a run in the box and a simulated one are of the same cloud.

/// Bursts of extra delay on a path: a two-state process of its own for every ordered pair.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bursts {
    /// Mean time from the end of one burst to the next one, in ns; exponentially distributed.
    pub every_ns: u64,
    /// Mean length of a burst, in ns; exponentially distributed.
    pub length_ns: u64,
    /// Median of what a burst adds, in ns; log-normal with sigma 0.5 over bursts.
    pub extra_ns: u64,
}

/// Hosts whose paths, in both directions, are slower for some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stragglers {
    /// Stragglers, of a million hosts; at least one host is, and host 0 never is.
    pub share_ppm: u32,
    /// What delays of a straggler's paths are multiplied by, from 1.
    pub factor: f64,
    /// Sigma of the random part while it is slow.
    pub sigma: f64,
    /// Mean time for which a straggler is as quick as others, in ns; 0 for never.
    pub every_ns: u64,
    /// Mean time for which it is slow, in ns.
    pub length_ns: u64,
}

/// What the paths between hosts are like.
///
/// The delay of a packet is the wait for the sender's earlier copies, `copy_ns`, then
/// (`base_ns` + median * X) times the factor of the path, X log-normal around 1, then what the zones,
/// the direction and a burst add.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Name, for reports.
    pub name: &'static str,
    /// Fixed part of the delay, in ns.
    pub base_ns: u64,
    /// Median of the random part, in ns; 0 for none.
    pub median_ns: u64,
    /// Sigma of the random part's log-normal.
    pub sigma: f64,
    /// Time for which a sender is busy with one copy, in ns; its copies leave one after another.
    pub copy_ns: u64,
    /// Sigma of the log-normal factor between ordered pairs of hosts; 0 when all are alike.
    pub spatial_sigma: f64,
    /// Added on the way from a host to one of a higher number, and not on the way back, in ns.
    pub asymmetry_ns: u64,
    /// Number of zones, from 1; hosts are spread over them in turn unless the configuration says
    /// otherwise.
    pub zones: u8,
    /// Added between hosts of different zones, in ns.
    pub zone_ns: u64,
    /// Bursts, if any.
    pub bursts: Option<Bursts>,
    /// Stragglers, if any.
    pub stragglers: Option<Stragglers>,
    /// Packets lost, of a million.
    pub loss_ppm: u32,
    /// Packets delivered twice, of a million.
    pub duplicate_ppm: u32,
}

impl Profile {
    /// Names that [`Profile::named`] knows.
    pub const NAMES: &[&str] =
        &["clean", "table1", "standard", "straggler", "lossy", "two-zones", "asymmetric"];

    /// 50 us, always, and nothing else.
    pub fn clean() -> Profile {
        Profile {
            name: "clean",
            base_ns: 50_000,
            median_ns: 0,
            sigma: 0.0,
            copy_ns: 0,
            spatial_sigma: 0.0,
            asymmetry_ns: 0,
            zones: 1,
            zone_ns: 0,
            bursts: None,
            stragglers: None,
            loss_ppm: 0,
            duplicate_ppm: 0,
        }
    }

    /// Fit of the Jasper paper's Table 1: paths alike and independent, median 29 us with the copy.
    pub fn table1() -> Profile {
        Profile {
            name: "table1",
            base_ns: 10_100,
            median_ns: 15_600,
            sigma: 0.447,
            copy_ns: 3_280,
            ..Profile::clean()
        }
    }

    /// `table1` with spatial spread, bursts, 5 % stragglers and 0.1 % loss.
    pub fn standard() -> Profile {
        Profile {
            name: "standard",
            spatial_sigma: 0.15,
            bursts: Some(Bursts {
                every_ns: 30_000_000_000,
                length_ns: 5_000_000,
                extra_ns: 300_000,
            }),
            stragglers: Some(Stragglers {
                share_ppm: 50_000,
                factor: 1.4,
                sigma: 0.55,
                every_ns: 0,
                length_ns: 1_000_000_000,
            }),
            loss_ppm: 1_000,
            ..Profile::table1()
        }
    }

    /// `table1` where every tenth host is three times slower for about half of the time.
    pub fn straggler() -> Profile {
        Profile {
            name: "straggler",
            stragglers: Some(Stragglers {
                share_ppm: 100_000,
                factor: 3.0,
                sigma: 0.55,
                every_ns: 2_000_000_000,
                length_ns: 2_000_000_000,
            }),
            ..Profile::table1()
        }
    }

    /// `table1` with 1 % loss and 0.5 % duplicates.
    pub fn lossy() -> Profile {
        Profile { name: "lossy", loss_ppm: 10_000, duplicate_ppm: 5_000, ..Profile::table1() }
    }

    /// `table1` within a zone, 500 us more between the two zones.
    pub fn two_zones() -> Profile {
        Profile { name: "two-zones", zones: 2, zone_ns: 500_000, ..Profile::table1() }
    }

    /// `table1` with 100 us more in one direction of every pair: what no clock can see by itself.
    pub fn asymmetric() -> Profile {
        Profile { name: "asymmetric", asymmetry_ns: 100_000, ..Profile::table1() }
    }

    /// The same paths in slow motion: all times are so many `times` as long.
    /// What a machine that plays all hosts adds by itself weighs less by as much.
    pub fn slowed(self, times: u64) -> Profile {
        let bursts = self.bursts.map(|of| Bursts {
            every_ns: of.every_ns * times,
            length_ns: of.length_ns * times,
            extra_ns: of.extra_ns * times,
        });
        let stragglers = self.stragglers.map(|of| Stragglers {
            every_ns: of.every_ns * times,
            length_ns: of.length_ns * times,
            ..of
        });
        Profile {
            base_ns: self.base_ns * times,
            median_ns: self.median_ns * times,
            copy_ns: self.copy_ns * times,
            asymmetry_ns: self.asymmetry_ns * times,
            zone_ns: self.zone_ns * times,
            bursts,
            stragglers,
            ..self
        }
    }

    /// A profile by its name; `None` for a name that is not among [`Profile::NAMES`].
    pub fn named(name: &str) -> Option<Profile> {
        Some(match name {
            "clean" => Profile::clean(),
            "table1" => Profile::table1(),
            "standard" => Profile::standard(),
            "straggler" => Profile::straggler(),
            "lossy" => Profile::lossy(),
            "two-zones" => Profile::two_zones(),
            "asymmetric" => Profile::asymmetric(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gives_the_profile_of_that_name() {
        for name in Profile::NAMES {
            assert_eq!(Profile::named(name).unwrap().name, *name);
        }
        assert_eq!(Profile::named("best"), None);
    }
}
