//! Bin-packing instances after the literature's recipes, and sequence lengths of rollouts.
//!
//! Each kind of draw is a type with the recipe's parameters; [`BinsRecipe::named`] gives the published classes their
//! parameters. Recipes are exact where a class is named so, but the draws are ours: no instance equals a published one.

use routepack_anneal::elementary::exp;
use routepack_anneal::stream::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::augment::Augmented;
use crate::knife_edge::{Edge, plant};
use crate::recipe::{amended, real, whole};
use crate::{GenerateError, KnifeEdgeRecipe, LengthRecipe};

/// A bin-packing instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bins {
    /// Capacity of a bin.
    pub capacity: u64,
    /// Sizes, 1 to the capacity, largest first.
    pub sizes: Vec<u64>,
    /// Fewest bins, where the construction proves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimum: Option<u64>,
}

/// How the sizes are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BinsRecipe {
    /// Sizes uniform in a range.
    Uniform(Uniform),
    /// Sizes uniform around a mean that is a fraction of the capacity.
    AroundMean(AroundMean),
    /// Triples that fill a bin exactly, no item below a quarter of it.
    Triplets(Triplets),
    /// Triples that fill a bin exactly, with items of any size.
    ZeroSlack(ZeroSlack),
    /// Zero slack in doubling layers, with or without a gap to the linear relaxation.
    Augmented(Augmented),
    /// Lengths of rollouts.
    Rollouts(Rollouts),
    /// Lengths of rollouts at the knife edge.
    KnifeEdge(KnifeEdge),
}

/// Sizes uniform in [`smallest`, `largest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Uniform {
    /// Items.
    pub items: u32,
    /// Capacity of a bin.
    pub capacity: u32,
    /// Smallest size.
    pub smallest: u32,
    /// Largest size.
    pub largest: u32,
}

impl Default for Uniform {
    fn default() -> Self {
        Self { items: 120, capacity: 150, smallest: 20, largest: 100 }
    }
}

/// Sizes uniform in c/`per_bin` ± `deviation` percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AroundMean {
    /// Items.
    pub items: u32,
    /// Capacity c of a bin.
    pub capacity: u32,
    /// Items of mean size in a bin.
    pub per_bin: u32,
    /// Largest deviation from the mean, percent.
    pub deviation: u32,
}

impl Default for AroundMean {
    fn default() -> Self {
        Self { items: 100, capacity: 1000, per_bin: 3, deviation: 50 }
    }
}

/// Triples: the first uniform in 38 % to 49 % of the capacity, the others at least 25 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Triplets {
    /// Items, a multiple of 3.
    pub items: u32,
    /// Capacity of a bin.
    pub capacity: u32,
}

impl Default for Triplets {
    fn default() -> Self {
        Self { items: 60, capacity: 1000 }
    }
}

/// Triples: the first uniform in a third to nine tenths of the capacity, the others share the rest at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroSlack {
    /// Items, a multiple of 3.
    pub items: u32,
    /// Capacity of a bin.
    pub capacity: u32,
}

impl Default for ZeroSlack {
    fn default() -> Self {
        Self { items: 201, capacity: 2500 }
    }
}

/// Total lengths of rollouts, in tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rollouts {
    /// Samples.
    pub items: u32,
    /// Capacity of a cell.
    pub capacity: u32,
    /// Samples per prompt.
    pub group: u32,
    /// Their lengths; `max_total` is at most the capacity.
    pub lengths: LengthRecipe,
}

impl Default for Rollouts {
    fn default() -> Self {
        Self {
            items: 4096,
            capacity: 32_768,
            group: 8,
            lengths: LengthRecipe {
                prompt_median: exp(5.5).round(),
                prompt_sigma: 0.6,
                response_median: exp(7.5).round(),
                response_sigma: 1.0,
                shared: 0.3,
                max_total: 32_768,
                truncated: 0.0,
                ..LengthRecipe::default()
            },
        }
    }
}

/// Lengths of rollouts that fill D·rows cells almost exactly, where greedy packers need a row more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KnifeEdge {
    /// DP slots D.
    pub slots: u32,
    /// Capacity of a cell.
    pub capacity: u32,
    /// Rows, slack and attempts.
    pub edge: KnifeEdgeRecipe,
    /// Lengths; `max_total` is at most the capacity.
    pub lengths: LengthRecipe,
}

impl Default for KnifeEdge {
    fn default() -> Self {
        let preset = crate::Preset::KnifeEdge.recipe();
        Self { slots: 8, capacity: 8192, edge: KnifeEdgeRecipe::default(), lengths: preset.lengths }
    }
}

