// A reduction that streams memory, as the CPU recipe uses it: the axes that are cut and shared
// among threads, and the facts for its rule.
#pragma once

#include <vector>

#include "heddle/schedule/choice.h"
#include "heddle/schedule/template.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta::cpu {

/// Positions of the axes that the recipe cuts.
struct ReductionAxes {
  /// Reduce axes along which the largest operand is one run of elements, outermost first.
  std::vector<int> run;
  /// The same where the reduction is cut into parts: whole runs inside the axis that is cut.
  std::vector<int> part_run;
  bool along_row = false;  ///< vectors go along `run`, else along the last spatial axis
  int cut = 0;             ///< the reduce axis that is cut into parts
  int row_axis = -1;       ///< the spatial axis that counts rows; -1: there is none
};

ReductionAxes reduction_axes(const TemplateBuilder& t, const StageGroup& g);

/// The facts that the rule for simple reductions uses.
struct ReductionProblem {
  Target target;
  CpuConstants constants = {};  ///< by which the rule judges
  bool parallel = false;   ///< there is enough work for the threads, and no outer loop is parallel
  bool attached = false;   ///< computes one value for each row of another group
  bool along_row = false;  ///< each result reads a run of elements
  bool scalar = false;     ///< one result
  bool one_row = false;    ///< the results are one row of columns
  bool has_epilogue = false;
  bool can_split = false;     ///< the reduction may be cut into parts
  int64_t lanes = 1;          ///< lanes of a native vector
  int64_t element_bytes = 4;  ///< bytes of an element of the (first) result
  int64_t outputs = 1;        ///< number of components of a tuple
  int64_t results = 1;
  int64_t columns = 0;       ///< extent of the last axis
  int64_t rows = 0;          ///< extent of the axis that counts rows
  int64_t row_length = 1;    ///< elements of a run
  bool adds_blocks = false;  ///< its terms are sums themselves, each in a chain of its own
  int64_t row_bytes = 0;     ///< bytes that a row reads, of stages that are inlined what they read
  int64_t part_row_length = 1;  ///< elements of a run within a part
  int64_t cut_length = 1;       ///< extent of the axis that would be cut into parts
  bool one_axis = true;         ///< the reduction has one axis
  double bytes = 0;             ///< bytes read and written
  bool computes = false;        ///< calls transcendental functions (exp, erf, ..)
  bool terms_compute = false;   ///< the terms (its own, or the stages that it reads) call them
  bool reads_again = false;     ///< reads rows that an earlier reduction has read
  bool beside_stores = false;   ///< the previous row is written while this one is read

  NamedFeatures features() const;
};

ReductionProblem reduction_problem(const TemplateBuilder& t, const StageGroup& g,
                                   const ReductionAxes& axes);

}  // namespace heddle::meta::cpu
