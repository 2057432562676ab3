//! The paper, reproduced: H. Kasai and B. Mishra, *Riemannian preconditioning for tensor completion*,
//! every case and every system that it compares with.
//!
//! | module | question |
//! |---|---|
//! | [`cases`] | what are S1 to S8, R1 and R2, and with which sizes? |
//! | [`instance`] | which entries does an instance have? |
//! | [`factored`] | ours, steepest descent, geomCG: the engine's own solver |
//! | [`topt`] | TOpt (Filipovic and Jukic 2013) |
//! | [`dense`] | HaLRTC, Latent, Hard: the ones that hold the whole tensor |
//! | [`record`] | what did a run come to? CSV out and in |
//! | [`figure`], [`picture`], [`npy`] | SVG, PNG and numpy files |
//! | [`results`] | which claims hold? |

pub mod cases;
pub mod dense;
pub mod factored;
pub mod figure;
pub mod instance;
pub mod npy;
pub mod picture;
pub mod record;
pub mod results;
pub mod topt;

/// What goes wrong here is said to a person and ends the program.
pub type Result<T> = std::result::Result<T, String>;

/// Any error as the sentence that it is.
pub fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
