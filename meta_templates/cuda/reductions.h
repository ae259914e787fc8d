// The shapes of a simple reduction on a GPU, a file each. `host` is the stage whose loops go over
// blocks; `reduction` is computed inside it, or is the host itself (it then keeps its accumulator
// in registers and stores it once). Names of knobs begin with `prefix`.
#pragma once

#include "cuda/rows.h"

namespace heddle::meta {

/// What is not of every reduction of rows.
struct RowsOptions {
  Param length = {};         ///< of the row, where that is a knob's value
  bool by_clusters = false;  ///< several blocks may have a row
  bool heavy = false;        ///< see share_rows
  int64_t threads = 0;       ///< a row, by default; 0: by the rule of share_rows
};
struct RowsKnobs {
  Param threads, rows_per_block;
};
/// A value for each row: a warp or a block reduces it, over axis `k`, contiguous in memory and of
/// `extent` elements.
RowsKnobs reduce_rows(TemplateBuilder& t, StageRef host, StageRef reduction, int k, int64_t extent,
                      int64_t lanes, int64_t rows, const std::string& prefix,
                      const RowsOptions& options = {});

/// A value for each column: neighbouring threads take neighbouring vectors of the host's last axis
/// (of `extent` elements), rows go over threadIdx.y; their parts meet in shared memory. `length`:
/// of reduce axis `k`. `bytes`: of a value, all its components. `most_down`: threadIdx.y goes no
/// further by default.
void reduce_columns(TemplateBuilder& t, StageRef host, StageRef reduction, int k, int64_t extent,
                    int64_t length, int64_t lanes, int64_t bytes, int64_t most_down,
                    const std::string& prefix);

}  // namespace heddle::meta
