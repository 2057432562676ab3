//! Times, headers and formats as people have them.
