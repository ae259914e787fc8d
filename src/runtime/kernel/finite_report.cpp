#include "runtime/kernel/finite_report.h"

#include <algorithm>
#include <string>

#include "heddle/support/error.h"

namespace heddle {
namespace {

std::string index_text(int64_t flat, const std::vector<int64_t>& shape) {
  std::string index;
  for (size_t d = shape.size(); d-- > 0;) {
    index = std::to_string(flat % shape[d]) + (index.empty() ? "" : ", ") + index;
    flat /= shape[d];
  }
  return "[" + index + "]";
}

const KernelArg& checked_arg(const KernelCode& code, size_t at) {
  return at < code.args.size() ? code.args[at] : code.bound[at - code.args.size()].arg;
}

}  // namespace

NDArray make_finite_report(const FiniteReport& finite, Device device) {
  if (finite.slots == 0) return {};
  return NDArray::empty({static_cast<int64_t>(finite.args.size()), finite.slots}, i64, device);
}

void throw_if_not_finite(const KernelCode& code, std::span<const NDArray> arrays,
                         const NDArray& report) {
  const NDArray here = report.to_host();
  std::string inputs, outputs;
  for (size_t row = 0; row < code.finite.args.size(); ++row) {
    const int64_t* begin = here.data<int64_t>() + static_cast<int64_t>(row) * code.finite.slots;
    const int64_t first = *std::min_element(begin, begin + code.finite.slots);
    if (first == FiniteReport::kNothing) continue;
    const auto position = static_cast<size_t>(code.finite.args[row]);
    const KernelArg& arg = checked_arg(code, position);
    const auto& shape = position < arrays.size() ? arrays[position].shape() : arg.shape;
    std::string& list = arg.output ? outputs : inputs;
    list += (list.empty() ? "'" : ", '") + arg.name + "' is " +
            (first % 2 == 0 ? "NaN" : "infinite") + " at " + index_text(first / 2, shape);
  }
  if (inputs.empty() && outputs.empty()) return;
  std::string message = "kernel '" + code.name + "': ";
  if (!inputs.empty()) message += "input " + inputs;
  if (!outputs.empty()) message += (inputs.empty() ? "output " : "; output ") + outputs;
  throw NotFinite(message,
                  inputs.empty() ? "its inputs are finite, so the values arise in this kernel"
                                 : "look at what computes the inputs",
                  !inputs.empty());
}

}  // namespace heddle
