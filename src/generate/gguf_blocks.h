// The blocks of GGUF's types, and declarations that unpack them.
#pragma once

#include <functional>
#include <string>

#include "heddle/generate/gguf.h"

namespace heddle::generate {

/// So many elements are stored in so many bytes.
struct BlockForm {
  GgufType type;
  const char* name;
  int64_t elements, bytes;
};
/// nullptr for a type that is not read.
const BlockForm* block_form(uint32_t type);
/// The names of those that are: "f32, f16, ...".
std::string names_of_forms();

/// Element (row, column) of a tensor as f32, over constants in its own bits. Its dimensions before the last one
/// count as one.
using Elements = std::function<Expr(const Expr& row, const Expr& column)>;
/// Those of `t`, whose bytes are `bytes`.
Elements elements_of(const GgufTensor& t, const std::string& bytes);

/// The elements of `t`, whose bytes are `bytes`, as a declaration over constants.
Tensor weights_of(const GgufTensor& t, const std::string& bytes);

}  // namespace heddle::generate
