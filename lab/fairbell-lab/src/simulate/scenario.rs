//! Scenario files: a network, faults, participants and a length, as TOML. One complaint is one
//! line that names file, line and key.

use std::path::Path;

use exchange::Spread;
use overlay::membership::RollCallConfig;
use sim::cloud::link::Profile;
use sim::venue::{FaultKind, FaultSpec, Scenario};
use sim::{Bursts, LinkModel, PathQueue, Weather};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use types::Nanos;

use fairbell::options::shell_word;
use host::failure::Failure;

/// Requests that a run may have: the input log holds no more.
const REQUESTS_MAX: u64 = 50_000;
/// Instruments of every run.
const INSTRUMENTS: u64 = 3;

/// Sections and their keys.
const KEYS: [(&str, &[&str]); 6] = [
    ("", &["network", "clocks", "exchange", "participants", "fault"]),
    (
        "network",
        &[
            "profile",
            "delays",
            "loss_permille",
            "duplicate_permille",
            "reorder_permille",
            "reorder",
            "spatial_sigma",
            "egress",
            "stragglers",
            "straggler_factor",
            "slow_proxy",
            "burst_every",
            "burst_length",
            "burst_extra",
            "queue_service",
            "queue_limit",
        ],
    ),
    ("clocks", &["bound", "wrong_permille"]),
    (
        "exchange",
        &[
            "depth",
            "fanout",
            "receivers",
            "hedge",
            "planes",
            "plane_use",
            "order_ways",
            "standby",
            "replicas",
            "delay_cap",
            "auctions",
            "special_orders",
        ],
    ),
    ("participants", &["count", "rate", "orders", "duration"]),
    ("fault", &["kind", "at", "for", "node", "offset"]),
];

type Table<'d> = DeTable<'d>;
type Value<'d> = Spanned<DeValue<'d>>;

/// Reads a file; its replay command is part of the scenario.
pub(super) fn file(path: &Path) -> Result<Scenario, Failure> {
    let name = path.display().to_string();
    let text = read(path, &name)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut scenario = parse(&name, &text, &|delays| {
        let path = folder.join(delays);
        read(&path, &path.display().to_string())
    })?;
    scenario.command = format!("fairbell-lab sim --scenario {}", shell_word(&name));
    Ok(scenario)
}

fn read(path: &Path, name: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("{name}: cannot be read: {error}")))
}

/// Reads `text`; `name` stands for the file in complaints, `load` reads the file of delays.
pub(super) fn parse(
    name: &str,
    text: &str,
    load: &dyn Fn(&str) -> Result<String, Failure>,
) -> Result<Scenario, Failure> {
    let source = Source { name, text };
    let document = DeTable::parse(text).map_err(|error| {
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        source.complaint(error.span().map_or(0, |span| span.start), &message)
    })?;
    let document = document.get_ref();
    known(&source, "", document)?;
    let mut scenario = Scenario { faults: Some(Vec::new()), ..Scenario::default() };
    let section = |key: &'static str| -> Result<Section<'_>, Failure> {
        let table = match document.get(key) {
            None => None,
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => Some(table),
                _ => return Err(source.at(value, key, "must be a table")),
            },
        };
        if let Some(table) = table {
            known(&source, key, table)?;
        }
        Ok(Section { source: &source, name: key, table })
    };
    exchange(&section("exchange")?, &mut scenario)?;
    network(&section("network")?, load, &mut scenario)?;
    clocks(&section("clocks")?, &mut scenario)?;
    participants(&section("participants")?, &mut scenario)?;
    if let Some(value) = document.get("fault") {
        let DeValue::Array(list) = value.get_ref() else {
            return Err(source.at(value, "fault", "must be a list of tables, [[fault]]"));
        };
        for entry in list.iter() {
            let DeValue::Table(table) = entry.get_ref() else {
                return Err(source.at(entry, "fault", "must be a table"));
            };
            known(&source, "fault", table)?;
            let section = Section { source: &source, name: "fault", table: Some(table) };
            let fault = fault(&section, entry, &scenario)?;
            scenario.faults.get_or_insert_default().push(fault);
        }
    }
    Ok(scenario)
}

struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn complaint(&self, at: usize, what: &str) -> Failure {
        let line = self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        Failure::Usage(format!("{}:{line}: {what}", self.name))
    }

    fn at<T>(&self, value: &Spanned<T>, key: &str, what: &str) -> Failure {
        self.complaint(value.span().start, &format!("{key}: {what}"))
    }
}

/// Complains about the first key nobody knows.
fn known(source: &Source<'_>, section: &str, table: &Table<'_>) -> Result<(), Failure> {
    let keys = KEYS.iter().find(|(name, _)| *name == section).map_or(&[][..], |(_, keys)| keys);
    for name in table.keys() {
        if !keys.contains(&name.get_ref().as_ref()) {
            let dot = if section.is_empty() { "" } else { "." };
            let shown = format!("{section}{dot}{}", name.get_ref());
            let what = format!("unknown; there are: {}", keys.join(", "));
            return Err(source.at(name, &shown, &what));
        }
    }
    Ok(())
}

/// A section of the file, perhaps missing.
struct Section<'a> {
    source: &'a Source<'a>,
    name: &'static str,
    table: Option<&'a Table<'a>>,
}

impl<'a> Section<'a> {
    fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        self.table?.get(key)
    }

    fn complaint(&self, key: &str, value: &Value<'_>, what: &str) -> Failure {
        self.source.at(value, &format!("{}.{key}", self.name), what)
    }

    fn signed(&self, key: &str, least: i64, most: i64) -> Result<Option<i64>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok(),
            _ => None,
        };
        let found = number.filter(|number| (least..=most).contains(number));
        let what = format!("must be a whole number, {least}..={most}");
        found.map(Some).ok_or_else(|| self.complaint(key, value, &what))
    }

    fn whole(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, Failure> {
        Ok(self.signed(key, least as i64, most as i64)?.map(|number| number as u64))
    }

    fn decimal(&self, key: &str, least: f64, most: f64) -> Result<Option<f64>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number: Option<f64> = match value.get_ref() {
            DeValue::Integer(n) => n.as_str().parse().ok(),
            DeValue::Float(x) => x.as_str().parse().ok(),
            _ => None,
        };
        let found = number.filter(|number| (least..=most).contains(number));
        let what = format!("must be a number, {least}..={most}");
        found.map(Some).ok_or_else(|| self.complaint(key, value, &what))
    }

    fn switch(&self, key: &str) -> Result<Option<bool>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(on) => Ok(Some(*on)),
            _ => Err(self.complaint(key, value, "must be true or false")),
        }
    }

    fn text(&self, key: &str) -> Result<Option<(&'a Value<'a>, &'a str)>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some((value, text.as_ref()))),
            _ => Err(self.complaint(key, value, "must be text in quotes")),
        }
    }

    /// Nanoseconds.
    fn time(&self, key: &str) -> Result<Option<u64>, Failure> {
        let Some((value, text)) = self.text(key)? else { return Ok(None) };
        let ns = fairbell::options::duration(text).map(|time| time.as_nanos() as u64);
        ns.map(Some).map_err(|what| self.complaint(key, value, &what))
    }
}

fn exchange(section: &Section<'_>, scenario: &mut Scenario) -> Result<(), Failure> {
    let size = |key, least, most, now: usize| -> Result<usize, Failure> {
        Ok(section.whole(key, least, most)?.map_or(now, |n| n as usize))
    };
    scenario.depth = size("depth", 1, 4, scenario.depth)?;
    scenario.fanout = size("fanout", 1, 32, scenario.fanout)?;
    scenario.receivers = size("receivers", 1, 64, scenario.receivers)?;
    scenario.hedge = size("hedge", 0, 4, scenario.hedge)?;
    let options = &mut scenario.options;
    options.hedging.planes = size("planes", 1, 4, 1)? as u16;
    options.order_ways = size("order_ways", 1, 4, 1)?;
    options.standby = size("standby", 0, 8, 0)? as u16;
    if options.standby > 0 {
        // Nobody but a root that watches can put one of them into the tree.
        options.roll_call = Some(RollCallConfig::default());
    }
    scenario.replicas = replicas(section)?;
    match section.text("plane_use")? {
        None | Some((_, "messages")) => {}
        Some((_, "symbols")) => options.spread = Spread::Symbols(Vec::new()),
        Some((value, _)) => {
            let what = "there are: messages, symbols";
            return Err(section.complaint("plane_use", value, what));
        }
    }
    scenario.delay_cap_ns = section.time("delay_cap")?.unwrap_or(scenario.delay_cap_ns);
    scenario.auctions_every = u64::from(section.switch("auctions")?.unwrap_or(false));
    scenario.specials_every = u64::from(section.switch("special_orders")?.unwrap_or(false));
    Ok(())
}

