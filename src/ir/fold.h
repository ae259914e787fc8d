// Exact evaluation of operators on constants, in the arithmetic of their type.
#pragma once

#include <cstdint>
#include <optional>

#include "heddle/ir/expr.h"

namespace heddle {

/// `v` as a value of integer type `t`: wrapped, then sign- or zero-extended. (A u64 is held by its
/// bits.) For bool, `v != 0`.
int64_t wrap_int(DataType t, int64_t v);
/// Whether integer type `t` holds `v` unchanged.
bool int_fits(DataType t, int64_t v);
/// `v` rounded to float type `t`.
double round_float(DataType t, double v);
/// `v` rounded to tf32 (UnaryOp::RoundTf32). Infinities and NaNs are kept.
double rounded_to_tf32(double v);
/// `v` truncated to integer type `t`; nullopt where it does not fit or is NaN.
std::optional<int64_t> float_to_int(DataType t, double v);

/// The result of `a op b` for operands of type `t`; comparisons give 0 or 1. nullopt where the
/// result is undefined, as for a division by zero, or differs between machines.
std::optional<int64_t> fold_int(BinaryOp op, DataType t, int64_t a, int64_t b);
std::optional<double> fold_float(BinaryOp op, DataType t, double a, double b);
std::optional<bool> fold_float_compare(BinaryOp op, double a, double b);
std::optional<int64_t> fold_int(UnaryOp op, DataType t, int64_t a);
/// Folds only operations that are rounded correctly on every machine, so no transcendental
/// functions.
std::optional<double> fold_float(UnaryOp op, DataType t, double a);

/// Floor division and remainder; `b` nonzero. (INT64_MIN by -1 wraps.)
int64_t floor_div(int64_t a, int64_t b);
int64_t floor_mod(int64_t a, int64_t b);

/// Of numbers that are not negative.
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t to) { return ceil_div(a, to) * to; }

}  // namespace heddle
