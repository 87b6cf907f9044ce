//! What a run says at its start.

use std::net::SocketAddr;

use host::config::Config;
use host::config::keys::FIX_ROLES;
use host::deployment::Addresses;

/// A layer of n nodes can hedge with n - 1 siblings at most.
pub fn hedge_cut(config: &Config, layers: &[u32]) -> Option<String> {
    let parents = layers.split_last().map_or(&[][..], |(_, parents)| parents);
    let most = parents.iter().max().map_or(0, |nodes| nodes.saturating_sub(1));
    let hedge = config.overlay.hedge;
    (hedge > most).then(|| format!("hedge {hedge} is more than this tree allows; it uses {most}"))
}

/// What a user needs to connect a client of their own.
pub fn welcome(config: &Config, addresses: &Addresses) -> String {
    let all = |addresses: &[SocketAddr]| {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let guests = || config.accounts.0.iter().skip(config.flow.participants as usize);
    let login =
        guests().find(|guest| guest.fix_comp_id.is_empty()).map_or_else(String::new, |guest| {
            format!("\n  login: user {} password {}", guest.username, shown(&guest.password))
        });
    // The first session of each kind.
    let fix_login = FIX_ROLES.iter().filter_map(|role| {
        let guest =
            guests().find(|guest| guest.fix_role == *role && !guest.fix_comp_id.is_empty())?;
        let (comp_id, own) = (&guest.fix_comp_id, &config.gateway.fix_comp_id);
        let (version, password) = (&guest.fix_version, shown(&guest.password));
        let said = format!("sender {comp_id} target {own} password {password}");
        Some(format!("\n  FIX {version}, {role}: {said}"))
    });
    let fix_login = fix_login.collect::<String>();
    let fix = all(&addresses.fix);
    let tls = if config.doors.tls() { ", TLS 1.3" } else { "" };
    format!(
        "OUCH 5.0 over SoupBinTCP{tls}: {}{login}\n\
         FIX{tls}: {fix}{fix_login}\n\
         ITCH 5.0 over MoldUDP64, as receiver 1 releases it: listen on UDP {}, take it from {}\n\
         MoldUDP64 retransmission: {}\n\
         Book snapshots over SoupBinTCP: {}\n\
         Subscriptions to the feed over SoupBinTCP{tls}: {}",
        all(&addresses.gateways),
        addresses.feed_copy,
        addresses.feed_from,
        all(&addresses.retransmission),
        addresses.snapshots,
        all(&addresses.subscriptions),
    )
}

/// A password for the eyes of whoever tries it out.
fn shown(password: &str) -> &str {
    if password.is_empty() { "(hashed)" } else { password }
}
