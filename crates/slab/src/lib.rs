//! slab
