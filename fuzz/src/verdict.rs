//! Owns what a decoder said of an input.

/// What a decoder said of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It decoded, and all that is asked of what decodes holds.
    Accepted,
    /// It was refused; the error in words.
    Refused(String),
}

impl Verdict {
    /// A refusal by `error`, which must say something.
    pub(crate) fn refused(error: &impl std::fmt::Display) -> Self {
        let text = error.to_string();
        assert!(!text.trim().is_empty(), "an error without words");
        Self::Refused(text)
    }

    /// As [`Self::refused`]; the error must name a field, where it begins, and what was expected and found.
    pub(crate) fn refused_at(
        error: &impl std::fmt::Display,
        input: &[u8],
        (field, offset): (&str, usize),
        (expected, found): (&str, &str),
    ) -> Self {
        assert!(!field.is_empty() && !expected.is_empty(), "an error that names no place: {error}");
        assert!(offset <= input.len(), "offset {offset} lies beyond the {} bytes: {error}", input.len());
        // A hostile value may be long; what is said about it may not.
        assert!(found.len() <= 4096, "an error of {} bytes about one value", found.len());
        Self::refused(error)
    }
}
