//! Other processes, reached through a function of Python.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use routepack::anneal::Peers;

/// Rank, number of processes, and the exchange: bytes of this process to a list of the bytes of all.
#[derive(FromPyObject)]
pub(crate) struct PeerProcesses(usize, usize, Py<PyAny>);

impl Peers for PeerProcesses {
    fn rank(&self) -> (usize, usize) {
        (self.0, self.1)
    }

    fn exchange(&self, words: Vec<u32>) -> Result<Vec<Vec<u32>>, String> {
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let heard: PyResult<Vec<Vec<u8>>> =
            Python::attach(|py| self.2.call1(py, (PyBytes::new(py, &bytes),))?.extract(py));
        let heard = heard.map_err(|error| error.to_string())?;
        let words =
            |bytes: Vec<u8>| bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        Ok(heard.into_iter().map(words).collect())
    }
}
