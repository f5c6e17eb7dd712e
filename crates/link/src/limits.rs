//! Limits of the link room.
//!
//! Leaves: the sizes and counts no link goes beyond.
//! Owns:   their relations, checked when the crate is compiled.
//! Never:  reads a setting; what an operator may change is an option of a call.

/// Most parts that one system call gathers. The kernel takes 1,024; beyond some dozens a call moves so many bytes
/// that its fixed cost no longer shows, while the array of parts has to be laid out for each call.
pub const GATHER_PARTS_MAX: usize = 64;

/// Most bytes one system call moves on Linux (`MAX_RW_COUNT`, a little under 2 GiB). A call that was offered more may
/// come back short although the socket would take the rest.
pub const CALL_BYTES_MAX: usize = 0x7fff_f000;

/// Bodies below this many bytes are cheaper to copy than to gather, on sockets (measured: the lines cross at 4 KiB).
pub const COPY_THRESHOLD_BYTES: usize = 4096;

/// Connections the kernel holds for a listener that is not accepting, where the caller names no other number.
pub const BACKLOG_DEFAULT: u32 = 1024;

/// Longest text an [`Address`](crate::Address) is parsed from, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 1024;

/// Longest name of a congestion control that Linux knows (`TCP_CA_NAME_MAX` less the end), in bytes.
pub const CONGESTION_NAME_BYTES_MAX: usize = 15;

/// Steps a simulated link moves on at most while somebody waits for it.
pub const SIM_WAIT_STEPS_MAX: u32 = 10_000;

/// Most bytes a simulated link holds in one direction, whatever its options say.
pub const SIM_WINDOW_BYTES_MAX: usize = 16 << 20;

/// Most plain bytes of a TLS record (RFC 8446 §5.1).
pub const TLS_RECORD_PLAIN_BYTES: usize = 1 << 14;

/// What a record is longer than its plain bytes, at most, for the ciphers in use: head, explicit nonce, tag, type.
pub const TLS_RECORD_EXTRA_BYTES: usize = 5 + 8 + 16 + 1;

/// Most bytes of a record that a peer may send (RFC 5246 §6.2.3).
pub const TLS_RECORD_BYTES_MAX: usize = 5 + TLS_RECORD_PLAIN_BYTES + 2048;

/// The buffer in which a thread decrypts what its TLS links receive. One read of a socket moves no more.
pub const TLS_RECEIVE_BYTES: usize = 128 * 1024;

/// Plain bytes that are encrypted for one call to the system. What the socket does not take of them is kept.
pub const TLS_SEND_BYTES: usize = 128 * 1024;

/// Most bytes of an unfinished handshake that are kept of a peer: long chains of certificates have a third of it.
pub const TLS_HANDSHAKE_BYTES_MAX: usize = 32 * 1024;

/// Most bytes of a file of certificates or of a key.
pub const TLS_FILE_BYTES_MAX: u64 = 4 << 20;

const _: () = assert!(TLS_RECEIVE_BYTES > 2 * TLS_RECORD_BYTES_MAX + TLS_HANDSHAKE_BYTES_MAX);
const _: () = assert!(TLS_RECORD_PLAIN_BYTES + TLS_RECORD_EXTRA_BYTES <= TLS_RECORD_BYTES_MAX);
const _: () = assert!(TLS_SEND_BYTES.is_multiple_of(TLS_RECORD_PLAIN_BYTES));
const _: () = assert!(GATHER_PARTS_MAX > 1 && GATHER_PARTS_MAX <= 1024, "IOV_MAX of Linux");
const _: () = assert!(COPY_THRESHOLD_BYTES * GATHER_PARTS_MAX < CALL_BYTES_MAX);
