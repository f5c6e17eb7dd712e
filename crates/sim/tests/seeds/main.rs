//! Seeds of every kind of world, in one program: each that is linked takes as long as all their runs.

mod durable_seeds;
mod feature_seeds;
mod federation_seeds;
mod runs;
