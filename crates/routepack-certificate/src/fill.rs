//! Bins filled for good: up to three items that fill a bin, where no packing can need that bin for others.
//!
//! Problem: K bins waste K·C − S in all, so no bin wastes more. Two items that fill a bin may always share one; three
//! may if whatever else could be with the first has one of the other two in it, or is no larger than one (README, 4.3).
//! Totals of sets of items are bits.
//! Complexity: O(types · log(demand) · C/64) a bin of three.
//! Reference: S. Martello, P. Toth, Knapsack Problems (1990), ch. 8: dominance between bins.

use std::io::BufRead;
use std::iter::repeat_n;

use crate::Statement;
use crate::limits::{CheckError, Meter};
use crate::reader::Reader;

/// Fills bins as long as lines say so: takes them from `bins`, and their items from the statement.
pub(crate) fn check_fills<R: BufRead>(
    statement: &mut Statement,
    bins: &mut u64,
    reader: &mut Reader<R>,
) -> Result<(), CheckError> {
    let capacity = statement.capacity;
    let waste = (u128::from(*bins) * u128::from(capacity)).checked_sub(statement.total());
    let (mut types, mut items) = (statement.types(), statement.sizes.len() as u64);
    while reader.word == "fill" {
        let sizes: Vec<u64> = reader.list("fill")?;
        reader.meter.step(4 * types.len())?;
        for &size in &sizes {
            let Some(kind) = types.iter_mut().find(|kind| kind.0 == size && kind.1 > 0) else {
                return reader.invalid(format!("no item of size {size} is left"));
            };
            kind.1 -= 1;
        }
        items -= sizes.len() as u64;
        let total: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
        let (Some(waste), None, 1..=3, true) =
            (waste, statement.max_items, sizes.len(), total == capacity.into() && items >= *bins)
        else {
            return reader.invalid("a bin that is not full, or may not be filled for good");
        };
        let room = capacity - sizes[0];
        let others = types.iter().filter(|kind| kind.0 <= room && !sizes[1..].contains(&kind.0));
        let others: Vec<_> = others.copied().collect();
        // Those of at most one of the two sizes change places with it as a whole.
        let above = sizes[1..].iter().max().unwrap_or(&0) + 1;
        let least = (u128::from(room).saturating_sub(waste) as u64).max(above);
        if least <= room && reaches(&others, least, room, &mut reader.meter)? {
            return reader.invalid(format!("an item of size {} may be with others", sizes[0]));
        }
        *bins -= 1;
        reader.advance()?;
    }
    statement.sizes = types.into_iter().flat_map(|(size, demand)| repeat_n(size, demand as usize)).collect();
    Ok(())
}

/// Whether some items of these types (size, items) have a total in `least..=most`.
fn reaches(types: &[(u64, u32)], least: u64, most: u64, meter: &mut Meter) -> Result<bool, CheckError> {
    let all: u128 = types.iter().map(|kind| u128::from(kind.0) * u128::from(kind.1)).sum();
    let most = all.min(most.into()) as u64;
    if most < least {
        return Ok(false);
    }
    let words = (most / 64) as usize + 1;
    meter.step(words)?;
    meter.hold(8 * words)?;
    let mut totals = vec![0_u64; words];
    totals[0] = 1;
    for &(size, demand) in types {
        let (mut left, mut copies) = (u64::from(demand).min(most / size), 1);
        while left > 0 {
            meter.step(1 + words)?;
            let (far, near) = ((size * copies / 64) as usize, size * copies % 64);
            for at in (far..words).rev() {
                let carried = if near > 0 && at > far { totals[at - far - 1] >> (64 - near) } else { 0 };
                totals[at] |= totals[at - far] << near | carried;
            }
            left -= copies;
            copies = left.min(2 * copies);
        }
    }
    meter.free(8 * words);
    let first = (least / 64) as usize;
    totals[first] &= u64::MAX << (least % 64);
    totals[words - 1] &= u64::MAX >> (63 - most % 64);
    Ok(totals[first..].iter().any(|&word| word > 0))
}
