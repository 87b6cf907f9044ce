//! A fast reader for the most frequent requests: those without optional fields.

use types::{Command, CommandKind, Nanos, Qty, UserRefNum};
use zerocopy::FromBytes;

use super::command::{new_order_as, replace_order_as};
use super::messages::{CancelOrder, EnterOrder, ReplaceOrder};
use super::terms::Asked;
use crate::SymbolTable;

/// Reads a new order, a replace or a cancel without optional fields into `command`, which is new
/// ([`Command::new`]). True: it is what [`super::parse_inbound`] and [`super::to_command`] make of
/// the bytes. False: the message is another one, or is refused; those two say which, and `command`
/// is of no use.
#[inline]
pub fn read_plain(bytes: &[u8], symbols: &SymbolTable, now: Nanos, command: &mut Command) -> bool {
    match bytes.first() {
        Some(&EnterOrder::KIND) => {
            let Some(order) = without_fields::<EnterOrder>(bytes) else { return false };
            command.kind = CommandKind::NewOrder;
            new_order_as(order, || Ok(Asked::NOTHING), symbols, now, command).is_ok()
        }
        Some(&CancelOrder::KIND) => {
            let Ok(cancel) = CancelOrder::ref_from_bytes(bytes) else { return false };
            command.kind = CommandKind::Cancel;
            command.user_ref = UserRefNum(cancel.user_ref.get());
            command.qty = Qty(u64::from(cancel.quantity.get()));
            true
        }
        Some(&ReplaceOrder::KIND) => {
            let Some(replace) = without_fields::<ReplaceOrder>(bytes) else { return false };
            replace_order_as(replace, &Asked::NOTHING, now, command).is_ok()
        }
        _ => false,
    }
}

/// The fixed fields, when behind them lies an appendage of length 0 and nothing else.
#[inline(always)]
fn without_fields<M>(bytes: &[u8]) -> Option<&M>
where
    M: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
{
    let (fixed, [0, 0]) = bytes.split_last_chunk()? else { return None };
    M::ref_from_bytes(fixed).ok()
}

#[cfg(test)]
mod tests {
    use types::{Instrument, InstrumentId, Price, SplitMix64, Symbol};

    use super::super::{parse_inbound, to_command};
    use super::*;

    fn symbols() -> SymbolTable {
        SymbolTable::new(&[Instrument {
            id: InstrumentId(3),
            symbol: Symbol::new("PLAIN").expect("a symbol"),
            tick: Price(1),
            price_max: Price(1_000_000),
            qty_max: Qty(1_000),
            lot_decimals: 0,
        }])
    }

    /// Messages whose fields are drawn from the values that mean something, and from all others.
    fn message(rng: &mut SplitMix64) -> Vec<u8> {
        let mut pick = |among: &[u8]| match rng.below(40) {
            0 => rng.next_u64() as u8,
            _ => among[rng.below(among.len() as u64) as usize],
        };
        let mut bytes = match pick(b"OXU") {
            b'X' => [b"X".as_slice(), &[0; 8]].concat(),
            b'U' => {
                let codes = [pick(b"01356F"), pick(b"YN"), pick(b"YN")];
                [b"U".as_slice(), &[0; 20], &codes, b"ID            "].concat()
            }
            _ => {
                let codes =
                    [pick(b"01356F"), pick(b"YN"), pick(b"APRO"), pick(b"YN"), pick(b"NOC")];
                let side = [pick(b"BS")];
                let parts: [&[u8]; 8] =
                    [b"O", &[0; 4], &side, &[0; 4], b"PLAIN   ", &[0; 8], &codes, &[b'x'; 14]];
                parts.concat()
            }
        };
        match pick(&[0, 0, 0, 0, 1, 2, 3]) {
            0 => bytes.extend([0, 0]),
            1 => bytes.extend([0, 3, 2, 12, b'P']),
            2 => _ = bytes.pop(),
            _ => {}
        }
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        bytes
    }

    #[test]
    fn what_is_read_in_one_step_is_what_two_steps_make_of_it() {
        let (seed, symbols, now) = (27, symbols(), Nanos(5_000_000_000));
        let (mut rng, mut plain, mut others) = (SplitMix64::new(seed), 0, 0);
        for round in 0..100_000 {
            let bytes = message(&mut rng);
            let mut command = Command::new(CommandKind::NewOrder);
            let read = read_plain(&bytes, &symbols, now, &mut command).then_some(command);
            let twice = parse_inbound(&bytes)
                .ok()
                .and_then(|inbound| to_command(&inbound, &symbols, now).ok());
            match (read, twice) {
                (Some(read), twice) => {
                    plain += 1;
                    assert_eq!(Some(read), twice, "seed {seed}, round {round}: {bytes:?}");
                }
                (None, Some(_)) => others += 1,
                (None, None) => {}
            }
        }
        assert!(plain > 20_000, "{plain} of them are plain");
        assert!(others > 100, "{others} have optional fields, or an appendage too many");
    }

    #[test]
    fn control_a_request_with_a_field_or_a_wrong_code_is_not_plain() {
        let mut cancel = b"X\0\0\0\x07\0\0\0\0".to_vec();
        let read = |bytes: &[u8]| {
            let mut command = Command::new(CommandKind::NewOrder);
            read_plain(bytes, &symbols(), Nanos(1), &mut command).then_some(command.user_ref)
        };
        assert_eq!(read(&cancel), Some(UserRefNum(7)));
        cancel.extend([0, 0]);
        assert_eq!(read(&cancel), None, "two steps read it");
        assert_eq!(read(b""), None);
    }
}
