// Parts of build_multi that export_multi uses, too.
#pragma once

#include <string>
#include <vector>

#include "driver/lowered_variant.h"
#include "heddle/driver/build_multi.h"

namespace heddle::driver {

/// The name of the variant at place `i`.
std::string variant_name(const MultiVariant& v, size_t i);

/// The variant's tensors in the places of `args`, null where it does not read one.
std::vector<Tensor> own_args(const MultiVariant& v, const std::vector<Tensor>& args);

/// The tolerance for differences between the results of the variants, one for each output.
std::vector<AnswerTolerance> tolerances_of(const std::vector<MultiVariant>& variants,
                                           const std::vector<Tensor>& args);

}  // namespace heddle::driver
