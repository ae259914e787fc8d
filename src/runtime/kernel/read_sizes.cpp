// The sizes of a call from the shapes of its arrays.
#include <algorithm>
#include <cstdlib>

#include "heddle/support/error.h"
#include "runtime/kernel/check_arguments.h"
#include "support/stack_array.h"

namespace heddle {
namespace {

// What an extent says, in the order in which extents are read: those that determine a size by
// themselves come before sums of several.
enum class Says { Multiple, Line, Sum };

Says what_says(const SymbolicExtent& e) {
  if (e.terms.size() != 1) return Says::Sum;
  return e.constant == 0 ? Says::Multiple : Says::Line;
}

/// An extent as text: "n", "4 * n + 2".
std::string extent_text(const SymbolicExtent& e, std::span<const KernelSize> sizes) {
  std::string text;
  for (const SymbolicExtent::Term& t : e.terms) {
    if (!text.empty()) text += " + ";
    if (t.factor != 1) text += std::to_string(t.factor) + " * ";
    text += sizes[static_cast<size_t>(t.size)].name;
  }
  if (e.constant == 0) return text;
  return text + (e.constant < 0 ? " - " : " + ") + std::to_string(std::abs(e.constant));
}

[[noreturn]] void fail(const std::string& name, size_t i, const KernelArg& arg, int dim,
                       int64_t extent, const std::string& why, const std::string& help) {
  throw_runtime_error("argument " + std::to_string(i) + " ('" + arg.name + "') of kernel '" + name +
                          "' has extent " + std::to_string(extent) + " in dimension " +
                          std::to_string(dim) + ", " + why,
                      {}, help);
}

std::string range_text(const KernelSize& s, int64_t factor, int64_t constant) {
  std::string text =
      std::to_string(s.lo * factor + constant) + " to " + std::to_string(s.hi * factor + constant);
  if (factor > 1 && constant == 0) text += ", multiples of " + std::to_string(factor) + " only";
  if (factor > 1 && constant != 0) text += " in steps of " + std::to_string(factor);
  return text;
}

}  // namespace

void read_sizes(const std::string& name, std::span<const KernelSize> sizes,
                std::span<const KernelArg> args, std::span<const NDArray> arrays,
                FunctionRef<void(size_t, int64_t)> found) {
  StackArray<int64_t, 8> values(sizes.size());
  std::fill_n(values.data(), sizes.size(), 0);  // not known
  for (const Says says : {Says::Multiple, Says::Line, Says::Sum}) {
    for (size_t i = 0; i < args.size(); ++i) {
      for (const SymbolicExtent& e : args[i].symbolic) {
        if (what_says(e) != says) continue;
        const int64_t extent = arrays[i].shape()[static_cast<size_t>(e.dim)];
        const auto& [at, factor] = e.terms[0];
        int64_t& value = values[static_cast<size_t>(at)];
        const bool first = says != Says::Sum && value == 0;
        if (first) value = factor == 1 ? extent - e.constant : (extent - e.constant) / factor;
        int64_t want = e.constant;
        for (const auto& [size, times] : e.terms) want += times * values[static_cast<size_t>(size)];
        if (!first && want != extent) {
          fail(name, i, args[i], e.dim, extent,
               "which is " + extent_text(e, sizes) + ", and other arguments make that " +
                   std::to_string(want),
               "give all arguments the same sizes");
        }
        const KernelSize& size = sizes[static_cast<size_t>(at)];
        if (first && (want != extent || value < size.lo || value > size.hi)) {
          fail(name, i, args[i], e.dim, extent,
               "and the kernel is for " + range_text(size, factor, e.constant) + " there",
               "declare the dimension with a range that holds it: dim(name, lo, hi)");
        }
      }
    }
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (values.data()[i] == 0)
      throw_runtime_error(
          "no argument of kernel '" + name + "' gives its size '" + sizes[i].name + "'", {},
          "pass the outputs, too, or call the network that it is a node of");
    found(i, values[i]);
  }
}

void set_extents(Extents& shape, std::span<const SymbolicExtent> symbolic,
                 std::span<const int64_t> sizes) {
  for (const SymbolicExtent& e : symbolic) {
    int64_t& extent = shape[static_cast<size_t>(e.dim)];
    extent = e.constant;
    for (const auto& [size, factor] : e.terms) extent += factor * sizes[static_cast<size_t>(size)];
  }
}

}  // namespace heddle
