//! The program that clones: at the egress of an interface it makes one datagram into many.
//!
//! It waits for a packet of the port's datagrams while its table ([`super::table`]) is armed; all other
//! packets, its own clones too, pass untouched. It must be of the length that the table says and begin
//! with the bytes of the last receiver's datagram, so that nothing that was held up somewhere is taken
//! for it. Then, receiver after receiver, the packet gets that one's addresses and ends, and a clone of it
//! goes to the interface; the last one is the packet itself.

use super::asm::{Alu, Assembler, If, Insn, Reg, Width};
use super::table::{
    ARMED, CLONED, COPIES_MAX, COUNT, E_ADDRESS, E_HARDWARE, E_HEAD, E_IP_PLUS, E_PORT, E_PSEUDO,
    E_REST, E_TAIL, ENTRY, FRAME_LEN, HEAD, IP_MINUS, TAIL,
};
use super::ways::LinkLayer;

/// `struct __sk_buff`.
const SKB_LEN: i16 = 0;
const SKB_INTERFACE: i16 = 40;
const SKB_DATA: i16 = 76;
const SKB_DATA_END: i16 = 80;
/// Numbers of the kernel's helper functions that the program calls (linux/bpf.h).
const L4_CSUM_REPLACE: i32 = 11;
const CLONE_REDIRECT: i32 = 13;
/// BPF_F_PSEUDO_HDR and BPF_F_MARK_MANGLED_0.
const PSEUDO: i32 = 1 << 4;
const ZERO_IS_NONE: i32 = 1 << 5;
/// TCX_NEXT: whoever comes next decides.
const NEXT: i32 = -1;
/// Longest frame: what an offset into a packet may be.
const FRAME_MAX: i32 = 0x3FFF;
const UDP: i32 = 17;

/// Registers that calls leave alone.
const SKB: Reg = 6;
const TABLE: Reg = 7;
const AT: Reg = 8;
const ENTRY_AT: Reg = 9;
const STACK: Reg = 10;
/// Places on the stack.
const S_COUNT: i16 = -8;
const S_LENGTH: i16 = -16;
const S_IP: i16 = -24;

/// What a program is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Egress {
    pub link: LinkLayer,
    pub is_v6: bool,
    /// The port that datagrams come from.
    pub port: u16,
}

/// Offsets in a packet.
struct Offsets {
    ip: i16,
    udp: i16,
    payload: i16,
    /// Where the address of the receiver is, and its bytes.
    address: i16,
    address_bytes: usize,
}

impl Egress {
    fn offsets(self) -> Offsets {
        let ip = self.link.bytes() as i16;
        let (header, address, address_bytes) = if self.is_v6 { (40, 24, 16) } else { (20, 16, 4) };
        let udp = ip + header;
        Offsets { ip, udp, payload: udp + 8, address: ip + address, address_bytes }
    }

    /// Bytes of a packet before its datagram.
    pub fn before(self) -> usize {
        self.offsets().payload as usize
    }

    /// The program, for the table of a descriptor.
    pub fn program(self, table: i32) -> Vec<Insn> {
        let at = self.offsets();
        let mut asm = Assembler::default();
        let (next, again) = (asm.label(), asm.label());
        let shortest = i32::from(at.payload) + (HEAD + TAIL) as i32;

        asm.copy(SKB, 1);
        asm.map_value(TABLE, table);
        asm.load(Width::Four, 0, TABLE, ARMED as i16);
        asm.jump_if_number(0, If::Equal, 0, next);
        asm.load(Width::Four, 0, SKB, SKB_LEN);
        asm.load(Width::Four, 1, TABLE, FRAME_LEN as i16);
        asm.jump_if(0, If::Not, 1, next);
        asm.jump_if_number(1, If::Below, shortest, next);
        asm.jump_if_number(1, If::Above, FRAME_MAX, next);
        asm.store(Width::Eight, STACK, S_LENGTH, 1);
        self.reach(&mut asm, &at, next);
        // What it is: version and length of header, protocol, port.
        if self.link != LinkLayer::Bare {
            let kind: u16 = if self.is_v6 { 0x86DD } else { 0x0800 };
            asm.load(Width::Two, 0, 2, 12);
            asm.jump_if_number(0, If::Not, in_memory(kind), next);
        }
        asm.load(Width::One, 0, 2, at.ip);
        if self.is_v6 {
            asm.alu_with(Alu::And, 0, 0xF0);
        }
        asm.jump_if_number(0, If::Not, if self.is_v6 { 0x60 } else { 0x45 }, next);
        asm.load(Width::One, 0, 2, at.ip + if self.is_v6 { 6 } else { 9 });
        asm.jump_if_number(0, If::Not, UDP, next);
        asm.load(Width::Two, 0, 2, at.udp);
        asm.jump_if_number(0, If::Not, in_memory(self.port), next);

        asm.load(Width::Four, 1, TABLE, COUNT as i16);
        asm.jump_if_number(1, If::Equal, 0, next);
        asm.jump_if_number(1, If::Above, COPIES_MAX as i32, next);
        asm.store(Width::Eight, STACK, S_COUNT, 1);
        // The head of the last receiver's datagram.
        asm.alu_with(Alu::ShiftLeft, 1, ENTRY.trailing_zeros() as i32);
        asm.alu(Alu::Add, 1, TABLE);
        for word in (0..HEAD as i16).step_by(8) {
            asm.load(Width::Eight, 0, 1, E_HEAD as i16 + word);
            asm.load(Width::Eight, 4, 2, at.payload + word);
            asm.jump_if(0, If::Not, 4, next);
        }
        if !self.is_v6 {
            // The sum of the IP header without the receiver's address; complements add.
            asm.load(Width::Two, 0, 2, at.ip + 10);
            asm.alu_with(Alu::Xor, 0, 0xFFFF);
            asm.load(Width::Four, 1, TABLE, IP_MINUS as i16);
            asm.alu(Alu::Add, 0, 1);
            asm.store(Width::Eight, STACK, S_IP, 0);
        }
        // Taken: clones that come by here find nothing armed.
        asm.set(0, 0);
        asm.store(Width::Four, TABLE, ARMED as i16, 0);
        asm.set(AT, 0);

        asm.place(again);
        asm.jump_if_number(AT, If::AtLeast, COPIES_MAX as i32, next);
        asm.copy(ENTRY_AT, AT);
        asm.alu_with(Alu::Add, ENTRY_AT, 1);
        asm.alu_with(Alu::ShiftLeft, ENTRY_AT, ENTRY.trailing_zeros() as i32);
        asm.alu(Alu::Add, ENTRY_AT, TABLE);
        self.reach(&mut asm, &at, next);
        self.address(&mut asm, &at);
        for word in (0..HEAD as i16).step_by(8) {
            asm.load(Width::Eight, 0, ENTRY_AT, E_HEAD as i16 + word);
            asm.store(Width::Eight, 2, at.payload + word, 0);
        }
        for word in (0..TAIL as i16).step_by(8) {
            asm.load(Width::Eight, 0, ENTRY_AT, E_TAIL as i16 + word);
            asm.store(Width::Eight, 4, word, 0);
        }
        self.sums(&mut asm, &at);
        // The last one is the packet itself.
        asm.alu_with(Alu::Add, AT, 1);
        asm.load(Width::Eight, 1, STACK, S_COUNT);
        asm.jump_if(AT, If::AtLeast, 1, next);
        asm.copy(1, SKB);
        asm.load(Width::Four, 2, SKB, SKB_INTERFACE);
        asm.set(3, 0);
        asm.call(CLONE_REDIRECT);
        asm.jump_if_number(0, If::Not, 0, again);
        asm.load(Width::Four, 1, TABLE, CLONED as i16);
        asm.alu_with(Alu::Add, 1, 1);
        asm.store(Width::Four, TABLE, CLONED as i16, 1);
        asm.jump(again);

        asm.place(next);
        asm.set(0, NEXT);
        asm.exit();
        asm.finish()
    }

