//! The allocator of `no_std` guests, over memory of a test's.

#[path = "../src/heap.rs"]
mod heap;

use heap::{Heap, Source};
use std::alloc::Layout;

const SIZE: usize = 1 << 22;

struct Memory {
    end: usize,
    highest: usize,
}

impl Source for Memory {
    fn grow(&mut self, end: usize) -> bool {
        if end <= self.end {
            self.highest = self.highest.max(end);
        }
        end <= self.end
    }
}

/// A heap, and the memory it lies in.
fn heap() -> (Heap<Memory>, Vec<u128>) {
    let mut memory = vec![0u128; SIZE / 16];
    let start = memory.as_mut_ptr() as usize;
    let mut heap = Heap::new(Memory {
        end: start + SIZE,
        highest: start,
    });
    heap.begin(start);
    (heap, memory)
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn blocks_are_apart_aligned_and_taken_again() {
    let (mut heap, memory) = heap();
    let mut seed = 1u32;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    let mut live: Vec<(usize, Layout, u8)> = Vec::new();
    for round in 0..20_000usize {
        if live.len() < 50 && random(3) > 0 {
            let wanted = layout(1 + random(4000), 1 << random(8));
            let at = heap.take(wanted);
            assert!(!at.is_null());
            assert_eq!(at as usize % wanted.align(), 0);
            unsafe { at.write_bytes(round as u8, wanted.size()) };
            live.push((at as usize, wanted, round as u8));
        } else if !live.is_empty() {
            let (at, wanted, mark) = live.swap_remove(random(live.len()));
            for offset in 0..wanted.size() {
                assert_eq!(unsafe { *((at + offset) as *const u8) }, mark);
            }
            unsafe { heap.give(at as *mut u8, wanted) };
        }
    }
    let used = heap.source.highest - memory.as_ptr() as usize;
    assert!(
        used < SIZE / 4,
        "{used} bytes for 50 blocks of 4000 at most"
    );
}

#[test]
fn the_last_block_grows_and_shrinks_where_it_lies() {
    let (mut heap, _memory) = heap();
    let first = heap.take(layout(100, 1));
    assert!(heap.stretch(first, layout(100, 1), SIZE - 100_000));
    assert!(heap.stretch(first, layout(SIZE - 100_000, 1), 1000));
    let second = heap.take(layout(10, 1));
    assert!(second as usize >= first as usize + 1000);
    assert!((second as usize) < first as usize + 2000);
    assert!(!heap.stretch(first, layout(1000, 1), 5000));
    assert!(heap.stretch(first, layout(1000, 1), 1001));
}

#[test]
fn memory_has_an_end() {
    let (mut heap, _memory) = heap();
    assert!(heap.take(layout(SIZE + 1, 1)).is_null());
    assert!(heap.take(layout(isize::MAX as usize, 1)).is_null());
    let all = heap.take(layout(SIZE, 1));
    assert!(!all.is_null());
    assert!(!heap.stretch(all, layout(SIZE, 1), 2 * SIZE));
    assert!(heap.take(layout(16, 1)).is_null());
    unsafe { heap.give(all, layout(SIZE, 1)) };
    assert!(!heap.take(layout(16, 1)).is_null());
}
