//! Laws every rule obeys: its layout is valid, and it only takes more rows when it says so.

use proptest::prelude::*;
use routepack_baselines::{BaselineError, BaselineLayout, dp_local_ffd, global_ffd};
use routepack_problem::{Batch, Instance, Setting, check_layout};

type Rule = fn(&Instance, usize) -> Result<BaselineLayout, BaselineError>;

proptest! {
    #[test]
    fn layouts_are_valid(
        lengths in prop::collection::vec(1u32..=100, 1..60),
        slots in 1u32..=4,
        rows in 1usize..=6,
        multiple in 1u32..=2,
        limit in prop::option::of(1u32..=4),
    ) {
        let mut setting = Setting::new(slots, 1, 100);
        setting.packing.rows_multiple = multiple;
        setting.packing.max_samples = limit;
        let rows = rows.next_multiple_of(multiple as usize);
        let instance = Instance::single(Batch::from_lengths(lengths.clone()), &setting).expect("valid");
        for rule in [global_ffd as Rule, dp_local_ffd as Rule] {
            match rule(&instance, rows) {
                Ok(BaselineLayout { layout, own_rows }) => {
                    prop_assert_eq!(check_layout(&instance, &layout), Ok(()));
                    prop_assert_eq!(own_rows, layout.num_rows() > rows);
                }
                Err(BaselineError::EmptyCells { units, cells, .. }) => prop_assert!(units < cells),
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
}
