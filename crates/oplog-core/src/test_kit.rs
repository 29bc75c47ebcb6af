//! What tests and benches of this crate and of others share. Nothing of it is in a build of the product.

pub mod metadata;
#[cfg(feature = "mooncake")]
mod mooncake_primary;

#[cfg(feature = "mooncake")]
pub use mooncake_primary::MooncakePrimary;
