//! Work requests and completions of a device.
//!
//! The only system call here is the doorbell of software devices.

use super::address::device_error;
use super::card_device::CardDevice;
use super::receive_order::ReceiveOrder;
use crate::device::{CompletionStatus, Device, DeviceError, QueuePairId, WorkCompletion, WorkRequest, WorkRequestId};
use crate::limits::MESSAGE_PARTS_MAX;
use ib::{LocalKey, POLL_BATCH, PostOptions, SendSegment, SharedReceiveQueue, TaggedMemory};
use slab::BlockMut;

/// Stands for the queue pair of a receive whose queue pair is destroyed.
const NO_QUEUE_PAIR: u32 = u32::MAX;

impl CardDevice {
    pub fn post_all_receives(&mut self, buffers: &mut Vec<(WorkRequestId, BlockMut)>) -> Result<(), DeviceError> {
        let receives = match &mut self.receive_queue {
            Some(receives) => receives,
            None => self.receive_queue.insert(
                SharedReceiveQueue::new(self.registrations.domain(), buffers.len() as u32).map_err(device_error)?,
            ),
        };
        let list = &mut self.receive_list;
        for (id, memory) in buffers.drain(..) {
            let key = self.registrations.block_key(&memory).map_err(device_error)?;
            let owned = TaggedMemory { memory, tag: id.0 };
            list.push((TaggedMemory { memory: owned, tag: self.receive_order.on_posted() }, key));
        }
        receives.post(list).map_err(device_error)?;
        if list.is_empty() {
            Ok(())
        } else {
            Err(DeviceError("more receive buffers than the queue was made for".into()))
        }
    }

    pub fn post_all(&mut self, number: u32, list: &mut [WorkRequest]) -> Result<(), DeviceError> {
        let CardDevice { connections: conns, registrations, heads, .. } = self;
        let pair = conns.get_mut(&number).filter(|conn| conn.destroy_at.is_none()).and_then(|conn| conn.pair.as_mut());
        let pair = pair.ok_or_else(|| DeviceError("no such queue pair".into()))?;
        let mut batch = pair.batch();
        for work in list {
            match work {
                WorkRequest::Send { id, head, parts, inline: true, signalled } => {
                    let mut pieces: [&[u8]; MESSAGE_PARTS_MAX + 1] = [&[]; MESSAGE_PARTS_MAX + 1];
                    let all = [head.as_bytes()].into_iter().chain(parts.iter().map(|part| &part[..]));
                    let count =
                        all.filter(|piece| !piece.is_empty()).zip(&mut pieces).map(|(piece, at)| *at = piece).count();
                    batch
                        .send_inline(&pieces[..count], PostOptions { cookie: id.0, signalled: *signalled })
                        .map_err(device_error)?;
                }
                WorkRequest::Send { id, head, parts, inline: false, signalled } => {
                    // The device reads the header after this call, so it has a slot until its completion.
                    let mut pieces: [Option<(SendSegment, LocalKey)>; MESSAGE_PARTS_MAX + 1] = Default::default();
                    pieces[0] = Some(heads.fill(head.as_bytes()).map_err(device_error)?);
                    for (part, at) in parts.iter_mut().filter(|part| !part.is_empty()).zip(&mut pieces[1..]) {
                        let part = std::mem::take(part);
                        let key = registrations.key(&part).map_err(device_error)?;
                        *at = Some((SendSegment::Shared(part), key));
                    }
                    let how = PostOptions { cookie: id.0, signalled: *signalled };
                    batch.send(pieces.into_iter().flatten(), how).map_err(device_error)?;
                }
                WorkRequest::Read { id, into, at, bytes, address, key } => {
                    let into = std::mem::take(into);
                    let own = registrations.block_key(&into).map_err(device_error)?;
                    let from = ib::RemoteMemory { address: *address, bytes: u64::from(*bytes), key: *key };
                    let how = PostOptions { cookie: id.0, signalled: true };
                    batch.read_part(into, *at, *bytes as usize, own, from, how).map_err(device_error)?;
                }
            }
        }
        batch.post().map(drop).map_err(device_error)
    }

