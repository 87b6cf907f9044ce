//! The process itself, under the names that Prometheus' own client libraries have for it: read from
//! `/proc/self` when it is asked for. What can't be read is left out.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::metric::{Kind, Metric, Samples};

const fn metric(name: &'static str, kind: Kind, help: &'static str) -> Metric {
    Metric { name, kind, labels: &[], help }
}

static CPU: Metric =
    metric("process_cpu_seconds", Kind::Counter, "Processor time of the process, in seconds");
static RESIDENT: Metric = metric(
    "process_resident_memory_bytes",
    Kind::Gauge,
    "Memory of the process that is in RAM, in bytes",
);
static VIRTUAL: Metric = metric(
    "process_virtual_memory_bytes",
    Kind::Gauge,
    "Addresses that the process has reserved, in bytes",
);
static OPEN: Metric = metric("process_open_fds", Kind::Gauge, "Open file descriptors");
static MOST: Metric = metric("process_max_fds", Kind::Gauge, "File descriptors that it may open");
static THREADS: Metric = metric("process_threads", Kind::Gauge, "Threads of the process");
static START: Metric = metric(
    "process_start_time_seconds",
    Kind::Gauge,
    "When the process started, in seconds since 1970",
);

/// The metrics of this module.
pub static ALL: &[&Metric] = &[&CPU, &RESIDENT, &VIRTUAL, &OPEN, &MOST, &THREADS, &START];

/// Ticks of a second in `/proc/self/stat`: the same on every Linux of today.
const TICKS_PER_S: f64 = 100.0;
/// Bytes of a page, where `/proc` counts in pages.
const PAGE: f64 = 4_096.0;

/// Adds what there is to say of this process. `started`: when, as [`now_s`] said then.
pub fn collect(samples: &mut Samples, started: f64) {
    samples.level(&START, [], started);
    if let Ok(stat) = fs::read_to_string("/proc/self/stat") {
        // The name in parentheses may have spaces.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<f64> =
            rest.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
        // By proc(5), less the three fields up to the state: 14 utime, 15 stime, 20 threads, 23 vsize, 24 rss.
        if let (Some(user), Some(system)) = (fields.get(11), fields.get(12)) {
            samples.sum(&CPU, [], (user + system) / TICKS_PER_S);
        }
        for (metric, at, unit) in [(&THREADS, 17, 1.0), (&VIRTUAL, 20, 1.0), (&RESIDENT, 21, PAGE)]
        {
            if let Some(value) = fields.get(at) {
                samples.level(metric, [], value * unit);
            }
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is the listing's own.
        samples.level(&OPEN, [], open.count().saturating_sub(1) as f64);
    }
    if let Ok(limits) = fs::read_to_string("/proc/self/limits") {
        let line = limits.lines().find(|line| line.starts_with("Max open files"));
        let most = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
        if let Some(most) = most {
            samples.level(&MOST, [], most);
        }
    }
}

/// Seconds since 1970.
pub fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_memory_descriptors_and_time() {
        let mut samples = Samples::default();
        let from = std::time::Instant::now();
        let mut spin = 0_u64;
        while from.elapsed().as_millis() < 30 {
            spin = spin.wrapping_mul(31).wrapping_add(1);
        }
        assert!(spin > 0);
        collect(&mut samples, now_s());
        let page = samples.page(&[]);
        let value = |name: &str| -> f64 {
            let line = page.lines().find(|line| line.starts_with(&format!("{name} ")));
            line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(-1.0)
        };
        assert!(value("process_cpu_seconds_total") > 0.0, "{page}");
        assert!(value("process_resident_memory_bytes") > 1e6, "{page}");
        assert!(value("process_open_fds") >= 3.0 && value("process_threads") >= 1.0, "{page}");
        assert!(value("process_max_fds") >= value("process_open_fds"), "{page}");
        assert_eq!(ALL.iter().filter(|of| value(&of.full_name()) >= 0.0).count(), ALL.len());
    }
}
