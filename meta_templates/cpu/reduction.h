// A reduction that streams memory, as a CPU recipe sees it: which axes are cut and shared out, and
// what its rule is told of it.
#pragma once

#include <vector>

#include "heddle/schedule/choice.h"
#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {

/// Positions of axes that the recipe cuts.
struct ReductionAxes {
  /// Reduce axes along which the largest operand is one run of elements, outermost first.
  std::vector<int> run;
  /// The same where the reduction is cut into parts: whole runs inside of the axis that is cut.
  std::vector<int> part_run;
  bool along_row = false;  ///< vectors go along `run`, else along the last spatial axis
  int cut = 0;             ///< the reduce axis that is cut into parts
  int row_axis = -1;       ///< the spatial axis along which rows are counted; -1: there is none
};

ReductionAxes reduction_axes(const TemplateBuilder& t, const StageGroup& g);

/// What the rule for simple reductions sees.
struct ReductionProblem {
  Target target;
  bool parallel = false;   ///< there is enough work for the threads, and nobody else shares it out
  bool attached = false;   ///< one value a row of another group
  bool along_row = false;  ///< each result reads a run of elements
  bool scalar = false;     ///< one result
  bool one_row = false;    ///< the results are one row of columns
  bool has_epilogue = false;
  bool can_split = false;     ///< the reduction may be cut into parts
  int64_t lanes = 1;          ///< of a native vector
  int64_t element_bytes = 4;  ///< of the (first) result
  int64_t outputs = 1;        ///< of a tuple
  int64_t results = 1;
  int64_t columns = 0;          ///< along the last axis
  int64_t rows = 0;             ///< along the axis by which rows are counted
  int64_t row_length = 1;       ///< elements of a run
  int64_t part_row_length = 1;  ///< the same of a part
  int64_t cut_length = 1;       ///< of the axis that would be cut into parts
  bool one_axis = true;         ///< the reduction has one axis
  double bytes = 0;             ///< read and written
  bool computes = false;        ///< calls transcendental functions (exp, erf, ..)
  bool terms_compute = false;   ///< so do the stages that it reads, or it itself
  bool reads_again = false;     ///< rows that a reduction before it has read
  bool beside_stores = false;   ///< the row before is written while this one is read

  NamedFeatures features() const;
};

ReductionProblem reduction_problem(const TemplateBuilder& t, const StageGroup& g,
                                   const ReductionAxes& axes);

}  // namespace heddle::meta::cpu