    /// Appends at most `most` completions. Fewer mean that there are no more.
    pub fn poll_completions(&mut self, into: &mut Vec<WorkCompletion>, most: usize) -> Result<usize, DeviceError> {
        let before = into.len();
        let end = before + most;
        while into.len() < end
            && let Some(completion) = self.ready.pop_front()
        {
            into.push(completion);
        }
        let mut batch = std::mem::take(&mut self.batch);
        while into.len() + POLL_BATCH <= end {
            let polled = self.completion_queue.poll(&mut batch).map_err(device_error)?;
            for completion in batch.drain(..) {
                into.extend(self.translate_completion(completion));
            }
            if polled < POLL_BATCH {
                break;
            }
        }
        self.batch = batch;
        Ok(into.len() - before)
    }

    /// Polls all completions into `ready`.
    pub fn drain(&mut self) -> Result<(), DeviceError> {
        let mut batch = std::mem::take(&mut self.batch);
        loop {
            let polled = self.completion_queue.poll(&mut batch).map_err(device_error)?;
            for completion in batch.drain(..) {
                if let Some(completion) = self.translate_completion(completion) {
                    self.ready.push_back(completion);
                }
            }
            if polled < POLL_BATCH {
                break;
            }
        }
        self.batch = batch;
        Ok(())
    }

    /// Converts a completion; `None` if its work was returned when the queue pair was destroyed.
    fn translate_completion(&mut self, completion: ib::Completion) -> Option<WorkCompletion> {
        let status = translate_status(completion.status());
        if let Some(receives) =
            self.receive_queue.as_mut().filter(|receives| receives.work_queue() == completion.work_queue())
        {
            let (device_number, bytes) = (completion.queue_pair(), completion.bytes());
            // An error would mean a duplicate completion, whose buffer was returned already.
            let TaggedMemory { memory: TaggedMemory { memory, tag: number }, tag: turn } =
                receives.on_completion(completion).ok()?;
            self.receive_order.on_returned(turn);
            let pair = QueuePairId(self.by_device_number.get(&device_number).copied().unwrap_or(NO_QUEUE_PAIR));
            return Some(WorkCompletion { id: WorkRequestId(number), pair, status, bytes, memory });
        }
        let number = *self.by_tag.get(&completion.work_queue())?;
        let pair = self.connections.get_mut(&number)?.pair.as_mut()?;
        let heads = &mut self.heads;
        // Likewise.
        pair.on_completion_with(completion, &mut self.finished, |piece| heads.release(piece)).ok()?;
        let last = self.finished.pop()?;
        self.flush_finished(number);
        let memory = last.read_memory.unwrap_or_default();
        Some(WorkCompletion { id: WorkRequestId(last.cookie), pair: QueuePairId(number), status, bytes: 0, memory })
    }

    /// Returns the memory of READs that had no completion of their own.
    fn flush_finished(&mut self, number: u32) {
        for work in self.finished.drain(..) {
            if let Some(memory) = work.read_memory {
                let (id, pair) = (WorkRequestId(work.cookie), QueuePairId(number));
                self.ready.push_back(WorkCompletion { id, pair, status: CompletionStatus::Flushed, bytes: 0, memory });
            }
        }
    }

    /// Destroys the queue pairs that their owner has destroyed, when the device has reported their last receive, or
    /// after a while, because not every device reports it.
    ///
    /// Some devices discard completions that were not polled when a queue pair is destroyed, and with them receive
    /// buffers and the memory of READs. So the queue pair was moved to the error state before (`disconnect`), all
    /// completions are polled here, and outstanding work is returned as flushed.
    pub fn destroy_leaving(&mut self) -> Result<(), DeviceError> {
        if self.leaving.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let conns = &self.connections;
        let is_due = |number: &mut u32| {
            conns.get(number).is_none_or(|conn| conn.last_wqe_reached || conn.destroy_at.is_none_or(|at| at <= now))
        };
        let due: Vec<u32> = self.leaving.extract_if(.., is_due).collect();
        if due.is_empty() {
            return Ok(());
        }
        self.drain()?;
        let mut left = Vec::new();
        for number in due {
            let Some(pair) = self.connections.get_mut(&number).and_then(|conn| conn.pair.take()) else { continue };
            left.push((number, pair.work_queue(), pair.number()));
            let heads = &mut self.heads;
            pair.destroy(&mut self.finished, |piece| heads.release(piece));
            self.flush_finished(number);
        }
        // Once more before the device can reuse their numbers: the last completions are still theirs.
        self.drain()?;
        for (number, tag, device_number) in left {
            self.by_tag.remove(&tag);
            self.by_device_number.remove(&device_number);
            self.connections.remove(&number);
            self.mailbox.remove_queue_pair();
        }
        self.recreate_receive_queue()
    }

