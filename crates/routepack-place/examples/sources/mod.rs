//! Loads for the tables: drawn from the usual distributions, and real ones read from a file.

use std::collections::BTreeMap;

use routepack_anneal::stream::Stream;

/// Layers drawn.
pub(crate) const LAYERS: usize = 48;
/// Experts of a drawn layer.
pub(crate) const EXPERTS: usize = 128;
/// Picks of a drawn layer, about.
const PICKS: f64 = 1e6;

/// `[48][128]` loads with log-normal weights.
#[allow(dead_code, reason = "not every table draws from every distribution")]
pub(crate) fn lognormal(seed: u64, sigma: f64) -> Vec<Vec<u64>> {
    draw(seed, |stream| (0..EXPERTS).map(|_| (sigma * stream.normal()).exp()).collect())
}

/// `[48][128]` loads by Zipf's law, experts in random order.
#[allow(dead_code, reason = "not every table draws from every distribution")]
pub(crate) fn zipf(seed: u64, exponent: f64) -> Vec<Vec<u64>> {
    draw(seed, |stream| {
        let mut weights: Vec<f64> = (1..=EXPERTS).map(|rank| (rank as f64).powf(-exponent)).collect();
        stream.shuffle(&mut weights);
        weights
    })
}

/// `[48][128]` loads with independent Gamma(1/2) weights: Dirichlet(1/2) when divided by their sum.
#[allow(dead_code, reason = "not every table draws from every distribution")]
pub(crate) fn dirichlet_half(seed: u64) -> Vec<Vec<u64>> {
    draw(seed, |stream| (0..EXPERTS).map(|_| stream.normal().powi(2)).collect())
}

/// A name and loads, `[layers][experts]`.
pub(crate) type Named = (String, Vec<Vec<u64>>);

/// Loads by name: drawn ones, and those of every model in a table of real counts.
#[allow(dead_code, reason = "not every table takes all")]
pub(crate) fn all(seed: u64, counts: Option<&str>) -> Result<Vec<Named>, String> {
    let mut tables = vec![
        ("log-normal 0.5".to_owned(), lognormal(seed, 0.5)),
        ("log-normal 1.0".to_owned(), lognormal(seed, 1.0)),
        ("zipf 0.5".to_owned(), zipf(seed, 0.5)),
        ("Dirichlet 0.5".to_owned(), dirichlet_half(seed)),
    ];
    if let Some(path) = counts {
        let mut models: BTreeMap<String, Vec<Vec<u64>>> = BTreeMap::new();
        for ((model, _), layers) in read_counts(path)? {
            models.entry(model).or_default().extend(layers);
        }
        tables.extend(models.into_iter().map(|(model, layers)| (format!("real, {model}"), layers)));
    }
    Ok(tables)
}

fn draw(seed: u64, weights: impl Fn(&mut Stream) -> Vec<f64>) -> Vec<Vec<u64>> {
    (0..LAYERS as u64)
        .map(|layer| {
            let mut stream = Stream::new(seed).child(layer);
            let weights = weights(&mut stream);
            let total: f64 = weights.iter().sum();
            weights.iter().map(|weight| (PICKS * weight / total).round() as u64).collect()
        })
        .collect()
}

/// Real loads by (model, domain): `[layers][experts]`. The table is tab-separated with the columns model, domain, layer,
/// expert, count.
pub(crate) type RealLoads = BTreeMap<(String, String), Vec<Vec<u64>>>;

/// Reads real loads.
pub(crate) fn read_counts(path: &str) -> Result<RealLoads, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let mut by_layer: BTreeMap<(String, String), BTreeMap<u32, Vec<u64>>> = BTreeMap::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let bad = || format!("{path}:{}: expected model, domain, layer, expert, count", number + 1);
        let fields: Vec<&str> = line.split('\t').collect();
        let [model, domain, layer, _, count, ..] = fields[..] else { return Err(bad()) };
        let layers = by_layer.entry((model.to_owned(), domain.to_owned())).or_default();
        let loads = layers.entry(layer.parse().map_err(|_| bad())?).or_default();
        loads.push(count.parse().map_err(|_| bad())?);
    }
    Ok(by_layer.into_iter().map(|(name, layers)| (name, layers.into_values().collect())).collect())
}
