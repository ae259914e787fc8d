// The shapes of a simple reduction on a GPU, a file each. `host` is the stage whose loops go over
// blocks; `reduction` is computed inside it, or is the host itself (it then keeps its accumulator
// in registers and stores it once). Names of knobs begin with `prefix`.
#pragma once

#include "cuda_rows.h"

namespace heddle::meta {

/// A value for each row: a warp or a block reduces it, over axis `k`, contiguous in memory and of
/// `extent` elements; where that is a knob's value, of `length`. `by_clusters`: or several blocks.
void reduce_rows(TemplateBuilder& t, StageRef host, StageRef reduction, int k, int64_t extent,
                 int64_t lanes, int64_t rows, const std::string& prefix, Param length = {},
                 bool by_clusters = false);

/// A value for each column: neighbouring threads take neighbouring vectors of the host's last axis
/// (of `extent` elements), rows go over threadIdx.y; their parts meet in shared memory. `length`:
/// of reduce axis `k`. `most_down`: threadIdx.y goes no further by default.
void reduce_columns(TemplateBuilder& t, StageRef host, StageRef reduction, int k, int64_t extent,
                    int64_t length, int64_t lanes, int64_t most_down, const std::string& prefix);

}  // namespace heddle::meta