    /// Recovers receive buffers that the device has not returned. By the standard it returns every buffer that it took
    /// for a queue pair; some devices do not if the connection ended in the middle of a message. Destroying the queue
    /// returns them, which is possible only when no queue pair uses it.
    fn recreate_receive_queue(&mut self) -> Result<(), DeviceError> {
        let missing = self.receive_order.missing();
        if missing == 0 || !self.by_tag.is_empty() {
            return Ok(());
        }
        let Some(receives) = self.receive_queue.take() else { return Ok(()) };
        let slots = receives.posted() + receives.free_slots();
        match receives.destroy() {
            Ok(buffers) => {
                tracing::debug!(
                    "RDMA: {} has not returned {missing} receive buffers; they are recovered",
                    self.context.name()
                );
                self.receive_order = ReceiveOrder::default();
                self.receive_queue =
                    Some(SharedReceiveQueue::new(self.registrations.domain(), slots as u32).map_err(device_error)?);
                self.ready.extend(buffers.into_iter().map(
                    |TaggedMemory { memory: TaggedMemory { memory, tag: number }, .. }| {
                        let (id, pair) = (WorkRequestId(number), QueuePairId(NO_QUEUE_PAIR));
                        WorkCompletion { id, pair, status: CompletionStatus::Flushed, bytes: 0, memory }
                    },
                ));
            }
            Err(receives) => self.receive_queue = Some(receives),
        }
        Ok(())
    }
}

fn translate_status(status: ib::WcStatus) -> CompletionStatus {
    match status {
        ib::WcStatus::SUCCESS => CompletionStatus::Success,
        ib::WcStatus::WR_FLUSH => CompletionStatus::Flushed,
        ib::WcStatus::RETRY_EXCEEDED => CompletionStatus::RetryExceeded,
        ib::WcStatus::RNR_RETRY_EXCEEDED => CompletionStatus::RnrRetryExceeded,
        ib::WcStatus::LOCAL_LENGTH => CompletionStatus::LocalLength,
        ib::WcStatus::LOCAL_PROTECTION => CompletionStatus::LocalProtection,
        ib::WcStatus::REMOTE_ACCESS => CompletionStatus::RemoteAccess,
        other => CompletionStatus::Other(other.number().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::device_with_address;
    use super::CardDevice;
    use crate::device::{CompletionStatus, Device, WorkRequestId};
    use slab::{Pool, PoolOptions};
    use std::io::Write as _;

    /// No device at hand keeps buffers, so this simulates that only the last of four was returned.
    #[test]
    fn buffers_that_the_device_forgot_come_back_when_no_queue_pair_is_left() {
        let Ok(ip) = std::env::var("LAB_ADDRESS") else {
            assert!(std::env::var_os("LAB_MUST").is_none(), "LAB_ADDRESS is not set");
            // Past the capture of tests that pass, so that it is seen.
            let said = writeln!(std::io::stdout(), "\nSKIPPED: LAB_ADDRESS does not say which address to use");
            return said.expect("standard output");
        };
        let context =
            device_with_address(format!("{ip}:0").parse().expect("an address")).expect("the lab has a device");
        let mut card = CardDevice::open(&context).expect("it can be opened");
        let pool = Pool::new(PoolOptions::default());
        let mut buffers: Vec<_> = (0..4).map(|at| (WorkRequestId(at), pool.block(256))).collect();
        card.post_receives(&mut buffers).expect("it takes buffers");
        card.recreate_receive_queue().expect("the device is whole");
        assert!(card.ready.is_empty(), "nothing is missing");
        card.receive_order.on_returned(3);
        card.recreate_receive_queue().expect("the device is whole");
        let mut back = Vec::new();
        assert_eq!(card.poll(&mut back, 64).expect("the device is whole"), 4);
        assert!(back.iter().all(|one| one.status == CompletionStatus::Flushed && one.memory.len() == 256));
        let mut again: Vec<_> = back.into_iter().map(|one| (one.id, one.memory)).collect();
        card.post_receives(&mut again).expect("the new queue takes as many");
        assert_eq!(card.receive_order.missing(), 0);
    }
}
