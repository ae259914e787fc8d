// Feature columns of one store.
#include <algorithm>

#include "cost_model/feature_row.h"

namespace heddle::cost_model {
namespace {

/// The innermost remaining loop whose iterations access the same element; -1 where there is none.
int reusing_loop(const Statement& s, const CoreFigures& core, const Access& a) {
  for (int d = core.body; d-- > 0;) {
    if (s.loops[d].extent > 1 && !a.depends_on(d)) return d;
  }
  return -1;
}

/// Bytes touched between a write of the buffer by another statement and this read: the working set
/// of the innermost loop that holds both.
double since_written(const Program& p, const Statement& s, const Access& a) {
  int writer = p.buffers[a.slot].first_writer;
  if (!a.read || a.written || writer < 0) return 0;
  const Statement& w = p.statements[writer];
  double common = p.working_set;
  for (size_t d = 0; d < std::min(s.loops.size(), w.loops.size()); ++d) {
    if (s.loops[d].node != w.loops[d].node) break;
    common = p.loops[s.loops[d].node].working_set / std::max(1.0, s.loops[d].extent);
  }
  return common;
}

/// How an access is used again by the innermost loop that does not move it.
struct Reuse {
  double count = 0;  // iterations of that loop; 0: there is none
  double apart = 0;  // iterations of inner loops between two uses
  double bytes = 0;  // touched between two uses
};

Reuse reuse_of(const Program& p, const Statement& s, const CoreFigures& core, const Access& a) {
  const int loop = reusing_loop(s, core, a);
  if (loop < 0) return {};
  Reuse r{s.loops[loop].extent, 1, 0};
  for (int d = loop + 1; d < core.body; ++d) r.apart *= s.loops[d].extent;
  r.bytes = loop + 1 < static_cast<int>(s.loops.size())
                ? p.loops[s.loops[loop + 1].node].working_set
                : p.loops[s.loops[loop].node].working_set / std::max(1.0, r.count);
  return r;
}

template <class Sink>
void fill_access(Sink& out, const ProgramView& view, const StoreView& v, const Access& a) {
  const Statement& s = *v.s;
  const Program& p = *view.p;
  double executed = v.executions * a.weight;
  const Footprint& unique = a.inside.front();
  int inner = v.core.body - 1;
  const Reuse reuse = reuse_of(p, s, v.core, a);
  double vector_stride = v.core.vector_depth < 0 ? 0 : a.stride_at(v.core.vector_depth);
  double native = view.target->vector_lanes(a.element_bytes);
  double off = 0;
  for (const Digit& d : a.form) {
    if (d.depth == v.core.vector_depth) continue;
    if (std::fmod(std::abs(d.stride), native) != 0) off = 1;
  }
  if (std::fmod(a.form.constant, native) != 0) off = 1;
  bool vector = v.core.vector_depth >= 0;

  out.plain("read", "0 or 1", "Whether it is read.", a.read);
  out.plain("written", "0 or 1", "Whether it is written.", a.written);
  out.plain("contiguous", "0 or 1", "Whether lanes lie side by side in memory.",
            vector && vector_stride == 1);
  out.plain("broadcast", "0 or 1", "Whether all lanes use one element.",
            vector && vector_stride == 0);
  out.plain("strided", "0 or 1", "Whether lanes lie apart, so that each is an access of its own.",
            vector && vector_stride > 1);
  out.plain("unaligned", "0 or 1",
            "Whether a vector may begin elsewhere than at a multiple of its size.",
            vector && vector_stride == 1 && off != 0);
  out.log("bytes", "bytes", "Read and written, every execution counted.",
          executed * a.element_bytes * ((a.read ? 1 : 0) + (a.written ? 1 : 0)));
  out.log("unique_bytes", "bytes", "Different bytes touched.", unique.elements * a.element_bytes);
  out.log("lines", "cache lines", "Touched, once for each run of the innermost body.",
          v.core.bodies * a.inside[v.core.body].lines);
  out.log("unique_lines", "cache lines", "Different lines touched.", unique.lines);
  out.log("stride", "bytes", "From one iteration of the innermost loop to the next.",
          inner >= 0 ? a.stride_at(inner) * a.element_bytes : 0);
  out.log("body_lines", "cache lines", "Touched by one run of the innermost body.",
          a.inside[v.core.body].lines);
  out.log(
      "reuse.count", "iterations",
      "Of the innermost loop that does not move it: how often it is used again; 0: no such loop.",
      reuse.count);
  out.log("reuse.distance", "iterations", "Of inner loops between two uses.", reuse.apart);
  out.log("reuse.bytes", "bytes", "Touched between two uses, by everything in the loop.",
          reuse.bytes);
  out.log("since_written", "bytes",
          "Touched between a write by another statement and this read; 0: an argument.",
          since_written(p, s, a));
  out.log("traffic.l1", "bytes", "That come from beyond L1.", a.traffic[0]);
  out.log("traffic.l2", "bytes", "That come from beyond L2.", a.traffic[1]);
  out.log("traffic.l3", "bytes", "That come from memory.", a.traffic[2]);
}

size_t access_columns() {
  static const size_t n = [] {
    std::vector<FeatureColumn> columns;
    ColumnSink sink(&columns);
    Statement s;
    s.accesses.resize(1);
    s.accesses[0].inside.resize(1);
    s.accesses[0].slot = 0;
    Program p;
    p.buffers.resize(1);
    Target target;
    ProgramView view{&p, &target, {}};
    StoreView v;
    v.s = &s;
    fill_access(sink, view, v, s.accesses[0]);
    return columns.size();
  }();
  return n;
}

/// The written buffer, then those that are read: by vectors, as broadcasts, element by element.
/// Among equals the one with more cache lines comes first.
std::vector<const Access*> slots_of(const StoreView& v) {
  std::vector<const Access*> out;
  for (const Access& a : v.s->accesses) {
    if (!a.in_registers) out.push_back(&a);
  }
  auto rank = [&](const Access* a) {
    if (a->written) return 0;
    if (v.core.vector_depth < 0) return 1;
    double stride = a->stride_at(v.core.vector_depth);
    return stride == 1 ? 1 : stride == 0 ? 2 : 3;
  };
  std::stable_sort(out.begin(), out.end(), [&](const Access* a, const Access* b) {
    int x = rank(a), y = rank(b);
    return x != y ? x < y : a->inside.front().lines > b->inside.front().lines;
  });
  return out;
}

/// Bytes that one run of the loop at `depth` touches, for this statement alone.
double own_bytes(const Statement& s, int depth) {
  double bytes = 0;
  for (const Access& a : s.accesses) {
    if (!a.in_registers) bytes += a.inside[depth].elements * a.element_bytes;
  }
  return bytes;
}

template <class Sink>
void fill_annotations(Sink& out, const StoreView& v) {
  const Statement& s = *v.s;
  double unroll = s.copies, innermost = s.copies > 1 ? s.copies : 0, unrolled = s.copies > 1;
  double parallel = 1, parallel_loops = 0, outer_parallel = 0, vectors = 0, serial = 1, loops = 0;
  for (const OpenLoop& l : s.loops) {
    switch (l.kind.binding) {
      case Binding::Unrolled:
        unroll *= l.extent;
        innermost = l.extent;
        unrolled += 1;
        break;
      case Binding::Parallel:
        parallel *= l.extent;
        parallel_loops += 1;
        if (outer_parallel == 0) outer_parallel = l.extent;
        break;
      case Binding::Vectorized: vectors += 1; break;
      default:
        serial *= l.extent;
        loops += 1;
        break;
    }
  }
  double inner_trip = v.core.body > 0 ? s.loops[v.core.body - 1].extent : 0;
  double second_trip = v.core.body > 1 ? s.loops[v.core.body - 2].extent : 0;
  out.log("vector.lanes", "lanes", "Of the vector loop; 0: scalar.",
          v.core.vector_depth < 0 ? 0 : v.core.lanes);
  out.plain("vector.loops", "loops", "Vectorized loops around it.", vectors + (s.lanes > 1));
  out.plain("vector.fill", "share", "Of the lanes of the native vectors that are in use.",
            v.core.fill);
  out.log("unroll.product", "copies", "Of the statement, by all unrolled loops.", unroll);
  out.log("unroll.innermost", "copies", "By the innermost unrolled loop.", innermost);
  out.plain("unroll.loops", "loops", "Unrolled loops around it.", unrolled);
  out.log("parallel.tasks", "iterations", "Of all parallel loops around it; 1: none.", parallel);
  out.log("parallel.outermost", "iterations", "Of the outermost parallel loop.", outer_parallel);
  out.plain("parallel.loops", "loops", "Parallel loops around it.", parallel_loops);
  out.log("serial.product", "iterations", "Of all serial loops around it.", serial);
  out.plain("serial.loops", "loops", "Serial loops around it.", loops);
  out.log("inner.trip", "iterations", "Of the innermost loop that stays a loop.", inner_trip);
  out.log("inner.second_trip", "iterations", "Of the loop around that one.", second_trip);
}

template <class Sink>
void fill_core(Sink& out, const ProgramView& view, const StoreView& v) {
  const CoreFigures& c = v.core;
  double reads = c.loads + c.broadcasts + c.gathers;
  out.log("body.instructions", "instructions",
          "Of one run of the innermost body: arithmetic, loads, stores.",
          c.arith + reads + c.stores);
  out.log("body.arith", "instructions", "Of which arithmetic.", c.arith);
  out.log("body.loads", "instructions", "Of which loads of a vector.", c.loads);
  out.log("body.broadcasts", "instructions", "Of which loads of one element for all lanes.",
          c.broadcasts);
  out.log("body.gathers", "instructions", "Of which accesses to one lane.", c.gathers);
  out.log("body.stores", "instructions", "Of which stores of a vector.", c.stores);
  out.plain("body.loads_per_arith", "ratio", "Loads over arithmetic, in instructions.",
            std::min(32.0, reads / std::max(1.0, c.arith)));
  out.plain("acc.vectors", "vectors", "That a reduction keeps in registers; 0: none.",
            std::min(256.0, c.accumulators));
  out.plain("acc.registers", "ratio", "Vectors alive at once over the registers there are.",
            std::min(16.0, c.registers / view.target->vector_registers));
  out.plain("acc.independent", "ratio",
            "Accumulators over those that hide the latency of the multiply-adders.",
            std::min(16.0, c.accumulators / (4.0 * view.target->fma_units)));
  out.log("body.cycles", "cycles", "Estimate for one run of the body, data in L1.", c.cycles);
  out.log("cycles", "cycles", "Estimate for all runs, shared out over the cores, data in L1.",
          v.cycles / v.sharing.speedup);
  out.plain("cycles_per_op", "log2 ratio",
            "Estimated cycles over those of full vectors on every unit.",
            std::log2(1 + c.cycles / std::max(1e-3, v.s->ops.arithmetic() * c.copies * c.lanes /
                                                        view.target->vector_lanes(
                                                            v.s->accesses[0].element_bytes) /
                                                        view.target->fma_units)));
}

template <class Sink>
void fill_levels(Sink& out, const ProgramView& view, const StoreView& v) {
  const Statement& s = *v.s;
  const Target& t = *view.target;
  double flops = s.ops.arithmetic();
  // Values of the curve at equal fractions of the depth, from the innermost body to the whole
  // statement.
  static const char* const curve[kCurve] = {"intensity.0", "intensity.1", "intensity.2",
                                            "intensity.3", "intensity.4", "intensity.5"};
  std::array<double, 64> inside{};
  int depth = std::min<int>(v.core.body, 63);
  inside[depth] = flops * v.core.copies * v.core.lanes;
  for (int d = depth; d-- > 0;) inside[d] = inside[d + 1] * s.loops[d].extent;
  for (int i = 0; i < kCurve; ++i) {
    int d = depth - depth * i / (kCurve - 1);
    out.log(curve[i], "operations per byte",
            "Arithmetic per different byte inside the loop at this share of the depth, from the "
            "body (0) to all loops (5).",
            inside[d] / std::max(1.0, own_bytes(s, d)));
  }
  auto run_of = [&](int up) {
    int d = v.core.body - up;
    return d >= 0 && d < static_cast<int>(s.loops.size())
               ? view.p->loops[s.loops[d].node].working_set
               : view.p->working_set;
  };
  out.log("touched.1", "bytes", "By one run of the innermost loop, everything in it.", run_of(1));
  out.log("touched.2", "bytes", "By one run of the second innermost loop.", run_of(2));
  out.log("touched.3", "bytes", "By one run of the third innermost loop.", run_of(3));
  out.plain("touched.1.l1", "log2 ratio", "The first of these over L1.",
            std::log2(1 + run_of(1) / static_cast<double>(t.l1d_bytes)));
  out.plain("touched.2.l1", "log2 ratio", "The second over L1.",
            std::log2(1 + run_of(2) / static_cast<double>(t.l1d_bytes)));
  out.plain("touched.2.l2", "log2 ratio", "The second over L2.",
            std::log2(1 + run_of(2) / static_cast<double>(t.l2_bytes)));
  out.plain("touched.3.l2", "log2 ratio", "The third over L2.",
            std::log2(1 + run_of(3) / static_cast<double>(t.l2_bytes)));
  double total = flops * v.executions;
  out.log("intensity.l1", "operations per byte", "Arithmetic per byte from beyond L1.",
          total / std::max(64.0, v.traffic[0]));
  out.log("intensity.l2", "operations per byte", "Arithmetic per byte from beyond L2.",
          total / std::max(64.0, v.traffic[1]));
  out.log("intensity.l3", "operations per byte", "Arithmetic per byte from memory.",
          total / std::max(64.0, v.traffic[2]));
  out.log("traffic.l1", "bytes", "From beyond L1.", v.traffic[0]);
  out.log("traffic.l2", "bytes", "From beyond L2.", v.traffic[1]);
  out.log("traffic.l3", "bytes", "From memory.", v.traffic[2]);
}

template <class Sink>
void fill(Sink& out, const ProgramView& view, const StoreView& v, const std::string& prefix) {
  const Statement& s = *v.s;
  const BufferUse& buffer = view.p->buffers[s.accesses[0].slot];
  out.group(prefix);
  fill_ops(out, s.ops, v.executions);
  out.log("executions", "executions", "Of the statement, lane by lane.", v.executions);
  out.plain("tail", "share", "Of the executions that are in tails of loops.",
            v.tail_executions / std::max(1.0, v.executions));
  fill_annotations(out, v);
  fill_core(out, view, v);
  fill_levels(out, view, v);
  out.log("alloc.bytes", "bytes", "Of the buffer written, when the program allocates it.",
          buffer.allocated ? buffer.bytes : 0);
  out.log("alloc.outer", "executions",
          "Of the statement over elements of that buffer: how often each is written.",
          v.executions / std::max(1.0, buffer.elements));
  out.plain("nontemporal", "0 or 1", "Whether stores bypass the caches.", s.nontemporal);
  out.plain("copies", "0 or 1", "Whether it only moves data.", s.is_copy);

  std::vector<const Access*> slots = slots_of(v);
  for (int i = 0; i < kSlots; ++i) {
    if (i < static_cast<int>(slots.size()) || Sink::kDescribes) {
      if constexpr (Sink::kDescribes) out.group(prefix + "buf" + std::to_string(i) + ".");
      fill_access(out, view, v, Sink::kDescribes ? s.accesses[0] : *slots[i]);
    } else {
      out.zeros(access_columns());
    }
  }
}

}  // namespace

void fill_store(ValueSink& out, const ProgramView& view, const StoreView& v) {
  fill(out, view, v, std::string());
}
void fill_store(ColumnSink& out, const ProgramView& view, const StoreView& v) {
  for (int i = 0; i < kStores; ++i) fill(out, view, v, "store" + std::to_string(i) + ".");
}

}  // namespace heddle::cost_model
