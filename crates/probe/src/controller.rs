//! The controller: carries a [`Campaign`] out, one job at a time, by leaders.
//!
//! For each job it connects to the leader, gives the order, waits for the report and closes. A
//! leader that can't be reached, does not prove itself, refuses or is late ends the job as failed;
//! the campaign then goes on without it.

use core::net::SocketAddr;

use planner::campaign::{Campaign, Job, JobEnd, JobKind};
use types::{ClockReading, ConnId, Nanos, Node, Outbox, Peer};

use crate::agent::LEAD_NS;
use crate::link::{Key, Link, Nonces};
use crate::message::{Message, Order};

/// Time beyond a job's own, ns: for connecting, the drain at its end, and reporting.
const MARGIN_NS: u64 = 3 * Nanos::SECOND;

/// Controller of probing agents: it runs a campaign job by job.
#[derive(Debug)]
pub struct Controller {
    campaign: Campaign,
    /// Address of each VM's control channel, by the VM's number.
    addresses: Vec<SocketAddr>,
    key: Key,
    nonces: Nonces,
    active: Option<Active>,
    next_conn: u32,
    /// One line for people per job that was started.
    log: Vec<String>,
    finished: bool,
}

#[derive(Debug)]
struct Active {
    order: Order,
    conn: ConnId,
    link: Link,
    deadline: Nanos,
}

impl Controller {
    /// `addresses`: of every VM of the campaign. `entropy`: 32 bytes of the operating system's
    /// randomness.
    pub fn new(
        campaign: Campaign,
        addresses: Vec<SocketAddr>,
        key: Key,
        entropy: [u8; 32],
    ) -> Controller {
        Controller {
            campaign,
            addresses,
            key,
            nonces: Nonces::new(entropy),
            active: None,
            next_conn: 0,
            log: Vec::new(),
            finished: false,
        }
    }

    /// The campaign, as far as it has been run.
    pub fn campaign(&self) -> &Campaign {
        &self.campaign
    }

    /// The campaign, at its end.
    pub fn into_campaign(self) -> Campaign {
        self.campaign
    }

    /// Whether all jobs of the campaign have been run.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// One line for people per job that was started.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    fn begin(&mut self, now: Nanos, out: &mut Outbox) {
        let Some(job) = self.campaign.next_job() else {
            self.finished = true;
            return;
        };
        let Some((order, leader)) = self.order(&job) else {
            self.campaign.job_ended(JobEnd::Failed("the job names an unknown VM".to_string()));
            return;
        };
        let names = &self.campaign.results().names;
        let leader_name = job.members.first().and_then(|vm| names.get(*vm)).cloned();
        self.log.push(format!(
            "{:?} led by {}, {} members",
            job.kind,
            leader_name.unwrap_or_default(),
            job.members.len()
        ));
        let conn = ConnId(self.next_conn);
        self.next_conn = (self.next_conn + 1) & 0x7FFF_FFFF;
        let takes = LEAD_NS.saturating_add(order.duration_ns).saturating_add(order.gather_ns);
        let deadline = now.after(takes.saturating_add(MARGIN_NS));
        let link = Link::connect(&self.key, self.nonces.draw());
        self.active = Some(Active { order, conn, link, deadline });
        out.connect(conn, Peer::from(leader));
    }

    fn order(&mut self, job: &Job) -> Option<(Order, SocketAddr)> {
        let probes = self.campaign.results().experiment.probes;
        let address = |vm: &usize| self.addresses.get(*vm).copied();
        let members = job.members.iter().map(address).collect::<Option<Vec<SocketAddr>>>()?;
        let leader = *members.first()?;
        let ms = |ms: u32| u64::from(ms) * Nanos::MILLI;
        let length = match job.kind {
            JobKind::Mcast => probes.evaluation_ms,
            JobKind::Parent | JobKind::Lemon => probes.duration_ms,
        };
        let order = Order {
            job: self.nonces.draw_u64(),
            kind: job.kind,
            place: 0,
            members,
            vms: job.members.clone(),
            fanout: job.fanout,
            rate: probes.rate,
            duration_ns: ms(length),
            warmup_ns: ms(probes.warmup_ms),
            start_ns: 0,
            gather_ns: ms(probes.gather_ms),
        };
        Some((order, leader))
    }

    fn end(&mut self, now: Nanos, end: JobEnd, out: &mut Outbox) {
        if let Some(active) = self.active.take() {
            out.close(active.conn);
            self.campaign.job_ended(end);
            self.begin(now, out);
        }
    }

    /// The end of the job, when these bytes tell it.
    fn take(&mut self, conn: ConnId, bytes: &[u8], out: &mut Outbox) -> Option<JobEnd> {
        let active = self.active.as_mut().filter(|active| active.conn == conn)?;
        let was_open = active.link.is_open();
        let mut reply = Vec::new();
        if let Err(error) = active.link.take(bytes, &mut reply) {
            return Some(JobEnd::Failed(error.to_string()));
        }
        if !was_open && active.link.is_open() {
            active.link.send(&Message::Lead(active.order.clone()).encode(), &mut reply);
        }
        if !reply.is_empty() {
            let span = out.store(&reply);
            out.stream(conn, span);
        }
        let frame = match active.link.next_frame() {
            Ok(frame) => frame?,
            Err(error) => return Some(JobEnd::Failed(error.to_string())),
        };
        Some(match Message::decode(&frame) {
            Ok(Message::Done { job, report }) if job == active.order.job => {
                if report.heard.len() == active.order.members.len() {
                    JobEnd::Done(report)
                } else {
                    JobEnd::Failed("a report of another size".to_string())
                }
            }
            Ok(Message::Refused { why, .. }) => {
                let shown = why.chars().filter(|c| !c.is_control()).take(200);
                JobEnd::Failed(format!("refused: {}", shown.collect::<String>()))
            }
            Ok(_) => JobEnd::Failed("an answer to something else".to_string()),
            Err(why) => JobEnd::Failed(format!("not understood: {why}")),
        })
    }
}

impl Node for Controller {
    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        match &self.active {
            None if !self.finished => self.begin(now.now, out),
            Some(active) if now.now >= active.deadline => {
                self.end(now.now, JobEnd::Failed("no report in time".to_string()), out);
            }
            _ => {}
        }
    }

    fn next_timeout(&self) -> Nanos {
        match &self.active {
            Some(active) => active.deadline,
            None if self.finished => Nanos::NEVER,
            None => Nanos(0),
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        if let Some(end) = self.take(conn, bytes, out) {
            self.end(now.now, end, out);
        }
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if self.active.as_ref().is_some_and(|active| active.conn == conn) {
            // The stream is gone already: nothing to close.
            self.active = None;
            self.campaign.job_ended(JobEnd::Failed("not reached, or the connection broke".into()));
            self.begin(now.now, out);
        }
    }
}