/// Roots that serve in turn; 0: there is one. What a run of several does not have is refused.
fn replicas(section: &Section<'_>) -> Result<u8, Failure> {
    let Some(value) = section.get("replicas") else { return Ok(0) };
    let Some(count) = section.whole("replicas", 0, 63)?.filter(|count| [3, 5].contains(count))
    else {
        return Err(section.complaint("replicas", value, "must be 3 or 5"));
    };
    let what = "not where several roots serve in turn";
    for (key, asked) in [
        ("auctions", section.switch("auctions")?.unwrap_or(false)),
        ("standby", section.whole("standby", 0, 8)?.unwrap_or(0) > 0),
    ] {
        if asked {
            return Err(section.complaint(key, section.get(key).unwrap_or(value), what));
        }
    }
    Ok(count as u8)
}

fn network(
    section: &Section<'_>,
    load: &dyn Fn(&str) -> Result<String, Failure>,
    scenario: &mut Scenario,
) -> Result<(), Failure> {
    let profile = match section.text("profile")? {
        None => Profile::table1(),
        Some((value, "empirical")) => {
            let Some((_, file)) = section.text("delays")? else {
                let what = "empirical needs network.delays, a file of one delay in ns a line";
                return Err(section.complaint("profile", value, what));
            };
            Profile::empirical(&load(file)?)
                .map_err(|line| Failure::Usage(format!("{file}:{line}: holds no delay in ns")))?
        }
        Some((value, name)) => Profile::named(name).ok_or_else(|| {
            let what = "there are: table1, standard, gcp-like, ideal, empirical";
            section.complaint("profile", value, what)
        })?,
    };
    let permille =
        |key, now| Ok::<u16, Failure>(section.whole(key, 0, 1_000)?.map_or(now, |n| n as u16));
    scenario.link = LinkModel {
        base_ns: profile.base_ns as u64,
        jitter_ns: profile.median_ns as u64,
        jitter_sigma: profile.sigma,
        loss_permille: permille("loss_permille", (profile.loss_ppm / 1_000) as u16)?,
        duplicate_permille: permille("duplicate_permille", 0)?,
        reorder_permille: permille("reorder_permille", 0)?,
        reorder_ns: section.time("reorder")?.unwrap_or(Nanos::MILLI),
    };
    let measured = profile.measured.iter().flatten();
    scenario.measured_ns = measured.map(|ns| u64::from(*ns)).collect();
    scenario.egress_ns = section.time("egress")?.unwrap_or(profile.copy_ns);
    let spatial_sigma = section.decimal("spatial_sigma", 0.0, 2.0)?;
    let every_ns = section.time("burst_every")?;
    let usual = profile.spikes.map(|spikes| Bursts {
        every_ns: spikes.every_ns as u64,
        length_ns: spikes.length_ns as u64,
        extra_ns: spikes.extra_ns as u64,
    });
    let length_ns = section.time("burst_length")?;
    let extra_ns = section.time("burst_extra")?;
    let bursts = (every_ns.is_some() || usual.is_some()).then(|| Bursts {
        every_ns: every_ns.or(usual.map(|b| b.every_ns)).unwrap_or_default(),
        length_ns: length_ns.or(usual.map(|b| b.length_ns)).unwrap_or(5 * Nanos::MILLI),
        extra_ns: extra_ns.or(usual.map(|b| b.extra_ns)).unwrap_or(300 * Nanos::MICRO),
    });
    let limit_ns = section.time("queue_limit")?.unwrap_or(Nanos::MILLI);
    let service_ns = section.time("queue_service")?;
    let queue = service_ns.map(|service_ns| PathQueue { service_ns, limit_ns });
    let spatial_sigma = spatial_sigma.unwrap_or(profile.spatial_sigma);
    scenario.weather = Weather { spatial_sigma, bursts, queue };
    let usual = scenario.receivers as u64 * u64::from(profile.straggler_ppm) / 1_000_000;
    scenario.stragglers = section.whole("stragglers", 0, 64)?.unwrap_or(usual) as usize;
    scenario.slow_proxy = section.whole("slow_proxy", 0, 63)?.map(|n| n as usize);
    let proxies = scenario.proxies();
    if let Some(value) = section.get("slow_proxy").filter(|_| scenario.slow_proxy >= Some(proxies))
    {
        let what = format!("there are {proxies} proxies, from 0 on");
        return Err(section.complaint("slow_proxy", value, &what));
    }
    let factor = section.decimal("straggler_factor", 1.0, 100.0)?;
    let factor = factor.unwrap_or(1.0 + profile.straggler_extra);
    scenario.straggler_permille = (factor * 1_000.0) as u64;
    // Beyond the 99th percentile errors are cut off at one and a half times that.
    if profile.clock_error_ns > 0.0 {
        scenario.clock_bound_ns = (1.5 * profile.clock_error_ns) as u64;
    }
    Ok(())
}

