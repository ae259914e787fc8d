// What Heddle makes of a declaration, part by part.
#include "explain/explain_parts.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "codegen/why_expected.h"
#include "common/alternatives_table.h"
#include "common/figures.h"
#include "explain/build_times.h"
#include "explain/gpu_instructions.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/llvm.h"
#include "heddle/dag/alternatives.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/driver/build.h"
#include "heddle/driver/gpu_kernel_use.h"
#include "heddle/heuristics/certificate.h"
#include "heddle/heuristics/constants.h"
#include "heddle/ir/print.h"
#include "heddle/lower/lower.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "schedule/templates/graph_choice.h"
#include "support/edit_distance.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

std::string program_text(const LoweredFunction& main, const LoweredFunction& prepare) {
  std::string out = to_string(main);
  if (prepare.body) out += "\n" + to_string(prepare);
  return out;
}

// Makes each part when it is requested. What several parts need is made once.
class Explanation {
 public:
  Explanation(const Request& options, const Problem& problem, bool node, const Schedule* planned,
              Target target)
      : options_(options),
        problem_(problem),
        node_(node),
        target_(std::move(target)),
        dag_(problem_.outputs) {
    if (planned && !options.naive) schedule_.emplace(*planned);
  }

  ExplainPart make(const std::string& part) {
    if (part == "dag") return plain(dag_.to_text());
    if (part == "classes") return classes();
    if (part == "alternatives") return alternatives();
    if (part == "constants") return constants();
    if (part == "certificate") return certificate();
    if (part == "template") return template_text();
    if (part == "space") return space();
    if (part == "schedule") return schedule_part();
    if (part == "instructions") return instructions();
    if (part == "loops") return loops();
    if (part == "cuda") return plain(emit_cuda(gpu_program()));
    if (part == "resources") return resources();
    if (target_.is_cuda() && (part == "llvm" || part == "asm")) {
      throw_user_error("kernels for a GPU have no '" + part + "'", {}, "--show cuda");
    }
    if (part == "llvm") return plain(emit_llvm(functions(), target_, "ll"));
    if (part == "asm") return plain(emit_llvm(functions(), target_, "s"));
    return times();
  }

  /// Parts that cannot be shown are reported before anything is built or printed.
  void check_pass() {
    if (options_.pass.empty() || options_.pass == "all") return;
    std::vector<std::string> names;
    for (const AfterPass& p : passes()) {
      if (p.name == options_.pass) return;
      if (std::find(names.begin(), names.end(), p.name) == names.end()) names.push_back(p.name);
    }
    std::string hint = did_you_mean(options_.pass, names);
    if (!hint.empty()) hint += " ";
    throw_user_error("there is no pass '" + options_.pass + "'", {},
                     hint + "the passes are " + join(names) + ", or all");
  }

 private:
  static ExplainPart plain(std::string text) {
    Json json = text;
    return {std::move(text), std::move(json)};
  }

  ExplainPart classes() {
    Table table({"stage", "class", "MFLOP", "why"});
    table.align_left(1);
    table.align_left(3);
    Json all = Json::array();
    for (int i = 0; i < dag_.size(); ++i) {
      const StageInfo& info = dag_.info(i);
      const Operation& op = dag_.stage(i);
      const char* name = to_string(info.stage_class);
      all.push_back(Json::object(
          {{"stage", op.name()}, {"class", name}, {"flops", info.flops}, {"reason", info.reason}}));
      if (op.is_placeholder()) continue;
      table.add_row({op.name(), name, format_fixed(info.flops * 1e-6, 3), info.reason});
    }
    return {table.to_string(), std::move(all)};
  }

