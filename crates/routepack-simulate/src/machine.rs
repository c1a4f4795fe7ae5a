//! The machine: everything a step time depends on beside the window and the plan, as one table of a job.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use routepack_problem::{Instance, Layout, Placement};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

use crate::simulate::{check_rows, check_stages, check_window};
use crate::{Cluster, Model, RowTimes, SimulateError, SimulateOptions, StepTime, presets, time_rows};

/// A model, a cluster, and how the trainer runs a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The model: the name of a preset, or its shapes.
    #[serde(deserialize_with = "named_or_told")]
    #[schemars(with = "NamedOrTold<Model>")]
    pub model: Model,
    /// The cluster: the name of a preset, or its figures.
    #[serde(deserialize_with = "named_or_told")]
    #[schemars(with = "NamedOrTold<Cluster>")]
    pub cluster: Cluster,
    /// How the trainer runs a step.
    #[serde(default)]
    pub options: SimulateOptions,
}

impl Machine {
    /// Refuses a machine that cannot run this window, or not in so many rows.
    ///
    /// # Errors
    /// As [`time_rows`], before there is a layout.
    pub fn check(&self, instance: &Instance, rows: usize) -> Result<(), SimulateError> {
        self.check_figures()?;
        check_window(instance, &self.model)?;
        check_stages(instance, &self.model)?;
        check_rows(instance, rows)
    }

    /// Refuses figures out of range, whatever the window.
    ///
    /// # Errors
    /// Naming the figure and its limit.
    pub fn check_figures(&self) -> Result<(), SimulateError> {
        self.model.check()?;
        self.cluster.check()?;
        self.options.check()
    }

    /// Model and cluster, by name.
    pub fn in_words(&self) -> String {
        format!("{} on {}", self.model.name, self.cluster.name)
    }

    /// The step time of a layout; moves of experts are not charged.
    ///
    /// # Errors
    /// As [`time_rows`].
    pub fn step_time(
        &self,
        instance: &Instance,
        placement: &Placement,
        layout: &Layout,
    ) -> Result<StepTime, SimulateError> {
        let as_they_stand: Vec<usize> = (0..layout.num_rows()).collect();
        Ok(self.time_rows(instance, placement, layout)?.step_time(&as_they_stand))
    }

    /// The times of a layout's rows, for the step time of any order of them.
    ///
    /// # Errors
    /// As [`Machine::step_time`].
    pub fn time_rows(
        &self,
        instance: &Instance,
        placement: &Placement,
        layout: &Layout,
    ) -> Result<RowTimes, SimulateError> {
        // It may come from a file that was not made by this program.
        self.check(instance, layout.num_rows())?;
        time_rows(instance, placement, layout, None, &self.model, &self.cluster, &self.options)
    }
}

/// What presets exist of.
trait Preset: Sized {
    fn named(name: &str) -> Result<Self, SimulateError>;
    const EXPECTED: &'static str;
}

impl Preset for Model {
    const EXPECTED: &'static str = "the name of a model or a table of its shapes";

    fn named(name: &str) -> Result<Self, SimulateError> {
        presets::model(name)
    }
}

impl Preset for Cluster {
    const EXPECTED: &'static str = "the name of a cluster or a table of its figures";

    fn named(name: &str) -> Result<Self, SimulateError> {
        presets::cluster(name)
    }
}

fn named_or_told<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Preset + Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Either<T>(PhantomData<T>);
    impl<'de, T: Preset + Deserialize<'de>> Visitor<'de> for Either<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::EXPECTED)
        }

        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<T, E> {
            T::named(name).map_err(E::custom)
        }

        fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(table))
        }
    }
    deserializer.deserialize_any(Either(PhantomData))
}

/// For the schema: a name, or a table.
struct NamedOrTold<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for NamedOrTold<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("NamedOr{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let told = generator.subschema_for::<T>();
        schemars::json_schema!({ "anyOf": [{ "type": "string" }, told] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_preset_and_a_table_stands_for_itself() {
        let named: Machine = toml::from_str("model = 'glm-4.5'\ncluster = 'h20'").expect("presets");
        assert_eq!(named.model, presets::model("glm-4.5").expect("a preset"));
        assert_eq!(named.options, SimulateOptions::default());
        let told = serde_json::to_string(&named).expect("JSON");
        assert_eq!(serde_json::from_str::<Machine>(&told).expect("told in full"), named);
        let refused = |text: &str| toml::from_str::<Machine>(text).expect_err("refused").to_string();
        assert!(refused("model = 'gpt'\ncluster = 'h20'").contains("no model is called `gpt`: known are"));
        assert!(refused("model = 3\ncluster = 'h20'").contains("expected the name of a model or a table"));
        assert!(refused("model = 'glm-4.5'").contains("missing field `cluster`"));
        assert!(refused("model = 'glm-4.5'\ncluster = { speed = 3 }").contains("unknown field `speed`"));
    }
}