    /// Register 2 is the packet, register 4 its last [`TAIL`] bytes; `or` where it is too short.
    fn reach(self, asm: &mut Assembler, at: &Offsets, or: super::asm::Label) {
        asm.load(Width::Four, 2, SKB, SKB_DATA);
        asm.load(Width::Four, 3, SKB, SKB_DATA_END);
        asm.copy(0, 2);
        asm.alu_with(Alu::Add, 0, i32::from(at.payload) + (HEAD + TAIL) as i32);
        asm.jump_if(0, If::Above, 3, or);
        asm.load(Width::Eight, 5, STACK, S_LENGTH);
        asm.alu_with(Alu::Sub, 5, TAIL as i32);
        asm.copy(4, 2);
        asm.alu(Alu::Add, 4, 5);
        asm.copy(0, 4);
        asm.alu_with(Alu::Add, 0, TAIL as i32);
        asm.jump_if(0, If::Above, 3, or);
    }

    /// The receiver's addresses and port.
    fn address(self, asm: &mut Assembler, at: &Offsets) {
        if self.link == LinkLayer::Ethernet {
            asm.load(Width::Four, 0, ENTRY_AT, E_HARDWARE as i16);
            asm.store(Width::Four, 2, 0, 0);
            asm.load(Width::Two, 0, ENTRY_AT, E_HARDWARE as i16 + 4);
            asm.store(Width::Two, 2, 4, 0);
        }
        for four in (0..at.address_bytes as i16).step_by(4) {
            asm.load(Width::Four, 0, ENTRY_AT, E_ADDRESS as i16 + four);
            asm.store(Width::Four, 2, at.address + four, 0);
        }
        asm.load(Width::Two, 0, ENTRY_AT, E_PORT as i16);
        asm.store(Width::Two, 2, at.udp + 2, 0);
        if !self.is_v6 {
            asm.load(Width::Eight, 0, STACK, S_IP);
            asm.load(Width::Two, 1, ENTRY_AT, E_IP_PLUS as i16);
            asm.alu(Alu::Add, 0, 1);
            // Three numbers of 16 bits: folded twice they fit.
            for _ in 0..2 {
                asm.copy(1, 0);
                asm.alu_with(Alu::ShiftRight, 1, 16);
                asm.alu_with(Alu::And, 0, 0xFFFF);
                asm.alu(Alu::Add, 0, 1);
            }
            asm.alu_with(Alu::Xor, 0, 0xFFFF);
            asm.store(Width::Two, 2, at.ip + 10, 0);
        }
    }

    /// The sum of the datagram: what the device completes is told of the addresses alone.
    fn sums(self, asm: &mut Assembler, at: &Offsets) {
        for (entry, flags) in [(E_PSEUDO, PSEUDO | ZERO_IS_NONE), (E_REST, ZERO_IS_NONE)] {
            asm.copy(1, SKB);
            asm.set(2, i32::from(at.udp) + 6);
            asm.set(3, 0);
            asm.load(Width::Four, 4, ENTRY_AT, entry as i16);
            asm.set(5, flags);
            asm.call(L4_CSUM_REPLACE);
        }
    }
}

/// A number of the network's as a load from memory has it.
fn in_memory(number: u16) -> i32 {
    i32::from(u16::from_ne_bytes(number.to_be_bytes()))
}
