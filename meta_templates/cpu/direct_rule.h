// The rule for stages that are materialised point by point: vectors in flight, rows at a time, what
// is fetched ahead.
#pragma once

#include "heddle/schedule/choice.h"
#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {

struct DirectProblem {
  Target target;
  bool parallel = false;  ///< there is enough work for the threads
  int64_t lanes = 1;      ///< of a native vector
  int64_t result_bytes = 0;
  bool output_computes = false;  ///< the output stage calls transcendental functions (exp, erf, ..)
  // Stages that are computed per row.
  bool has_row_stages = false;
  bool rows_compute = false;  ///< one of them calls transcendental functions, of each element
  bool reduces_rows = false;  ///< one of them reduces rows of an input
  bool reads_again = false;   ///< one of them reads rows that another has read
  bool reads_rows = false;    ///< the output stage reads rows of an input
  bool streams_rows = false;  ///< rows go past the caches, see streams_rows()
  int64_t row_rank = 0;       ///< how many leading axes are rows
  int64_t rows = 1;           ///< along all of them
  int64_t last_rows = 1;      ///< along the innermost of them
  int64_t row_bytes = 0;      ///< of the result

  NamedFeatures features() const;
};

DirectProblem direct_problem(const TemplateBuilder& t, const StageGroup& g);

/// A default for every knob.
Choice direct_rule(const DirectProblem& p);

}  // namespace heddle::meta::cpu
