//! Chooses trees of brokers: fits the costs of nodes, predicts what a tree does, and searches for the trees worth
//! having.
//!
//! Read `observation` (measurements), `costs` (fitted from them), `node_model`, `predict`, then `search`.
#![forbid(unsafe_code)]

mod costs;
mod estimate;
mod fit;
pub mod limits;
mod node_model;
mod observation;
pub mod paper;
pub mod paper_comparison;
mod predict;
mod profile;
mod regression;
mod search;
mod size_interpolation;

pub use costs::{Basis, CostSet, MeasuredRange, SizeCosts};
pub use estimate::Estimate;
pub use fit::{FitError, estimated_wire_bytes, fit};
pub use node_model::{HostModel, LimitingResource, NodeModel, NodeTime, TreePosition};
pub use observation::Observation;
pub use predict::{Bottleneck, LevelLoad, Prediction, predict, processors_us};
pub use profile::{Profile, ProfileError, SCHEMA, Sharing, VERSION};
pub use search::{Candidate, ParetoFront, TreeRequirements, Unsatisfiable, search};
pub use size_interpolation::{CostSource, MissingCosts};
/// A tree, as the planner and its users call it; its levels need not divide evenly.
pub use topology::Tree as Shape;
