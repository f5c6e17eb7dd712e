//! Finds an attribute that a device does not report, with a queue pair that is never connected.

use std::ptr;

use crate::abi;
use crate::completion::CompletionQueue;
use crate::error::IbError;
use crate::limits::SGE_MAX;
use crate::region::ProtectionDomain;

/// How many bytes the device sends inline, at most `wanted`.
///
/// Devices refuse a queue pair with too large a limit without reporting the largest possible one, so this halves the
/// limit until the device accepts it.
///
/// # Errors
/// The operating system's error for a queue pair without inline sends; [`IbError::Limit`] for `pieces_max`.
pub fn probe_inline_bytes(
    domain: &ProtectionDomain,
    queue: &CompletionQueue,
    pieces_max: u32,
    wanted: u32,
) -> Result<u32, IbError> {
    IbError::check_limit("pieces of a send", pieces_max as usize, SGE_MAX)?;
    if queue.shared().context() != domain.context() {
        return Err(IbError::InvalidState("a queue pair and its resources must belong to one device"));
    }
    let mut bytes = wanted;
    loop {
        let mut attributes = abi::IbvQpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: queue.shared().raw(),
            recv_cq: queue.shared().raw(),
            srq: ptr::null_mut(),
            cap: abi::IbvQpCap {
                max_send_wr: 1,
                max_recv_wr: 1,
                max_send_sge: pieces_max,
                max_recv_sge: 1,
                max_inline_data: bytes,
            },
            qp_type: abi::QPT_RC,
            sq_sig_all: 0,
        };
        let verbs = domain.context().verbs();
        // SAFETY: the domain and the queue exist, and are of one device.
        let raw = unsafe { (verbs.ibv_create_qp)(domain.raw(), &mut attributes) };
        if !raw.is_null() {
            // SAFETY: made just now, and nothing was done with it.
            IbError::check("ibv_destroy_qp", unsafe { (verbs.ibv_destroy_qp)(raw) })?;
            return Ok(bytes);
        }
        let error = IbError::last_os_error("ibv_create_qp");
        if bytes == 0 {
            return Err(error);
        }
        bytes /= 2;
    }
}
