//! Who keeps this machine's clock: PTP hardware clocks and chrony, read and never set.

use std::path::Path;
use std::process::Command;

/// Where the kernel lists PTP hardware clocks.
const PTP: &str = "/sys/class/ptp";

/// What chrony says of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Tracking {
    /// Whom it follows.
    pub reference: String,
    /// How far that is from a clock of its own.
    pub stratum: u32,
    /// Largest error against UTC: offset, half the root delay and the root dispersion, in ns.
    pub bound_ns: u64,
    /// Its frequency error, in ppm.
    pub drift_ppm: f64,
    /// What may be left of that after its correction: residual frequency and skew, in ppm.
    pub growth_ppm: f64,
}

/// Names of the PTP clocks of this machine, like `ptp0 (KVM virtual PTP)`.
pub fn ptp_clocks() -> Vec<String> {
    hardware(Path::new(PTP))
}

fn hardware(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let name = |entry: std::fs::DirEntry| {
        let device = entry.file_name().to_string_lossy().into_owned();
        match std::fs::read_to_string(entry.path().join("clock_name")) {
            Ok(name) => format!("{device} ({})", name.trim()),
            Err(_) => device,
        }
    };
    let mut names: Vec<String> = entries.flatten().map(name).collect();
    names.sort();
    names
}

/// chrony's own client, which asks its daemon.
#[derive(Clone, Default, Debug)]
pub struct Chronyc {
    /// Where another daemon than the machine's is: options `-h` and `-p`.
    pub options: Vec<String>,
}

impl Chronyc {
    /// What chrony says, if it answers and is synchronised.
    pub fn tracking(&self) -> Option<Tracking> {
        let asked = Command::new("chronyc").args(&self.options).args(["-c", "tracking"]).output();
        let output = asked.ok().filter(|output| output.status.success())?;
        tracking(std::str::from_utf8(&output.stdout).ok()?)
    }
}

/// What the machine's chrony says, if it answers and is synchronised.
pub fn chrony() -> Option<Tracking> {
    Chronyc::default().tracking()
}

/// The fields of `chronyc -c tracking`: id, name, stratum, time, system offset, last offset, RMS
/// offset, frequency, residual, skew, root delay, root dispersion, interval, leap status.
fn tracking(line: &str) -> Option<Tracking> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok().filter(|n| n.is_finite());
    let stratum = fields.get(2)?.parse().ok()?;
    if stratum == 0 || fields.get(13).is_none_or(|leap| *leap == "Not synchronised") {
        return None;
    }
    let bound = number(4)?.abs() + number(10)? / 2.0 + number(11)?;
    Some(Tracking {
        reference: fields.get(1)?.to_string(),
        stratum,
        bound_ns: (bound * 1e9).clamp(0.0, 1e18).ceil() as u64,
        drift_ppm: number(7)?,
        growth_ppm: number(8)?.abs() + number(9)?.abs(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chrony_is_believed_only_when_it_is_synchronised() {
        let line = "A9FEA97B,169.254.169.123,4,1700000000.1,0.000002000,0.000001,0.000004,-12.5,\
                    0.001,0.03,0.000400000,0.000100000,16.1,Normal\n";
        let known = tracking(line).unwrap();
        assert_eq!((known.reference.as_str(), known.stratum), ("169.254.169.123", 4));
        assert!((known.bound_ns as i64 - 302_000).abs() <= 1 && known.drift_ppm == -12.5);
        assert!((known.growth_ppm - 0.031).abs() < 1e-9);
        assert_eq!(tracking(&line.replace("Normal", "Not synchronised")), None);
        for bad in ["", "a,b", "x,y,0,,,,,,,,,,,Normal", &line.replace("0.0001", "nan")] {
            assert_eq!(tracking(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_folder_means_no_hardware() {
        assert!(hardware(Path::new("there/is/none")).is_empty());
    }
}