fn clocks(section: &Section<'_>, scenario: &mut Scenario) -> Result<(), Failure> {
    scenario.clock_bound_ns = section.time("bound")?.unwrap_or(scenario.clock_bound_ns);
    let wrong = section.whole("wrong_permille", 0, 1_000)?;
    scenario.wrong_clocks_permille = wrong.unwrap_or(scenario.wrong_clocks_permille);
    Ok(())
}

fn participants(section: &Section<'_>, scenario: &mut Scenario) -> Result<(), Failure> {
    let count = section.whole("count", 2, 64)?;
    scenario.participants = count.map_or(scenario.participants, |n| n as u8);
    let rate = section.whole("rate", 1, 20_000)?;
    scenario.rate_per_s = rate.unwrap_or(scenario.rate_per_s);
    let orders = section.whole("orders", 10, REQUESTS_MAX / 2)?;
    scenario.orders = orders.unwrap_or(scenario.orders);
    scenario.duration_ns = section.time("duration")?;
    let Some(duration_ns) = scenario.duration_ns else { return Ok(()) };
    if let Some(value) = section.get("orders") {
        let what = "the length is given by orders or by duration, not by both";
        return Err(section.complaint("orders", value, what));
    }
    let requests = INSTRUMENTS * scenario.rate_per_s * duration_ns.div_ceil(Nanos::MILLI) / 1_000;
    if requests > REQUESTS_MAX {
        let Some(value) = section.get("duration") else { return Ok(()) };
        let what = format!("makes {requests} requests at this rate, at most {REQUESTS_MAX}");
        return Err(section.complaint("duration", value, &what));
    }
    scenario.orders = requests.max(10);
    Ok(())
}

