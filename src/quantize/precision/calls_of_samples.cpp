#include <algorithm>
#include <limits>

#include "heddle/ir/simplify.h"
#include "heddle/quantize/precision.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

/// The shape of an input in a call: dimensions over a range are those of the samples, and the first
/// one is its least.
Extents shape_in_call(const NDArray& samples, const Tensor& input) {
  Extents shape;
  for (size_t d = 0; d < input.shape().size(); ++d) {
    const Expr& extent = input.shape()[d];
    if (const auto fixed = as_int(extent)) {
      shape.push_back(*fixed);
    } else if (d > 0) {
      shape.push_back(d < samples.shape().size() ? samples.shape()[d] : 1);
    } else {
      shape.push_back(range_of(extent, {}).min);
    }
  }
  return shape;
}

/// The calls for which there are samples of an input.
int64_t calls_for(const NDArray& samples, const std::string& name, const Tensor& input) {
  const Extents shape = shape_in_call(samples, input);
  const auto wrong = [&](const std::string& what) {
    throw_user_error("the samples of the input '" + name + "' " + what, {},
                     "it takes " + describe(NDArray::empty(shape, input.dtype())) +
                         "; the first dimension of its samples counts them");
  };
  if (samples.dtype() != input.dtype()) wrong("are " + to_string(samples.dtype()));
  Extents of_call = samples.shape();
  if (of_call.empty() || of_call.size() != shape.size())
    wrong("have " + std::to_string(of_call.size()) + " dimensions");
  of_call[0] = shape[0];
  if (of_call != shape || shape[0] < 1) wrong("are " + describe(samples));
  return samples.extent(0) / shape[0];
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? " '" : ", '") + name + "'";
  return text.empty() ? " none" : text;
}

}  // namespace

std::vector<std::vector<NDArray>> calls_of_samples(const std::map<std::string, NDArray>& samples,
                                                   const std::vector<std::string>& names,
                                                   const std::vector<Tensor>& inputs) {
  HEDDLE_ICHECK(names.size() == inputs.size(), "a name for each input");
  for (const auto& [name, array] : samples) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw_user_error("the model has no input '" + name + "', for which there are samples", {},
                       "it has" + list_of(names));
  }
  int64_t calls = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = samples.find(names[i]);
    if (found == samples.end())
      throw_user_error("there are no samples of the input '" + names[i] + "'", {},
                       "the data have an array for each input, by its name");
    calls = std::min(calls, calls_for(found->second, names[i], inputs[i]));
  }
  if (calls == 0)
    throw_user_error("the samples are too few for a call", {}, "give samples for at least two");
  std::vector<std::vector<NDArray>> made;
  for (int64_t c = 0; c < (names.empty() ? 0 : calls); ++c) {
    made.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) {
      const NDArray& own = samples.at(names[i]);
      const int64_t rows = shape_in_call(own, inputs[i])[0];
      made.back().push_back(own.rows(c * rows, (c + 1) * rows).copy());
    }
  }
  return made;
}

}  // namespace heddle
