//! An allocator for one thread over memory that only grows. Blocks that are given back are taken
//! again, by size; four sizes lie between a power of two and the next, so at most a quarter is lost.

use core::alloc::Layout;
use core::ptr::null_mut;

const SMALLEST: usize = 16;
/// From 16 bytes to less than 2^32.
const SIZES: usize = 28 * 4;

/// Where the memory comes from.
pub(crate) trait Source {
    /// Makes memory available up to an address; false if that cannot be.
    fn grow(&mut self, end: usize) -> bool;
}

/// A block that is free holds the address of the next of its size.
pub(crate) struct Heap<S> {
    pub source: S,
    /// Where the memory begins that was never taken.
    top: usize,
    free: [*mut u8; SIZES],
}

impl<S: Source> Heap<S> {
    pub const fn new(source: S) -> Heap<S> {
        Heap {
            source,
            top: 0,
            free: [null_mut(); SIZES],
        }
    }

    /// Begins at this address, if nothing was taken yet.
    pub fn begin(&mut self, at: usize) {
        if self.top == 0 {
            self.top = at;
        }
    }

    /// A block; null if there is no memory left.
    pub fn take(&mut self, layout: Layout) -> *mut u8 {
        let Some((place, size)) = block(layout) else {
            return null_mut();
        };
        let align = layout.align().max(SMALLEST);
        let mut free: *mut *mut u8 = &mut self.free[place];
        // Each free block holds the address of the next. All are aligned to 16, so the first will do
        // for all but exotic types.
        unsafe {
            while !(*free).is_null() {
                let found = *free;
                if found as usize % align == 0 {
                    *free = *found.cast::<*mut u8>();
                    return found;
                }
                free = found.cast();
            }
        }
        let start = self.top.checked_next_multiple_of(align);
        let Some(end) = start.and_then(|start| start.checked_add(size)) else {
            return null_mut();
        };
        if !self.source.grow(end) {
            return null_mut();
        }
        self.top = end;
        (end - size) as *mut u8
    }

    /// Gives a block back.
    ///
    /// # Safety
    ///
    /// It was taken here, with this layout.
    pub unsafe fn give(&mut self, at: *mut u8, layout: Layout) {
        let Some((place, size)) = block(layout) else {
            return;
        };
        if at as usize + size == self.top {
            self.top = at as usize;
            return;
        }
        unsafe { *at.cast::<*mut u8>() = self.free[place] };
        self.free[place] = at;
    }

    /// Makes a block longer or shorter where it lies, if that can be.
    pub fn stretch(&mut self, at: *mut u8, layout: Layout, wanted: usize) -> bool {
        let wanted = Layout::from_size_align(wanted, layout.align())
            .ok()
            .and_then(block);
        let (Some((old, size)), Some((new, longer))) = (block(layout), wanted) else {
            return false;
        };
        if old == new {
            return true;
        }
        let Some(end) = (at as usize).checked_add(longer) else {
            return false;
        };
        if at as usize + size != self.top || !self.source.grow(end) {
            return false;
        }
        self.top = end;
        true
    }
}

/// Which of the sizes a block has, and that size.
fn block(layout: Layout) -> Option<(usize, usize)> {
    let wanted = layout.size().max(SMALLEST);
    let size = wanted.checked_next_multiple_of(SMALLEST.max(1 << (wanted.ilog2() - 2)))?;
    let power = size.ilog2();
    let place = (power - SMALLEST.ilog2()) as usize * 4 + ((size - (1 << power)) >> (power - 2));
    (place < SIZES).then_some((place, size))
}