fn fault(
    section: &Section<'_>,
    entry: &Value<'_>,
    scenario: &Scenario,
) -> Result<FaultSpec, Failure> {
    let Some((value, name)) = section.text("kind")? else {
        return Err(section.source.at(entry, "fault.kind", "is missing"));
    };
    let Some(kind) = FaultKind::named(name) else {
        let names: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
        return Err(section.complaint("kind", value, &format!("there are: {}", names.join(", "))));
    };
    let bound = (scenario.clock_bound_ns * 7 / 10) as i64;
    let fault = FaultSpec {
        kind,
        at_ns: section.time("at")?,
        for_ns: section.time("for")?,
        node: section.whole("node", 0, 63)?.map(|node| node as usize),
        offset_ns: section.signed("offset", -bound, bound)?,
    };
    match fault.complaint(scenario) {
        None => Ok(fault),
        Some((key, what)) => Err(section.complaint(key, section.get(key).unwrap_or(value), &what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Scenario, Failure> {
        parse("x.toml", text, &|file| match file {
            "delays.txt" => Ok("30000\n10000 # ns\n".to_string()),
            _ => Err(Failure::Usage(format!("{file}: cannot be read"))),
        })
    }

    #[test]
    fn everything_reaches_the_scenario() {
        let text = "[network]\nprofile = \"standard\"\nloss_permille = 20\nburst_every = \"50ms\"\n\
            queue_service = \"2us\"\nstragglers = 2\nstraggler_factor = 2.5\n\
            [clocks]\nbound = \"9us\"\n[exchange]\ndepth = 3\nreceivers = 12\nauctions = true\n\
            planes = 2\nplane_use = \"symbols\"\norder_ways = 2\n\
            [participants]\ncount = 5\nrate = 100\nduration = \"2s\"\n\
            [[fault]]\nkind = \"kill-proxy\"\nat = \"300ms\"\nnode = 1\n\
            [[fault]]\nkind = \"clock-step\"\noffset = -5000\n";
        let scenario = read(text).unwrap();
        assert_eq!((scenario.link.loss_permille, scenario.stragglers), (20, 2));
        assert_eq!(scenario.straggler_permille, 2_500);
        assert_eq!(scenario.weather.bursts.unwrap().every_ns, 50_000_000);
        assert_eq!(scenario.weather.queue.unwrap().service_ns, 2_000);
        assert_eq!((scenario.depth, scenario.receivers, scenario.auctions_every), (3, 12, 1));
        assert_eq!((scenario.clock_bound_ns, scenario.participants), (9_000, 5));
        assert_eq!((scenario.duration_ns, scenario.orders), (Some(2_000_000_000), 600));
        assert_eq!((scenario.options.streams(), scenario.options.order_ways), (2, 2));
        let faults = scenario.faults.unwrap();
        assert_eq!((faults[0].at_ns, faults[0].node), (Some(300_000_000), Some(1)));
        assert_eq!(faults[1].offset_ns, Some(-5_000));
        let measured = read("[network]\nprofile = \"empirical\"\ndelays = \"delays.txt\"").unwrap();
        assert_eq!(measured.measured_ns, [10_000, 30_000]);
        assert_eq!(read("").unwrap().faults, Some(Vec::new()));
        let replicas =
            "[exchange]\nreplicas = 3\n[[fault]]\nkind = \"pause-replica\"\nfor = \"9ms\"";
        let scenario = read(replicas).unwrap();
        assert_eq!((scenario.replicas, scenario.faults.unwrap()[0].for_ns), (3, Some(9_000_000)));
    }

    #[test]
    fn complaints_name_line_and_key() {
        let cases = [
            ("[network]\nprofile = \"azure\"", "x.toml:2: network.profile: there are: table1"),
            ("[network]\n\nloss = 3", "x.toml:3: network.loss: unknown; there are: profile"),
            ("[net]\n", "x.toml:1: net: unknown; there are: network"),
            ("network = 3", "x.toml:1: network: must be a table"),
            ("[network]\nloss_permille = 2000", "x.toml:2: network.loss_permille: must be a whole"),
            ("[network]\nreorder = \"5\"", "x.toml:2: network.reorder: write a whole number"),
            ("[network]\nspatial_sigma = \"a\"", "x.toml:2: network.spatial_sigma: must be a num"),
            ("[network]\nprofile = \"empirical\"", "x.toml:2: network.profile: empirical needs"),
            ("[exchange]\nauctions = 1", "x.toml:2: exchange.auctions: must be true or false"),
            (
                "[exchange]\nplane_use = \"fun\"",
                "x.toml:2: exchange.plane_use: there are: messages",
            ),
            ("[participants]\nrate = 1\norders = 20\nduration = \"1s\"", "x.toml:3: participants"),
            ("[participants]\nrate = 20000\nduration = \"1m\"", "x.toml:3: participants.duration"),
            ("[[fault]]\nat = \"1s\"", "x.toml:1: fault.kind: is missing"),
            ("[[fault]]\nkind = \"flood\"", "x.toml:2: fault.kind: there are: kill-proxy"),
            ("[[fault]]\nkind = \"clock-step\"\noffset = 20000", "x.toml:3: fault.offset: must be"),
            (
                "[participants]\nduration = \"300ms\"\n[[fault]]\nkind = \"restart-proxy\"\nat = \"300ms\"",
                "x.toml:5: fault.at: must be before the end of the flow, 300ms",
            ),
            (
                "[exchange]\ndepth = 2\nfanout = 3\n[[fault]]\nkind = \"kill-proxy\"\nnode = 3",
                "x.toml:6: fault.node: there are 3 proxies, from 0 on",
            ),
            (
                "[exchange]\nreceivers = 5\n[[fault]]\nkind = \"pause-edge\"\nnode = 50",
                "x.toml:5: fault.node: there are 5 receivers, from 0 on",
            ),
            (
                "[exchange]\nreceivers = 5\n[[fault]]\nkind = \"isolation\"\nnode = 5",
                "x.toml:5: fault.node: there are 5 receivers, from 0 on",
            ),
            (
                "[[fault]]\nkind = \"partition\"\nnode = 60",
                "x.toml:3: fault.node: there are 9 receivers, from 0 on",
            ),
            (
                "[exchange]\nstandby = 2\n[[fault]]\nkind = \"replace-proxy\"\nnode = 3",
                "x.toml:5: fault.node: there are 3 proxies, from 0 on",
            ),
            (
                "[[fault]]\nkind = \"replace-proxy\"\nnode = 1",
                "x.toml:2: fault.kind: no proxy stands by, set exchange.standby",
            ),
            (
                "[exchange]\nstandby = 1\nplanes = 2\nplane_use = \"symbols\"\n\
                 [[fault]]\nkind = \"replace-proxy\"",
                "x.toml:6: fault.kind: none is replaced where symbols are spread over planes",
            ),
            (
                "[exchange]\ndepth = 1\nreceivers = 3\n[[fault]]\nkind = \"kill-proxy\"",
                "x.toml:5: fault.kind: there are no proxies, set exchange.depth",
            ),
            (
                "[[fault]]\nkind = \"crash-leader\"",
                "x.toml:2: fault.kind: there is one root, set exchange.replicas",
            ),
            (
                "[[fault]]\nkind = \"spoil-disk\"\nat = \"1ms\"",
                "x.toml:2: fault.kind: there is one root, set exchange.replicas",
            ),
            (
                "[exchange]\nreplicas = 3\n[[fault]]\nkind = \"crash-replica\"\nnode = 2",
                "x.toml:5: fault.node: a crash-replica has none to choose",
            ),
            ("[exchange]\nreplicas = 4", "x.toml:2: exchange.replicas: must be 3 or 5"),
            (
                "[exchange]\nauctions = true\nreplicas = 3",
                "x.toml:2: exchange.auctions: not where several roots serve in turn",
            ),
            (
                "[exchange]\nstandby = 1\nreplicas = 3",
                "x.toml:2: exchange.standby: not where several roots serve in turn",
            ),
            (
                "[network]\nslow_proxy = 3",
                "x.toml:2: network.slow_proxy: there are 3 proxies, from 0 on",
            ),
            (
                "[[fault]]\nkind = \"cut-all\"\nfor = \"1ms\"",
                "x.toml:3: fault.for: a cut-all has no length",
            ),
            (
                "[[fault]]\nkind = \"pause-root\"\noffset = 5",
                "x.toml:3: fault.offset: of a clock-step only",
            ),
            (
                "[[fault]]\nkind = \"cut-all\"\nnode = 0",
                "x.toml:3: fault.node: a cut-all has none to choose",
            ),
            ("a = = 1", "x.toml:1: "),
        ];
        for (text, expected) in cases {
            let failure = read(text).expect_err(text);
            assert!(failure.to_string().starts_with(expected), "{text}: {failure}");
            assert_eq!((failure.exit_code(), failure.to_string().lines().count()), (2, 1));
        }
    }

    #[test]
    fn a_file_may_have_several_roots_and_faults_of_theirs() {
        let text = "[exchange]\nreceivers = 4\nreplicas = 3\n[participants]\norders = 200\n\
            [[fault]]\nkind = \"crash-leader\"\nat = \"20ms\"\n\
            [[fault]]\nkind = \"pause-replica\"\nat = \"60ms\"\nfor = \"30ms\"\n\
            [[fault]]\nkind = \"cut-replica\"\n";
        let scenario = read(text).unwrap();
        for seed in 0..3 {
            let report = sim::venue::run_seed(seed, &scenario);
            assert!(report.failures.is_empty(), "{report}");
            let seen = &report.figures;
            let struck = (seen.leader_crashes, seen.replica_pauses, seen.replicas_cut_off);
            assert_eq!(struck, (1, 1, 1), "seed {seed}");
        }
    }

    #[test]
    fn the_examples_are_sound() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                file(&path).unwrap();
                count += 1;
            }
        }
        assert!(count >= 4);
    }
}
