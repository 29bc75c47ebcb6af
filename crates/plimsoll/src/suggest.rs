//! Owns the guess at what somebody meant to type.

/// `"; did you mean x?"` for the closest of `known`, or nothing if none is close.
pub(crate) fn suggestion<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    closest(typed, known).map_or_else(String::new, |k| format!("; did you mean `{k}`?"))
}

fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(typed, k), k))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_is_suggested_and_nothing_far_off() {
        let known = ["listen", "admin_listen", "cluster"];
        assert_eq!(suggestion("lsiten", known), "; did you mean `listen`?");
        assert_eq!(suggestion("zzz", known), "");
    }
}
