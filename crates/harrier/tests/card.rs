//! Brokers and clients as processes, over this machine's RDMA device. In the lab that is a software device
//! (`tests/lab`); elsewhere each test reports that it is skipped.

#[path = "card/deaths.rs"]
mod deaths;
#[path = "card/fixture.rs"]
mod fixture;
#[path = "card/hosts.rs"]
mod hosts;
#[path = "card/many.rs"]
mod many;
#[path = "card/outage.rs"]
mod outage;
#[path = "card/peers.rs"]
mod peers;
#[path = "card/sizes.rs"]
mod sizes;
