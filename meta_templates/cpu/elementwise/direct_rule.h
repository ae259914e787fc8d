// The rule for stages that are materialised point by point: the number of vectors in flight, the
// rows computed at a time, and the distance of prefetching.
#pragma once

#include "heddle/schedule/choice.h"
#include "heddle/schedule/template.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta::cpu {

struct DirectProblem {
  Target target;
  CpuConstants constants = {};  ///< by which the rule judges
  bool parallel = false;        ///< whether there is enough work for the threads
  int64_t lanes = 1;            ///< lanes of a native vector
  int64_t result_bytes = 0;
  bool output_computes = false;  ///< the output stage calls transcendental functions (exp, erf, ..)
  // Whether stages are computed for each row.
  bool has_row_stages = false;
  bool rows_compute = false;  ///< one of them calls a transcendental function for each element
  bool reduces_rows = false;  ///< one of them reduces rows of an input
  bool reads_again = false;   ///< one of them reads rows that another has read
  bool reads_rows = false;    ///< the output stage reads rows of an input
  bool streams_rows = false;  ///< rows bypass the caches, see streams_rows()
  int64_t row_rank = 0;       ///< number of leading axes that are rows
  int64_t rows = 1;           ///< product of their extents
  int64_t last_rows = 1;      ///< extent of the innermost of them
  int64_t row_bytes = 0;      ///< bytes of a row of the result

  NamedFeatures features() const;
};

DirectProblem direct_problem(const TemplateBuilder& t, const StageGroup& g);

/// A default for every knob.
Choice direct_rule(const DirectProblem& p);

}  // namespace heddle::meta::cpu