/// Named recipes and what they are.
const NAMES: [(&str, &str); 14] = [
    ("falkenauer-u", "uniform 20..100 of 150, 120 items (Falkenauer 1996; also 250, 500, 1000 items)"),
    ("falkenauer-t", "triplets of 1000, 60 items (Falkenauer 1996; also 120, 249, 501)"),
    (
        "scholl-1",
        "uniform 1..100 of 100, 50 items (Scholl, Klein, Jürgens 1997; also c 120, 150, from 20, 30)",
    ),
    (
        "scholl-2",
        "a third of 1000 ± 50 %, 100 items (Scholl, Klein, Jürgens 1997; also per_bin 5, 7, 9, ± 20, 90)",
    ),
    ("scholl-3", "uniform 20000..35000 of 100000, 200 items (Scholl, Klein, Jürgens 1997)"),
    ("schwerin-1", "uniform 150..200 of 1000, 100 items (Schwerin, Wäscher 1997)"),
    ("schwerin-2", "uniform 150..200 of 1000, 120 items (Schwerin, Wäscher 1997)"),
    (
        "random",
        "uniform 10 %..70 % of 1000, 100 items (Delorme, Iori, Martello 2016; one of their combinations)",
    ),
    ("zero-slack", "exact triples of 2500, 201 items"),
    (
        "ai",
        "zero slack in doubling layers, volume bound attained, 201 items (traits of AI, not its construction)",
    ),
    ("ani", "the same with one bin more than the linear relaxation (traits of ANI, not its construction)"),
    ("rl", "4096 rollouts, log-normal, cells of 32768 tokens"),
    ("rl-heavy", "the same with 8 % truncated at 65536 tokens"),
    ("knife-edge", "5 rows of 8 cells full within 2 %, greedy packers need a row more"),
];

impl BinsRecipe {
    /// Names that [`BinsRecipe::named`] knows, with a line on each.
    pub fn names() -> &'static [(&'static str, &'static str)] {
        &NAMES
    }

    /// The recipe of a name, with the parameters of the class's first instances.
    ///
    /// # Errors
    /// No such name.
    pub fn named(name: &str) -> Result<Self, GenerateError> {
        let uniform = |items, capacity, smallest, largest| {
            Self::Uniform(Uniform { items, capacity, smallest, largest })
        };
        Ok(match name {
            "falkenauer-u" => Self::Uniform(Uniform::default()),
            "falkenauer-t" => Self::Triplets(Triplets::default()),
            "scholl-1" => uniform(50, 100, 1, 100),
            "scholl-2" => Self::AroundMean(AroundMean::default()),
            "scholl-3" => uniform(200, 100_000, 20_000, 35_000),
            "schwerin-1" => uniform(100, 1000, 150, 200),
            "schwerin-2" => uniform(120, 1000, 150, 200),
            "random" => uniform(100, 1000, 100, 700),
            "zero-slack" => Self::ZeroSlack(ZeroSlack::default()),
            "ai" => Self::Augmented(Augmented { gap: false, ..Augmented::default() }),
            "ani" => Self::Augmented(Augmented::default()),
            "rl" => Self::Rollouts(Rollouts::default()),
            "rl-heavy" => {
                let mut rollouts = Rollouts { capacity: 65_536, ..Rollouts::default() };
                rollouts.lengths.max_total = 65_536;
                rollouts.lengths.truncated = 0.08;
                Self::Rollouts(rollouts)
            }
            "knife-edge" => Self::KnifeEdge(KnifeEdge::default()),
            _ => {
                return Err(GenerateError::Name {
                    name: name.into(),
                    known: NAMES.map(|(name, _)| name).join(", "),
                });
            }
        })
    }

    /// This recipe with some fields changed; see [`crate::WindowRecipe::amended`].
    ///
    /// # Errors
    /// A field that does not exist, or a value of the wrong kind.
    pub fn amended(&self, changes: &Value) -> Result<Self, GenerateError> {
        amended(self, changes)
    }
}

/// The instance of a recipe and seed.
///
/// # Errors
/// A field of the recipe out of its range, or no draw with the property asked for.
pub fn bins(recipe: &BinsRecipe, seed: u64) -> Result<Bins, GenerateError> {
    let stream = Stream::new(seed);
    let mut made = match recipe {
        BinsRecipe::Uniform(uniform) => uniform.draw(stream)?,
        BinsRecipe::AroundMean(around) => around.draw(stream)?,
        BinsRecipe::Triplets(triplets) => triplets.draw(stream)?,
        BinsRecipe::ZeroSlack(zero) => zero.draw(stream)?,
        BinsRecipe::Augmented(augmented) => augmented.draw(&stream)?,
        BinsRecipe::Rollouts(rollouts) => rollouts.draw(&stream)?,
        BinsRecipe::KnifeEdge(edge) => edge.draw(&stream)?,
    };
    made.sizes.sort_unstable_by(|a, b| b.cmp(a));
    Ok(made)
}