  // The constants of rules that decide: with another value within its range the static choice of the
  // rules is another one.
  ExplainPart constants() {
    Table table({"constant", "value", "unit", "decides", "about"});
    for (const std::size_t column : {2, 3, 4}) table.align_left(column);
    Json all = Json::array();
    for (const DecidingConstant& c :
         deciding_constants(dag_, target_, current_auto_scheduler_options())) {
      const std::string where = c.below && c.above ? "both ways" : c.below ? "if less" : "if more";
      table.add_row({std::string(c.info->name), Json(c.value).dump(), std::string(c.info->unit),
                     where, std::string(c.info->about)});
      all.push_back(Json::object({{"name", std::string(c.info->name)},
                                  {"value", c.value},
                                  {"below", c.below},
                                  {"above", c.above}}));
    }
    if (all.size() == 0)
      return {"no constant decides: with any value the choice is the same\n", all};
    return {table.to_string(), std::move(all)};
  }

  // How good the static choice is, before anything is measured.
  ExplainPart certificate() {
    const Certificate c = certify(dag_, target_, current_auto_scheduler_options());
    return {c.to_string(), c.to_json()};
  }

  // The graphs that were considered in place of the declared one, and why each is used or not.
  ExplainPart alternatives() {
    AlternativePolicy policy = alternative_policy(current_auto_scheduler_options());
    if (current_auto_scheduler_options().use_heuristics)
      policy.constants = measured_constants(target_);
    const std::string& used = schedule().dag().alternative();
    const std::vector<Alternative> all = alternatives_of(dag_, target_, policy);
    if (all.empty())
      return {"no rule rewrites this graph: it is computed as declared\n", Json::array()};
    std::vector<AlternativeRow> rows{{.used = used.empty()}};
    for (const Alternative& a : all) {
      rows.push_back({.name = a.name,
                      .numerics = a.numerics,
                      .error_growth = a.error_growth,
                      .used = a.name == used,
                      .why_not = a.why_not,
                      .note = "x" + format_fixed(a.speedup, 2) + " expected: " + a.reason});
    }
    add_records(&rows);
    Json json = Json::array();
    const Json table = alternatives_json(rows);
    for (Json j : table.elements()) {
      const size_t i = json.size();
      j["legal"] = i == 0 || all[i - 1].legal();
      j["promise"] = i == 0 ? 1 : all[i - 1].speedup;
      j["reason"] = i == 0 ? "" : all[i - 1].legal() ? all[i - 1].reason : all[i - 1].why_not;
      json.push_back(std::move(j));
    }
    return {alternatives_text(rows) + (used.empty() ? "it is computed as declared\n" : "") +
                who_chose_it(),
            std::move(json)};
  }

  // The answer of a learned source about the graph; empty where none was asked.
  std::string who_chose_it() const {
    const AutoSchedulerOptions options = current_auto_scheduler_options();
    const GraphChoice choice = choose_graph(dag_, apply_options(target_, options), options);
    return choice.why.empty() ? "" : choice.why + "\n";
  }

  // Adds what the user's log and the shipped records contain about each graph.
  void add_records(std::vector<AlternativeRow>* rows) {
    const std::shared_ptr<const RecordDatabase> known =
        tophub(current_auto_scheduler_options().record_log);
    const std::vector<const Record*> records = known->ranked(dag_.structural_hash(), target_);
    for (AlternativeRow& row : *rows) {
      if (row.why_not.empty())
        row.template_name = make_template(apply_alternative(dag_, row.name), target_).name();
      for (const Record* r : records) {
        if (r->alternative != row.name) continue;
        ++row.trials;
        if (row.seconds > 0 && r->median() >= row.seconds) continue;
        row.seconds = r->median();
        row.config = r->config;
      }
    }
  }

  const Template& made() {
    if (!template_) template_.emplace(make_template_of_alternatives(dag_, target_));
    return *template_;
  }

  ExplainPart template_text() {
    if (options_.naive) return plain("the naive schedule comes from no template\n");
    return plain(made().to_text());
  }

