//! Models and clusters that come with the crate, one TOML file each, sources inside.

use crate::{Cluster, Model, SimulateError};

macro_rules! files {
    ($folder:literal, $($name:literal),+) => {
        [$(($name, include_str!(concat!("../presets/", $folder, "/", $name, ".toml")))),+]
    };
}

/// Name and text of every model.
const MODELS: [(&str, &str); 7] = files!(
    "models",
    "ling-3.0-tiny-like",
    "ling-3.0-flash-like",
    "qwen3-30b-a3b",
    "qwen3-235b-a22b",
    "deepseek-v3",
    "glm-4.5",
    "mixed-half-qwen3"
);

/// Name and text of every cluster.
const CLUSTERS: [(&str, &str); 4] = files!("clusters", "h20", "h100", "h200", "b200");

/// Names of the models that come with the crate.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|(name, _)| *name)
}

/// Names of the clusters that come with the crate.
pub fn cluster_names() -> impl Iterator<Item = &'static str> {
    CLUSTERS.iter().map(|(name, _)| *name)
}

/// The model of this name.
///
/// # Errors
/// There is none.
pub fn model(name: &str) -> Result<Model, SimulateError> {
    parse_model(find("model", &MODELS, name)?, name)
}

/// The cluster of this name.
///
/// # Errors
/// There is none.
pub fn cluster(name: &str) -> Result<Cluster, SimulateError> {
    parse_cluster(find("cluster", &CLUSTERS, name)?, name)
}

/// Reads a model from TOML; `name` stands for the file in messages.
///
/// # Errors
/// The text is no TOML, has unknown keys, or describes no model.
pub fn parse_model(text: &str, name: &str) -> Result<Model, SimulateError> {
    let model: Model = parse(text, name)?;
    model
        .check()
        .map_err(|error| SimulateError::Form { name: name.to_owned(), message: error.to_string() })?;
    Ok(model)
}

/// Reads a cluster from TOML; `name` stands for the file in messages.
///
/// # Errors
/// The text is no TOML, has unknown keys, or describes no cluster.
pub fn parse_cluster(text: &str, name: &str) -> Result<Cluster, SimulateError> {
    let cluster: Cluster = parse(text, name)?;
    cluster
        .check()
        .map_err(|error| SimulateError::Form { name: name.to_owned(), message: error.to_string() })?;
    Ok(cluster)
}

fn parse<T: serde::de::DeserializeOwned>(text: &str, name: &str) -> Result<T, SimulateError> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let place = line.map_or_else(String::new, |line| format!("line {line}: "));
        let message = format!("{place}{}", error.message().replace('\n', "; "));
        SimulateError::Form { name: name.to_owned(), message }
    })
}

fn find<'a>(
    kind: &'static str,
    presets: &[(&'static str, &'a str)],
    name: &str,
) -> Result<&'a str, SimulateError> {
    let found = presets.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| {
        let known: Vec<&str> = presets.iter().map(|(name, _)| *name).collect();
        SimulateError::Name { kind, name: name.to_owned(), known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_describes_something_and_says_where_it_is_from() {
        for name in model_names() {
            assert!(!model(name).expect("parses").sources.is_empty(), "{name}");
        }
        for name in cluster_names() {
            assert!(!cluster(name).expect("parses").sources.is_empty(), "{name}");
        }
    }

    #[test]
    fn totals_are_the_published_ones() {
        // Billions of parameters as their names and model cards have them.
        for (name, published) in [
            ("qwen3-30b-a3b", 30.5),
            ("qwen3-235b-a22b", 235.0),
            ("deepseek-v3", 671.0),
            ("glm-4.5", 355.0),
            ("ling-3.0-tiny-like", 7.9),
            ("ling-3.0-flash-like", 124.0),
        ] {
            let total = model(name).expect("preset").parameters() as f64 / 1e9;
            assert!((total / published - 1.0).abs() < 0.05, "{name}: {total} against {published}");
        }
    }

    #[test]
    fn unknown_names_and_keys_are_refused() {
        let error = model("gpt").expect_err("no such model").to_string();
        assert!(error.contains("qwen3-30b-a3b"), "{error}");
        let error = parse_cluster("name = 'x'\nspeed = 3", "my.toml").expect_err("unknown key").to_string();
        assert!(error.starts_with("my.toml: line 2: unknown field `speed`"), "{error}");
        // So slow a cluster printed times of three hundred digits.
        let slow = CLUSTERS[0].1.replace("peak_tflops = 148.0", "peak_tflops = 1e-300");
        assert_ne!(slow, CLUSTERS[0].1);
        let error = parse_cluster(&slow, "my.toml").expect_err("too slow").to_string();
        assert!(error.contains("peak_tflops = 1e-300: expected 10^-12 to 1000000"), "{error}");
        assert!(error.starts_with("my.toml: cluster H20"), "{error}");
    }
}
