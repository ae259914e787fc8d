// Random sizes of training problems, with a distribution like that of real programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/support/dtype.h"
#include "heddle/support/rng.h"
#include "heddle/target/target.h"

namespace heddle::learning {

/// An extent in least..most. It is log-uniform, a power of two, a multiple of 8 or 16, a neighbour
/// of a power of two, or one of `known`, which may be empty.
std::int64_t draw_extent(Rng& rng, std::int64_t least, std::int64_t most,
                         const std::vector<std::int64_t>& known = {});

/// f32 mostly, else one of the types of 16 bits that programs of the target have beside it.
DataType draw_type(Rng& rng, const Target& target);

/// The sizes as text: "512x512x512".
std::string sizes_text(const std::vector<std::int64_t>& sizes);

/// The type in an id, behind the sizes: ",bf16", nothing for f32.
std::string type_text(DataType dtype);

}  // namespace heddle::learning
