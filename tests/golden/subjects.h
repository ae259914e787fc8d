// The subjects of the golden loops: a declaration, a target by its full text, and options.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/schedule/options.h"

namespace heddle::testing {

struct GoldenSubject {
  std::string name;    ///< of its file
  std::string what;    ///< one line for the reader of the file
  std::string target;  ///< says all that rules ask of the machine
  std::vector<Tensor> outputs;
  AutoSchedulerOptions options = {};

  friend void PrintTo(const GoldenSubject& s, std::ostream* out) { *out << s.name; }
};

std::vector<GoldenSubject> cpu_subjects();
std::vector<GoldenSubject> cuda_subjects();

}  // namespace heddle::testing
