// Figures of a loop nest: its loops, statements and their accesses, from one walk over the
// statements. memory_model.h adds figures of memory.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/index_form.h"
#include "heddle/target/target.h"

namespace heddle::cost_model {

/// Operations of one execution of a statement, before multiplying by lanes.
struct OpCounts {
  double mad = 0;  ///< floating point from here on
  double add = 0, mul = 0, div = 0, minmax = 0, special = 0;
  double int_add = 0, int_mul = 0, int_div = 0;  ///< of values, not of indices
  double logic = 0;                              ///< comparisons, and, or, not, bits, shifts
  double select = 0, cast = 0;
  double flops() const { return 2 * mad + add + mul + div + minmax + special; }
  double arithmetic() const { return flops() + int_add + int_mul + int_div; }
  /// Adds `o`, `n` times over.
  void add_times(const OpCounts& o, double n) {
    mad += o.mad * n;
    add += o.add * n;
    mul += o.mul * n;
    div += o.div * n;
    minmax += o.minmax * n;
    special += o.special * n;
    int_add += o.int_add * n;
    int_mul += o.int_mul * n;
    int_div += o.int_div * n;
    logic += o.logic * n;
    select += o.select * n;
    cast += o.cast * n;
  }
  friend bool operator==(const OpCounts&, const OpCounts&) = default;
};

/// Bytes that one run of some inner part of a nest touches.
struct Footprint {
  double elements = 0, lines = 0;
};

/// The reads and writes of one buffer by one statement whose indices move in the same way.
struct Access {
  const BufferNode* buffer = nullptr;
  int slot = -1;  ///< of the buffer in Program::buffers
  bool read = false, written = false;
  double weight = 1;  ///< share of the executions in which it happens
  int element_bytes = 4;
  IndexForm form;              ///< flat, in elements
  std::vector<double> places;  ///< constants of the copies that unrolling made, if it did

  // ---- filled in by the memory model ----
  std::vector<Footprint>
      inside;  ///< [d]: of one run of the loop at depth d; [size]: of one iteration
  double traffic[3] = {0, 0, 0};  ///< bytes from beyond L1, L2, L3
  bool in_registers = false;

  bool depends_on(int depth) const {
    for (const Digit& d : form) {
      if (d.depth == depth) return true;
    }
    return false;
  }
  /// Distance in elements from one iteration of that loop to the next; 0: the same element.
  double stride_at(int depth) const;
};

struct Statement {
  std::vector<OpenLoop> loops;  ///< outermost first
  double weight = 1;  ///< share of iterations in which it runs, without conditions that cut loops
  double copies = 1;  ///< consecutive statements that unrolling made of one
  int lanes = 1;      ///< of the stored value
  OpCounts ops;
  std::vector<Access> accesses;  ///< the store's first
  bool nontemporal = false, is_copy = false, is_constant = false;
  int copy_of = -1;  ///< for the tail of a loop: the same statement in its main part

  double iterations() const {
    double n = weight;
    for (const OpenLoop& l : loops) n *= l.extent;
    return n;
  }
  /// Scalar executions.
  double executions() const { return iterations() * copies * lanes; }
};

struct LoopNode {
  int parent = -1;
  int depth = 0;
  LoopKind kind = LoopKind::Serial;
  double working_set = 0;  ///< bytes that one run touches; filled in by the memory model
};

struct BufferUse {
  const BufferNode* buffer = nullptr;
  double elements = 1;
  double bytes = 0;
  double copies = 1;  ///< Allocate::copies
  bool allocated = false;
  int first_writer = -1;  ///< statement
};

struct Program {
  std::vector<LoopNode> loops;
  std::vector<Statement> statements;
  std::vector<BufferUse> buffers;
  double global_bytes = 0, largest_local_bytes = 0;
  int allocations = 0;
  double prefetches = 0;
  double working_set = 0;  ///< bytes that the whole program touches
};

Program walk_program(const LoweredFunction& f);

}  // namespace heddle::cost_model
