//! The program over this machine's RDMA device: brokers and clients that are processes of their own. In the lab the device
//! is one made of software (`tests/lab`); elsewhere each test says that it is skipped.

#[path = "card/deaths.rs"]
mod deaths;
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
#[path = "card/fixture.rs"]
mod fixture;
