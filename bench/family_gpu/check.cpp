// Random families at random sizes against the interpreter.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "family_gpu/parts.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/family/generic.h"
#include "heddle/heddle.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "size_race.h"

namespace heddle::bench {
namespace {

constexpr int kSizes = 12;  // of a family

int64_t log_uniform(Rng& rng, int64_t lo, int64_t hi) {
  const double u = rng.uniform_real();
  const double x = std::exp(std::log(lo) + u * (std::log(hi + 1.0) - std::log(lo)));
  return std::clamp(static_cast<int64_t>(x), lo, hi);
}

/// A subject of one range, in one of its dimensions.
std::string random_text(Rng& rng) {
  const std::string range = "1.." + std::to_string(log_uniform(rng, 2, 400));
  const auto other = [&] { return std::to_string(log_uniform(rng, 1, 150)); };
  const auto eights = [&] { return std::to_string(8 * log_uniform(rng, 1, 18)); };
  const auto matrix = [&](const std::string& kind) {
    return kind + ":" + (rng.uniform_int(0, 1) ? range + "x" + other() : other() + "x" + range);
  };
  const auto product = [&] {
    const int at = static_cast<int>(rng.uniform_int(0, 2));
    const bool whole = rng.uniform_int(0, 1) != 0;
    std::string text = "matmul:";
    for (int d = 0; d < 3; ++d)
      text += (d ? "x" : "") + (d == at ? range : whole ? eights() : other());
    return text;
  };
  switch (rng.uniform_int(0, 12)) {
    case 0: return matrix("add_relu");
    case 1: return matrix("column_sum");
    case 2: return matrix("row_sum");
    case 3: return matrix("layer_norm");
    case 4: return matrix("argmax");
    case 5: return matrix("transpose");
    case 6: return matrix("bias_gelu");
    case 7: return "batch_matmul:3x" + range + "x" + eights() + "x" + eights();
    case 8: return "attention:h=2,l=1.." + std::to_string(log_uniform(rng, 2, 150)) + ",d=64";
    case 9: return matrix("softmax");
    default: return product();
  }
}

struct Case {
  std::string text;
  DataType dtype;
  uint64_t seed = 0;
  std::optional<Subject> subject;
  int64_t chosen_at = 0;
  Kernel kernel;
  FamilyKernel generic;
  std::string refused;  ///< why there is no kernel
  std::vector<int64_t> sizes;
  std::vector<std::vector<NDArray>> arrays;  ///< of each size
  std::vector<NDArray> wanted;
};

void make(Case& c, const CheckOptions& options) {
  Rng rng(c.seed);
  try {
    c.subject = subject_of(c.text, c.dtype);
    const Dim& n = c.subject->dims[0];
    const Target target = Target::cuda();
    c.chosen_at = log_uniform(rng, n.lo(), n.hi());
    c.kernel =
        build(family_schedule(c.subject->outputs(), {{n, c.chosen_at}}, target), c.subject->args);
    if (options.generic) c.generic = generic_family(c.subject->args, target);
  } catch (const Error& e) {
    c.refused = e.message;
    return;
  }
  const Dim& n = c.subject->dims[0];
  for (int i = 0; i < kSizes; ++i) {
    c.sizes.push_back(i == 0 ? n.hi() : log_uniform(rng, n.lo(), n.hi()));
    const Instance at = c.subject->at({c.sizes.back()});
    const std::vector<Tensor> args = at.of(c.subject->args);
    c.arrays.push_back(arrays_of(args));
    std::vector<TensorValue> values;
    for (size_t a = 0; a < args.size(); ++a) {
      if (args[a].op()->is_placeholder()) values.push_back({args[a], c.arrays.back()[a]});
    }
    c.wanted.push_back(interpret(at.outputs, values)[0]);
  }
}

/// Whether what a call has left in the last array is what is wanted.
bool is_right(const Case& c, size_t i, const char* what, const std::vector<NDArray>& there) {
  const NDArray& want = c.wanted[i];
  const double tolerance = want.dtype() == f16 ? 1e-2 : 1e-3;
  const Difference d = compare(there.back().to_device(Device::cpu()), want, tolerance, tolerance);
  if (d.ok()) return true;
  std::printf("WRONG: %s of %s chosen at %lld, at %lld: %s\n", what, c.subject->name.c_str(),
              (long long)c.chosen_at, (long long)c.sizes[i], describe(d, want).c_str());
  return false;
}

}  // namespace

bool check_families(const CheckOptions& options) {
  Rng rng(options.seed);
  std::vector<Case> cases(static_cast<size_t>(options.count));
  for (Case& c : cases) {
    c.text = random_text(rng);
    c.dtype = rng.uniform_int(0, 1) ? f32 : f16;
    c.seed = static_cast<uint64_t>(rng.uniform_int(1, 1 << 30));
  }
  in_threads(cases.size(), [&](size_t i) { make(cases[i], options); });
  int wrong = 0, calls = 0, refused = 0;
  for (const Case& c : cases) {
    if (!c.refused.empty()) {
      std::printf("no kernel for %s %s: %s\n", c.text.c_str(), to_string(c.dtype).c_str(),
                  c.refused.c_str());
      ++refused;
      continue;
    }
    for (size_t i = 0; i < c.sizes.size(); ++i) {
      const std::vector<NDArray> there = on_gpu(c.arrays[i]);
      c.kernel.call(there);
      ++calls;
      wrong += !is_right(c, i, "one kernel", there);
      if (!options.generic) continue;
      const std::vector<NDArray> again = on_gpu(c.arrays[i]);
      c.generic.call(again);
      ++calls;
      wrong += !is_right(c, i, "generic_family", again);
    }
  }
  std::printf("seed %llu: %zu random families, %d without a kernel, %d calls, %d wrong\n",
              (unsigned long long)options.seed, cases.size(), refused, calls, wrong);
  return wrong == 0;
}

}  // namespace heddle::bench
