//! What XDP programs here have in common: finding the datagram of a port in a frame.

use super::asm::{Alu, Assembler, If, Label, Reg, Width};
use super::ways::LinkLayer;

/// `struct xdp_md`.
const MD_DATA: i16 = 0;
const MD_DATA_END: i16 = 4;
/// What an XDP program returns of a packet (linux/bpf.h, `enum xdp_action`).
pub(crate) const DROP: i32 = 1;
pub(crate) const PASS: i32 = 2;

const UDP: i32 = 17;

/// The context; calls leave it alone.
pub(crate) const CONTEXT: Reg = 6;
/// The start of the UDP header once it is found.
pub(crate) const DATAGRAM: Reg = 8;

/// A number of the network's as a load from memory has it.
pub(crate) fn in_memory(number: u16) -> i32 {
    i32::from(u16::from_ne_bytes(number.to_be_bytes()))
}

/// Puts into [`DATAGRAM`] where the UDP header is, of which `reach` bytes are there with what follows;
/// frames of anything else go on at `other`: fragments, too. Registers 0 to 5 are lost.
pub(crate) fn find_datagram(asm: &mut Assembler, link: LinkLayer, reach: i32, other: Label) {
    let ip = link.bytes() as i16;
    let (v6, found) = (asm.label(), asm.label());
    asm.copy(CONTEXT, 1);
    asm.load(Width::Four, 2, CONTEXT, MD_DATA);
    asm.load(Width::Four, 3, CONTEXT, MD_DATA_END);
    let reached = |asm: &mut Assembler, header: i32| {
        asm.copy(0, 2);
        asm.alu_with(Alu::Add, 0, i32::from(ip) + header + reach);
        asm.jump_if(0, If::Above, 3, other);
    };
    reached(asm, 20);
    if link == LinkLayer::Bare {
        asm.load(Width::One, 0, 2, 0);
        asm.alu_with(Alu::And, 0, 0xF0);
        asm.jump_if_number(0, If::Equal, 0x60, v6);
    } else {
        asm.load(Width::Two, 0, 2, 12);
        asm.jump_if_number(0, If::Equal, in_memory(0x86DD), v6);
        asm.jump_if_number(0, If::Not, in_memory(0x0800), other);
    }
    asm.load(Width::One, 0, 2, ip);
    asm.jump_if_number(0, If::Not, 0x45, other);
    asm.load(Width::One, 0, 2, ip + 9);
    asm.jump_if_number(0, If::Not, UDP, other);
    // Offset of a fragment, and that more come.
    asm.load(Width::Two, 0, 2, ip + 6);
    asm.alu_with(Alu::And, 0, in_memory(0x3FFF));
    asm.jump_if_number(0, If::Not, 0, other);
    asm.copy(DATAGRAM, 2);
    asm.alu_with(Alu::Add, DATAGRAM, i32::from(ip) + 20);
    asm.jump(found);
    asm.place(v6);
    reached(asm, 40);
    asm.load(Width::One, 0, 2, ip + 6);
    asm.jump_if_number(0, If::Not, UDP, other);
    asm.copy(DATAGRAM, 2);
    asm.alu_with(Alu::Add, DATAGRAM, i32::from(ip) + 40);
    asm.place(found);
}
