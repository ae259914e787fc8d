// Feature columns of a program for a GPU.
#include <algorithm>

#include "cost_model/feature_row.h"
#include "cost_model/gpu_features.h"

namespace heddle::cost_model {
namespace {

constexpr size_t kLaunches = 2;    // kernels with columns of their own, the longest first
constexpr size_t kStatements = 3;  // statements with columns, most arithmetic first
constexpr size_t kAccesses = 3;    // accesses of each: the write, then the reads

template <class Sink>
void fill_totals(Sink& out, const GpuView& view) {
  out.group("total.");
  OpCounts ops;
  double executions = 0, asked = 0, traffic = 0, unique = 0, shared = 0, conflicts = 0, copies = 0;
  double blocks = 0, seconds = 0, tensor = 0, flops = 0, least = 0, moved = 0;
  for (const GpuStatement& g : view.statements) {
    const OpCounts& o = g.s->ops;
    const double n = g.executions;
    ops.add_times(o, n);
    executions += n;
    flops += o.flops() * n;
    if (g.tensor) tensor += o.flops() * n;
    for (const WarpAccess& w : g.accesses) {
      if (w.scope == Scope::Shared) {
        shared += w.bytes;
        conflicts += w.requests * (w.transactions - w.least);
      } else {
        asked += w.bytes;
        traffic += w.traffic;
        unique += w.unique;
        least += w.requests * w.least * 32;
      }
      if (g.s->is_copy) moved += w.bytes;
    }
    copies += g.s->is_copy;
  }
  for (const GpuLaunch& k : view.launches) {
    blocks += k.blocks();
    seconds += k.seconds;
  }
  fill_ops(out, ops, 1);
  out.log("executions", "executions", "Of all statements, lane by lane.", executions);
  out.plain("tensor", "share", "Of the floating-point operations that matrix units do.",
            tensor / std::max(1.0, flops));
  out.plain("kernels", "launches", "Of one call.",
            std::min<double>(64, static_cast<double>(view.launches.size())));
  out.log("blocks", "blocks", "Of all launches.", blocks);
  out.log("global.asked", "bytes", "Read from and written to global memory by threads.", asked);
  out.log("global.traffic", "bytes", "In the sectors that these touch.", traffic);
  out.log("global.unique", "bytes", "Different ones among them, by statement.", unique);
  out.plain("global.coalescing", "share", "Sectors that would do over sectors touched.",
            least / std::max(1.0, traffic));
  out.log("shared.bytes", "bytes", "Read from and written to shared memory by threads.", shared);
  out.log("shared.conflicts", "turns", "That requests wait for banks of shared memory.", conflicts);
  out.log("copied", "bytes", "Moved by statements that only move data.", moved);
  out.plain("copies", "statements", "That only move data.", std::min(32.0, copies));
  out.plain("statements", "statements", "Stores in the program.",
            std::min<double>(256, static_cast<double>(view.statements.size())));
  out.plain("allocations", "buffers", "Allocated.", std::min(64, view.p->allocations));
  out.log("workspace", "bytes", "Between the launches.", view.p->global_bytes);
  out.log("estimate", "nanoseconds", "Of all launches, by the rough model of each.", seconds * 1e9);
}

template <class Sink>
void fill_launch(Sink& out, const Gpu& gpu, const GpuLaunch& k) {
  const double threads = k.threads(), warps = std::ceil(threads / 32);
  out.log("grid.x", "blocks", "Along x.", k.grid[0]);
  out.log("grid.y", "blocks", "Along y.", k.grid[1]);
  out.log("grid.z", "blocks", "Along z.", k.grid[2]);
  out.log("blocks", "blocks", "In all.", k.blocks());
  out.log("block.x", "threads", "Of a block, along x.", k.block[0]);
  out.log("block.y", "threads", "Of a block, along y.", k.block[1]);
  out.log("block.z", "threads", "Of a block, along z.", k.block[2]);
  out.log("threads", "threads", "Of a block.", threads);
  out.plain("warp.fill", "share", "Of the lanes of a block's warps that are threads.",
            threads / (32 * std::max(1.0, warps)));
  out.log("shared", "bytes", "Of shared memory a block, all stages counted.", k.shared_bytes);
  out.plain("shared.share", "ratio", "This over what a block may have.",
            std::min(16.0, k.shared_bytes / std::max(1, gpu.smem_per_block)));
  out.plain("registers", "registers", "Of a thread: its arrays and some; an estimate.",
            std::min(1024.0, k.registers));
  out.plain("resident", "blocks", "Together on an SM, by threads, registers, shared memory.",
            k.resident);
  out.plain("occupancy", "share", "Of an SM's threads that these are.",
            std::min(1.0, k.resident * threads / std::max(1, gpu.threads_per_sm)));
  out.log("waves", "waves", "Blocks over those that all SMs hold at a time.", k.waves);
  out.plain("waves.fill", "share", "Of the last wave's places that are taken, averaged over all.",
            k.waves / std::max(1.0, std::ceil(k.waves)));
  out.plain("sms.used", "share", "Of the SMs that have a block at all.",
            std::min(1.0, k.blocks() / std::max(1, gpu.sms)));
  out.log("syncs", "barriers", "That a block comes to.", k.syncs);
  out.log("flops", "operations", "Of floating point.", k.flops);
  out.log("flops.thread", "operations", "Of floating point, of one thread.",
          k.flops / std::max(1.0, threads * k.blocks()));
  out.log("global", "bytes", "From and to memory, with some reuse in L2.", k.global_bytes);
  out.log("shared.traffic", "bytes", "Through the banks of shared memory.", k.shared_traffic);
  out.log("intensity", "operations per byte", "Operations for a byte of global memory.",
          k.flops / std::max(1.0, k.global_bytes));
  out.log("intensity.shared", "operations per byte", "Operations for a byte of shared memory.",
          k.flops / std::max(1.0, k.shared_traffic));
  out.log("estimate", "nanoseconds",
          "The longest of memory, shared memory and arithmetic, over how full the waves are.",
          k.seconds * 1e9);
}

template <class Sink>
void fill_access(Sink& out, const WarpAccess& w) {
  out.plain("shared", "0 or 1", "Whether it is in shared memory.", w.scope == Scope::Shared);
  out.plain("written", "0 or 1", "Whether it is written.", w.access->written);
  out.plain("vector", "bytes", "Of a thread's load or store.", w.vector_bytes);
  out.log("stride", "bytes", "From one threadIdx.x to the next.", w.stride);
  out.plain("transactions", "transactions",
            "Of a warp's request: sectors of global memory, turns of shared memory.",
            w.transactions);
  out.plain("efficiency", "share", "Transactions that would do over these.",
            w.least / std::max(1.0, w.transactions));
  out.log("requests", "requests", "Of warps.", w.requests);
  out.log("bytes", "bytes", "That threads ask for.", w.bytes);
  out.log("traffic", "bytes", "In the transactions.", w.traffic);
  out.log("unique", "bytes", "Different ones.", w.unique);
  out.log("reuse", "times", "That each of these is asked for.", w.bytes / std::max(1.0, w.unique));
}

template <class Sink>
void fill_statement(Sink& out, const GpuStatement& g) {
  fill_ops(out, g.s->ops, g.executions);
  out.log("executions", "executions", "Of the statement, lane by lane.", g.executions);
  out.log("blocks", "blocks", "Around it.", g.blocks);
  out.log("threads", "threads", "Of a block that run it.", g.threads);
  out.log("serial", "iterations", "In a thread.", g.serial);
  out.plain("vector", "lanes", "Of its vector loops.", g.vector);
  out.log("unrolled", "copies", "Of it, by unrolled loops.", g.unrolled);
  out.log("phases", "times", "That a block comes to it.", g.phases);
  out.plain("tensor", "0 or 1", "Whether a matrix unit does it.", g.tensor);
  out.plain("copies", "0 or 1", "Whether it only moves data.", g.s->is_copy);
  out.plain("depth", "loops", "Around it.", static_cast<double>(g.s->loops.size()));
}

template <class Sink, class Fill>
size_t width_of(Fill fill) {
  std::vector<FeatureColumn> columns;
  Sink sink(&columns);
  fill(sink);
  return columns.size();
}

template <class Sink>
void fill(Sink& out, const GpuView& view) {
  fill_totals(out, view);
  static const GpuLaunch no_launch;
  static const Statement no_store = [] {
    Statement s;
    s.accesses.resize(1);
    return s;
  }();
  static const GpuStatement no_statement = [] {
    GpuStatement g;
    g.s = &no_store;
    return g;
  }();
  static const WarpAccess no_access{.access = no_store.accesses.data()};
  static const size_t launch_width =
      width_of<ColumnSink>([](ColumnSink& s) { fill_launch(s, Gpu(), no_launch); });
  static const size_t access_width =
      width_of<ColumnSink>([](ColumnSink& s) { fill_access(s, no_access); });
  static const size_t statement_width =
      width_of<ColumnSink>([](ColumnSink& s) { fill_statement(s, no_statement); });
  for (size_t i = 0; i < kLaunches; ++i) {
    out.group("kernel" + std::to_string(i) + ".");
    if (Sink::kDescribes) {
      fill_launch(out, view.target->gpu, no_launch);
    } else if (i < view.launches.size()) {
      fill_launch(out, view.target->gpu, view.launches[i]);
    } else {
      out.zeros(launch_width);
    }
  }
  for (size_t i = 0; i < kStatements; ++i) {
    const std::string name = "store" + std::to_string(i) + ".";
    const bool there = i < view.statements.size();
    out.group(name);
    if (Sink::kDescribes) {
      fill_statement(out, no_statement);
    } else if (there) {
      fill_statement(out, view.statements[i]);
    } else {
      out.zeros(statement_width);
    }
    for (size_t a = 0; a < kAccesses; ++a) {
      out.group(name + "buf" + std::to_string(a) + ".");
      if (Sink::kDescribes) {
        fill_access(out, no_access);
      } else if (there && a < view.statements[i].accesses.size()) {
        fill_access(out, view.statements[i].accesses[a]);
      } else {
        out.zeros(access_width);
      }
    }
  }
}

}  // namespace

void fill_gpu(Features* row, const GpuView& view) {
  ValueSink sink(row);
  fill(sink, view);
}

std::vector<FeatureColumn> gpu_columns() {
  std::vector<FeatureColumn> columns;
  ColumnSink sink(&columns);
  const Program p;
  const Target target;
  fill(sink, GpuView{&p, &target, {}, {}});
  return columns;
}

}  // namespace heddle::cost_model
