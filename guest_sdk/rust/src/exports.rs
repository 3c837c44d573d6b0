//! What [`proxy!`](crate::proxy) exports, as functions of one guest.

use alloc::vec::Vec;
use core::cell::RefCell;

use crate::Proxy;

/// The one guest of a module.
pub struct Guest(RefCell<Option<Loaded>>);

struct Loaded {
    proxy: Proxy,
    inbox: Vec<u8>,
}

// A guest has one thread.
unsafe impl Sync for Guest {}

impl Guest {
    /// One that is not loaded yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Guest {
        Guest(RefCell::new(None))
    }

    /// Makes the proxy; the version of the ABI.
    pub fn load(&self, declare: fn(&mut Proxy)) -> u32 {
        #[cfg(all(not(feature = "alone"), target_arch = "wasm32"))]
        crate::fault::watch();
        let mut proxy = Proxy::new();
        declare(&mut proxy);
        let inbox = Vec::new();
        *self.0.borrow_mut() = Some(Loaded { proxy, inbox });
        1
    }

    /// The address of a buffer of this length.
    pub fn reserve(&self, len: usize) -> usize {
        let mut guest = self.0.borrow_mut();
        let Some(Loaded { inbox, .. }) = guest.as_mut() else {
            return 0;
        };
        if inbox.capacity() < len {
            *inbox = Vec::new(); // so that it need not be copied
            inbox.reserve_exact(len);
        }
        inbox.as_ptr() as usize
    }

    /// Address and length of what a panic had to say.
    #[cfg(target_arch = "wasm32")]
    pub fn fault(&self) -> u64 {
        let (at, len) = crate::fault::kept();
        (at as u64) << 32 | len as u64
    }

    /// Takes the lines; address and length of what the proxy has to say.
    ///
    /// # Safety
    ///
    /// There are `len` bytes at `at`.
    pub unsafe fn deliver(&self, at: *const u8, len: usize) -> u64 {
        let mut guest = self.0.borrow_mut();
        let Some(Loaded { proxy, .. }) = guest.as_mut() else {
            return 0;
        };
        let (at, len) = proxy.run(unsafe { core::slice::from_raw_parts(at, len) });
        (at as u64) << 32 | len as u64
    }
}
