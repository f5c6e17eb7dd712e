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
pub mod held;
pub mod limits;
mod lines;
mod node;
mod observation;
pub mod paper;
mod predict;
mod profile;
mod search;
mod sizes;

pub use costs::{Basis, CostSet, Reach, SizeCosts};
pub use estimate::Estimate;
pub use fit::{Unfit, fit, wire_bytes_presumed};
pub use node::{Host, NodeTime, Nodes, Place, Reason};
pub use observation::Observation;
pub use predict::{Bottleneck, LevelLoad, Prediction, predict, predict_with, processors_us};
pub use profile::{Profile, SCHEMA, Sharing, Unusable, VERSION};
pub use search::{Candidate, Front, Impossible, Wish, search};
pub use sizes::{Resting, Unpriced};
/// What both the planner and its users call a tree: its levels need not divide evenly.
pub use topology::Tree as Shape;
