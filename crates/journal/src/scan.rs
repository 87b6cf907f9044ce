//! Reading frames of a segment through one window of memory.

use crate::batch::consistent;
use crate::buffer::AlignedBuf;
use crate::error::Damage;
use crate::layout::{BLOCK_MAX, FRAME_HEADER, FrameHeader, FrameKind, Place};
use crate::storage::{DiskError, FileId, Storage};

/// Number of bytes that are read at a time.
const WINDOW: usize = 256 << 10;

const _: () = assert!(WINDOW.is_multiple_of(BLOCK_MAX), "whole blocks of any size");

/// The parts of a segment that reading its frames needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) file: FileId,
    pub(crate) journal: u64,
    pub(crate) segment: u64,
    pub(crate) block: usize,
    pub(crate) bytes: u64,
}

/// What there is at an offset of a segment.
pub(crate) enum Found<'a> {
    /// A whole frame, its header and its payload.
    Frame(FrameHeader, &'a [u8]),
    /// No frame, or a damaged one; in what way.
    Bad(Damage),
    /// The segment ends at this offset.
    End,
}

/// What the rest of a segment contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rest {
    /// A whole frame with at least the expected number.
    pub(crate) frame_at: Option<u64>,
    /// Offset after the last byte that is not zero, if there is one.
    pub(crate) used_to: Option<u64>,
}

/// Reads a segment through a window of bytes.
pub(crate) struct Scanner {
    buffer: AlignedBuf,
    at: Option<(FileId, u64)>,
}

impl Scanner {
    pub(crate) fn new() -> Scanner {
        Scanner { buffer: AlignedBuf::default(), at: None }
    }

    /// Drops what was read, because the file may have changed.
    pub(crate) fn forget(&mut self) {
        self.at = None;
    }

    /// Bytes of a segment; `len` and `offset` are multiples of the block and inside of it.
    fn bytes(
        &mut self,
        storage: &mut impl Storage,
        extent: &Extent,
        offset: u64,
        len: usize,
    ) -> Result<&[u8], DiskError> {
        assert!(offset + len as u64 <= extent.bytes, "nothing is read beyond a segment");
        let held = self.at.filter(|(file, from)| {
            let until = from + self.buffer.len() as u64;
            *file == extent.file && *from <= offset && offset + len as u64 <= until
        });
        let from = match held {
            Some((_, from)) => from,
            None => {
                let left = usize::try_from(extent.bytes - offset).unwrap_or(usize::MAX);
                self.at = None;
                self.buffer.clear();
                self.buffer.resize(left.min(WINDOW.max(len)));
                storage.read(extent.file, offset, self.buffer.bytes_mut())?;
                self.at = Some((extent.file, offset));
                offset
            }
        };
        let at = (offset - from) as usize;
        assert!(at + len <= self.buffer.len(), "the window covers what was asked for");
        Ok(&self.buffer.bytes()[at..at + len])
    }

    /// Reads and checks the frame at an offset.
    pub(crate) fn frame(
        &mut self,
        storage: &mut impl Storage,
        extent: &Extent,
        offset: u64,
    ) -> Result<Found<'_>, DiskError> {
        if offset + extent.block as u64 > extent.bytes {
            return Ok(Found::End);
        }
        let start = self.bytes(storage, extent, offset, extent.block)?;
        let Some(header) = FrameHeader::claim(start) else {
            return Ok(Found::Bad(Damage::NoFrame));
        };
        let len = header.padded(extent.block);
        if offset + len as u64 > extent.bytes {
            return Ok(Found::Bad(Damage::Checksum));
        }
        let place = Place { journal: extent.journal, segment: extent.segment, offset };
        let bytes = self.bytes(storage, extent, offset, len)?;
        if !FrameHeader::sealed(place, bytes) {
            return Ok(Found::Bad(Damage::Checksum));
        }
        let payload = bytes.get(FRAME_HEADER..FRAME_HEADER + header.payload as usize);
        let payload = payload.unwrap_or(&[]);
        let sound = match header.kind {
            FrameKind::Records => consistent(&header, payload),
            FrameKind::Truncation => payload.is_empty() && header.count == 0,
        };
        if sound { Ok(Found::Frame(header, payload)) } else { Ok(Found::Bad(Damage::Records)) }
    }

    /// Looks through the rest of a segment for frames and for bytes that are not zero.
    pub(crate) fn rest(
        &mut self,
        storage: &mut impl Storage,
        extent: &Extent,
        from: u64,
        expected: u64,
    ) -> Result<Rest, DiskError> {
        let mut rest = Rest { frame_at: None, used_to: None };
        let (mut offset, block) = (from, extent.block as u64);
        while offset + block <= extent.bytes {
            let bytes = self.bytes(storage, extent, offset, extent.block)?;
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                rest.used_to = Some(offset + last as u64 + 1);
                if rest.frame_at.is_none()
                    && let Found::Frame(header, _) = self.frame(storage, extent, offset)?
                    && header.frame >= expected
                {
                    rest.frame_at = Some(offset);
                }
            }
            offset += block;
        }
        Ok(rest)
    }
}
