#include "heddle/schedule/options.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "support/edit_distance.h"
#include "target/check_target.h"

namespace heddle {
namespace {

thread_local AutoSchedulerOptions g_options;

// The least limits of a block that every CUDA template can work with.
constexpr int kLeastBlockThreads = 128;
constexpr int64_t kLeastBlockShared = 16 << 10;

using Options = AutoSchedulerOptions;

enum class Means : uint8_t { Cpus, Gpus, Both };

struct Number {
  const char* name;
  int Options::* small = nullptr;
  int64_t Options::* large = nullptr;
  Means means = Means::Both;
  int64_t get(const Options& o) const { return small ? o.*small : o.*large; }
};
constexpr Number kNumbers[] = {
    {"vector_bytes", &Options::vector_bytes, nullptr, Means::Cpus},
    {"threads", &Options::threads, nullptr, Means::Cpus},
    {"l1_bytes", nullptr, &Options::l1_bytes, Means::Cpus},
    {"l2_bytes", nullptr, &Options::l2_bytes, Means::Both},
    {"l3_bytes", nullptr, &Options::l3_bytes, Means::Cpus},
    {"block_threads", &Options::block_threads, nullptr, Means::Gpus},
    {"block_shared_bytes", nullptr, &Options::block_shared_bytes, Means::Gpus},
    {"max_unroll", &Options::max_unroll, nullptr, Means::Cpus},
    {"max_knob_values", &Options::max_knob_values, nullptr, Means::Both},
};

struct Flag {
  const char* name;
  bool Options::* value;
};
// use_records is not listed, because it is not part of what was made.
constexpr Flag kFlags[] = {{"use_alternatives", &Options::use_alternatives},
                           {"allow_approximate", &Options::allow_approximate},
                           {"use_heuristics", &Options::use_heuristics},
                           {"allow_tf32", &Options::allow_tf32}};

// An option that older logs name and that no longer has an effect.
constexpr const char* kRetired = "rank_with_model";
constexpr const char* kForceTemplate = "force_template";
constexpr const char* kMaxErrorGrowth = "max_error_growth";

[[noreturn]] void fail(const std::string& what, const std::string& help) {
  throw_user_error("AutoSchedulerOptions: " + what, {}, help);
}

void check_numbers(const Options& o) {
  if (o.vector_bytes < 0 || (o.vector_bytes & (o.vector_bytes - 1)) != 0 || o.vector_bytes > 256) {
    fail("vector_bytes is " + std::to_string(o.vector_bytes),
         "a power of two up to 256, or 0 to ask the target");
  }
  if (!(o.max_error_growth >= 1)) {
    fail("max_error_growth is " + std::to_string(o.max_error_growth),
         "at least 1, which forbids what rounds worse than the direct form");
  }
  for (const Number& n : kNumbers) {
    if (n.get(o) < 0) {
      fail(std::string(n.name) + " is " + std::to_string(n.get(o)),
           "a limit is positive, or 0 to ask the target");
    }
  }
}

// Refuses options that have no effect for the kind of target, because they are mistakes.
void refuse_idle(const Options& o, bool cuda) {
  for (const Number& n : kNumbers) {
    if (n.get(o) == 0 || n.means == Means::Both || (n.means == Means::Gpus) == cuda) continue;
    fail(std::string(n.name) + " says nothing about a " + (cuda ? "GPU" : "CPU"),
         cuda ? "for a GPU there are block_threads, block_shared_bytes and l2_bytes; leave the "
                "others 0"
              : "for a CPU there are threads, vector_bytes, l1_bytes, l2_bytes, l3_bytes and "
                "max_unroll; leave the others 0");
  }
}

void check_block_limit(const char* name, int64_t asked, int64_t least, int64_t most,
                       const std::string& gpu) {
  if (asked == 0 || (asked >= least && asked <= most)) return;
  fail(std::string(name) + " is " + std::to_string(asked),
       "from " + std::to_string(least) + " to " + std::to_string(most) + ", what " + gpu +
           " has, or 0 for that");
}

}  // namespace

void check_options(const Options& o) {
  check_numbers(o);
  if (o.force_template.empty()) return;
  const std::vector<std::string> names = meta_template_names();
  if (std::find(names.begin(), names.end(), o.force_template) != names.end()) return;
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  fail("there is no meta-template '" + o.force_template + "'", "one of: " + list);
}

AutoSchedulerOptionsScope::AutoSchedulerOptionsScope(Options options) : saved_(g_options) {
  check_options(options);
  g_options = std::move(options);
}
AutoSchedulerOptionsScope::~AutoSchedulerOptionsScope() { g_options = std::move(saved_); }
const Options& current_auto_scheduler_options() { return g_options; }

AlternativePolicy alternative_policy(const Options& o) {
  return {o.use_alternatives, o.max_error_growth, o.allow_approximate};
}

Target apply_options(const Target& target, const Options& o) {
  internal::check_target(target);
  check_numbers(o);
  refuse_idle(o, target.is_cuda());
  Target t = target;
  if (t.is_cuda()) {
    check_block_limit("block_threads", o.block_threads, kLeastBlockThreads, t.gpu.threads_per_block,
                      t.gpu.name);
    check_block_limit("block_shared_bytes", o.block_shared_bytes, kLeastBlockShared,
                      t.gpu.smem_per_block, t.gpu.name);
    if (o.block_threads > 0) t.gpu.threads_per_block = o.block_threads;
    if (o.block_shared_bytes > 0) t.gpu.smem_per_block = static_cast<int>(o.block_shared_bytes);
    if (o.l2_bytes > 0) t.gpu.l2_bytes = o.l2_bytes;
    return t;
  }
  if (o.vector_bytes > 0) t.vector_bytes = o.vector_bytes;
  if (o.threads > 0) t.cores = o.threads;
  if (o.l1_bytes > 0) t.l1d_bytes = o.l1_bytes;
  if (o.l2_bytes > 0) t.l2_bytes = o.l2_bytes;
  if (o.l3_bytes > 0) t.l3_bytes = o.l3_bytes;
  return t;
}

Json to_json(const Options& o) {
  const Options defaults;
  Json out = Json::object();
  for (const Number& n : kNumbers) {
    if (n.get(o) != n.get(defaults)) out[n.name] = Json(n.get(o));
  }
  for (const Flag& f : kFlags) {
    if (o.*f.value != defaults.*f.value) out[f.name] = Json(o.*f.value);
  }
  if (o.max_error_growth != defaults.max_error_growth)
    out[kMaxErrorGrowth] = Json(o.max_error_growth);
  if (o.force_template != defaults.force_template) out[kForceTemplate] = Json(o.force_template);
  return out;
}

Options options_from_json(const Json& json) {
  Options o;
  for (const auto& [name, value] : json.members()) {
    bool known = false;
    for (const Number& n : kNumbers) {
      if (name != n.name) continue;
      known = true;
      const int64_t number = value.as_int();
      if (n.small && !std::in_range<int>(number))
        fail(name + " is " + value.dump(), "it is too large");
      if (n.small) o.*n.small = static_cast<int>(number);
      if (n.large) o.*n.large = number;
    }
    for (const Flag& f : kFlags) {
      if (name != f.name) continue;
      known = true;
      o.*f.value = value.as_bool();
    }
    if (name == kMaxErrorGrowth) {
      o.max_error_growth = value.as_double();
    } else if (name == kForceTemplate) {
      o.force_template = value.as_string();
    } else if (!known && name != kRetired) {
      fail("there is no option '" + name + "'", "a newer Heddle may have written it");
    }
  }
  check_numbers(o);
  return o;
}

}  // namespace heddle
