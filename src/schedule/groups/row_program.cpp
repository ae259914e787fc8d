#include "schedule/groups/row_program.h"

#include <algorithm>
#include <functional>
#include <set>

#include "heddle/dag/scatter.h"
#include "schedule/groups/row_chain.h"

namespace heddle {
namespace {

// With fewer kernels stages are groups of their own, which share rows of a block better (row_group.cpp of the
// templates), unless one is a scan, which has no group with others.
constexpr int kFewKernels = 6;
constexpr size_t kMostStages = 256;
// Seconds of a kernel that has little to do, from the end of the one before it to its own.
constexpr double kLaunch = 3e-6;
// Cycles of a stage beside its elements, those of an element that one thread computes after the other, and those of
// an element where there are threads enough.
constexpr double kBarrier = 300, kOneByOne = 25, kTogether = 12;
// Threads of a block, as in the template.
constexpr double kThreads = 512;
constexpr double kShareOfSharedMemory = 0.9;

class Finder {
 public:
  Finder(const ComputeDag& dag, const Gpu& gpu, int last, const std::function<bool(int)>& is_free)
      : dag_(dag), gpu_(gpu), last_(last), is_free_(is_free) {}

  std::vector<int> find() {
    if (!is_stage(last_) || dag_.stage(last_).axes().size() < 2) return {};
    rows_ = dag_.stage(last_).axes()[0].extent();
    std::set<int, std::greater<>> open{last_};
    std::set<int> taken;
    while (!open.empty() && taken.size() < kMostStages) {
      const int s = *open.begin();
      open.erase(open.begin());
      if (s != last_ && !joins(s, taken)) continue;
      taken.insert(s);
      for (const int p : dag_.info(s).producers) open.insert(p);
    }
    const std::vector<int> stages(taken.begin(), taken.end());
    const bool scans = std::any_of(stages.begin(), stages.end(),
                                   [&](int s) { return dag_.info(s).scan.has_value(); });
    const auto kernels = static_cast<int>(std::count_if(
        stages.begin(), stages.end(), [&](int s) { return s != last_ && ends_kernel(s); }));
    if (kernels < (scans ? 1 : kFewKernels) || !fits(stages) || !pays(stages, kernels)) return {};
    return {stages.begin(), stages.end() - 1};
  }

 private:
  bool is_stage(int s) const {
    const StageInfo& info = dag_.info(s);
    const Operation& op = dag_.stage(s);
    if (!is_free_(s) || op.is_placeholder() || info.precomputable || info.points == 0 ||
        !info.case_periods.empty() || op.axes().empty() || find_scatter(op) ||
        (info.scan && info.scan->axis == 0))
      return false;
    const auto known = [](const Axis& a) { return as_int(a->extent) != nullptr; };
    return std::all_of(op.axes().begin(), op.axes().end(), known) &&
           std::all_of(op.reduce_axes().begin(), op.reduce_axes().end(), known) && !multiplies(op);
  }

  /// Whether `op` sums up products, which have templates of their own.
  static bool multiplies(const Operation& op) {
    const Reduce* r = op.is_reduction() ? op.bodies()[0].as<Reduce>() : nullptr;
    if (!r) return false;
    const Binary* b = r->sources[0].as<Binary>();
    return b != nullptr && b->op == BinaryOp::Mul;
  }

  bool joins(int s, const std::set<int>& taken) const {
    const StageInfo& info = dag_.info(s);
    return is_stage(s) && !info.is_output && dag_.stage(s).axes()[0].extent() == rows_ &&
           std::all_of(info.consumers.begin(), info.consumers.end(), [&](int c) {
             return taken.contains(c) && (rows_ == 1 || reads_own_rows(dag_, s, c, 1));
           });
  }

  double points_of_row(int s) const {
    return static_cast<double>(dag_.info(s).points) / static_cast<double>(rows_);
  }
  double bytes_of_row(int s) const {
    double bytes = 0;
    for (int o = 0; o < dag_.stage(s).num_outputs(); ++o)
      bytes += points_of_row(s) * dag_.stage(s).output(o).dtype().bytes();
    return bytes;
  }

  /// Whether other threads need what a stage makes before they go on: it is read at other elements of its row, or it is a
  /// reduction of the row.
  bool ends_kernel(int s) const {
    if (points_of_row(s) == 1) return dag_.stage(s).is_reduction();
    const std::vector<int>& readers = dag_.info(s).consumers;
    return std::any_of(readers.begin(), readers.end(), [&](int c) {
      const std::vector<Access>& reads = dag_.info(c).reads;
      return points_of_row(c) > 1 && std::any_of(reads.begin(), reads.end(), [&](const Access& a) {
               return a.producer == s && a.pattern > AccessPattern::Broadcast;
             });
    });
  }

  /// Whether what is alive at the same time fits in the memory of a block.
  bool fits(const std::vector<int>& stages) const {
    const double room = kShareOfSharedMemory * gpu_.smem_per_block;
    for (const int now : stages) {
      double bytes = 0;
      for (const int s : stages) {
        if (s > now || s == last_) continue;
        const std::vector<int>& readers = dag_.info(s).consumers;
        if (s == now || *std::max_element(readers.begin(), readers.end()) >= now)
          bytes += bytes_of_row(s);
      }
      if (bytes > room) return false;
    }
    return true;
  }

  bool pays(const std::vector<int>& stages, int kernels) const {
    double cycles = 0;
    for (const int s : stages) {
      const StageInfo& info = dag_.info(s);
      const double points = points_of_row(s);
      const auto each = static_cast<double>(info.scan ? 1 : info.reduce_points);
      // All threads reduce the one value of a row.
      const double rounds = points == 1 ? each / kThreads : std::max(1.0, points / kThreads) * each;
      const double in_order = info.scan ? static_cast<double>(info.scan->block) : rounds;
      cycles +=
          kBarrier + std::max(points * each * kTogether / gpu_.f32_lanes, in_order * kOneByOne);
    }
    const double turns = std::max(1.0, static_cast<double>(rows_) / gpu_.sms);
    return turns * cycles / (gpu_.clock_mhz * 1e6) < kLaunch * kernels;
  }

  const ComputeDag& dag_;
  const Gpu& gpu_;
  const int last_;
  const std::function<bool(int)>& is_free_;
  int64_t rows_ = 1;
};

}  // namespace

std::vector<int> row_program(const ComputeDag& dag, const Gpu& gpu, int last,
                             const std::function<bool(int)>& is_free) {
  return Finder(dag, gpu, last, is_free).find();
}

}  // namespace heddle
