//! Chooses trees of brokers: fits the costs of nodes, predicts what a tree does, and searches for the trees worth
//! having.
//!
//! Read `observation` (measurements), `costs` (fitted from them), `node_model`, `predict`, then `search`.
#![forbid(unsafe_code)]

mod costs;
mod estimate;
mod fit;
pub mod paper_comparison;
pub mod limits;
mod regression;
mod node_model;
mod observation;
pub mod paper;
mod predict;
mod profile;
mod search;
mod size_interpolation;

pub use costs::{Basis, CostSet, MeasuredRange, SizeCosts};
pub use estimate::Estimate;
pub use fit::{FitError, fit, estimated_wire_bytes};
pub use node_model::{HostModel, NodeTime, NodeModel, TreePosition, LimitingResource};
pub use observation::Observation;
pub use predict::{Bottleneck, LevelLoad, Prediction, predict, predict_with, processors_us};
pub use profile::{Profile, SCHEMA, Sharing, ProfileError, VERSION};
pub use search::{Candidate, ParetoFront, Unsatisfiable, TreeRequirements, search};
pub use size_interpolation::{CostSource, MissingCosts};
/// A tree, as the planner and its users call it; its levels need not divide evenly.
pub use topology::Tree as Shape;
