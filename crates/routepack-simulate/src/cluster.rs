//! The cluster: what a GPU computes and what its links carry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SimulateError;

/// GPUs of one kind in nodes of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Name for reports.
    pub name: String,
    /// Where the figures were published or measured, and which are derived.
    #[serde(default)]
    pub sources: Vec<String>,
    /// GPUs in one node.
    pub gpus_per_node: u32,
    /// Dense BF16 peak of a GPU, TFLOP/s.
    pub peak_tflops: f64,
    /// Memory bandwidth of a GPU, TB/s.
    pub memory_tb_s: f64,
    /// Fraction of the peak that dense matrix products reach.
    pub dense_efficiency: f64,
    /// Fraction of the peak that full attention reaches forward, of the causal half's FLOPs.
    pub attention_efficiency: f64,
    /// The same backward.
    pub attention_backward_efficiency: f64,
    /// Rows that the grouped matrix product of the experts rounds every expert up to.
    pub tile_rows: u32,
    /// Fraction of the peak that the grouped product reaches, by rows of an expert, rows ascending.
    pub grouped: Vec<GroupedEfficiency>,
    /// Links inside a node.
    pub node: Link,
    /// Links between nodes.
    pub network: Link,
}

/// Fraction of the peak that the grouped matrix product reaches at a number of rows an expert.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupedEfficiency {
    /// Rows of one expert.
    pub rows: f64,
    /// Forward.
    pub forward: f64,
    /// Backward, towards the inputs.
    pub data_gradient: f64,
    /// Backward, towards the weights.
    pub weight_gradient: f64,
}

/// What one GPU sends or receives over a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bandwidth of one direction as reached in all-to-all exchanges, GB/s a GPU.
    pub gb_s: f64,
    /// Time of an exchange of nothing, µs.
    pub latency_us: f64,
}

impl Link {
    /// Seconds for `bytes` without the latency.
    pub fn seconds(self, bytes: f64) -> f64 {
        bytes / (self.gb_s * 1e9)
    }

    /// Latency in seconds.
    pub fn latency(self) -> f64 {
        self.latency_us * 1e-6
    }
}

impl Cluster {
    /// Refuses figures that describe no cluster.
    ///
    /// # Errors
    /// A figure that is no number from 10^-12 on, an efficiency above 2 (of halved FLOPs; else 1), or rows not ascending.
    pub fn check(&self) -> Result<(), SimulateError> {
        let refuse = |field: &'static str, value: String, limit: &str| {
            Err(SimulateError::Cluster { cluster: self.name.clone(), field, value, limit: limit.to_owned() })
        };
        if self.gpus_per_node == 0 {
            return refuse("gpus_per_node", "0".to_owned(), "at least 1");
        }
        if self.tile_rows == 0 || self.tile_rows > 1 << 16 {
            return refuse("tile_rows", self.tile_rows.to_string(), "1 to 65536");
        }
        let rates = [
            ("peak_tflops", self.peak_tflops, 1e6),
            ("memory_tb_s", self.memory_tb_s, 1e6),
            ("dense_efficiency", self.dense_efficiency, 1.0),
            ("attention_efficiency", self.attention_efficiency, 2.0),
            ("attention_backward_efficiency", self.attention_backward_efficiency, 2.0),
            ("node.gb_s", self.node.gb_s, 1e6),
            ("network.gb_s", self.network.gb_s, 1e6),
        ];
        for (field, value, most) in rates {
            if !(1e-12..=most).contains(&value) {
                return refuse(field, format!("{value:e}"), &format!("10^-12 to {most}"));
            }
        }
        for (field, value) in
            [("node.latency_us", self.node.latency_us), ("network.latency_us", self.network.latency_us)]
        {
            if !(0.0..=1e6).contains(&value) {
                return refuse(field, value.to_string(), "0 to 10^6");
            }
        }
        if self.grouped.is_empty() {
            return refuse("grouped", "an empty list".to_owned(), "at least one number of rows");
        }
        for point in &self.grouped {
            let fractions = [point.forward, point.data_gradient, point.weight_gradient];
            if !(point.rows >= 1.0 && point.rows < 1e9)
                || fractions.iter().any(|&fraction| !(fraction > 0.0 && fraction <= 1.0))
            {
                let value = format!("{} rows: {fractions:?}", point.rows);
                return refuse("grouped", value, "rows from 1 on, fractions above 0, at most 1");
            }
        }
        match self.grouped.windows(2).find(|pair| pair[0].rows >= pair[1].rows) {
            Some(pair) => {
                refuse("grouped", format!("{} rows after {}", pair[1].rows, pair[0].rows), "rows ascending")
            }
            None => Ok(()),
        }
    }

    /// Seconds of dense matrix products.
    pub fn dense_seconds(&self, flops: f64) -> f64 {
        flops / (self.peak_tflops * 1e12 * self.dense_efficiency)
    }

    /// The link that a group of `gpus` consecutive GPUs exchanges over.
    pub fn link_of(&self, gpus: usize) -> Link {
        if gpus > self.gpus_per_node as usize { self.network } else { self.node }
    }
}
