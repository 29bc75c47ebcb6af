//! Owns the layers of a configuration: defaults, then a TOML file, then the environment, then flags; later wins. Unknown keys
//! are refused here; values are checked in `build`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::settings::{self, SETTINGS, Setting};
use crate::suggest::suggestion;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Default,
    File(PathBuf),
    Env(String),
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Env(name) => f.write_str(name),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// A value as given, and where.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) source: Source,
}

/// The values of all layers put on each other.
#[derive(Clone)]
pub(crate) struct Layers {
    values: BTreeMap<&'static str, Given>,
}

/// Variables with our prefix that belong to something else: client commands, tests, and the links that Kubernetes sets for a
/// service of our name.
fn is_foreign_variable(name: &str) -> bool {
    const OURS_ELSEWHERE: [&str; 7] = ["ENDPOINTS", "TIMEOUT_MS", "CA", "CERT", "KEY", "LOG", "LOG_FORMAT"];
    let rest = name.trim_start_matches("PLIMSOLL_");
    OURS_ELSEWHERE.contains(&rest)
        || ["TEST_", "CI_", "BENCH_", "SERVICE_", "PORT_"].iter().any(|p| rest.starts_with(p))
        || rest == "PORT"
        || rest == "CONFIG"
}

impl Layers {
    /// The defaults.
    pub(crate) fn defaults() -> Self {
        let values = SETTINGS
            .iter()
            .filter_map(|s| Some((s.key, Given { text: s.default?.to_owned(), source: Source::Default })))
            .collect();
        Self { values }
    }

    /// Adds a TOML file.
    pub(crate) fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| ConfigError::new(format!("the configuration file {} cannot be read: {e}", path.display())))?;
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            let line = e.span().map_or(0, |s| text.get(..s.start).map_or(0, |t| t.matches('\n').count()) + 1);
            let why = e.message().replace('\n', ", ");
            ConfigError::new(format!("the configuration file {} is no TOML at line {line}: {why}", path.display()))
        })?;
        let mut flat = Vec::new();
        flatten("", &table, path, &mut flat)?;
        for (key, text) in flat {
            let source = Source::File(path.to_owned());
            let setting = settings::find(&key).ok_or_else(|| unknown_key(&key, &source))?;
            self.values.insert(setting.key, Given { text, source });
        }
        Ok(())
    }

    /// Adds the variables with our prefix out of `variables`.
    pub(crate) fn env(&mut self, variables: impl IntoIterator<Item = (String, String)>) -> Result<(), ConfigError> {
        let names: Vec<(String, &Setting)> = SETTINGS.iter().map(|s| (s.env(), s)).collect();
        for (name, text) in variables {
            if !name.starts_with("PLIMSOLL_") || is_foreign_variable(&name) {
                continue;
            }
            let Some((_, setting)) = names.iter().find(|(n, _)| *n == name) else {
                let guess = suggestion(&name, names.iter().map(|(n, _)| n.as_str()));
                return Err(ConfigError::new(format!(
                    "the environment variable {name} is no setting; unset it or see `plimsoll config check --list`{guess}"
                )));
            };
            self.values.insert(setting.key, Given { text, source: Source::Env(name) });
        }
        Ok(())
    }

    /// Adds one flag.
    pub(crate) fn flag(&mut self, key: &str, text: impl Into<String>) -> Result<(), ConfigError> {
        let setting = settings::find(key).ok_or_else(|| unknown_key(key, &Source::Flag))?;
        if setting.secret {
            return Err(ConfigError::new(format!(
                "{key} on the command line could be seen by everybody; use {key}_file or the variable {}",
                setting.env()
            )));
        }
        self.values.insert(setting.key, Given { text: text.into(), source: Source::Flag });
        Ok(())
    }

    pub(super) fn get(&self, key: &'static str) -> Option<&Given> {
        debug_assert!(settings::find(key).is_some(), "{key} is in the table");
        self.values.get(key)
    }

    /// Every setting with its value, hidden where it is a secret, and its source.
    pub(crate) fn report(&self) -> Vec<(&'static str, String, String)> {
        SETTINGS
            .iter()
            .map(|s| match self.values.get(s.key) {
                None => (s.key, "(not set)".to_owned(), String::new()),
                Some(given) if s.secret => (s.key, "(hidden)".to_owned(), given.source.to_string()),
                Some(given) => (s.key, shown(s.key, &given.text), given.source.to_string()),
            })
            .collect()
    }
}

/// A store URL that was refused may still hold a password.
fn shown(key: &str, text: &str) -> String {
    if key == "store" && (text.contains('@') || text.contains("password=")) {
        return "(hidden: holds a password)".to_owned();
    }
    text.to_owned()
}

fn unknown_key(key: &str, source: &Source) -> ConfigError {
    let guess = suggestion(key, SETTINGS.iter().map(|s| s.key));
    let guess = if guess.is_empty() { "; see `plimsoll config check --list`".to_owned() } else { guess };
    ConfigError::new(format!("{source} has the unknown configuration key `{key}`{guess}"))
}

fn flatten(above: &str, table: &toml::Table, path: &Path, flat: &mut Vec<(String, String)>) -> Result<(), ConfigError> {
    for (name, value) in table {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Table(inner)
                if above.is_empty() && SETTINGS.iter().any(|s| s.key.starts_with(&format!("{key}."))) =>
            {
                flatten(&key, inner, path, flat)?;
                continue;
            }
            toml::Value::Table(_) => return Err(unknown_key(&key, &Source::File(path.to_owned()))),
            other => {
                return Err(ConfigError::new(format!(
                    "{key} in {} is a {}; write a text, a whole number, true or false",
                    path.display(),
                    other.type_str()
                )));
            }
        };
        flat.push((key, text));
    }
    Ok(())
}
