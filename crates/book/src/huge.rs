//! Memory ahead of time. Large tables lie in huge pages: a million orders lie on 33,000 small
//! pages, far more than the processor keeps translations for, and a cancel touches three of them.

/// A vector with room for `capacity` elements, in huge pages if the system has them to give.
#[allow(unsafe_code)]
pub(crate) fn with_capacity<T>(capacity: usize) -> Vec<T> {
    const PAGE: usize = 4_096;
    /// Below this a huge page would be mostly empty.
    const WORTH_IT: usize = 4 << 20;
    let mut vec: Vec<T> = Vec::with_capacity(capacity);
    let bytes = capacity.saturating_mul(size_of::<T>());
    if bytes >= WORTH_IT && !cfg!(miri) {
        let start = vec.as_mut_ptr().cast::<u8>();
        let skip = start.align_offset(PAGE);
        let len = (bytes - skip) / PAGE * PAGE;
        // SAFETY: the range is whole pages inside the vector's own allocation (`skip` < PAGE <=
        // `bytes`), and this advice changes neither contents nor protection of memory, only the
        // size of the pages it will be given. Refusal is harmless.
        let _ = unsafe {
            let first = start.add(skip).cast();
            rustix::mm::madvise(first, len, rustix::mm::Advice::LinuxHugepage)
        };
    }
    vec
}

/// Starts to fetch the cache line at the beginning of a value, to be written. Changes nothing.
#[allow(unsafe_code)]
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect but on the cache, and the address is that of a reference.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

/// Starts to fetch all cache lines of a value. Changes nothing.
#[allow(unsafe_code)]
#[inline(always)]
pub fn prefetch_whole<T>(value: &T) {
    const LINE: usize = 64;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 0..size_of::<T>().div_ceil(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        // SAFETY: a prefetch has no effect but on the cache, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (value, LINE);
}

#[cfg(test)]
mod tests {
    #[test]
    fn holds_what_is_put_in() {
        for capacity in [0, 1, 1 << 20] {
            let mut vec = super::with_capacity::<u64>(capacity);
            assert!(vec.capacity() >= capacity);
            vec.extend(0..capacity as u64);
            assert!(vec.iter().copied().eq(0..capacity as u64));
        }
    }
}
