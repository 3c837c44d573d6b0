//! Looking for bytes, sixteen at a time where that can be.

/// The first byte at or after a place that ends what is plain in a string: a quote, a backslash or a
/// control character. The text's end if there is none.
pub(crate) fn plain(text: &[u8], at: usize) -> usize {
    first(
        text,
        at,
        |byte| byte < b' ' || byte == b'"' || byte == b'\\',
        wide::plain,
    )
}

/// The first newline at or after a place; the text's end if there is none.
pub(crate) fn line(text: &[u8], at: usize) -> usize {
    first(text, at, |byte| byte == b'\n', wide::line)
}

/// `skip` passes whole blocks without what is looked for.
fn first(
    text: &[u8],
    at: usize,
    is: impl Fn(u8) -> bool,
    skip: fn(&[u8], usize) -> usize,
) -> usize {
    let at = skip(text, at);
    let found = text[at..].iter().position(|&byte| is(byte));
    found.map_or(text.len(), |more| at + more)
}

#[cfg(target_arch = "wasm32")]
mod wide {
    use core::arch::wasm32::{
        u8x16_eq, u8x16_lt, u8x16_splat, v128, v128_any_true, v128_load, v128_or,
    };

    #[target_feature(enable = "simd128")]
    pub(super) fn plain(text: &[u8], at: usize) -> usize {
        skip(text, at, |block| {
            let quotes = u8x16_eq(block, u8x16_splat(b'"'));
            let escapes = u8x16_eq(block, u8x16_splat(b'\\'));
            v128_or(v128_or(quotes, escapes), u8x16_lt(block, u8x16_splat(b' ')))
        })
    }

    #[target_feature(enable = "simd128")]
    pub(super) fn line(text: &[u8], at: usize) -> usize {
        skip(text, at, |block| u8x16_eq(block, u8x16_splat(b'\n')))
    }

    #[inline(always)]
    fn skip(text: &[u8], at: usize, marks: impl Fn(v128) -> v128) -> usize {
        let blocks = text[at..].chunks_exact(16);
        let all = blocks.len();
        for (count, block) in blocks.enumerate() {
            // Sixteen bytes are there, and need no alignment.
            let block = unsafe { v128_load(block.as_ptr().cast::<v128>()) };
            if v128_any_true(marks(block)) {
                return at + count * 16;
            }
        }
        at + all * 16
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod wide {
    pub(super) fn plain(_text: &[u8], at: usize) -> usize {
        at
    }

    pub(super) fn line(_text: &[u8], at: usize) -> usize {
        at
    }
}
