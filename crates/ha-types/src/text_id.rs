//! Owns the shape of an id that is text: checked once where it enters, cheap to clone, borrowed as `str`. It must not
//! know any one id; each has a file of its own that says what is allowed in it.

/// Makes an id type and its error type. `allowed` decides over one character and its byte offset; `rule` says the same
/// in words for the error message.
macro_rules! text_id {
    (
        $(#[$doc:meta])*
        $name:ident, $(#[$error_doc:meta])* $error:ident,
        what: $what:literal, max_bytes: $max:literal, rule: $rule:literal, allowed: $allowed:expr $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(std::sync::Arc<str>);

        $(#[$error_doc])*
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        pub enum $error {
            /// It has no character.
            #[error("the {what} is empty; give 1 to {max} bytes", what = $what, max = $max)]
            Empty,
            /// It is longer than allowed.
            #[error("the {what} has {len} bytes; at most {max} are allowed", what = $what, max = $max)]
            TooLong {
                /// Its length in bytes.
                len: usize,
            },
            /// It has a character that is not allowed.
            #[error("the {what} {id:?} has {found:?} at byte {at}; {rule}", what = $what, rule = $rule)]
            Character {
                /// The text.
                id: String,
                /// The character.
                found: char,
                /// Its byte offset.
                at: usize,
            },
        }

        impl $name {
            /// The longest, in bytes.
            pub const MAX_BYTES: usize = $max;

            /// Checks the text.
            ///
            /// # Errors
            /// Names what is not allowed, and where.
            pub fn new(id: &str) -> Result<Self, $error> {
                Self::check(id)?;
                Ok(Self(id.into()))
            }

            /// Checks without keeping.
            ///
            /// # Errors
            /// As [`Self::new`].
            pub fn check(id: &str) -> Result<(), $error> {
                let allowed: fn(usize, char) -> bool = $allowed;
                if id.is_empty() {
                    return Err($error::Empty);
                }
                if id.len() > Self::MAX_BYTES {
                    return Err($error::TooLong { len: id.len() });
                }
                match id.char_indices().find(|(at, c)| !allowed(*at, *c)) {
                    Some((at, found)) => Err($error::Character { id: id.into(), found, at }),
                    None => Ok(()),
                }
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(id: &str) -> Result<Self, $error> {
                Self::new(id)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }
    };
}

pub(crate) use text_id;

#[cfg(test)]
mod tests;
