//! Instructions of BPF programs, put together by hand: no compiler of them is needed to build or run.
//!
//! The encoding is that of the kernel's `Documentation/bpf/standardization/instruction-set.rst`.

/// One instruction, `struct bpf_insn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Insn {
    code: u8,
    /// Destination in the low four bits, source in the high ones.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const _: () = assert!(size_of::<Insn>() == 8);

/// A register: 0 results, 1 to 5 arguments, 6 to 9 kept over calls, 10 the stack's end.
pub(crate) type Reg = u8;

/// Bytes of a load or store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    One,
    Two,
    Four,
    Eight,
}

impl Width {
    fn bits(self) -> u8 {
        match self {
            Width::One => 0x10,
            Width::Two => 0x08,
            Width::Four => 0x00,
            Width::Eight => 0x18,
        }
    }
}

/// When a jump is taken; numbers are without sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum If {
    Equal,
    Above,
    AtLeast,
    Not,
    Below,
}

impl If {
    fn code(self) -> u8 {
        match self {
            If::Equal => 0x10,
            If::Above => 0x20,
            If::AtLeast => 0x30,
            If::Not => 0x50,
            If::Below => 0xA0,
        }
    }
}

/// What is done with two numbers of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alu {
    Add,
    Sub,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    Xor,
    Move,
}

impl Alu {
    fn code(self) -> u8 {
        match self {
            Alu::Add => 0x00,
            Alu::Sub => 0x10,
            Alu::Or => 0x40,
            Alu::And => 0x50,
            Alu::ShiftLeft => 0x60,
            Alu::ShiftRight => 0x70,
            Alu::Xor => 0xA0,
            Alu::Move => 0xB0,
        }
    }
}

/// A place that jumps lead to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(usize);

/// A program being put together.
#[derive(Default)]
pub(crate) struct Assembler {
    instructions: Vec<Insn>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, code: u8, (to, from): (Reg, Reg), offset: i16, immediate: i32) {
        self.instructions.push(Insn { code, registers: from << 4 | to, offset, immediate });
    }

    /// A label that is placed later, once.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub fn place(&mut self, label: Label) {
        assert!(self.labels[label.0].is_none(), "a label is at one place");
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// `to = to OP from`.
    pub fn alu(&mut self, op: Alu, to: Reg, from: Reg) {
        self.push(0x0F | op.code(), (to, from), 0, 0);
    }

    /// `to = to OP number`.
    pub fn alu_with(&mut self, op: Alu, to: Reg, number: i32) {
        self.push(0x07 | op.code(), (to, 0), 0, number);
    }

    /// `to = from`, or a number.
    pub fn copy(&mut self, to: Reg, from: Reg) {
        self.alu(Alu::Move, to, from);
    }

    /// `to = number`.
    pub fn set(&mut self, to: Reg, number: i32) {
        self.alu_with(Alu::Move, to, number);
    }

    /// `to = *(from + offset)`.
    pub fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) {
        self.push(0x61 | width.bits(), (to, from), offset, 0);
    }

    /// `*(to + offset) = from`.
    pub fn store(&mut self, width: Width, to: Reg, offset: i16, from: Reg) {
        self.push(0x63 | width.bits(), (to, from), offset, 0);
    }

    /// Adds `from` to the eight bytes at `to + offset`, as one step among all cores.
    pub fn atomic_add(&mut self, to: Reg, offset: i16, from: Reg) {
        self.push(0xDB, (to, from), offset, 0);
    }

    /// The same; `from` then has what was there before.
    pub fn atomic_fetch_add(&mut self, to: Reg, offset: i16, from: Reg) {
        self.push(0xDB, (to, from), offset, 1);
    }

    /// Puts `from` into the eight bytes at `to + offset` if they are register 0; register 0 then has what
    /// was there.
    pub fn compare_exchange(&mut self, to: Reg, offset: i16, from: Reg) {
        self.push(0xDB, (to, from), offset, 0xF1);
    }

    /// Goes on at `label`.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(0x05, (0, 0), 0, 0);
    }

    /// Goes on at `label` if `left IF right`.
    pub fn jump_if(&mut self, left: Reg, when: If, right: Reg, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(0x0D | when.code(), (left, right), 0, 0);
    }

    /// Goes on at `label` if `left IF number`.
    pub fn jump_if_number(&mut self, left: Reg, when: If, number: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(0x05 | when.code(), (left, 0), 0, number);
    }

    /// Calls the kernel's helper of a number; registers 1 to 5 are lost.
    pub fn call(&mut self, helper: i32) {
        self.push(0x85, (0, 0), 0, helper);
    }

    /// `to =` where the only value of an array of a descriptor is.
    pub fn map_value(&mut self, to: Reg, fd: i32) {
        self.push(0x18, (to, 2), 0, fd);
        self.push(0, (0, 0), 0, 0);
    }

    /// Ends with register 0 as the verdict.
    pub fn exit(&mut self) {
        self.push(0x95, (0, 0), 0, 0);
    }

    /// The program.
    pub fn finish(mut self) -> Vec<Insn> {
        for (at, label) in self.jumps {
            let to = self.labels[label.0].expect("each label that is jumped to has a place");
            let distance = to as i64 - at as i64 - 1;
            self.instructions[at].offset = i16::try_from(distance).expect("programs are short");
        }
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_kernels_description() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.set(0, -1);
        asm.load(Width::Four, 2, 1, 76);
        asm.alu_with(Alu::Add, 2, 14);
        asm.jump_if(2, If::Above, 3, end);
        asm.store(Width::Two, 2, -4, 0);
        asm.compare_exchange(7, 8, 4);
        asm.map_value(7, 5);
        asm.call(13);
        asm.place(end);
        asm.exit();
        let words: Vec<[u8; 4]> = asm
            .finish()
            .iter()
            .map(|insn| [insn.code, insn.registers, insn.offset as u8, insn.immediate as u8])
            .collect();
        assert_eq!(
            words,
            [
                [0xB7, 0, 0, 0xFF],
                [0x61, 0x12, 76, 0],
                [0x07, 2, 0, 14],
                [0x2D, 0x32, 5, 0],
                [0x6B, 0x02, 0xFC, 0],
                [0xDB, 0x47, 8, 0xF1],
                [0x18, 0x27, 0, 5],
                [0, 0, 0, 0],
                [0x85, 0, 0, 13],
                [0x95, 0, 0, 0],
            ]
        );
    }

    #[test]
    #[should_panic(expected = "has a place")]
    fn control_a_jump_to_nowhere_is_found() {
        let mut asm = Assembler::default();
        let nowhere = asm.label();
        asm.jump(nowhere);
        asm.finish();
    }
}
