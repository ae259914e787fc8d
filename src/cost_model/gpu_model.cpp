#include "cost_model/gpu_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace heddle::cost_model {
namespace {

constexpr int kWarp = 32, kBanks = 32;
constexpr double kSector = 32;
// Registers of a thread besides its arrays: addresses, indices, pending loads.
constexpr double kOtherRegisters = 28;
constexpr double kLaunchSeconds = 2e-6;

// The change of an index from one thread to the next, in elements. Digits of a fused index count
// where they change.
double element_at(const IndexForm& form, int depth, double value) {
  double at = 0;
  for (const Digit& d : form) {
    if (d.depth != depth) continue;
    at += std::fmod(std::floor(value / d.divisor), d.extent) * d.stride;
  }
  return at;
}

bool in_shared(const Access& a) { return a.buffer->scope == Scope::Shared; }
bool in_global(const Access& a) {
  return a.buffer->scope == Scope::Argument || a.buffer->scope == Scope::Global;
}

// The first bytes that the threads of the first warp touch.
std::array<double, kWarp> lanes_of(const Statement& s, const Access& a, int* active) {
  std::array<double, 3> extent{1, 1, 1};
  std::array<int, 3> depth{-1, -1, -1};
  for (size_t d = 0; d < s.loops.size(); ++d) {
    if (!is_thread(s.loops[d].kind)) continue;
    const auto dim = static_cast<size_t>(grid_dim(s.loops[d].kind));
    extent[dim] = std::max(1.0, s.loops[d].most);
    depth[dim] = static_cast<int>(d);
  }
  *active = static_cast<int>(std::min<double>(kWarp, extent[0] * extent[1] * extent[2]));
  std::array<double, kWarp> bytes{};
  for (int lane = 0; lane < *active; ++lane) {
    double rest = lane;
    for (size_t dim = 0; dim < 3; ++dim) {
      const double here = std::fmod(rest, extent[dim]);
      rest = std::floor(rest / extent[dim]);
      if (depth[dim] >= 0)
        bytes[static_cast<size_t>(lane)] += element_at(a.form, depth[dim], here) * a.element_bytes;
    }
  }
  return bytes;
}

double sectors(const std::array<double, kWarp>& lanes, int active, double width) {
  std::array<double, kWarp * 4> touched{};
  size_t n = 0;
  for (int l = 0; l < active; ++l) {
    const double first = std::floor(lanes[static_cast<size_t>(l)] / kSector);
    const double last = std::floor((lanes[static_cast<size_t>(l)] + width - 1) / kSector);
    for (double at = first; at <= last && n < touched.size(); ++at) {
      if (n > 0 && touched[n - 1] == at) continue;  // usually touched by the neighbour
      touched[n++] = at;
    }
  }
  std::sort(touched.begin(), touched.begin() + static_cast<std::ptrdiff_t>(n));
  return static_cast<double>(
      std::unique(touched.begin(), touched.begin() + static_cast<std::ptrdiff_t>(n)) -
      touched.begin());
}

// The number of turns that shared memory takes for an access. A wide access takes as many turns as
// fill the banks. Within a turn, different words of one bank are accessed one after the other.
double bank_turns(const std::array<double, kWarp>& lanes, int active, double width) {
  const int words = std::max(1, static_cast<int>(width / 4));
  const int together = std::max(1, kWarp / words);
  double turns = 0;
  for (int begin = 0; begin < active; begin += together) {
    std::array<std::array<double, 4>, kBanks> seen{};
    std::array<int, kBanks> count{};
    int most = 1;
    for (int l = begin; l < std::min(active, begin + together); ++l) {
      for (int w = 0; w < words; ++w) {
        const double word = std::floor(lanes[static_cast<size_t>(l)] / 4) + w;
        const auto bank = static_cast<size_t>(std::fmod(std::abs(word), kBanks));
        int& n = count[bank];
        const auto& known = seen[bank];
        const int kept = std::min(n, 4);
        if (std::find(known.begin(), known.begin() + kept, word) != known.begin() + kept) continue;
        if (n < 4) seen[bank][static_cast<size_t>(n)] = word;
        most = std::max(most, ++n);
      }
    }
    turns += most;
  }
  return turns;
}

WarpAccess warp_access(const GpuStatement& g, const Access& a) {
  const Statement& s = *g.s;
  WarpAccess w;
  w.access = &a;
  w.scope = a.buffer->scope;
  // A vector loop along which the access moves by one element makes the access wide.
  double lanes = 1, repeated = 1;
  for (size_t d = 0; d < s.loops.size(); ++d) {
    if (s.loops[d].kind != LoopKind::Vectorized) continue;
    const double stride = a.stride_at(static_cast<int>(d));
    (stride == 1   ? lanes
     : stride == 0 ? repeated
                   : lanes) *= stride == 1 || stride == 0 ? s.loops[d].extent : 1;
  }
  w.vector_bytes = std::min(16.0, lanes * a.element_bytes);
  int active = 1;
  const auto first = lanes_of(s, a, &active);
  const double threads = g.threads * g.blocks;
  const double per_thread = g.executions * a.weight / std::max(1.0, threads) / repeated;
  const double accesses = per_thread * a.element_bytes / w.vector_bytes;
  w.requests = accesses * g.blocks * std::ceil(g.threads / kWarp);
  w.bytes = per_thread * threads * a.element_bytes;
  w.stride = active > 1 ? std::abs(first[1] - first[0]) : 0;
  if (in_shared(a)) {
    w.transactions = bank_turns(first, active, w.vector_bytes);
    w.least = std::max(1.0, std::ceil(active * w.vector_bytes / 128));
    w.traffic = w.requests * w.transactions * 128;
  } else {
    w.transactions = sectors(first, active, w.vector_bytes);
    w.least = std::max(1.0, std::ceil(active * w.vector_bytes / kSector));
    w.traffic = w.requests * w.transactions * kSector;
  }
  double unique = 1;
  for (const Digit& d : a.form) unique *= d.extent;
  w.unique = std::min(unique * a.element_bytes, static_cast<double>(w.bytes));
  return w;
}

GpuStatement statement_of(const Statement& s) {
  GpuStatement g;
  g.s = &s;
  g.executions = s.executions();
  bool inside = false;
  double outside = 1;
  for (const OpenLoop& l : s.loops) {
    if (is_block(l.kind)) {
      g.blocks *= l.extent * l.kind.cluster;
    } else if (is_thread(l.kind)) {
      g.threads *= l.most;
      inside = true;
    } else if (l.kind == LoopKind::Vectorized) {
      g.vector *= l.extent;
    } else if (is_tensorized(l.kind)) {
      g.tensor = true;
    } else {
      g.serial *= l.extent;
      if (l.kind == LoopKind::Unrolled) g.unrolled *= l.extent;
      if (!inside) outside *= l.extent;
    }
  }
  for (const OpenLoop& l : s.loops) {
    if (is_cluster(l.kind)) g.threads = std::max(1.0, g.threads / l.kind.cluster);
  }
  g.phases = inside ? outside : 0;
  return g;
}

// Elements of an array in registers per thread: the elements of all threads divided by the threads.
double registers_of(const Statement& s, const Access& a, double elements) {
  double shared_out = 1;
  for (size_t d = 0; d < s.loops.size(); ++d) {
    if (is_thread(s.loops[d].kind) && a.depends_on(static_cast<int>(d)))
      shared_out *= s.loops[d].most;
  }
  return std::ceil(elements / shared_out) * a.element_bytes / 4;
}

void finish_launch(GpuLaunch* k, const Gpu& gpu) {
  const double threads = std::max(1.0, k->threads());
  const double warps = std::ceil(threads / kWarp);
  const double registers = std::ceil(std::min(k->registers, 255.0) / 8) * 8 * warps * kWarp;
  double resident = std::min<double>(gpu.blocks_per_sm, std::floor(gpu.threads_per_sm / threads));
  resident = std::min(resident, std::floor(gpu.registers_per_sm / std::max(1.0, registers)));
  resident =
      std::min(resident, std::floor(gpu.smem_per_sm / (k->shared_bytes + gpu.smem_reserved)));
  k->resident = std::max(1.0, resident);
  const double sms = std::max(1, gpu.sms);
  k->waves = k->blocks() / (sms * k->resident);
  // The busy share of the SMs, averaged over the waves.
  const double fill = k->waves / std::max(1.0, std::ceil(k->waves));
  const double clock = gpu.clock_mhz * 1e6;
  const double memory = k->global_bytes / (gpu.bandwidth_gbs * 1e9);
  const double shared = k->shared_traffic / 128 / sms / clock;
  const double simt = (k->flops - k->tensor_flops) / 2 / (sms * gpu.f32_lanes) / clock;
  const double tensor = k->tensor_flops / 2 / (sms * gpu.f32_lanes * 8) / clock;
  k->seconds = kLaunchSeconds + std::max({memory, shared, simt, tensor}) / std::max(fill, 1e-3);
}

/// Adds the loops of a statement that are blocks or threads to the dimensions of its launch.
void add_dimensions(const Statement& s, GpuLaunch* k) {
  for (const OpenLoop& l : s.loops) {
    k->has_loader |= is_persistent(l.kind) || l.kind == LoopKind::PairX;
    if (l.kind == LoopKind::PairX) k->pair = 2;
    if (!is_block(l.kind) && !is_thread(l.kind)) continue;
    double& dim = (is_block(l.kind) ? k->grid : k->block)[grid_dim(l.kind)];
    dim = std::max(dim, l.most * l.kind.cluster);
    k->cluster = std::max<double>(k->cluster, l.kind.cluster);
  }
}

/// Adds the accesses of a statement to it and to its launch. `held` has an entry for each buffer:
/// its registers, or a trace that its shared memory was counted.
void add_accesses(const Program& p, GpuStatement* g, GpuLaunch* k, std::vector<double>* held) {
  for (const Access& a : g->s->accesses) {
    const auto slot = static_cast<size_t>(a.slot);
    double& here = (*held)[slot];
    if (a.buffer->scope == Scope::Local) {
      here = std::max(here, registers_of(*g->s, a, p.buffers[slot].elements));
      continue;
    }
    const WarpAccess w = warp_access(*g, a);
    const double times = (a.read ? 1 : 0) + (a.written ? 1 : 0);
    (in_shared(a) ? k->shared_traffic : k->global_bytes) +=
        times * (in_global(a) ? std::max(w.unique, std::min(w.traffic, w.unique * 4)) : w.traffic);
    g->accesses.push_back(w);
    if (in_shared(a) && here == 0) {
      here = 1e-9;  // counted once
      k->shared_bytes += p.buffers[slot].bytes * p.buffers[slot].copies;
    }
  }
}

/// Whether two statements use memory of one block.
bool share_a_block(const Statement& s, const Statement& other) {
  return std::any_of(s.accesses.begin(), s.accesses.end(), [&](const Access& a) {
    return !in_global(a) && std::any_of(other.accesses.begin(), other.accesses.end(),
                                        [&](const Access& b) { return b.buffer == a.buffer; });
  });
}

/// The outermost loop of each statement, as a number. A launch of a single block has no loop over
/// blocks: its statements have one number where they use memory of the block.
std::vector<int> roots_of(const Program& p) {
  const auto one_block = [](const Statement& s) {
    return s.loops.empty() || !is_block(s.loops[0].kind);
  };
  std::vector<int> roots;
  for (size_t i = 0; i < p.statements.size(); ++i) {
    const Statement& s = p.statements[i];
    roots.push_back(s.loops.empty() ? -1 - static_cast<int>(i) : s.loops[0].node);
    if (!one_block(s)) continue;
    for (size_t j = 0; j < i; ++j) {
      const int from = roots[j], to = roots[i];
      if (from != to && one_block(p.statements[j]) && share_a_block(s, p.statements[j]))
        std::replace(roots.begin(), roots.end(), to, from);
    }
  }
  return roots;
}

/// Orders launches by time and statements by work, the largest first.
void sort_view(GpuView* view) {
  std::stable_sort(view->launches.begin(), view->launches.end(),
                   [](const GpuLaunch& a, const GpuLaunch& b) { return a.seconds > b.seconds; });
  const auto work = [](const GpuStatement& g) {
    double bytes = 0;
    for (const WarpAccess& w : g.accesses) bytes += w.bytes;
    return std::pair{g.s->ops.arithmetic() * g.executions, bytes};
  };
  std::stable_sort(view->statements.begin(), view->statements.end(),
                   [&](const GpuStatement& a, const GpuStatement& b) { return work(a) > work(b); });
}

}  // namespace

