//! manifold
