//! What can be known of a run: one report a temperature.
//!
//! References: W. Wang, J. Machta and H. G. Katzgraber, Population annealing: theory and application in spin glasses,
//! Phys. Rev. E 92, 063307, 2015, doi 10.1103/PhysRevE.92.063307 (families and ρₜ).

use serde::Serialize;

use crate::system::MoveCount;

/// One temperature: the population after its sweeps, and the resampling that followed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TemperatureReport {
    /// Number of the rung, from 0.
    pub rung: u32,
    /// Temperature, in units of the energy; infinite (null in JSON) at the head of a ladder that begins at β = 0.
    pub temperature: f64,
    /// Sweeps of the population since the start.
    pub sweeps: u64,
    /// How often the archive was improved at this temperature.
    pub gains: u64,
    /// Energies in the population, from the least to the greatest in steps of a tenth of the population.
    pub energy_deciles: [f64; 11],
    /// Mean of the energy.
    pub energy_mean: f64,
    /// Standard deviation of the energy over the population.
    pub energy_sd: f64,
    /// Per kind of move, in the order of the system's names.
    pub moves: Vec<MoveCount>,
    /// Families (replicas with one ancestor in the starting population) still there, before the resampling.
    pub families: u32,
    /// ρₜ: population times Σ (share of a family)². 1 when every family has one replica; the population should be
    /// many times this for its averages to mean something.
    pub rho_t: f64,
    /// Effective population (Σw)² / Σw² of the resampling; the population itself after the last temperature.
    pub effective_population: f64,
    /// Fraction of the population that the resampling replaced.
    pub culled: f64,
    /// ln of the mean Boltzmann weight of the resampling; see [`crate::Annealed::log_partition_ratio`].
    pub log_weight: f64,
}

impl TemperatureReport {
    /// The least energy in the population.
    pub fn energy_best(&self) -> f64 {
        self.energy_deciles[0]
    }

    /// The heading of a table of reports, comma separated, for a system with moves of these names.
    pub fn csv_header(move_kinds: &[&str]) -> String {
        let mut cells: Vec<String> = ["rung", "temperature", "sweeps", "gains"].map(String::from).into();
        cells.extend((0..=10).map(|tenth| format!("energy_{}", 10 * tenth)));
        let figures =
            ["energy_mean", "energy_sd", "families", "rho_t", "effective_population", "culled", "log_weight"];
        cells.extend(figures.map(String::from));
        for kind in move_kinds {
            cells.extend(["proposed", "accepted", "improved"].map(|verb| format!("{kind}_{verb}")));
        }
        cells.join(",")
    }

    /// This report as one line of that table.
    pub fn csv_row(&self) -> String {
        let mut cells = vec![
            self.rung.to_string(),
            self.temperature.to_string(),
            self.sweeps.to_string(),
            self.gains.to_string(),
        ];
        cells.extend(self.energy_deciles.map(|energy| energy.to_string()));
        cells.extend([self.energy_mean, self.energy_sd].map(|energy| energy.to_string()));
        cells.push(self.families.to_string());
        let figures = [self.rho_t, self.effective_population, self.culled, self.log_weight];
        cells.extend(figures.map(|figure| figure.to_string()));
        for count in &self.moves {
            cells.extend([count.proposed, count.accepted, count.improved].map(|number| number.to_string()));
        }
        cells.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_its_header() {
        let report = TemperatureReport {
            rung: 3,
            temperature: 0.5,
            sweeps: 16,
            gains: 2,
            energy_deciles: std::array::from_fn(|tenth| tenth as f64),
            energy_mean: 5.25,
            energy_sd: 3.5,
            moves: vec![MoveCount { proposed: 9, accepted: 4, improved: 1 }, MoveCount::default()],
            families: 7,
            rho_t: 1.5,
            effective_population: 60.25,
            culled: 0.125,
            log_weight: -2.5,
        };
        let header = TemperatureReport::csv_header(&["relocate", "swap"]);
        let row = report.csv_row();
        let cell = |name: &str| {
            let column = header.split(',').position(|cell| cell == name).expect("a column of that name");
            row.split(',').nth(column).expect("a cell in that column").to_owned()
        };
        assert_eq!(header.split(',').count(), row.split(',').count());
        let names =
            ["rung", "temperature", "gains", "energy_0", "energy_100", "energy_sd", "families", "log_weight"];
        assert_eq!(names.map(cell), ["3", "0.5", "2", "0", "10", "3.5", "7", "-2.5"]);
        assert_eq!(["relocate_accepted", "relocate_improved", "swap_proposed"].map(cell), ["4", "1", "0"]);
        assert_eq!(report.energy_best().to_bits(), 0);
    }
}