  ExplainPart space() {
    if (options_.naive) return plain("the naive schedule has no knobs\n");
    const Template& t = made();
    Table table({"knob", "static", "values", "why"});
    table.align_left(2);
    table.align_left(3);
    Json knobs = Json::array();
    for (const Knob& k : t.knobs()) {
      table.add_row({k.name, k.text_of(k.default_value), k.values_text(" "), k.reason});
      Json values = Json::array();
      for (const int64_t v : k.values) values.push_back(k.json_of(v));
      knobs.push_back(Json::object({{"name", k.name},
                                    {"values", std::move(values)},
                                    {"default", k.json_of(k.default_value)},
                                    {"reason", k.reason}}));
    }
    char size[32];
    std::snprintf(size, sizeof size, t.space_size() < 1e6 ? "%.0f" : "%.3g", t.space_size());
    std::string text = table.to_string() + std::to_string(t.knobs().size()) + " knobs, " + size +
                       " configs before their constraints\n";
    Json json = Json::object(
        {{"template", t.name()}, {"size", t.space_size()}, {"knobs", std::move(knobs)}});
    return {std::move(text), std::move(json)};
  }

  const Schedule& schedule() {
    if (!schedule_) {
      schedule_.emplace(options_.naive ? naive_schedule(problem_.outputs, target_)
                                       : create_schedule(problem_.outputs, target_));
    }
    return *schedule_;
  }

  ExplainPart schedule_part() {
    const Schedule& s = schedule();
    Json json = Json::object({{"provenance", s.provenance}, {"steps", s.to_json()}});
    return {s.to_text(), std::move(json)};
  }

  const LoweredProgram& lowered() {
    if (!lowered_) {
      LowerOptions lower_options;
      lower_options.keep_passes = true;
      lowered_.emplace(lower(schedule(), problem_.args(), lower_options));
    }
    return *lowered_;
  }

  std::vector<LoweredFunction> functions() {
    std::vector<LoweredFunction> out{lowered().main};
    if (lowered().prepare.body) out.push_back(lowered().prepare);
    return out;
  }

  // The program after each pass.
  struct AfterPass {
    std::string name, text;
  };
  std::vector<AfterPass> passes() {
    std::vector<AfterPass> out;
    if (target_.is_cuda()) {
      for (const GpuPassRecord& p : gpu_program().passes) out.push_back({p.name, to_string(p)});
    } else {
      for (const PassRecord& p : lowered().passes)
        out.push_back({p.name, program_text(p.main, p.prepare)});
    }
    return out;
  }

  const GpuProgram& gpu_program() {
    if (!target_.is_cuda()) {
      throw_user_error("only a GPU's kernels have a CUDA text", {}, "add --target cuda");
    }
    if (!gpu_program_) {
      LowerOptions lower_options;
      lower_options.keep_passes = !options_.pass.empty();
      gpu_program_.emplace(lower_gpu(schedule(), problem_.args(), lower_options));
    }
    return *gpu_program_;
  }

  // The resources that NVRTC reports for the kernels, without a GPU.
  ExplainPart resources() {
    const std::vector<GpuKernelUse> uses = gpu_kernel_uses(gpu_program(), schedule().target());
    Table table({"kernel", "blocks", "threads", "shared", "registers", "spilled", "blocks/SM"});
    Json all = Json::array();
    for (const GpuKernelUse& u : uses) {
      table.add_row({u.kernel, std::to_string(u.blocks), std::to_string(u.threads),
                     std::to_string(u.shared_bytes), std::to_string(u.registers),
                     std::to_string(u.spilled_bytes), std::to_string(u.blocks_per_sm)});
      all.push_back(Json::object({{"kernel", u.kernel},
                                  {"blocks", u.blocks},
                                  {"threads", u.threads},
                                  {"shared_bytes", u.shared_bytes},
                                  {"registers", u.registers},
                                  {"spilled_bytes", u.spilled_bytes},
                                  {"blocks_per_sm", u.blocks_per_sm}}));
    }
    return {table.to_string(), std::move(all)};
  }

