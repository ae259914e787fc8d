// Feature columns of the whole program.
#include <algorithm>
#include <numeric>

#include "cost_model/feature_row.h"

namespace heddle::cost_model {
namespace {

// Rough bytes per cycle from beyond each cache: for one core, except the last value, which all
// cores share.
constexpr double kBytesACycle[3] = {32, 12, 5};

// Totals over all stores that the columns need.
struct Totals {
  OpCounts ops;
  double executions = 0, tails = 0, bytes = 0, copied = 0, streamed = 0;
  double work = 0, vector_work = 0, shared_work = 0;  ///< cycles of one core
  double traffic[3] = {0, 0, 0};                      ///< bytes from beyond each cache
  double compute = 0, beyond[3] = {0, 0, 0};          ///< cycles, over the cores
  double cycles = 0, slowest = 0, ideal = 0;          ///< cycles, over the cores
  double code = 0, worst_registers = 0;
};

void add_store(Totals& sum, const StoreView& v, const Target& t) {
  const OpCounts& ops = v.s->ops;
  sum.ops.add_times(ops, v.executions);
  sum.executions += v.executions;
  sum.tails += v.tail_executions;
  sum.work += v.cycles;
  if (v.core.vector_depth >= 0) sum.vector_work += v.cycles;
  if (v.sharing.parallel) sum.shared_work += v.cycles;
  sum.bytes += v.bytes;
  if (v.s->is_copy) sum.copied += v.bytes;
  if (v.s->nontemporal) sum.streamed += v.bytes;
  sum.code += v.core.arith + v.core.loads + v.core.broadcasts + v.core.gathers + v.core.stores;
  sum.worst_registers = std::max(sum.worst_registers, v.core.registers / t.vector_registers);
  const double own = v.cycles / v.sharing.speedup;
  sum.compute += own;
  double longest = own;
  for (int c = 0; c < 3; ++c) {
    sum.traffic[c] += v.traffic[c];
    const double time = v.traffic[c] / kBytesACycle[c] / (c < 2 ? v.sharing.speedup : 1);
    sum.beyond[c] += time;
    longest = std::max(longest, time);
  }
  sum.cycles += longest;
  sum.slowest = std::max(sum.slowest, longest);
  const double lanes = t.vector_lanes(v.s->accesses[0].element_bytes);
  sum.ideal += ops.arithmetic() * v.executions / lanes / t.fma_units / t.cores / 2;
}

template <class Sink>
void fill_totals(Sink& out, const Program& p, const Totals& sum) {
  fill_ops(out, sum.ops, 1);
  out.log("executions", "executions", "Of all statements, lane by lane.", sum.executions);
  out.plain("tail", "share", "Of the executions that are in tails of loops.",
            sum.tails / std::max(1.0, sum.executions));
  out.plain("vector", "share", "Of the estimated cycles that are in vector code.",
            sum.vector_work / std::max(1.0, sum.work));
  out.log("bytes", "bytes", "Read and written, every execution counted.", sum.bytes);
  out.log("unique_bytes", "bytes", "In all lines that are touched.", p.working_set);
  out.log("traffic.l1", "bytes", "From beyond L1.", sum.traffic[0]);
  out.log("traffic.l2", "bytes", "From beyond L2.", sum.traffic[1]);
  out.log("traffic.l3", "bytes", "From memory.", sum.traffic[2]);
  out.log("cycles", "cycles",
          "Estimate: for each statement the longest of computing and waiting for a cache, over the "
          "cores.",
          sum.cycles);
  out.log("cycles.compute", "cycles", "Estimate with all data in L1, over the cores.", sum.compute);
  out.log("cycles.l1", "cycles", "Estimate for what comes from beyond L1.", sum.beyond[0]);
  out.log("cycles.l2", "cycles", "Estimate for what comes from beyond L2.", sum.beyond[1]);
  out.log("cycles.l3", "cycles", "Estimate for what comes from memory.", sum.beyond[2]);
  out.plain("efficiency", "share",
            "Cycles of full vectors on every unit of every core over the estimate.",
            sum.ideal / std::max(1.0, sum.cycles));
  out.plain("slowest", "share", "Of the estimated cycles that the slowest statement takes.",
            sum.slowest / std::max(1.0, sum.cycles));
}

// Columns of the parallel regions, and of the region with the most work.
template <class Sink>
void fill_parallel(Sink& out, const ProgramView& view, const Totals& sum) {
  const Program& p = *view.p;
  const Target& t = *view.target;
  double regions = 0;
  const StoreView* most = nullptr;
  for (const LoopNode& n : p.loops) {
    regions += n.kind == LoopKind::Parallel && n.parent < 0;
  }
  for (const StoreView& v : view.stores) {
    if (v.sharing.parallel && (!most || v.cycles > most->cycles)) most = &v;
  }
  double tasks = most ? most->sharing.tasks : 1, speedup = most ? most->sharing.speedup : 1;
  out.log("parallel.regions", "loops", "Times that threads are woken.", regions);
  out.plain("parallel.work", "share", "Of the estimated cycles that are in parallel loops.",
            sum.shared_work / std::max(1.0, sum.work));
  out.log("parallel.tasks", "iterations", "Of the parallel loop with most to do.", tasks);
  out.plain("parallel.balance", "share",
            "Of the cores' time that its tasks fill: tasks / (cores * tasks of the busiest).",
            speedup / std::max(1, t.cores));
  out.log("parallel.grain", "cycles", "Estimate for one of its tasks.",
          most ? most->cycles / std::max(1.0, tasks) : 0);
}

template <class Sink>
void fill_size(Sink& out, const ProgramView& view, const Totals& sum) {
  const Program& p = *view.p;
  const Target& t = *view.target;
  double loops = 0, deepest = 0;
  for (const LoopNode& n : p.loops) {
    if (n.kind == LoopKind::Serial || n.kind == LoopKind::Parallel) loops += 1;
    deepest = std::max<double>(deepest, n.depth + 1);
  }
  out.plain("loops", "loops", "In the program, unrolled and vectorized ones left out.",
            std::min(256.0, loops));
  out.plain("depth", "loops", "Around the innermost statement.", deepest);
  out.plain("statements", "statements",
            "Stores in the program, copies made by unrolling counted once.",
            std::min<double>(256, static_cast<double>(p.statements.size())));
  out.log("code", "instructions", "In all bodies: what has to fit the caches of instructions.",
          sum.code);
  out.plain("registers", "ratio",
            "Vectors alive at once over the registers there are, where it is worst.",
            std::min(16.0, sum.worst_registers));
  out.log("alloc.global", "bytes", "Of temporaries that all threads share.", p.global_bytes);
  out.plain("alloc.global.l2", "log2 ratio", "These over L2.",
            std::log2(1 + p.global_bytes / static_cast<double>(t.l2_bytes)));
  out.log("alloc.local", "bytes", "Of the largest temporary of one thread.", p.largest_local_bytes);
  out.plain("alloc.local.l1", "log2 ratio", "This over L1.",
            std::log2(1 + p.largest_local_bytes / static_cast<double>(t.l1d_bytes)));
  out.plain("alloc.count", "buffers", "Allocated.", std::min(64, p.allocations));
  out.log("copied", "bytes",
          "Read and written by statements that only move data: packing, padding.", sum.copied);
  out.log("streamed", "bytes", "Stored past the caches.", sum.streamed);
  out.log("prefetches", "lines", "Touched ahead of their use.", p.prefetches);
}

template <class Sink>
void fill(Sink& out, const ProgramView& view) {
  out.group("total.");
  Totals sum;
  for (const StoreView& v : view.stores) add_store(sum, v, *view.target);
  fill_totals(out, *view.p, sum);
  fill_parallel(out, view, sum);
  fill_size(out, view, sum);
}

}  // namespace

void fill_program(ValueSink& out, const ProgramView& view) { fill(out, view); }
void fill_program(ColumnSink& out, const ProgramView& view) { fill(out, view); }

ProgramView view_of(const Program& p, const Target& target) {
  ProgramView view{&p, &target, {}};
  std::vector<int> place(p.statements.size(), -1);
  view.stores.reserve(p.statements.size());
  for (size_t i = 0; i < p.statements.size(); ++i) {
    const Statement& s = p.statements[i];
    CoreFigures core = model_core(s, target);
    Sharing sharing = sharing_of(s, target);
    double n = s.executions(), cycles = core.total_cycles();
    int main = s.copy_of;
    while (main >= 0 && p.statements[main].copy_of >= 0) main = p.statements[main].copy_of;
    if (main >= 0 && place[main] >= 0) {
      StoreView& v = view.stores[place[main]];
      v.tail_executions += n;
      v.executions += n;
      v.cycles += cycles;
    } else {
      place[i] = static_cast<int>(view.stores.size());
      view.stores.push_back({});
      StoreView& v = view.stores.back();
      v.s = &s;
      v.core = core;
      v.sharing = sharing;
      v.executions = n;
      v.cycles = cycles;
    }
    StoreView& v = view.stores[main >= 0 && place[main] >= 0 ? place[main] : place[i]];
    for (const Access& a : s.accesses) {
      if (a.in_registers) continue;
      v.bytes += n * a.weight * a.element_bytes * ((a.read ? 1 : 0) + (a.written ? 1 : 0));
      for (int c = 0; c < 3; ++c) v.traffic[c] += a.traffic[c];
    }
  }
  std::stable_sort(view.stores.begin(), view.stores.end(),
                   [](const StoreView& a, const StoreView& b) {
                     double x = a.s->ops.arithmetic() * a.executions;
                     double y = b.s->ops.arithmetic() * b.executions;
                     return x != y ? x > y : a.bytes > b.bytes;
                   });
  return view;
}

}  // namespace heddle::cost_model
