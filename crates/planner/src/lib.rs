//! Chooses trees: what a node costs, what a tree is predicted to do, and which trees are worth having.
//!
//! Enters: what was measured of trees; a wish.  Leaves: costs with intervals; predictions; trees, of which none is worse than another
//!         in everything.
//! Owns:   the model of a node, how its costs are fitted, and the search.
//! Never:  measures, reads a file, starts anything.
//!
//! Read `observation` (what was measured), `costs` (what it comes to), `node` (the model), `predict`.
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
/// What both the planner and its users call a tree: its levels need not divide evenly.
pub use topology::Tree as Shape;
