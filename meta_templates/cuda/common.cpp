#include "cuda/common.h"

namespace heddle::meta {
namespace {

// Threads of a block whose threads share nothing. Small blocks spread over all multiprocessors.
constexpr int64_t kPointThreads = 128;

}  // namespace

int64_t most_block_threads(const Gpu& gpu) {
  int64_t most = kWarp;
  while (2 * most <= std::min(1024, gpu.threads_per_block)) most *= 2;
  return most;
}

int64_t read_lanes(const ComputeDag& dag, int s) {
  int64_t bytes = 1;
  for (const Access& a : dag.info(s).reads)
    bytes = std::max<int64_t>(bytes, a.tensor.dtype().bytes());
  return std::max<int64_t>(1, 16 / bytes);
}

int64_t access_lanes(const ComputeDag& dag, int s) {
  int64_t bytes = 16 / read_lanes(dag, s);
  for (int o = 0; o < dag.stage(s).num_outputs(); ++o)
    bytes = std::max<int64_t>(bytes, dag.stage(s).output(o).dtype().bytes());
  return std::max<int64_t>(1, 16 / bytes);
}

void lay_out(StageRef s, const LayoutDigits& layout) {
  std::vector<StageRef::StorageDim> dims;
  for (int d = 0; d < s.num_axes(); ++d) {
    const auto is_of_layout = [&](const LayoutDigit& x) { return x.dim == d; };
    if (std::none_of(layout.begin(), layout.end(), is_of_layout)) dims.push_back({d, 1, 0});
  }
  for (const LayoutDigit& d : layout) dims.push_back({d.dim, d.divisor, d.modulus});
  s.layout(dims);
}

void require_resident(TemplateBuilder& t, const StageGroup& g, Param location) {
  const std::string name = t.dag().stage(g.output_stage).name();
  for (const StageGroup::Place& place : g.places) {
    if (place.sharing.options.empty()) continue;
    const Param resident = place.sharing.resident;
    t.require("'" + name + "' is computed where the row is resident",
              [=](const KnobValue& v) { return v(location) != 0 || v(resident) == 0; });
  }
}

Choice with_prefix(const Choice& choice, const std::string& prefix) {
  const Choice rule = choice.before_overlay();
  Choice out(rule.source());
  for (const std::string& k : rule.knobs()) out.set(prefix + k, rule.value(k), rule.reason(k));
  for (const std::string& k : choice.knobs()) {
    if (choice.source(k) == rule.source(k)) continue;
    out.overlay(Choice(choice.source(k)).set(prefix + k, choice.value(k), choice.reason(k)));
  }
  return out;
}

namespace {

// Features of the stores of a result.
struct StoreProblem {
  int64_t bytes = 0, l2_bytes = 0;
  NamedFeatures features() const {
    return {{"bytes", static_cast<double>(bytes)}, {"l2_bytes", static_cast<double>(l2_bytes)}};
  }
};

// Results that exceed the cache bypass it, because they would displace other data.
Choice streaming_rule(const StoreProblem& p) {
  return Choice().set("nontemporal", p.bytes > p.l2_bytes,
                      "result of " + std::to_string(p.bytes >> 10) + " KiB against the cache");
}

}  // namespace

void streaming_stores(TemplateBuilder& t, StageRef s, const std::string& prefix) {
  const Operation& op = t.dag().stage(s.id());
  const StoreProblem p{spatial_points(op) * op.output(0).dtype().bytes(), t.target().gpu.l2_bytes};
  Param streaming =
      t.choice(prefix + "nontemporal",
               with_prefix(t.decide("cuda_streaming_stores", p, streaming_rule), prefix));
  t.when(streaming, 1, [&] { s.store_nontemporal(); });
}

std::vector<int64_t> powers_of_two(int64_t first, int64_t last) {
  std::vector<int64_t> out;
  for (int64_t v = first; v <= last; v *= 2) out.push_back(v);
  return out;
}

void unroll_short(StageRef s, const std::vector<Loop>& loops, const std::vector<int64_t>& extents,
                  int64_t most) {
  for (size_t i = loops.size(); i-- > 0;) {
    if (extents[i] > most) return;
    s.unroll(loops[i]);
    most /= std::max<int64_t>(1, extents[i]);
  }
}

Loop point_per_thread(TemplateBuilder& t, StageRef host, int reduction, const std::string& prefix,
                      int64_t at_once) {
  std::vector<Loop> axes = host.all_axes();
  if (axes.empty()) return {};
  // A reduction that the host computes alone is accumulated in a register and stored once.
  StageRef s = reduction == host.id() ? host.cache_write() : t.stage(std::max(reduction, 0));
  Loop all = host.fuse(axes);
  Param threads = t.knob(prefix + "threads", powers_of_two(64, most_block_threads(t.target().gpu)),
                         kPointThreads, "small blocks spread over all multiprocessors");
  auto [block, thread] = host.split(all, threads);
  host.bind(block, LoopKind::BlockX);
  host.bind(thread, LoopKind::ThreadX);
  if (reduction >= 0) {
    s.compute_at(host, thread);
    if (at_once > 0) {
      s.unroll(s.split(s.reduce_axis(0), at_once)[1]);
    } else if (reduction < t.dag().size()) {
      std::vector<int64_t> extents;
      for (const Axis& a : t.dag().stage(reduction).reduce_axes()) extents.push_back(a.extent());
      if (static_cast<int>(extents.size()) == s.num_reduce_axes())
        unroll_short(s, s.all_reduce_axes(), extents, kShortBody);
    }
  }
  return thread;
}

void sum_of_parts(TemplateBuilder& t, const StageGroup& g) {
  StageRef anchor = t.stage(g.anchor);
  sum_of_parts(t, g, g.output_stage != g.anchor ? anchor : anchor.cache_write());
}

void sum_of_parts(TemplateBuilder& t, const StageGroup& g, StageRef sum) {
  StageRef output_stage = t.stage(g.output_stage);
  Loop f = output_stage.fuse(output_stage.all_axes());
  auto [block, thread] = output_stage.split(f, kPointThreads);
  output_stage.bind(block, LoopKind::BlockX);
  output_stage.bind(thread, LoopKind::ThreadX);
  sum.compute_at(output_stage, thread);
  sum.unroll(sum.reduce_axis(0));
}

}  // namespace heddle::meta
