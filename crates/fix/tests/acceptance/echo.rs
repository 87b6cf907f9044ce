//! The application of the scripts: sends orders and security definitions back, fields sorted by
//! tag; ignores what is possibly resent and has been seen; knows no other message.

use std::collections::BTreeSet;

use fix::Message;
use fix::session::{Application, MsgType, Port, Proof, Store};
use fix::tag;
use types::Nanos;

/// Standard header and trailer, which are not sent back.
const HEADER: &[i32] =
    &[8, 9, 35, 34, 43, 49, 50, 52, 56, 57, 97, 115, 116, 122, 128, 129, 142, 143, 144, 145, 1128];

/// Remembers identifiers of orders.
#[derive(Default)]
pub struct Echo {
    seen: BTreeSet<Vec<u8>>,
}

impl Application for Echo {
    fn logon(&mut self, _: usize, _: &Message<'_>) -> Proof {
        Proof::Right
    }

    fn message<S: Store>(
        &mut self,
        _: usize,
        _: Nanos,
        message: &Message<'_>,
        port: &mut Port<'_, S>,
    ) {
        let msg_type = message.msg_type();
        let kind = MsgType::of(msg_type).unwrap();
        if msg_type != b"D" && msg_type != b"d" {
            return unsupported(message, port);
        }
        let resent = message.flag(tag::POSS_RESEND.number);
        if let Some(id) = message.get(tag::CL_ORD_ID.number)
            && !self.seen.insert(id.to_vec())
            && resent
        {
            return;
        }
        let mut fields: Vec<_> =
            message.fields().filter(|field| !HEADER.contains(&field.tag)).collect();
        fields.sort_by_key(|field| field.tag);
        port.send(kind, |writer| {
            if resent {
                writer.flag(tag::POSS_RESEND, true);
            }
            for field in fields {
                writer.raw(format!("{}=", field.tag).as_bytes());
                writer.raw(field.value);
                writer.raw(b"\x01");
            }
        });
    }
}

/// BusinessMessageReject; the scripts expect DefaultApplVerID in it where there is one.
fn unsupported<S: Store>(message: &Message<'_>, port: &mut Port<'_, S>) {
    let transport = message.begin_string().starts_with(b"FIXT");
    port.send(MsgType::of(b"j").unwrap(), |writer| {
        writer.uint(tag::REF_SEQ_NUM, u64::from(message.seq_num().unwrap_or(0)));
        writer.text(tag::TEXT, b"Unsupported Message Type");
        writer.text(tag::REF_MSG_TYPE, message.msg_type());
        writer.uint(tag::BUSINESS_REJECT_REASON, 3);
        if transport {
            writer.text(tag::DEFAULT_APPL_VER_ID, b"9");
        }
    });
}
