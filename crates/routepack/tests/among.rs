//! Processes that plan together get the plan that one alone gets.

#![allow(clippy::unwrap_used, reason = "tests may stop")]

use std::sync::{Arc, Barrier, Mutex};

use routepack::anneal::Peers;
use routepack::generate::{Preset, window};
use routepack::{Control, Job, plan};

struct Seat<'a> {
    rank: usize,
    words: &'a Mutex<Vec<Vec<u32>>>,
    barrier: &'a Barrier,
    exchanges: Mutex<u32>,
}

impl Peers for Seat<'_> {
    fn rank(&self) -> (usize, usize) {
        (self.rank, self.words.lock().unwrap().len())
    }

    fn exchange(&self, words: Vec<u32>) -> Result<Vec<Vec<u32>>, String> {
        *self.exchanges.lock().unwrap() += 1;
        self.words.lock().unwrap()[self.rank] = words;
        self.barrier.wait();
        let all = self.words.lock().unwrap().clone();
        self.barrier.wait();
        Ok(all)
    }
}

#[test]
fn two_processes_make_one_plan() {
    let mut recipe = Preset::Mixed.recipe();
    recipe.prompts = 12;
    let generated = window(&recipe, 5).unwrap();
    let mut job = Job::new(generated.setting);
    job.arrange.proposals_per_unit = 100;
    let batch = Arc::new(generated.batch);
    let alone = plan(&batch, &job, &mut Control::new()).unwrap();
    let (words, barrier) = (Mutex::new(vec![Vec::new(); 2]), Barrier::new(2));
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2)
            .map(|rank| {
                let seat = Seat { rank, words: &words, barrier: &barrier, exchanges: Mutex::new(0) };
                let (batch, job) = (&batch, &job);
                scope.spawn(move || {
                    // A pool of its own, as a process has: chains of one must not wait in the pool of the other.
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
                    let made = pool.install(|| plan(batch, job, &mut Control::new().among(&seat)).unwrap());
                    (made, seat.exchanges.into_inner().unwrap())
                })
            })
            .collect();
        for run in runs {
            let (made, exchanges) = run.join().unwrap();
            assert_eq!(made.sha256, alone.sha256);
            assert!(exchanges > job.arrange.temperatures, "{exchanges} exchanges");
        }
    });
}
