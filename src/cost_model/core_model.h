// Figures of one core: how many instructions the innermost body takes, whether its values fit the
// registers, and a rough count of cycles.
#pragma once

#include "cost_model/program_walk.h"

namespace heddle::cost_model {

/// Figures of one statement. A "body" is one iteration of the innermost loop that is neither
/// unrolled nor vectorized: lanes and unrolled copies together.
struct CoreFigures {
  int body = 0;  ///< depth of the first loop that is unrolled or a vector
  int vector_depth =
      -1;             ///< depth of the vector loop (kLaneDepth for vector expressions); -1: scalar
  double lanes = 1;   ///< lanes of a vector statement
  double fill = 1;    ///< lanes over those of the native vectors they take
  double copies = 1;  ///< vectors (or scalars) of one body
  double bodies = 1;  ///< executions of the body
  double arith = 0;   ///< instructions of one body: arithmetic
  double loads = 0;   ///< contiguous vector (or scalar) loads
  double broadcasts = 0;  ///< one element for all lanes
  double gathers = 0;     ///< elements loaded or stored one by one
  double stores = 0;
  double accumulators = 0;  ///< vectors that a reduction keeps in registers; 0: none
  double registers = 0;     ///< rough number of vectors that are live at once
  double chain = 0;         ///< dependent operations on each accumulator in a body
  double cycles = 0;        ///< cycles of one body with data in L1
  double total_cycles() const { return cycles * bodies; }
};

CoreFigures model_core(const Statement& s, const Target& target);

/// How the iterations of a statement are shared among cores.
struct Sharing {
  double tasks = 1;    ///< iterations of the parallel loops
  double speedup = 1;  ///< tasks / (tasks of the busiest core)
  bool parallel = false;
};
Sharing sharing_of(const Statement& s, const Target& target);

}  // namespace heddle::cost_model
