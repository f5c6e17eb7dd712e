//! Limits of links, and the relations between them. What an operator may change is an option of a call instead.

/// Most parts that one system call gathers. The kernel takes 1,024; beyond some dozens a call moves so many bytes that
/// its fixed cost is negligible, while the array of parts has to be filled for each call.
pub const GATHER_PARTS_MAX: usize = 64;

/// Most bytes one system call moves on Linux (`MAX_RW_COUNT`, a little under 2 GiB). A call with more may return a
/// short count although the socket would take the rest.
pub(crate) const CALL_BYTES_MAX: usize = 0x7fff_f000;

/// Bodies below this many bytes are cheaper to copy than to gather, on sockets (measured: the lines cross at 4 KiB).
pub const COPY_THRESHOLD_BYTES: usize = 4096;

/// Default of [`ListenOptions::backlog`](crate::ListenOptions::backlog).
pub(crate) const BACKLOG_DEFAULT: u32 = 1024;

/// Longest text an [`Address`](crate::Address) is parsed from, in bytes.
pub(crate) const ADDRESS_BYTES_MAX: usize = 1024;

/// Most steps of a simulated connection during one `wait`.
pub(crate) const SIM_WAIT_STEPS_MAX: u32 = 10_000;

/// Most bytes that a simulated connection buffers in one direction, whatever its options are.
pub(crate) const SIM_WINDOW_BYTES_MAX: usize = 16 << 20;

/// Most plain bytes of a TLS record (RFC 8446 §5.1).
pub const TLS_RECORD_PLAIN_BYTES: usize = 1 << 14;

/// Most overhead of a record with the ciphers in use: header, explicit nonce, tag, type.
pub(crate) const TLS_RECORD_EXTRA_BYTES: usize = 5 + 8 + 16 + 1;

/// Most bytes of a record that a peer may send (RFC 5246 §6.2.3).
pub const TLS_RECORD_BYTES_MAX: usize = 5 + TLS_RECORD_PLAIN_BYTES + 2048;

/// The buffer into which a thread reads and decrypts for all its TLS links.
pub(crate) const TLS_RECEIVE_BYTES: usize = 128 * 1024;

/// Plain bytes that are encrypted for one write. What the socket does not take is kept.
pub(crate) const TLS_SEND_BYTES: usize = 128 * 1024;

/// Most bytes of an unfinished handshake that are buffered: long certificate chains have a third of it.
pub(crate) const TLS_HANDSHAKE_BYTES_MAX: usize = 32 * 1024;

/// Most bytes of a certificate or key file.
pub(crate) const TLS_FILE_BYTES_MAX: u64 = 4 << 20;

/// A read over TLS whose content is less than this part of its bytes, one eighth, has very small records, or such as are TLS's own.
pub(crate) const TLS_FRUITLESS_DIVISOR: usize = 8;

const _: () = assert!(TLS_RECEIVE_BYTES > 2 * TLS_RECORD_BYTES_MAX + TLS_HANDSHAKE_BYTES_MAX);
const _: () = assert!(TLS_RECORD_PLAIN_BYTES + TLS_RECORD_EXTRA_BYTES <= TLS_RECORD_BYTES_MAX);
const _: () = assert!(TLS_SEND_BYTES.is_multiple_of(TLS_RECORD_PLAIN_BYTES));
const _: () = assert!(GATHER_PARTS_MAX > 1 && GATHER_PARTS_MAX <= 1024, "IOV_MAX of Linux");
const _: () = assert!(COPY_THRESHOLD_BYTES * GATHER_PARTS_MAX < CALL_BYTES_MAX);
