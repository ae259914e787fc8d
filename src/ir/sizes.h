// Symbolic sizes: variables that stand for an extent which a call gives. Each has a range of values
// (SizeRange), and extents are sums of such sizes times constants.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heddle/ir/expr.h"

namespace heddle {

/// Whether `extent` varies from call to call: its variables are symbolic sizes, and it has some.
bool is_symbolic(const Expr& extent);
/// The largest value of an extent. For a constant it is the constant. Throws an internal error
/// where the extent depends on anything other than sizes.
int64_t largest_extent(const Expr& extent);
/// The symbolic sizes of an expression, in order of first appearance.
std::vector<Var> sizes_in(const Expr& e);
/// Adds the symbolic sizes of `e` that `sizes` lacks.
void add_sizes(const Expr& e, std::vector<Var>* sizes);

/// extent == factor * size, with factor > 0.
struct ScaledSize {
  Var size;
  int64_t factor = 1;
};
/// The extent as a multiple of one size, or nullopt where it is something else.
std::optional<ScaledSize> as_scaled_size(const Expr& extent);

/// An extent in words, for messages: "n, which is 1 to 4096".
std::string size_text(const Expr& extent);
/// Throws a User error: `what` ("axis 'i'") needs a constant extent and has this one.
[[noreturn]] void fail_symbolic(const std::string& what, const Expr& extent);

}  // namespace heddle
