// The shapes of a simple reduction on a GPU, a file each. `host` is the stage whose loops go over
// blocks; `reduction` is computed inside it, or is the host itself (it then keeps its accumulator
// in registers and stores it once). Names of knobs begin with `prefix`.
#pragma once

#include "cuda/reductions/columns_rule.h"
#include "cuda/reductions/rows.h"

namespace heddle::meta {

/// What is not of every reduction of rows.
struct RowsOptions {
  Param length = {};    ///< of the row, where that is a knob's value
  int64_t threads = 0;  ///< a row, by default; 0: by the rule
};
struct RowsKnobs {
  Param threads, rows_per_block;
};
/// A value for each row: a warp or a block reduces it, over the reduce axes `ks`, which are taken as
/// one of problem.extent elements. The last of them is contiguous in memory.
RowsKnobs reduce_rows(TemplateBuilder& t, StageRef host, StageRef reduction,
                      const std::vector<int>& ks, const RowProblem& problem,
                      const std::string& prefix, const RowsOptions& options = {});

/// A value for each column: neighbouring threads take neighbouring vectors of the host's last axis,
/// rows (of the reduce axes `ks`, taken as one) go over threadIdx.y; their parts meet in shared
/// memory.
void reduce_columns(TemplateBuilder& t, StageRef host, StageRef reduction,
                    const std::vector<int>& ks, const ColumnProblem& problem,
                    const std::string& prefix);

}  // namespace heddle::meta