/// Largest number of items and largest capacity.
const MAX_ITEMS: u32 = 1 << 24;
const MAX_CAPACITY: u32 = 1 << 30;

fn check(items: u32, capacity: u32, least: u32) -> Result<(), GenerateError> {
    whole("items", items, 1..=MAX_ITEMS)?;
    whole("capacity", capacity, least..=MAX_CAPACITY)
}

fn check_triples(items: u32, capacity: u32) -> Result<(), GenerateError> {
    check(items, capacity, 100)?;
    if !items.is_multiple_of(3) {
        return Err(GenerateError::field("items", items, "expected a multiple of 3"));
    }
    Ok(())
}

fn check_lengths(lengths: &LengthRecipe, capacity: u32) -> Result<(), GenerateError> {
    lengths.validate("lengths")?;
    real("lengths.max_total", f64::from(lengths.max_total), 2.0..=f64::from(capacity))
}

impl Uniform {
    fn draw(&self, mut stream: Stream) -> Result<Bins, GenerateError> {
        check(self.items, self.capacity, 1)?;
        whole("largest", self.largest, 1..=self.capacity)?;
        whole("smallest", self.smallest, 1..=self.largest)?;
        let range = u64::from(self.smallest)..u64::from(self.largest) + 1;
        let sizes = (0..self.items).map(|_| stream.range(range.clone())).collect();
        Ok(Bins { capacity: u64::from(self.capacity), sizes, optimum: None })
    }
}

impl AroundMean {
    fn draw(&self, stream: Stream) -> Result<Bins, GenerateError> {
        check(self.items, self.capacity, 1)?;
        whole("per_bin", self.per_bin, 1..=self.capacity)?;
        whole("deviation", self.deviation, 0..=99)?;
        // ⌈c/q·(1 − v/100)⌉ to ⌊c/q·(1 + v/100)⌋, in integers.
        let parts = 100 * u64::from(self.per_bin);
        let scaled = |percent: u32| u64::from(self.capacity) * u64::from(percent);
        let smallest = scaled(100 - self.deviation).div_ceil(parts).max(1) as u32;
        let largest = (scaled(100 + self.deviation) / parts).min(u64::from(self.capacity)) as u32;
        if smallest > largest {
            let limit = format!("no size lies within {} percent of capacity/per_bin", self.deviation);
            return Err(GenerateError::field("per_bin", self.per_bin, limit));
        }
        Uniform { items: self.items, capacity: self.capacity, smallest, largest }.draw(stream)
    }
}

impl Triplets {
    fn draw(self, mut stream: Stream) -> Result<Bins, GenerateError> {
        check_triples(self.items, self.capacity)?;
        let capacity = u64::from(self.capacity);
        let percent = |percent: u64| (capacity * percent).div_ceil(100);
        let mut sizes = Vec::with_capacity(self.items as usize);
        for _ in 0..self.items / 3 {
            let first = stream.range(percent(38)..capacity * 49 / 100 + 1);
            let second = stream.range(percent(25)..(capacity - first) / 2 + 1);
            sizes.extend([first, second, capacity - first - second]);
        }
        Ok(Bins { capacity, sizes, optimum: Some(u64::from(self.items / 3)) })
    }
}

impl ZeroSlack {
    fn draw(self, mut stream: Stream) -> Result<Bins, GenerateError> {
        check_triples(self.items, self.capacity)?;
        let capacity = u64::from(self.capacity);
        let mut sizes = Vec::with_capacity(self.items as usize);
        for _ in 0..self.items / 3 {
            let first = stream.range(capacity / 3..capacity * 9 / 10 + 1);
            let second = stream.range(1..capacity - first);
            sizes.extend([first, second, capacity - first - second]);
        }
        Ok(Bins { capacity, sizes, optimum: Some(u64::from(self.items / 3)) })
    }
}

impl Rollouts {
    fn draw(&self, stream: &Stream) -> Result<Bins, GenerateError> {
        check(self.items, self.capacity, 2)?;
        whole("group", self.group, 1..=self.items)?;
        check_lengths(&self.lengths, self.capacity)?;
        let mut sizes: Vec<u64> = (0..u64::from(self.items.div_ceil(self.group)))
            .flat_map(|prompt| self.lengths.draw(self.group, 0.0, &mut stream.child(prompt)).totals)
            .map(u64::from)
            .collect();
        sizes.truncate(self.items as usize);
        Ok(Bins { capacity: u64::from(self.capacity), sizes, optimum: None })
    }
}

