//! Scales, stops and what is not finite.
