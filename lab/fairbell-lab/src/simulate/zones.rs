//! `fairbell-lab sim zones`: where to put replicas when there are two zones.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sim::zones::{LAYOUTS, Latency, Loss, Options, Row, run as play};

use fairbell::options::duration;
use host::failure::Failure;

/// Options of `fairbell-lab sim zones`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab sim zones                    0.5, 5 and 35 ms from zone to zone\n  \
    fairbell-lab sim zones --far 2ms --sync 50us\n  \
    fairbell-lab sim zones --rate 1000 --json\n\n\
    Clients and leader are in zone A. For each way of placing a group: how long an order waits for\n\
    the copies that are counted, and what is left when either zone is gone.")]
pub struct ZonesArgs {
    /// One way between the zones; may be given again [default: 500us, 5ms, 35ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub far: Vec<Duration>,
    /// One way inside a zone
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "50us")]
    pub near: Duration,
    /// What a disk's sync takes
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "200us")]
    pub sync: Duration,
    /// Orders per second
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: u64,
    /// How long before a zone is lost, and after it
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub duration: Duration,
    /// Decides delays and timeouts
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Plays all layouts over all distances.
pub fn run(args: &ZonesArgs) -> Result<(), Failure> {
    let far = match &args.far[..] {
        [] => vec![Duration::from_micros(500), Duration::from_millis(5), Duration::from_millis(35)],
        given => given.to_vec(),
    };
    let ns = |time: Duration| time.as_nanos() as u64;
    if far.iter().any(|far| *far > Duration::from_secs(1)) || args.near > Duration::from_secs(1) {
        return Err(Failure::Usage("--far, --near: at most 1s".to_string()));
    }
    let mut documents = Vec::new();
    for far in far {
        let options = Options {
            seed: args.seed,
            rate: args.rate,
            duration_ns: ns(args.duration),
            near_ns: ns(args.near),
            far_ns: ns(far),
            sync_ns: ns(args.sync),
        };
        let rows: Vec<Row> = LAYOUTS.iter().map(|layout| play(*layout, &options)).collect();
        match args.json {
            true => documents.push(document(&options, &rows)),
            false => print(&options, &rows),
        }
    }
    if args.json {
        println!("{:#}", Value::from(documents));
    }
    Ok(())
}

fn ms(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e6)
}

fn print(options: &Options, rows: &[Row]) {
    println!(
        "zones {} ms apart one way, {} ms inside, a sync {} ms, {} orders/s (seed {})",
        ms(options.far_ns),
        ms(options.near_ns),
        ms(options.sync_ns),
        options.rate,
        options.seed
    );
    println!(
        "{:<24} {:>16} {:>26} {:>26}",
        "", "commit p50/p99 ms", "without A: serves, lost", "without B: serves, p50 ms"
    );
    for Row { layout, calm, without_a, without_b } in rows {
        let serves = |loss: &Loss| match loss.serves_after_ns {
            Some(ns) => format!("after {} ms", ms(ns)),
            None => "no".to_string(),
        };
        let after = match without_b.serves_after_ns {
            Some(_) => format!("yes, {}", ms(without_b.after.p50_ns)),
            None => "no".to_string(),
        };
        println!(
            "{:<24} {:>16} {:>26} {:>26}",
            layout.name,
            format!("{} / {}", ms(calm.p50_ns), ms(calm.p99_ns)),
            format!("{}, {} of {}", serves(without_a), without_a.missing, without_a.told),
            after,
        );
    }
    println!();
}

fn document(options: &Options, rows: &[Row]) -> Value {
    let latency = |of: &Latency| {
        json!({ "p50_ns": of.p50_ns, "p99_ns": of.p99_ns, "max_ns": of.max_ns,
                "records": of.records })
    };
    let loss = |of: &Loss| {
        json!({ "told": of.told, "missing": of.missing, "serves_after_ns": of.serves_after_ns,
                "after": latency(&of.after) })
    };
    let row = |row: &Row| {
        json!({ "layout": row.layout.name, "commit": latency(&row.calm),
                "without_a": loss(&row.without_a), "without_b": loss(&row.without_b) })
    };
    json!({
        "seed": options.seed,
        "rate_per_s": options.rate,
        "near_ns": options.near_ns,
        "far_ns": options.far_ns,
        "sync_ns": options.sync_ns,
        "layouts": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
