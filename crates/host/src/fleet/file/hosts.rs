//! Names and addresses that a node may be known by.

use wire::subscription::HOST_MAX;

use super::NodeEntry;

/// The key of a node's name or address that can't be one, and what is wrong with it.
pub(super) fn unfit(node: &NodeEntry) -> Option<(&'static str, String)> {
    let texts = [
        ("address", Some(&node.address)),
        ("also", node.also.as_ref()),
        ("public", node.public.as_ref()),
    ];
    texts.into_iter().find_map(|(key, text)| Some((key, wrong(text?)?)))
}

fn wrong(text: &str) -> Option<String> {
    let short: String = text.chars().take(HOST_MAX).collect();
    let is = match () {
        () if text.is_empty() => "is empty".to_string(),
        () if text.trim().is_empty() => "is blank".to_string(),
        () if !text.is_ascii() => format!("{short:?} is not ASCII"),
        () if text.len() > HOST_MAX => {
            format!("{short:?}... is too long, {} bytes of {HOST_MAX}", text.len())
        }
        () if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            format!("{short:?} has blanks or control characters in it")
        }
        () => return None,
    };
    Some(format!("{is}: a DNS name or an IP address is needed"))
}

#[cfg(test)]
mod tests {
    use super::super::NodeRole;
    use super::*;

    #[test]
    fn what_is_wrong_with_a_name_or_address_is_said_under_its_own_key() {
        let node = |address: &str| NodeEntry::new("edge-1", address, vec![NodeRole::Edge]);
        for (address, said) in [
            ("", "is empty"),
            (" \t", "is blank"),
            ("edge-\u{e9}.example", "is not ASCII"),
            ("edge 1", "blanks"),
            (&"e".repeat(HOST_MAX + 1), "too long, 65 bytes of 64"),
        ] {
            let (key, why) = unfit(&node(address)).expect("unfit");
            assert!(key == "address" && why.contains(said), "{key}: {why}");
            let public = Some(address.to_string());
            let of = NodeEntry { public, also: Some("fd00::1".to_string()), ..node("edge-1") };
            assert_eq!(unfit(&of).expect("unfit"), ("public", why.clone()));
            assert_eq!(
                unfit(&NodeEntry { also: of.public, ..node("edge-1") }),
                Some(("also", why))
            );
        }
        for good in ["edge-1", "10.0.0.1", "fd00::1", &"e".repeat(HOST_MAX)] {
            assert_eq!(unfit(&node(good)), None);
        }
    }
}
