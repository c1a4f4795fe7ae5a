//! Lower bounds on placement peaks and on the cost of layouts, as formulas over integers.
