#include "network/fusion/fusion_plan.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

namespace heddle::network {
namespace {

/// Elements of the result of `op` whose windows contain one element of what `a` reads.
double taps_of(const Operation& op, const Access& a) {
  double taps = 1;
  for (const std::optional<Affine>& index : a.affine) {
    double window = 1, stride = 0;
    for (const Axis& k : op.reduce_axes()) {
      if (index && index->coefficient(k.var()) != 0) window *= static_cast<double>(k.extent());
    }
    for (const Axis& i : op.axes()) {
      if (index && index->coefficient(i.var()) != 0)
        stride = static_cast<double>(std::abs(index->coefficient(i.var())));
    }
    if (stride > 0) taps *= std::max(1.0, window / stride);
  }
  return taps;
}

}  // namespace

double FusionPlan::times_in_product(int reader, int s) const {
  double times = 0;
  for (const Access& a : dag_.info(reader).reads) {
    if (a.producer == s) times = std::max(times, taps_of(dag_.stage(reader), a));
  }
  return times;
}

double FusionPlan::times_in_products(int s, int moves) const {
  double times = 0;
  for (const int r : dag_.info(s).consumers) {
    if (is_product(r)) {
      times = std::max(times, times_in_product(r, s));
    } else if (moves > 0 && !dag_.stage(r).is_reduction() && dag_.info(r).flops_per_point == 0 &&
               may_run_inside(r) && !stored(r)) {
      times = std::max(times, times_in_products(r, moves - 1));
    }
  }
  return times;
}

bool FusionPlan::read_from_memory(int s) const {
  if (dag_.info(s).precomputable) return false;
  return stored(s) || dag_.stage(s).is_placeholder();
}

bool FusionPlan::may_run_inside(int s) const {
  const StageInfo& info = dag_.info(s);
  return !dag_.stage(s).is_placeholder() && !info.is_output && !info.precomputable && !info.scan &&
         info.case_periods.empty() && dag_.stage(s).num_outputs() == 1;
}

int FusionPlan::end_of_node(int s) const {
  while (!stored(s)) s = dag_.info(s).consumers[0];
  return s;
}

std::vector<int> FusionPlan::stages_of_node(int end) const {
  std::set<int, std::greater<>> open{end};
  std::vector<int> stages;
  while (!open.empty()) {
    stages.push_back(*open.begin());
    open.erase(open.begin());
    for (const int p : dag_.info(stages.back()).producers) {
      if (!read_from_memory(p)) open.insert(p);
    }
  }
  return stages;
}

std::vector<char> FusionPlan::stored_stages() const {
  std::vector<char> out;
  for (const Place p : places_) out.push_back(is_stored(p) ? 1 : 0);
  return out;
}

void FusionPlan::extend(int s) {
  constexpr size_t kMostStages = 256;  // the work grows with their square
  std::vector<char> region(places_.size());
  std::vector<int> members{s};
  region[s] = 1;
  std::vector<size_t> ends;  // of members: where the node may end
  std::set<int> readers(dag_.info(s).consumers.begin(), dag_.info(s).consumers.end());
  while (!readers.empty() && members.size() < kMostStages) {
    const int u = *readers.begin();
    readers.erase(readers.begin());
    if (!follows(u, region, s)) continue;
    region[u] = 1;
    members.push_back(u);
    readers.insert(dag_.info(u).consumers.begin(), dag_.info(u).consumers.end());
    if (closed(members, region)) ends.push_back(members.size() - 1);
  }
  if (ends.empty()) return;
  while (ends.size() > 1 && only_widens(members, ends.end()[-2], ends.back())) ends.pop_back();
  const size_t end = ends.back();
  for (size_t m = 0; m < end; ++m) set(members[m], Place::InNode);
  set(members[end], Place::Stored);
}

/// Whether the members behind one end, up to another, make numbers of more bytes of its results with little
/// arithmetic, as what bytes stand for. Their readers compute them, unless products do.
bool FusionPlan::only_widens(const std::vector<int>& members, size_t from, size_t to) const {
  constexpr double kFewFlops = 4;
  const auto bytes = [&](size_t m) { return dag_.stage(members[m]).output(0).dtype().bytes(); };
  if (bytes(from) >= bytes(to) || dag_.info(members[to]).is_output ||
      times_in_products(members[to]) > 0)
    return false;
  double flops = 0;
  for (size_t m = from + 1; m <= to; ++m) {
    const StageInfo& info = dag_.info(members[m]);
    flops += info.flops_per_point + kFewFlops * info.transcendentals_per_point;
  }
  return flops <= kFewFlops;
}

/// Whether `u` reads the results of the region element by element and belongs to no other node.
bool FusionPlan::follows(int u, const std::vector<char>& region, int s) const {
  const Operation& op = dag_.stage(u);
  if (op.is_placeholder() || op.is_reduction() || !is_free(u) || op.num_outputs() != 1)
    return false;
  bool reads = false;
  for (const Access& a : dag_.info(u).reads) {
    if (!region[a.producer]) continue;
    reads = true;
    if (a.pattern != AccessPattern::Elementwise) return false;
  }
  return reads && dag_.stage(s).output(0).extents() == op.output(0).extents();
}

/// Whether only the last member is read outside of the region.
bool FusionPlan::closed(const std::vector<int>& members, const std::vector<char>& region) const {
  return std::all_of(members.begin(), members.end() - 1, [&](int m) {
    const std::vector<int>& readers = dag_.info(m).consumers;
    return !dag_.info(m).is_output &&
           std::all_of(readers.begin(), readers.end(), [&](int r) { return region[r]; });
  });
}

void FusionPlan::keep_between(int reduction, int last) {
  std::vector<char> depends(places_.size());
  depends[reduction] = 1;
  for (int u = reduction + 1; u < last; ++u) {
    for (const int p : dag_.info(u).producers) depends[u] |= depends[p];
    if (depends[u] && is_free(u)) set(u, Place::InNode);  // all its readers lead to `last`
  }
}

}  // namespace heddle::network
