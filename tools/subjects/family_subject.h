// Subjects over a range of sizes: `matmul:1..2048x768x768`, or `softmax:1..512/8x1024` where all
// sizes are multiples of 8.
#pragma once

#include <string>
#include <vector>

#include "heddle/dsl/dim.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// Whether the text has a range in it.
bool is_family(const std::string& subject);

struct FamilySubject {
  std::string subject;  ///< as typed
  std::vector<Dim> dims;
  std::vector<Tensor> args;  ///< over the dimensions: inputs, then outputs
};

/// Declares the subject for all sizes of its range. A User error where the range makes no sense,
/// and where the subject computes something else at other sizes.
FamilySubject family_subject(const std::string& subject, DataType dtype);

}  // namespace heddle::cli
