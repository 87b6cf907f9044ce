//! Every metric of a node but those of its process: what each is called and says. `docs/metrics.md` has the
//! same list with units and alerts, and a test keeps the two in step.

use monitoring::metric::{Kind, Metric};

macro_rules! metrics {
    ($($id:ident $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub(super) static $id: Metric =
                Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };
        )*
        /// Every metric of this table, in its order; `docs/metrics.md` lists the same.
        pub static ALL: &[&Metric] = &[$(&$id),*];
    };
}

metrics! {
    BUILD Gauge "fairbell_build_info" ["version"] "Always 1; its label says the version of the program";
    LOOP_AGE Gauge "fairbell_loop_figures_age_seconds" ["loop"] "How old the figures of a loop's nodes are";
    ALARMS Gauge "fairbell_alarms" [] "Alarms that stand";
    ALARM Gauge "fairbell_alarm" ["key"] "1 for each alarm that stands";

    INPUTS Counter "fairbell_inputs" ["node"] "Inputs of the log that the engine has applied";
    ACCEPTED Counter "fairbell_orders_accepted" ["node"] "New orders accepted";
    REPLACED Counter "fairbell_orders_replaced" ["node"] "Orders replaced";
    CANCELED Counter "fairbell_orders_canceled" ["node"] "Orders cancelled, in part or in full, because a participant asked";
    TOO_LATE Counter "fairbell_cancels_too_late" ["node"] "Cancels that named no open order of their account";
    REJECTED Counter "fairbell_orders_rejected" ["node", "reason"] "Orders and replaces that the engine refused";
    REPEATED Counter "fairbell_requests_repeated" ["node", "by"] "Requests that were known already and had no second effect";
    TRADES Counter "fairbell_trades" ["node", "symbol"] "Trades";
    LOTS Counter "fairbell_traded_lots" ["node", "symbol"] "Lots traded, each trade counted once";
    OPEN_ORDERS Gauge "fairbell_open_orders" ["node"] "Orders in the books";
    DAY_OPEN Gauge "fairbell_day_open" ["node"] "1 while a trading day is open";
    WAITING Gauge "fairbell_durability_lag_inputs" ["node"] "Inputs that wait at the root until they are durable";
    LOG_BYTES Gauge "fairbell_log_bytes" ["node"] "Bytes of the log in its spill file";
    STREAM_BYTES Gauge "fairbell_private_streams_bytes" ["node"] "Bytes of the private streams in their spill file";
    HELD_BACK Gauge "fairbell_orders_held_back" ["node"] "1 while orders wait because there is no room for the log";
    CAPACITY_USED Gauge "fairbell_capacity_used" ["node", "capacity"] "How much of a bounded capacity is in use";
    CAPACITY_BOUND Gauge "fairbell_capacity_bound" ["node", "capacity"] "How much of it there is";
    INGRESS Counter "fairbell_ingress_orders" ["node", "outcome"] "Orders that came to the root over the tree, by what became of them";
    SEQUENCED Counter "fairbell_sequenced_orders" ["node"] "Orders that left the sequencer";
    LATE_ORDERS Counter "fairbell_sequenced_late" ["node"] "Orders that left the sequencer after one that had come to its gateway later";
    SEQUENCER_FULL Counter "fairbell_sequencer_full" ["node"] "Orders refused because no slot of the sequencer was free";
    ROOT_MALFORMED Counter "fairbell_root_malformed" ["node"] "Datagrams that the root could not read";
    LOG_FULL Counter "fairbell_log_full" ["node"] "Inputs not taken because the log's reserve was full";
    DEAD_PROXIES Gauge "fairbell_dead_proxies" ["node"] "Proxies that do not answer and are routed around";
    TREE_EPOCH Gauge "fairbell_tree_epoch" ["node"] "Epoch of the tree";
    PUBLISHED Counter "fairbell_feed_messages" ["node", "stream"] "Messages of the feed published";
    PACKETS Counter "fairbell_feed_datagrams" ["node", "stream"] "Datagrams of the feed published, each once";
    DEADLINES Counter "fairbell_feed_deadlines" ["node", "stream"] "Datagrams of the feed that were given a deadline";
    REPAIR_REQUESTS Counter "fairbell_retransmission_requests" ["node", "from"] "Requests for messages of the feed again";
    REPAIR_ANSWERS Counter "fairbell_retransmission_answers" ["node", "from"] "Datagrams of the feed sent again";
    REPAIR_REFUSED Counter "fairbell_retransmission_refused" ["node", "reason"] "Requests for messages of the feed that were not answered";
    PRIVATE_SENT Counter "fairbell_private_records" ["node", "sent"] "Execution reports sent to gateways, for the first time or again";

    REPLICA_LEADING Gauge "fairbell_replica_leading" ["replica"] "1 while this replica of the root leads";
    REPLICA_LEADER Gauge "fairbell_replica_leader" ["replica"] "The replica that this one takes for the leader; 0: none";
    REPLICA_TERM Gauge "fairbell_replica_term" ["replica"] "The newest term that the replica knows";
    REPLICA_COMMITTED Gauge "fairbell_replica_committed_position" ["replica"] "Position of the group's log that is committed";
    REPLICA_LAST Gauge "fairbell_replica_last_position" ["replica"] "Last position of the replica's log";
    REPLICA_LAG Gauge "fairbell_replication_lag_positions" ["replica", "of"] "Positions of the leader's log that another replica lacks; told by the leader";
    REPLICA_WRITES Gauge "fairbell_replica_writes_waiting" ["replica"] "Writes of the replica that its disk has not answered";
    REPLICA_REFUSED Counter "fairbell_replica_messages_refused" ["replica"] "Messages of other replicas that could not be read or were not for this one";
    REPLICA_COMPARED Counter "fairbell_replica_digests_compared" ["replica"] "Positions at which most replicas had the same state";
    REPLICA_WAITS Gauge "fairbell_replica_in_doubt" ["replica"] "1 while the replica takes part in no election because its disk may lack what was acknowledged";

    SESSIONS Gauge "fairbell_sessions" ["node"] "Sessions of participants that are logged on";
    CONNECTIONS Gauge "fairbell_gateway_connections" ["node"] "Connections of a gateway, logged on or not";
    LOGINS Counter "fairbell_logins" ["node"] "Logins accepted";
    LOGINS_REFUSED Counter "fairbell_logins_refused" ["node"] "Logins refused";
    REQUESTS Counter "fairbell_gateway_requests" ["node"] "Requests of participants passed on to the exchange";
    REFUSED Counter "fairbell_gateway_requests_refused" ["node", "reason"] "Requests of participants that a gateway refused";
    REPORTS Counter "fairbell_gateway_reports" ["node"] "Messages sent to participants";
    OVERDUE Counter "fairbell_gateway_overdue" ["node"] "Executions told before their tick was public, after the longest hold";
    ENDED Counter "fairbell_sessions_ended" ["node", "reason"] "Sessions that a gateway ended";
    DISCONNECT_CANCELS Counter "fairbell_disconnect_cancels" ["node"] "Mass cancels sent because a session had ended";
    QUEUED Gauge "fairbell_gateway_queue_requests" ["node", "where"] "Requests that wait at a gateway for room upward, and those sent that are not known to be in the log";
    RESENT Counter "fairbell_uplink_resent" ["node"] "Copies of orders sent again upward";
    PARENT_CHANGES Counter "fairbell_uplink_parent_changes" ["node"] "Times that a gateway turned to another parent because of timeouts";
    GATEWAY_MALFORMED Counter "fairbell_gateway_malformed" ["node"] "Datagrams that a gateway could not read";

    RELEASED Counter "fairbell_released_messages" ["node"] "Messages of the feed that a receiver released";
    RELEASED_PACKETS Counter "fairbell_released_packets" ["node"] "Packets of the feed that a receiver released";
    LATE Counter "fairbell_released_late" ["node", "reason"] "Packets of the feed released after their deadline";
    HOLD Counter "fairbell_hold_seconds" ["node"] "Sum of the times from arrival to release";
    REPAIRS Counter "fairbell_receiver_repairs" ["node", "step"] "Repairs of a receiver: requests, datagrams that brought something new, datagrams that did not";
    SKIPPED Counter "fairbell_receiver_skipped_messages" ["node"] "Messages that a receiver passed over because it was too far behind";
    QUARANTINED Gauge "fairbell_receiver_in_quarantine" ["node"] "1 while nobody waits for a receiver because its clock claims too large an error";
    COPIES Counter "fairbell_tree_copies" ["node"] "Copies of datagrams of the feed that came through the tree";
    DUPLICATES Counter "fairbell_tree_duplicates" ["node"] "Of these, copies after the first";
    MISSING Counter "fairbell_tree_copies_missing" ["node"] "Copies that were due and did not come";
    FORWARDED Counter "fairbell_proxy_copies_sent" ["node"] "Copies of datagrams of the feed that a proxy sent";
    ORDERS_UP Counter "fairbell_proxy_orders" ["node"] "Orders that a proxy passed upward";
    PROXY_QUEUE Counter "fairbell_proxy_orders_shed" ["node"] "Orders that a proxy's queue refused";
    SEALED Counter "fairbell_link_sealed" ["node"] "Datagrams sealed";
    OPENED Counter "fairbell_link_opened" ["node"] "Sealed datagrams opened";
    LINK_REFUSED Counter "fairbell_link_refused" ["node"] "Datagrams refused: forged, replayed, forbidden or in clear";
    SNAPSHOTS Counter "fairbell_snapshots_sent" ["node"] "Snapshots of the books sent to their end";

    CLOCK_BOUND Gauge "fairbell_clock_bound_seconds" ["loop"] "Largest error that the nodes' clock claims";
    CLOCK_OFFSET Gauge "fairbell_clock_offset_seconds" ["loop"] "The nodes' clock less the machine's own";

    NET_IN Counter "fairbell_net_packets_received" ["loop"] "Packets taken from UDP sockets";
    NET_OUT Counter "fairbell_net_packets_sent" ["loop"] "Packets given to UDP sockets";
    NET_BYTES_IN Counter "fairbell_net_bytes_received" ["loop"] "Bytes of the packets taken";
    NET_BYTES_OUT Counter "fairbell_net_bytes_sent" ["loop"] "Bytes of the packets sent";
    NET_BLOCKED Counter "fairbell_net_packets_blocked" ["loop"] "Packets dropped because a socket's send buffer was full";
    NET_ERRORS Counter "fairbell_net_errors" ["loop"] "Packets that the kernel refused, and failed receives";
    NET_UNROUTABLE Counter "fairbell_net_unroutable" ["loop"] "Packets and connections to nobody's address";
    NET_WAIT Counter "fairbell_net_packet_wait_seconds" ["loop"] "Sum of how long packets with the kernel's stamp waited for their node";
    NET_STAMPED Counter "fairbell_net_packets_stamped" ["loop"] "Packets that the kernel stamped";
    NET_FILTERED Counter "fairbell_net_copies_filtered" ["loop"] "Duplicates dropped in front of the nodes by the data plane";
    TCP_ACCEPTED Counter "fairbell_connections_accepted" ["loop"] "Connections accepted";
    TCP_REFUSED Counter "fairbell_connections_refused" ["loop", "reason"] "Connections refused or cut";
    TLS Counter "fairbell_tls_handshakes" ["loop", "outcome"] "TLS handshakes";
    JOBS_DROPPED Counter "fairbell_jobs_dropped" ["loop"] "Work beside a loop that nobody took";
    TIMERS_LATE Counter "fairbell_timers_late_seconds" ["loop"] "Sum of how late timers were";
    TIMERS Counter "fairbell_timers" ["loop"] "Timers that fired";
    TRACES_DROPPED Counter "fairbell_traces_dropped" ["loop"] "Observations of datagrams dropped because their reader was slow";
    PLANE_COPIES Counter "fairbell_plane_datagrams" ["loop", "plane", "way"] "Datagrams sent by a data plane: cloned or framed by it, or by the socket";
    PLANE_DROPPED Counter "fairbell_plane_dropped" ["loop", "plane"] "Datagrams that a data plane's interface refused";

    FAIR_MESSAGES Gauge "fairbell_fairness_messages" ["outcome"] "Observed datagrams of the last span that all receivers released, and that some did not";
    OML Gauge "fairbell_fairness_oml_seconds" ["to", "quantile"] "From publication to the last receiver's arrival or release";
    DWS Gauge "fairbell_fairness_delivery_window_seconds" ["quantile"] "From the first receiver's release to the last one's";
    P_FAIR Gauge "fairbell_fairness_within_window_ratio" ["certainty"] "Share of datagrams released everywhere within the window of fairness";
    INVERTED Gauge "fairbell_fairness_inverted_orders" ["certainty"] "Orders of the last span handled after one that had come to a gateway later";
    ORDERS_SEEN Gauge "fairbell_fairness_orders" [] "Orders of the last span";
    WAY Histogram "fairbell_order_way_seconds" ["stream", "gateway"] "From a request's arrival at its gateway to its time in the log";

    STORE_BEHIND Gauge "fairbell_store_lag_records" [] "Records of the journal that are committed and not in the post-trade store";
    STORE_INPUTS Gauge "fairbell_store_inputs" [] "The last input of the log that the post-trade store has";

    WEB_CONNECTIONS Gauge "fairbell_web_connections" [] "Connections of the web door";
    WEB_ACCEPTED Counter "fairbell_web_connections_accepted" [] "Connections that the web door took";
    WEB_REFUSED Counter "fairbell_web_connections_refused" [] "Connections that the web door closed at once: there, or of their address, were too many";
    WEB_SOCKETS Gauge "fairbell_web_sockets" [] "WebSockets";
    WEB_SUBSCRIPTIONS Gauge "fairbell_web_subscriptions" [] "Channels that WebSockets are subscribed to, each symbol by itself";
    WEB_REQUESTS Counter "fairbell_web_requests" ["over", "class"] "Requests by the class of their answer's status: over HTTP, and as messages of WebSockets";
    WEB_NO_CREDITS Counter "fairbell_web_credits_refused" [] "Requests refused because a key or an address had no credits left";
    WEB_IN Counter "fairbell_web_bytes_received" [] "Bytes of requests, without TLS";
    WEB_OUT Counter "fairbell_web_bytes_sent" [] "Bytes of answers and updates, without TLS";
    WEB_SLOW Counter "fairbell_web_slow_readers" [] "Connections closed because their client took nothing for 10 s";
    WEB_RESYNCS Counter "fairbell_web_resyncs" [] "Times that a WebSocket was so far behind that it was told how everything stands";

    RECORDS Counter "fairbell_records" ["stream"] "Records of a stream that were given a number";
    RECORDS_DROPPED Counter "fairbell_records_dropped" ["stream"] "Of these, records lost because their place was away or slow";
    RECORDS_WRITTEN Counter "fairbell_records_written" ["stream"] "Of these, records that are in Redis or in files";
    RECORDS_UP Gauge "fairbell_records_place_up" [] "1 while the place of records takes them";
}
