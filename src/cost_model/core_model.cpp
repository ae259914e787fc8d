#include "cost_model/core_model.h"

#include <algorithm>
#include <cmath>

namespace heddle::cost_model {
namespace {

// Rough figures of CPUs of the last ten years: cycles of vector instructions, and instructions per
// cycle.
constexpr double kLatency = 4, kDivide = 8, kSpecial = 20, kLoadsACycle = 2, kGathersACycle = 1;

bool stays_a_loop(const OpenLoop& l) {
  return l.kind == LoopKind::Serial || l.kind == LoopKind::Parallel;
}

/// The number of copies of a body that differ for this access.
double distinct_copies(const Statement& s, const Access& a, const CoreFigures& c) {
  double n = 1;
  for (const Digit& d : a.form) {
    bool body_loop = d.depth >= c.body && d.depth < static_cast<int>(s.loops.size());
    if ((body_loop && d.depth != c.vector_depth) || d.depth == kCopyDepth) n *= d.extent;
  }
  return std::min(n, c.copies);
}

/// How often the access is executed once it is moved out of those remaining loops that it does not
/// depend on.
double hoisted(const Statement& s, const Access& a, const CoreFigures& c) {
  double share = 1;
  for (int d = c.body; d-- > 0;) {
    if (s.loops[d].extent > 1 && a.depends_on(d)) break;
    share /= std::max(1.0, s.loops[d].extent);
  }
  return share;
}

void count_accesses(const Statement& s, const Target& target, CoreFigures* c) {
  double native = target.vector_lanes(s.accesses[0].element_bytes);
  double chunks = std::ceil(c->lanes / native);
  double alive = 0;
  for (const Access& a : s.accesses) {
    double copies = distinct_copies(s, a, *c);
    if (a.in_registers) continue;
    double often = hoisted(s, a, *c) * a.weight * copies;
    double stride = c->vector_depth < 0 ? 1 : a.stride_at(c->vector_depth);
    double ways = (a.read ? 1 : 0) + (a.written ? 1 : 0);
    if (stride == 0) {
      if (a.read) c->broadcasts += often;
      if (a.written) c->stores += often;
    } else if (stride == 1) {
      if (a.read) c->loads += often * chunks;
      if (a.written) c->stores += often * chunks;
      if (a.read && !a.written) alive += copies * chunks;
    } else {
      c->gathers += often * c->lanes * ways;
    }
  }
  // Besides the accumulators, one row of the vector operand and one broadcast are live.
  c->registers = c->accumulators + std::min(alive, std::max(1.0, c->accumulators)) +
                 (c->broadcasts > 0 ? 1 : 0);
}

}  // namespace

CoreFigures model_core(const Statement& s, const Target& target) {
  CoreFigures c;
  int depth = static_cast<int>(s.loops.size());
  c.body = depth;
  while (c.body > 0 && !stays_a_loop(s.loops[c.body - 1])) --c.body;
  for (int d = depth; d-- > 0 && c.vector_depth < 0;) {
    if (s.loops[d].kind == LoopKind::Vectorized) c.vector_depth = d;
  }
  c.copies = s.copies;
  for (int d = c.body; d < depth; ++d) {
    if (d != c.vector_depth) c.copies *= s.loops[d].extent;
  }
  if (c.vector_depth >= 0) {
    c.lanes = s.loops[c.vector_depth].extent * s.lanes;
  } else if (s.lanes > 1) {
    c.vector_depth = kLaneDepth;
    c.lanes = s.lanes;
  }
  double native = target.vector_lanes(s.accesses[0].element_bytes);
  double chunks = std::ceil(c.lanes / native);
  c.fill = c.lanes / (chunks * native);
  c.bodies = s.weight;
  for (int d = 0; d < c.body; ++d) c.bodies *= s.loops[d].extent;

  const OpCounts& ops = s.ops;
  double instructions = ops.mad + ops.add + ops.mul + ops.minmax + ops.int_add + ops.int_mul +
                        ops.logic + ops.select + ops.cast;
  c.arith = (instructions + ops.div + ops.int_div + ops.special) * c.copies * chunks;

  // C[..] = C[..] + x is a chain of additions where a remaining loop does not change the element of
  // C.
  const Access& target_access = s.accesses[0];
  if (target_access.read && target_access.written) {
    bool moves = c.body > 0 && target_access.depends_on(c.body - 1);
    double vectors = distinct_copies(s, target_access, c) *
                     (target_access.depends_on(c.vector_depth) ? chunks : 1);
    if (!moves) {
      c.accumulators = vectors;
      c.chain = c.copies * chunks / std::max(1.0, vectors);
    }
  }
  count_accesses(s, target, &c);

  double busy = (instructions + kDivide * (ops.div + ops.int_div) + kSpecial * ops.special) *
                c.copies * chunks / std::max(1, target.fma_units);
  double spilled = std::max(0.0, c.registers - target.vector_registers);
  double reads = (c.loads + c.broadcasts + spilled) / kLoadsACycle + c.gathers / kGathersACycle;
  c.cycles = std::max({busy, reads, c.stores + spilled, c.chain * kLatency}) + 0.5;
  return c;
}

Sharing sharing_of(const Statement& s, const Target& target) {
  Sharing out;
  for (const OpenLoop& l : s.loops) {
    if (l.kind != LoopKind::Parallel) continue;
    out.parallel = true;
    out.tasks *= l.extent;
  }
  if (out.parallel && out.tasks > 0) {
    double cores = std::max(1, target.cores);
    out.speedup = std::max(1.0, out.tasks / std::max(1.0, std::ceil(out.tasks / cores)));
  }
  return out;
}

}  // namespace heddle::cost_model
