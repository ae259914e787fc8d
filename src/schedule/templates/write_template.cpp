#include "schedule/templates/write_template.h"

#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "heddle/support/error.h"
#include "heddle/target/rule_constants.h"
#include "schedule/groups/placement.h"
#include "schedule/templates/naive_steps.h"
#include "support/log.h"

namespace heddle {
namespace {

const MetaTemplate& pick(const std::vector<MetaTemplate>& all, const ComputeDag& dag,
                         const StageGroup& g, const TemplateBuilder& builder) {
  const MetaTemplate* best = nullptr;
  bool tie = false;
  for (const MetaTemplate& t : all) {
    if (!t.matches(dag, g, builder.target())) continue;
    if (t.name == builder.options().force_template) return t;
    if (!best || t.priority > best->priority) {
      best = &t;
      tie = false;
    } else if (t.priority == best->priority) {
      tie = true;
    }
  }
  if (!best)
    throw_internal_error("no meta-template takes the group of stage '" +
                         dag.stage(g.output_stage).name() + "'");
  HEDDLE_ICHECK(!tie, "two meta-templates of one priority match stage '" +
                          dag.stage(g.output_stage).name() + "'");
  return *best;
}

// Runs the meta-templates of `all` on the groups of a graph, one after the other.
class Dispatcher {
 public:
  Dispatcher(const std::vector<MetaTemplate>& all, const ComputeDag& dag, TemplateBuilder& builder)
      : all_(all), dag_(dag), builder_(builder) {}

  Template run() {
    std::vector<StageGroup> groups = plan_groups(dag_, &builder_.target());
    for (size_t i = 0; i < groups.size(); ++i) {
      groups[i].allow_tf32 = builder_.options().allow_tf32;
      write_group(groups[i], groups.size() > 1 ? "g" + std::to_string(i) + "." : "");
    }
    // Operands are inlined last, when the packed copies that compute them exist.
    std::set<int, std::greater<>> operands;
    for (const StageGroup& g : groups) operands.insert(g.operands.begin(), g.operands.end());
    for (int s : operands) builder_.stage(s).compute_inline();
    return builder_.finish(name_);
  }

 private:
  void write_group(const StageGroup& g, const std::string& prefix) {
    const MetaTemplate& t = pick(all_, dag_, g, builder_);
    builder_.begin_part(t.name, prefix);
    builder_.note(t.name + ": " + g.reason);
    // Stages are inlined before any loop is shaped, readers first, because a reader's body must be
    // complete.
    for (const int s : std::views::reverse(g.inlined)) {
      if (inlined_.insert(s).second) builder_.stage(s).compute_inline();
    }
    std::vector<int> inlined = g.inlined;
    inlined.insert(inlined.end(), g.operands.begin(), g.operands.end());
    // A product before others is computed where the last stage after it is, as inlined stages are.
    for (const auto* parts : {&g.images, &g.products}) {
      for (const StageGroup::Part& part : *parts) {
        if (part.product != part.last) inlined.push_back(part.product);
      }
    }
    builder_.begin_group(std::move(inlined));
    t.build(builder_, g);
    if (name_.find(t.name) == std::string::npos) name_ += (name_.empty() ? "" : "+") + t.name;
    // Readers are scheduled before the stages that they read, so that a producer knows where its
    // readers may be computed.
    for (auto it = g.tunable.rbegin(); it != g.tunable.rend(); ++it) write_attached(g, *it, prefix);
  }

  void write_attached(const StageGroup& host, int stage, const std::string& prefix) {
    const StageGroup g = attached_group(builder_, host, stage);
    const MetaTemplate& t = pick(all_, dag_, g, builder_);
    // The part is named by number. Names of stages may clash, and the template serves every
    // declaration of this structure, whatever the names of its tensors.
    builder_.begin_part(t.name, prefix + "s" + std::to_string(stage) + ".");
    builder_.note(t.name + ": " + g.reason);
    t.build(builder_, g);
    if (name_.find(t.name) == std::string::npos) name_ += "+" + t.name;
    require_enclosing(builder_, stage);
  }

  const std::vector<MetaTemplate>& all_;
  const ComputeDag& dag_;
  TemplateBuilder& builder_;
  std::string name_;       ///< names of the meta-templates used so far
  std::set<int> inlined_;  ///< stages that are inlined already: several groups may read one
};

// Why the static choice of a template is not legal; empty where it is.
std::string why_not_legal(const Template& t) {
  const Config config = t.default_config();
  if (std::string why = t.why_invalid(config); !why.empty()) return why;
  (void)t.instantiate(config);  // its steps are checked one by one
  return "";
}

// The links of the chain of choices, the first of which whose static choice is legal is taken.
class Writer {
 public:
  Writer(const std::vector<MetaTemplate>& all, const TemplateOrder& order)
      : all_(all), order_(order) {}

  Template run() {
    TemplateBuilder first = builder();
    first.consult(order_.source);
    if (std::optional<Template> t = dispatched(first)) return *std::move(t);
    if (first.answered() || first.constants() != default_constants()) {
      // The choices of the rules with their defaults fit together. Answers for some knobs may not fit
      // the others.
      refuse("the rules chose alone: what " + order_.source->version() +
             " chose is not legal: " + why_);
      TemplateBuilder rules = builder();
      if (std::optional<Template> t = dispatched(rules)) return *std::move(t);
    }
    refuse("the naive schedule is taken: what the rules chose is not legal: " + why_);
    log_line("schedule", 1, refused_.back());
    TemplateBuilder last = builder();
    write_naive_steps(last, order_.dag, last.target());
    return last.finish_as_last_resort("naive");
  }

 private:
  TemplateBuilder builder() const {
    TemplateBuilder b(order_.dag, order_.target, order_.options);
    if (order_.chosen.source != Choice::kRule) b.set_graph_source(order_.chosen.source);
    if (const std::string line = note_of(order_.chosen); !line.empty()) b.note(line);
    for (const std::string& why : refused_) b.refuse({"", why});
    return b;
  }
  void refuse(std::string why) { refused_.push_back(std::move(why)); }

  // What the meta-templates write; nothing where its static choice is not legal.
  std::optional<Template> dispatched(TemplateBuilder& b) {
    const auto forced = [&] { return !order_.options.force_template.empty() && !b.answered(); };
    try {
      Template t = Dispatcher(all_, order_.dag, b).run();
      why_ = why_not_legal(t);
      if (why_.empty() || forced()) return t;
    } catch (const Error& e) {
      if (forced()) throw;
      why_ = e.message;
    }
    return std::nullopt;
  }

  const std::vector<MetaTemplate>& all_;
  const TemplateOrder& order_;
  std::vector<std::string> refused_;  ///< why each of the links before was not taken
  std::string why_;                   ///< the last one was not legal
};

// Templates are for constant extents: a dimension is the user's error, for which nothing may stand
// in.
void require_constants(const ComputeDag& dag) {
  for (int s = 0; s < dag.size(); ++s) {
    for (const Axis& a : dag.stage(s).axes()) (void)a.extent();
  }
}

}  // namespace

std::string note_of(const GraphChoice& choice) {
  if (choice.source != Choice::kRule) return "alternative by " + choice.source + ": " + choice.why;
  return choice.why.empty() ? "" : "alternative: " + choice.why;
}

Template write_template(const std::vector<MetaTemplate>& all, const TemplateOrder& order) {
  require_constants(order.dag);
  return Writer(all, order).run();
}

}  // namespace heddle