  // The instructions of matrix units and of TMA in the kernels.
  ExplainPart gpu_instructions() {
    Table table({"kernel", "instruction", "in its text"});
    table.align_left(1);
    Json all = Json::array();
    for (const UsedInstruction& u : used_instructions(gpu_program())) {
      table.add_row({u.kernel, u.instruction, std::to_string(u.count)});
      all.push_back(
          Json::object({{"kernel", u.kernel}, {"instruction", u.instruction}, {"count", u.count}}));
    }
    if (all.size() == 0) return {"no kernel uses a matrix unit or TMA\n", all};
    return {table.to_string(), std::move(all)};
  }

  // The instructions that the schedule expects or marks loops for, and whether code generation
  // recognised them.
  ExplainPart instructions() {
    if (target_.is_cuda()) return gpu_instructions();
    Table table({"stores of", "instruction", "found", "of"});
    table.align_left(1);
    Json all = Json::array();
    std::string missed;
    const auto expected = expected_instructions(functions(), schedule().target());
    const auto why = codegen::why_not_expected(functions(), schedule().target());
    for (size_t i = 0; i < expected.size(); ++i) {
      const ExpectedInstruction& e = expected[i];
      table.add_row({e.buffer, e.instruction, std::to_string(e.found), std::to_string(e.stores)});
      all.push_back(Json::object({{"buffer", e.buffer},
                                  {"instruction", e.instruction},
                                  {"found", e.found},
                                  {"stores", e.stores},
                                  {"why", why[i]}}));
      if (e.missed())
        missed += "MISSED: no store of '" + e.buffer + "' became a " + e.instruction +
                  (why[i].empty() ? "" : ": " + why[i]) + "\n";
    }
    if (all.size() == 0) return {"the schedule expects no special instructions\n", all};
    return {table.to_string() + missed, std::move(all)};
  }

  ExplainPart loops() {
    if (options_.pass.empty()) {
      return plain(target_.is_cuda() ? to_string(gpu_program())
                                     : program_text(lowered().main, lowered().prepare));
    }
    std::string text;
    int number = 0;
    for (const AfterPass& p : passes()) {
      ++number;
      if (options_.pass != "all" && p.name != options_.pass) continue;
      text += "# after pass " + std::to_string(number) + ", " + p.name + "\n" + p.text + "\n";
    }
    return plain(text);
  }

  ExplainPart times() {
    if (node_) {
      throw_user_error("the nodes of a model are timed in the model", {},
                       "`heddle profile " + options_.subject + "` times them");
    }
    if (!target_.runs_here()) {
      throw_user_error("kernels for " + to_string(target_) + " do not run on this machine", {},
                       "the times of a build can be had for a target that does");
    }
    const TimeBreakdown breakdown =
        measure_build(options_.subject, problem_.dtype, target_, options_.naive);
    return {to_text(breakdown), to_json(breakdown)};
  }

  const Request& options_;
  const Problem& problem_;
  bool node_;
  Target target_;
  ComputeDag dag_;
  std::optional<Template> template_;
  std::optional<Schedule> schedule_;
  std::optional<LoweredProgram> lowered_;
  std::optional<GpuProgram> gpu_program_;
};

}  // namespace

std::vector<ExplainPart> make_explain_parts(const Request& options, const Problem& problem,
                                            bool node, const Schedule* planned,
                                            const Target& target,
                                            const std::vector<std::string>& names) {
  Explanation explanation(options, problem, node, planned, target);
  std::vector<ExplainPart> made(names.size());
  // Times are measured first, because they are those of a process that has not built anything.
  for (const bool times : {true, false}) {
    if (!times) explanation.check_pass();
    for (size_t i = 0; i < names.size(); ++i) {
      if ((names[i] == "times") == times) made[i] = explanation.make(names[i]);
    }
  }
  return made;
}

}  // namespace heddle::cli
