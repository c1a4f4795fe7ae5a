//! Certificates of bin-packing bounds: format, writer and independent checker, integers only.
