//! How orders come to the root: gateways and their lives, ingress, acknowledgements.

use overlay::ingress::{Ingress, IngressConfig};
use overlay::order_ack::AckScheduler;
use overlay::sequencer::SequencerConfig;
use overlay::topology::Tree;
use overlay::upstream_queue::PacingFeedback;
use types::{GatewayId, Incarnation, NodeId};

use crate::ExchangeConfig;

/// The way up, where it ends.
pub(super) struct Inbound {
    /// Where the gateways are, by number less one.
    pub(super) gateways: Vec<NodeId>,
    /// By gateway: the boot nonce that its present incarnation was granted for.
    pub(super) granted: Vec<Option<(u32, Incarnation)>>,
    /// Grants applied and not sent yet.
    pub(super) grants: Vec<(GatewayId, u32, Incarnation)>,
    pub(super) ingress: Ingress,
    pub(super) acks: AckScheduler,
    /// Tells proxies how their orders arrive, where these are paced.
    pub(super) feedback: Option<PacingFeedback>,
    /// More datagrams follow at once: what is due goes through when they are in.
    pub(super) more: bool,
}

impl Inbound {
    pub(super) fn new(config: &ExchangeConfig, tree: &Tree) -> Inbound {
        let gateways: Vec<NodeId> = tree.topology.receiver_ids().collect();
        let count = gateways.len();
        let options = &config.options;
        let usual = SequencerConfig::default();
        let mut sequencer = SequencerConfig {
            window_ns: config.sequencer_window_ns,
            late_ppm: options.late_ppm,
            window_max_ns: usual.window_max_ns.max(config.sequencer_window_ns),
            tie_ns: options.tie_ns,
            tie_seed: options.tie_seed(),
            ..usual
        };
        if config.outstanding == 0 {
            sequencer.quantum = 0;
        }
        Inbound {
            granted: vec![None; count + 1],
            grants: Vec::new(),
            ingress: Ingress::new(&IngressConfig {
                shard: config.shard.id,
                gateways: count,
                sequencer,
            }),
            acks: AckScheduler::new(ExchangeConfig::ROOT, tree.epoch, count),
            feedback: options.upstream.map(|_| PacingFeedback::new(options.credits())),
            gateways,
            more: false,
        }
    }

    /// Forgets what came: another root serves from now on.
    pub(super) fn forget(&mut self, epoch: u32) {
        self.ingress.clear();
        self.owe_all(epoch);
        self.more = false;
    }

    /// All gateways are owed an acknowledgement, whatever was told before.
    pub(super) fn owe_all(&mut self, epoch: u32) {
        self.acks = AckScheduler::new(ExchangeConfig::ROOT, epoch, self.gateways.len());
    }
}
