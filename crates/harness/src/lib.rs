//! What every tool is run by: its options, the processes of its roles and their places, launchers that start them on other
//! hosts, the brokers and relays that are measured, and the record of what was found.
//!
//! Read `target` first (what is measured), then `role_handle` (a process that measures), `launcher` (roles on other hosts)
//! and `run_recorder` (the document).
#![forbid(unsafe_code)]

pub mod arguments;
pub mod broker_log;
pub mod broker_network;
pub mod broker_process;
pub mod command;
pub mod command_reader;
pub mod command_spec;
pub mod delivery_window;
pub mod failure;
pub mod interrupt;
pub mod launcher;
pub mod limits;
pub mod measure_options;
pub mod open_files;
pub mod picked_port;
pub mod placement;
pub mod queue_feature;
pub mod ready_line;
pub mod role_client;
pub mod role_handle;
pub mod role_process;
pub mod role_protocol;
pub mod role_tasks;
pub mod run_recorder;
pub mod sampler;
pub mod scratch;
pub mod scripted_broker;
pub mod store_meter;
pub mod target;
pub mod target_meter;
pub mod tcp;