GpuView view_on_gpu(const Program& p, const Target& target) {
  GpuView view{&p, &target, {}, {}};
  std::vector<int> roots;  // outermost loop of each launch
  const std::vector<int> root_of = roots_of(p);
  std::vector<std::vector<double>> registers;
  for (size_t i = 0; i < p.statements.size(); ++i) {
    const Statement& s = p.statements[i];
    GpuStatement g = statement_of(s);
    const int root = root_of[i];
    auto known = std::find(roots.begin(), roots.end(), root);
    // The tail of the last block is not a launch.
    if (known == roots.end() && !roots.empty() && !s.loops.empty() &&
        s.loops[0].kind == LoopKind::LastBlock) {
      known = roots.end() - 1;
    }
    if (known == roots.end()) {
      roots.push_back(root);
      view.launches.emplace_back();
      registers.emplace_back(p.buffers.size(), 0.0);
      known = roots.end() - 1;
    }
    g.kernel = static_cast<int>(known - roots.begin());
    GpuLaunch& k = view.launches[static_cast<size_t>(g.kernel)];
    add_dimensions(s, &k);
    const double flops = s.ops.flops() * g.executions;
    k.flops += flops;
    if (g.tensor) k.tensor_flops += flops;
    k.syncs += g.phases;
    add_accesses(p, &g, &k, &registers[static_cast<size_t>(g.kernel)]);
    view.statements.push_back(std::move(g));
  }
  for (size_t i = 0; i < view.launches.size(); ++i) {
    GpuLaunch& k = view.launches[i];
    k.block[0] = std::max(1.0, k.block[0] / k.cluster);
    k.grid[0] *= k.pair;
    if (k.has_loader)
      k.block[2] += 1;  // one more warp group loads (lower/gpu/warp_group/warp_roles.cpp)
    k.registers = kOtherRegisters + std::accumulate(registers[i].begin(), registers[i].end(), 0.0);
    finish_launch(&k, target.gpu);
  }
  sort_view(&view);
  return view;
}

}  // namespace heddle::cost_model
