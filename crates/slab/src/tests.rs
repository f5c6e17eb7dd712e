//! Models of what threads share: loom runs each in every order that its atomics allow (`tests/suite loom`).

mod models {
    use std::ptr::{self, NonNull};
    use std::sync::atomic::Ordering;

    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use crate::block::BlockHeader;
    use crate::remote_frees::{FreeBlock, PushResult, RemoteFrees};

    /// A block that threads hand to one another, alone in its memory. Loom fails a model in which two threads may use its
    /// bytes at the same time.
    #[repr(C)]
    struct ModelBlock {
        link: FreeBlock,
        bytes: UnsafeCell<u32>,
    }

    /// The right to use a block.
    #[derive(Clone, Copy)]
    struct LinkedBlock(NonNull<ModelBlock>);

    // SAFETY: a block may be used on any thread, by one at a time, which is what the models look at.
    unsafe impl Send for LinkedBlock {}
    // SAFETY: likewise.
    unsafe impl Sync for LinkedBlock {}

    impl LinkedBlock {
        fn new() -> Self {
            let block = ModelBlock { link: FreeBlock { next: ptr::null_mut() }, bytes: UnsafeCell::new(0) };
            LinkedBlock(NonNull::from(Box::leak(Box::new(block))))
        }

        /// Uses the bytes as one does who holds the block alone.
        fn fill(self) {
            // SAFETY: blocks live until `delete`, and loom sees that nobody else uses the bytes.
            unsafe { (*self.0.as_ptr()).bytes.with_mut(|bytes| *bytes += 1) };
        }

        fn push(self, frees: &RemoteFrees) -> PushResult {
            // SAFETY: the caller holds the block alone, and gives it up.
            unsafe { frees.push(self.0.cast()) }
        }

        fn delete(self) {
            // SAFETY: it came from a box, and its last holder deletes it.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }

    /// The blocks of a list, which are the caller's: its links are in their bytes.
    fn blocks_of(first: *mut FreeBlock) -> Vec<LinkedBlock> {
        let mut blocks = Vec::new();
        let mut next = NonNull::new(first);
        while let Some(block) = next {
            let held = LinkedBlock(block.cast());
            held.fill();
            // SAFETY: the link was written when the block was put on the list, which is the caller's.
            next = NonNull::new(unsafe { block.read() }.next);
            blocks.push(held);
        }
        blocks
    }

    #[test]
    fn what_others_free_the_owner_collects_once_and_alone() {
        loom::model(|| {
            let frees = Arc::new(RemoteFrees::new());
            let free = || {
                let (frees, block) = (Arc::clone(&frees), LinkedBlock::new());
                thread::spawn(move || {
                    block.fill();
                    assert_eq!(block.push(&frees), PushResult::Pushed);
                })
            };
            let threads = [free(), free()];
            let mut collected = 0;
            while collected < threads.len() {
                let blocks = blocks_of(frees.take_all());
                blocks.iter().for_each(|block| block.delete());
                collected += blocks.len();
                thread::yield_now();
            }
            threads.into_iter().for_each(|thread| thread.join().expect("freeing does not fail"));
            assert!(frees.take_all().is_null());
        });
    }

    /// A pool with the blocks that are out when its last handle goes.
    struct ModelPool {
        frees: RemoteFrees,
        blocks: [LinkedBlock; 2],
        destroyed: UnsafeCell<u32>,
    }

    // SAFETY: loom sees who counts that it is destroyed.
    unsafe impl Sync for ModelPool {}
    // SAFETY: likewise.
    unsafe impl Send for ModelPool {}

    impl ModelPool {
        /// Who destroys a pool uses all of its memory.
        fn end_with(&self, result: PushResult) {
            if result == PushResult::LastBlock {
                self.blocks.iter().for_each(|block| block.fill());
                // SAFETY: loom sees that nobody else uses it.
                self.destroyed.with_mut(|count| unsafe { *count += 1 });
            }
        }
    }

    #[test]
    fn a_pool_that_goes_while_its_blocks_come_back_is_destroyed_once_by_the_last() {
        loom::model(|| {
            let blocks = [LinkedBlock::new(), LinkedBlock::new()];
            let pool = Arc::new(ModelPool { frees: RemoteFrees::new(), blocks, destroyed: UnsafeCell::new(0) });
            let threads = blocks.map(|block| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || {
                    block.fill();
                    pool.end_with(block.push(&pool.frees));
                })
            });
            let came_back = blocks_of(pool.frees.close()).len();
            pool.end_with(pool.frees.set_outstanding(blocks.len() - came_back));
            threads.into_iter().for_each(|thread| thread.join().expect("freeing does not fail"));
            // SAFETY: the other threads have ended.
            assert_eq!(pool.destroyed.with(|count| unsafe { *count }), 1);
            blocks.iter().for_each(|block| block.delete());
        });
    }

