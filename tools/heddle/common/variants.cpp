#include "common/variants.h"

#include <algorithm>
#include <set>
#include <string>

#include "heddle/records/tophub.h"
#include "heddle/schedule/meta_template.h"
#include "heddle/support/error.h"

namespace heddle::cli {
namespace {

/// Keeps schedules whose steps differ from those before.
class Variants {
 public:
  explicit Variants(int most) : most_(static_cast<size_t>(most)) {}

  bool full() const { return list_.size() >= most_; }
  /// `make` may throw a User error. The variant is then left out.
  void add(const std::string& name, FunctionRef<Schedule()> make) {
    if (full()) return;
    try {
      const Schedule s = make();
      if (known_.insert(s.dag().alternative() + s.to_json().at("steps").dump()).second) {
        list_.emplace_back(name, s);
      }
    } catch (const Error& e) {
      if (e.kind != ErrorKind::User) throw;
    }
  }
  std::vector<MultiVariant> take() { return std::move(list_); }

 private:
  size_t most_;
  std::set<std::string> known_;
  std::vector<MultiVariant> list_;
};

void add_records(Variants& variants, const ComputeDag& dag, const Target& target,
                 const AutoSchedulerOptions& options) {
  if (!options.use_records) return;
  const auto records = tophub();
  int n = 0;
  for (const Record* r : records->ranked(dag.structural_hash(), target)) {
    if (variants.full()) return;
    if (!options.use_alternatives && !r->alternative.empty()) continue;
    variants.add("record" + std::to_string(++n),
                 [&] { return schedule_of(*r, dag, target, options); });
  }
}

/// The static choice with one knob changed to a neighbouring value: first the larger ones of all
/// knobs, then the smaller ones.
void add_neighbours(Variants& variants, const ComputeDag& dag, const Target& target,
                    const AutoSchedulerOptions& options) {
  const Template t = make_template(dag, target, options);
  for (const int step : {1, -1}) {
    for (size_t k = 0; k < t.knobs().size(); ++k) {
      const Knob& knob = t.knobs()[k];
      const auto at = std::find(knob.values.begin(), knob.values.end(), knob.default_value);
      const auto to = at - knob.values.begin() + step;
      if (variants.full()) return;
      if (at == knob.values.end() || to < 0 || to >= std::ssize(knob.values)) continue;
      Config config = t.default_config();
      config.values[k] = knob.values[static_cast<size_t>(to)];
      if (!t.why_invalid(config).empty()) continue;
      variants.add(knob.name + "=" + knob.text_of(config.values[k]),
                   [&] { return t.instantiate(config); });
    }
  }
}

}  // namespace

std::vector<MultiVariant> variants_of(const std::vector<Tensor>& outputs, const Target& target,
                                      int most, const AutoSchedulerOptions& options) {
  Variants variants(most);
  const ComputeDag dag(outputs);
  AutoSchedulerOptions plain = options;
  plain.use_records = false;
  const auto with = [&](AutoSchedulerOptions changed) {
    return [&outputs, &target, changed] { return create_schedule(outputs, target, changed); };
  };
  variants.add("chosen", with(options));
  variants.add("static", with(plain));
  add_records(variants, dag, target, options);
  AutoSchedulerOptions direct = plain;
  direct.use_alternatives = false;
  variants.add("direct", with(direct));
  for (const Alternative& a : alternatives_of(dag, target, alternative_policy(options))) {
    if (!options.use_alternatives || !a.legal() || variants.full()) continue;
    variants.add(a.name, [&] {
      const Template t = make_template(apply_alternative(dag, a.name), target, plain);
      return t.instantiate(t.default_config());
    });
  }
  if (!target.is_cuda()) {
    AutoSchedulerOptions narrow = plain, compact = plain;
    narrow.vector_bytes = target.vector_bytes / 2;
    compact.max_unroll = 16;
    if (narrow.vector_bytes >= 16) variants.add("narrow", with(narrow));
    variants.add("compact", with(compact));
  } else {
    add_neighbours(variants, dag, target, direct);
  }
  return variants.take();
}

}  // namespace heddle::cli
