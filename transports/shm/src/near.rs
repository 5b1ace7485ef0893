//! Memory near another core than that of the calling thread.

use crate::sys::{self, MemoryPolicy};
use std::marker::PhantomData;

/// While this lives, memory that the calling thread touches for the first time comes from a NUMA node, where that has some. The
/// thread's own policy is back when it is dropped.
#[derive(Debug)]
pub struct Near {
    /// The policy of the thread before; `None`: it was not changed.
    before: Option<MemoryPolicy>,
    /// Of this thread only.
    stays_here: PhantomData<*const ()>,
}

impl Near {
    /// Memory of `node` from now on; of any node as before where `node` is `None` or the machine has only one.
    pub fn node(node: Option<u32>) -> Near {
        Near::on(node.filter(|_| sys::several_nodes()))
    }

    fn on(node: Option<u32>) -> Near {
        let wanted = node.and_then(MemoryPolicy::near);
        let before = wanted.and_then(|wanted| {
            let before = MemoryPolicy::of_thread()?;
            wanted.set();
            Some(before)
        });
        Near { before, stays_here: PhantomData }
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            before.set();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_own_policy_comes_back() {
        let Some(own) = MemoryPolicy::of_thread() else {
            return println!("skipped: this kernel does not tell");
        };
        let there = MemoryPolicy::near(0).expect("a node");
        let near = Near::on(Some(0));
        assert_eq!(MemoryPolicy::of_thread(), Some(there.clone()));
        let inner = Near::on(None);
        assert_eq!(MemoryPolicy::of_thread(), Some(there.clone()), "nothing is asked for");
        drop((inner, Near::on(Some(0))));
        assert_eq!(MemoryPolicy::of_thread(), Some(there));
        drop(near);
        assert_eq!(MemoryPolicy::of_thread(), Some(own));
        assert_eq!(MemoryPolicy::near(u32::MAX), None);
    }
}
