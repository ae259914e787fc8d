// Families of kernels on a GPU: what the parts of the program share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/support/dtype.h"
#include "subjects/family_subject.h"

namespace heddle::bench {

/// A subject over ranges and its type.
struct Subject {
  std::string name;  ///< "softmax:4096x1..8192 f16"
  std::vector<Dim> dims;
  std::vector<Tensor> args;  ///< inputs, then outputs

  std::vector<Tensor> outputs() const;
  Instance at(const std::vector<int64_t>& sizes) const;
};

/// A User error where the text is no subject with a range.
Subject subject_of(const std::string& text, DataType dtype);

/// "64" or "64x3"
std::string sizes_text(const std::vector<int64_t>& sizes);

/// Random inputs and zeros for outputs.
std::vector<NDArray> arrays_of(const std::vector<Tensor>& args);
std::vector<NDArray> on_gpu(const std::vector<NDArray>& arrays);

/// Calls work(0) to work(count - 1), each in some thread.
void in_threads(size_t count, const std::function<void(size_t)>& work);

// ---- check: random families at random sizes against the interpreter ----

struct CheckOptions {
  int count = 25;
  uint64_t seed = 1;
  bool generic = false;  ///< the kernels of generic_family, too
};
/// Whether all were right.
bool check_families(const CheckOptions& options);

// ---- figures: families against the static choice for each size ----

struct FigureOptions {
  int sizes = 40;
  double seconds = 0;  ///< that all sizes are tuned for; the family has four times one share of it
  std::vector<std::string> subjects;
  std::vector<DataType> dtypes;
  std::string at;  ///< sizes, in place of random ones
  uint64_t seed = 7;
  bool family = true;     ///< choose_family and its race, too
  bool one = true;        ///< and the choice at 256, as one kernel for all sizes
  std::string build_for;  ///< a target that kernels are only built for, on any machine
};
void print_figures(const FigureOptions& options);

// ---- dispatch: what a family adds to a call before the launch ----

void print_dispatch();

}  // namespace heddle::bench
