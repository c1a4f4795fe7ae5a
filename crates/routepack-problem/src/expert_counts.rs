//! Expert choices of every sample, read where they lie.

use std::fmt;
use std::sync::Arc;

use crate::ProblemError;

/// Memory that holds counts, whoever owns it: a `Vec`, or an array of another language. Its values never change.
pub type CountsMemory = Arc<dyn AsRef<[u32]> + Send + Sync>;

/// Expert choices aggregated per sample, `[samples, parts, layers, experts]`, in routed rows.
///
/// `parts` is 1 unless a DP slot's tokens are cut over several EP groups (DESIGN §1.1, m < 1). A sample's counts are
/// contiguous; samples may lie apart. Clones and selections share the memory.
#[derive(Clone)]
pub struct ExpertCounts {
    parts: usize,
    layers: usize,
    experts: usize,
    /// Memory of every sample, and where in it the sample begins.
    samples: Arc<[(CountsMemory, usize)]>,
}

impl ExpertCounts {
    /// Counts of the given shape from row-major `values`.
    ///
    /// # Errors
    /// A dimension other than `samples` is 0, or the number of values is not the product of the dimensions.
    pub fn new(shape: [usize; 4], values: Vec<u32>) -> Result<Self, ProblemError> {
        Self::in_one(shape, Arc::new(values))
    }

    /// The same, of memory somebody owns.
    ///
    /// # Errors
    /// As [`ExpertCounts::new`].
    pub fn in_one(shape: [usize; 4], memory: CountsMemory) -> Result<Self, ProblemError> {
        let [samples, parts, layers, experts] = shape;
        let len = (*memory).as_ref().len();
        let product = shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
        if parts == 0 || layers == 0 || experts == 0 || product != Some(len) {
            return Err(ProblemError::shape(
                "expert_counts",
                &shape,
                format!("positive dimensions with {len} values in all"),
            ));
        }
        let size = parts * layers * experts;
        let samples = (0..samples).map(|sample| (Arc::clone(&memory), sample * size)).collect();
        Ok(Self { parts, layers, experts, samples })
    }

    /// Counts of samples that lie apart, each row-major `[layers, experts]`.
    ///
    /// # Errors
    /// A dimension is 0, or a sample has another number of values.
    pub fn of_each([layers, experts]: [usize; 2], samples: Vec<CountsMemory>) -> Result<Self, ProblemError> {
        let size = layers.checked_mul(experts).filter(|&size| size > 0);
        if size.is_none() || samples.iter().any(|memory| Some((**memory).as_ref().len()) != size) {
            return Err(ProblemError::shape(
                "expert_counts",
                &[samples.len(), layers, experts],
                "positive dimensions with as many values in every sample",
            ));
        }
        let samples = samples.into_iter().map(|memory| (memory, 0)).collect();
        Ok(Self { parts: 1, layers, experts, samples })
    }

    /// `[samples, parts, layers, experts]`.
    pub fn shape(&self) -> [usize; 4] {
        [self.samples.len(), self.parts, self.layers, self.experts]
    }

    /// Layers L.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Experts E per layer.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Parts.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Counts `[experts]` of one sample, part and layer.
    pub fn of(&self, sample: usize, part: usize, layer: usize) -> &[u32] {
        let start = (part * self.layers + layer) * self.experts;
        &self.of_sample(sample)[start..start + self.experts]
    }

    /// Counts of one sample, row-major `[parts, layers, experts]`.
    pub fn of_sample(&self, sample: usize) -> &[u32] {
        let (memory, start) = &self.samples[sample];
        &(**memory).as_ref()[*start..start + self.parts * self.layers * self.experts]
    }

    /// All values, row-major, sample by sample.
    pub fn by_sample(&self) -> Vec<&[u32]> {
        (0..self.samples.len()).map(|sample| self.of_sample(sample)).collect()
    }

    /// Load of every expert over all samples and parts, `[layers][experts]`, in routed rows.
    pub fn loads(&self) -> Vec<Vec<u64>> {
        let mut loads = vec![vec![0u64; self.experts]; self.layers];
        for sample in 0..self.samples.len() {
            for (block, counts) in self.of_sample(sample).chunks_exact(self.experts).enumerate() {
                let loads = &mut loads[block % self.layers];
                loads.iter_mut().zip(counts).for_each(|(load, &count)| *load += u64::from(count));
            }
        }
        loads
    }

    /// The counts of these samples, in the same memory.
    pub(crate) fn select(&self, samples: &[usize]) -> Self {
        let samples = samples.iter().map(|&sample| self.samples[sample].clone()).collect();
        Self { samples, ..*self }
    }
}

impl PartialEq for ExpertCounts {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.by_sample() == other.by_sample()
    }
}

impl Eq for ExpertCounts {}

impl fmt::Debug for ExpertCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parts, layers, experts, .. } = self;
        write!(f, "ExpertCounts {{ parts: {parts}, layers: {layers}, experts: {experts}, samples: ")?;
        f.debug_list().entries(self.by_sample()).finish()?;
        f.write_str(" }")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_checked() {
        assert!(ExpertCounts::new([2, 1, 1, 4], vec![0; 7]).is_err());
        assert!(ExpertCounts::new([2, 0, 1, 4], vec![]).is_err());
        assert!(ExpertCounts::of_each([1, 2], vec![Arc::new(vec![1, 2]), Arc::new(vec![1])]).is_err());
        assert!(ExpertCounts::of_each([0, 2], vec![]).is_err());
    }

    #[test]
    fn loads_are_sums_over_samples_and_parts() {
        // Two samples of two parts, two layers of two experts.
        let counts = ExpertCounts::new([2, 2, 2, 2], (0..16).collect()).expect("shape");
        assert_eq!(counts.loads(), [[4 * 6, 4 * 7], [4 * 8, 4 * 9]]);
    }

    #[test]
    fn samples_apart_are_as_samples_together() {
        let together = ExpertCounts::new([3, 1, 2, 2], (0..12).collect()).expect("shape");
        let memory: Vec<CountsMemory> =
            (0..3).map(|sample| Arc::new((4 * sample..4 * sample + 4).collect::<Vec<u32>>()) as _).collect();
        let apart = ExpertCounts::of_each([2, 2], memory).expect("shape");
        assert_eq!(together, apart);
        assert_eq!((apart.of(1, 0, 1), together.of(1, 0, 1)), (&[6, 7][..], &[6, 7][..]));
        let some = together.select(&[2, 0]);
        assert_eq!(
            (some.shape(), some.of_sample(0), some.of_sample(1)),
            ([2, 1, 2, 2], &[8, 9, 10, 11][..], &[0, 1, 2, 3][..])
        );
        assert_ne!(some, together.select(&[0, 2]));
        assert_eq!(some.of_sample(0).as_ptr(), together.of_sample(2).as_ptr(), "no copy");
    }
}
