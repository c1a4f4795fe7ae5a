#![doc = include_str!("../README.md")]

mod bars;
mod frame;
mod heat_map;
mod lines;
mod page;
mod picture;
mod pictures;

pub use page::{Page, page};
pub use picture::{NumberTable, Picture};
pub use pictures::{
    MovePoint, RowsLine, RowsPoint, ShownStep, TracePoint, annealing, pictures_of_step, placement_moves,
    rows_curve_picture, trade_off_curve,
};