    /// A block that several hold.
    #[repr(C)]
    struct SharedBlock {
        header: BlockHeader,
        bytes: UnsafeCell<u32>,
        /// How often it was freed; loom need not see it.
        frees: std::sync::atomic::AtomicU32,
    }

    /// One reference to a shared block.
    struct Holder(NonNull<SharedBlock>);

    // SAFETY: its count is atomic, and loom sees who uses its bytes.
    unsafe impl Send for Holder {}

    impl Holder {
        fn new() -> Self {
            let (header, bytes) = (BlockHeader::with_one_ref(0), UnsafeCell::new(0));
            let block = SharedBlock { header, bytes, frees: std::sync::atomic::AtomicU32::new(0) };
            Holder(NonNull::from(Box::leak(Box::new(block))))
        }

        fn block(&self) -> &SharedBlock {
            // SAFETY: shared blocks live until `delete`.
            unsafe { self.0.as_ref() }
        }

        fn share(&self) -> Holder {
            self.block().header.retain();
            Holder(self.0)
        }

        fn read(&self) -> u32 {
            // SAFETY: loom sees that nobody writes at the same time.
            self.block().bytes.with(|bytes| unsafe { *bytes })
        }

        /// For the only holder.
        fn fill(&self) {
            // SAFETY: loom sees that nobody else uses the bytes.
            self.block().bytes.with_mut(|bytes| unsafe { *bytes += 1 });
        }

        fn release(self) {
            // SAFETY: the holder's reference is given up.
            if unsafe { BlockHeader::release(self.0.cast()) } {
                self.fill();
                self.block().frees.fetch_add(1, Ordering::Relaxed);
            }
        }

        /// After all holders have released it.
        fn delete(block: NonNull<SharedBlock>) -> u32 {
            // SAFETY: it came from a box, and nobody holds it any more.
            unsafe { Box::from_raw(block.as_ptr()) }.frees.into_inner()
        }
    }

    #[test]
    fn the_last_of_three_holders_alone_frees_a_block() {
        loom::model(|| {
            let holder = Holder::new();
            let block = holder.0;
            let others = [holder.share(), holder.share()];
            let threads = others.map(|other| {
                thread::spawn(move || {
                    assert_eq!(other.read(), 0);
                    other.release();
                })
            });
            assert_eq!(holder.read(), 0);
            holder.release();
            threads.into_iter().for_each(|thread| thread.join().expect("releasing does not fail"));
            assert_eq!(Holder::delete(block), 1);
        });
    }

    #[test]
    fn a_block_is_written_again_only_when_its_other_holders_are_gone() {
        loom::model(|| {
            let holder = Holder::new();
            let block = holder.0;
            let other = holder.share();
            let thread = thread::spawn(move || {
                let another = other.share();
                other.release();
                assert_eq!(another.read(), 0);
                another.release();
            });
            if holder.block().header.is_unique() {
                holder.fill();
            }
            thread.join().expect("releasing does not fail");
            holder.release();
            assert_eq!(Holder::delete(block), 1);
        });
    }
}
