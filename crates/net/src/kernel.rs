//! Datagrams the kernel dropped because a receive buffer was full.
//!
//! The loop cannot see them: `/proc/net/udp` and `udp6` count them per socket while it is open.

use std::fs;

/// Datagrams dropped so far at the UDP sockets bound to these ports, of both versions of IP, summed. Reads
/// files of `/proc`: for reports, not for every turn.
///
/// # Errors
/// When `/proc/net/udp` can't be read; that of IPv6 is not there where the kernel has none.
pub fn kernel_drops(ports: &[u16]) -> std::io::Result<u64> {
    let mut table = fs::read_to_string("/proc/net/udp")?;
    table += &fs::read_to_string("/proc/net/udp6").unwrap_or_default();
    Ok(table
        .lines()
        .filter_map(parse_line)
        .filter(|(port, _)| ports.contains(port))
        .map(|(_, drops)| drops)
        .sum())
}

/// Local port and drop count of a line such as
/// `12: 0100007F:1F90 00000000:0000 07 ... 0`; `None` for the header and for anything else.
fn parse_line(line: &str) -> Option<(u16, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let port = u16::from_str_radix(local.split_once(':')?.1, 16).ok()?;
    let drops = fields.next_back()?.parse().ok()?;
    Some((port, drops))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_the_table() {
        let line = "  12: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                    0 0 900 2 ffff8 17";
        assert_eq!(parse_line(line), Some((8080, 17)));
        assert_eq!(parse_line("  sl  local_address rem_address   st tx_queue drops"), None);
    }

    #[test]
    fn counts_drops_of_a_full_socket() {
        for on in ["127.0.0.1:0", "[::1]:0"] {
            let receiver = UdpSocket::bind(on).expect("a socket");
            let to = receiver.local_addr().expect("its address");
            let sender = UdpSocket::bind(on).expect("a socket");
            for _ in 0..5_000 {
                sender.send_to(&[0; 1_000], to).expect("loopback takes it");
            }
            assert!(kernel_drops(&[to.port()]).expect("proc") > 0, "{on}");
        }
        assert_eq!(kernel_drops(&[]).expect("proc"), 0);
    }

    proptest! {
        #[test]
        fn never_panics(line in ".{0,120}") {
            let _ = parse_line(&line);
        }
    }
}
