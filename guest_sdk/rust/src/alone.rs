//! What `std` would bring: an allocator, and the end of a panic.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32;
use core::cell::UnsafeCell;
use core::panic::PanicInfo;

use crate::heap::{Heap, Source};

const PAGE: usize = 65536;

struct Memory;

impl Source for Memory {
    fn grow(&mut self, end: usize) -> bool {
        let pages = wasm32::memory_size::<0>();
        let wanted = end.div_ceil(PAGE);
        wanted <= pages || wasm32::memory_grow::<0>(wanted - pages) != usize::MAX
    }
}

struct Allocator(UnsafeCell<Heap<Memory>>);

// A guest has one thread.
unsafe impl Sync for Allocator {}

#[global_allocator]
static ALLOCATOR: Allocator = Allocator(UnsafeCell::new(Heap::new(Memory)));

unsafe extern "C" {
    /// The linker's: behind all that is there from the start.
    static __heap_base: u8;
}

unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let heap = unsafe { &mut *self.0.get() };
        heap.begin(&raw const __heap_base as usize);
        heap.take(layout)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { (*self.0.get()).give(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let heap = unsafe { &mut *self.0.get() };
        if heap.stretch(at, layout, size) {
            return at;
        }
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else {
            return core::ptr::null_mut();
        };
        let new = heap.take(wanted);
        if !new.is_null() {
            unsafe {
                new.copy_from_nonoverlapping(at, size.min(layout.size()));
                heap.give(at, layout);
            }
        }
        new
    }
}

/// The host says that the guest has trapped.
#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    wasm32::unreachable()
}