impl KnifeEdge {
    fn draw(&self, stream: &Stream) -> Result<Bins, GenerateError> {
        whole("slots", self.slots, 1..=1 << 16)?;
        whole("capacity", self.capacity, 2..=MAX_CAPACITY)?;
        check_lengths(&self.lengths, self.capacity)?;
        let (slots, capacity) = (u64::from(self.slots), u64::from(self.capacity));
        let edge = Edge { recipe: &self.edge, slots, capacity, multiple: 1 };
        let mut draw = |stream: &mut Stream| u64::from(self.lengths.draw(1, 0.0, stream).totals[0]);
        let sizes = plant(&edge, &mut draw, stream)?.concat();
        Ok(Bins { capacity, sizes, optimum: Some(slots * u64::from(self.edge.rows)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gives_a_valid_instance_that_round_trips() {
        for (name, _) in BinsRecipe::names() {
            let recipe = BinsRecipe::named(name).expect("known");
            let text = serde_json::to_string(&recipe).expect("text");
            assert_eq!(serde_json::from_str::<BinsRecipe>(&text).expect(&text), recipe);
            let made = bins(&recipe, 7).expect(name);
            assert_eq!(made, bins(&recipe, 7).expect(name));
            assert_ne!(made.sizes, bins(&recipe, 8).expect(name).sizes, "{name}");
            assert!(made.sizes.iter().all(|&size| (1..=made.capacity).contains(&size)), "{name}");
            assert!(made.sizes.is_sorted_by(|a, b| a >= b), "{name}");
            let volume = made.sizes.iter().sum::<u64>().div_ceil(made.capacity);
            assert!(made.optimum.is_none_or(|optimum| optimum == volume || *name == "ani"), "{name}");
        }
        assert!(matches!(BinsRecipe::named("nonsense"), Err(GenerateError::Name { .. })));
    }

    /// Sums of size · (place + 1) of every named recipe, seed 1: no draw ever changes.
    #[test]
    fn frozen() {
        let found: Vec<(&str, u64)> = NAMES
            .iter()
            .map(|&(name, _)| {
                let made = bins(&BinsRecipe::named(name).expect(name), 1).expect(name);
                (name, made.sizes.iter().zip(1..).map(|(size, place)| size * place).sum())
            })
            .collect();
        assert_eq!(
            found,
            [
                ("falkenauer-u", 337_514),
                ("falkenauer-t", 534_789),
                ("scholl-1", 43_911),
                ("scholl-2", 1_387_921),
                ("scholl-3", 498_476_090),
                ("schwerin-1", 838_515),
                ("schwerin-2", 1_208_714),
                ("random", 1_486_708),
                ("zero-slack", 9_901_530),
                ("ai", 7_202_868),
                ("ani", 7_202_175),
                ("rl", 13_645_786_908),
                ("rl-heavy", 19_777_864_694),
                ("knife-edge", 16_167_880),
            ]
        );
    }

    #[test]
    fn ranges_are_those_of_the_literature() {
        let range = |name: &str| {
            let made = (0..40).map(|seed| bins(&BinsRecipe::named(name).expect(name), seed).expect(name));
            let sizes: Vec<u64> = made.flat_map(|made| made.sizes).collect();
            (*sizes.iter().min().expect("some"), *sizes.iter().max().expect("some"))
        };
        assert_eq!(range("falkenauer-u"), (20, 100));
        assert_eq!(range("schwerin-1"), (150, 200));
        assert_eq!(range("scholl-1"), (1, 100));
        // c/3 ± 50 %: 166.7 to 500.
        let (low, high) = range("scholl-2");
        assert!((167..=170).contains(&low) && (497..=500).contains(&high), "{low} {high}");
        // First 380..490, the others at least 250.
        let (low, high) = range("falkenauer-t");
        assert!((250..=252).contains(&low) && (488..=490).contains(&high), "{low} {high}");
    }

    #[test]
    fn wrong_fields_are_refused_by_name() {
        let uniform = BinsRecipe::named("falkenauer-u").expect("known");
        for (changes, word) in [
            (serde_json::json!({"largest": 151}), "largest"),
            (serde_json::json!({"smallest": 0}), "smallest"),
            (serde_json::json!({"items": 0}), "items"),
        ] {
            let error = bins(&uniform.amended(&changes).expect("fields exist"), 1).expect_err(word);
            assert!(error.to_string().starts_with(word), "{error}");
        }
        assert!(uniform.amended(&serde_json::json!({"colour": 3})).is_err());
        let odd = BinsRecipe::Triplets(Triplets { items: 61, ..Triplets::default() });
        assert!(bins(&odd, 1).is_err());
        let long = BinsRecipe::Rollouts(Rollouts { capacity: 100, ..Rollouts::default() });
        assert!(bins(&long, 1).is_err());
    }
}
