// Subjects over ranges of sizes: `matmul:1..2048x768x768`, `softmax:1..512/8x1024` where all sizes
// are multiples of 8, or `matmul:1..64x1..64x768` over two dimensions.
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

/// Declares the subject for all sizes of its ranges, at most three. The dimensions are called n, m
/// and l. A User error where a range makes no sense, and where the subject computes something else
/// at other sizes.
FamilySubject family_subject(const std::string& subject, DataType dtype);

}  // namespace heddle::cli
