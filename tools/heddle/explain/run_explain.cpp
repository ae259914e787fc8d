// heddle explain: prints what Heddle makes of a subject, and why.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>

#include "commands.h"
#include "common/alternatives_table.h"
#include "common/family.h"
#include "common/figures.h"
#include "common/model_kernels.h"
#include "explain/build_times.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/llvm.h"
#include "heddle/dag/alternatives.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/driver/build.h"
#include "heddle/driver/gpu_kernel_use.h"
#include "heddle/ir/print.h"
#include "heddle/lower/lower.h"
#include "heddle/network/network.h"
#include "heddle/records/tophub.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/schedule/graph_choice.h"
#include "heddle/support/edit_distance.h"
#include "heddle/support/error.h"
#include "heddle/support/table.h"
#include "subjects/family_subject.h"
#include "subjects/model_subject.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"

namespace heddle::cli {
namespace {

struct Part {
  std::string text;
  Json json;
};

std::string program_text(const LoweredFunction& main, const LoweredFunction& prepare) {
  std::string out = to_string(main);
  if (prepare.body) out += "\n" + to_string(prepare);
  return out;
}

// Makes each part when it is requested. What several parts need is made once.
class Explanation {
 public:
  Explanation(const ExplainOptions& options, DataType dtype, Target target)
      : options_(options),
        dtype_(dtype),
        target_(std::move(target)),
        problem_(make_problem(options.subject, dtype)),
        dag_(problem_.outputs) {}

  Part make(const std::string& part) {
    if (part == "dag") return plain(dag_.to_text());
    if (part == "classes") return classes();
    if (part == "alternatives") return alternatives();
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

  const Problem& problem() const { return problem_; }

 private:
  static Part plain(std::string text) {
    Json json = text;
    return {std::move(text), std::move(json)};
  }

  Part classes() {
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

  // The graphs that were considered in place of the declared one, and why each is used or not.
  Part alternatives() {
    const AlternativePolicy policy = alternative_policy(current_auto_scheduler_options());
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

  Part template_text() {
    if (options_.naive) return plain("the naive schedule comes from no template\n");
    return plain(made().to_text());
  }

  Part space() {
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

  Part schedule_part() {
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
  Part resources() {
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

  // The instructions that the schedule expects, and whether code generation recognised them.
  Part instructions() {
    if (target_.is_cuda()) return plain("schedules for GPUs name their instructions by steps\n");
    Table table({"stores of", "instruction", "found", "of"});
    table.align_left(1);
    Json all = Json::array();
    std::string missed;
    for (const ExpectedInstruction& e : expected_instructions(functions(), schedule().target())) {
      table.add_row({e.buffer, e.instruction, std::to_string(e.found), std::to_string(e.stores)});
      all.push_back(Json::object({{"buffer", e.buffer},
                                  {"instruction", e.instruction},
                                  {"found", e.found},
                                  {"stores", e.stores}}));
      if (e.missed())
        missed += "MISSED: no store of '" + e.buffer + "' became a " + e.instruction + "\n";
    }
    if (all.size() == 0) return {"the schedule expects no special instructions\n", all};
    return {table.to_string() + missed, std::move(all)};
  }

  Part loops() {
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

  Part times() {
    if (!target_.runs_here()) {
      throw_user_error("kernels for " + to_string(target_) + " do not run on this machine", {},
                       "the times of a build can be had for a target that does");
    }
    const TimeBreakdown breakdown =
        measure_build(options_.subject, dtype_, target_, options_.naive);
    return {to_text(breakdown), to_json(breakdown)};
  }

  const ExplainOptions& options_;
  DataType dtype_;
  Target target_;
  Problem problem_;
  ComputeDag dag_;
  std::optional<Template> template_;
  std::optional<Schedule> schedule_;
  std::optional<LoweredProgram> lowered_;
  std::optional<GpuProgram> gpu_program_;
};

// --show takes one part, or several separated by commas, and may be repeated.
std::vector<std::string> parts_of(const ExplainOptions& options) {
  std::vector<std::string> parts;
  for (const std::string& list : options.show) {
    for (const std::string& part : split_text(list, ',')) {
      const std::vector<std::string>& known = explain_parts();
      if (std::find(known.begin(), known.end(), part) == known.end()) {
        std::string hint = did_you_mean(part, known);
        if (!hint.empty()) hint += " ";
        throw_user_error("there is nothing called '" + part + "' to show", {},
                         hint + "--show takes " + join(known));
      }
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
    }
  }
  if (parts.empty()) {
    parts = {"classes", "alternatives", "schedule", "instructions", "times"};
    if (Target::parse(options.target).is_cuda())
      parts = {"classes", "schedule", "cuda", "resources"};
  }
  if (!options.pass.empty() && std::find(parts.begin(), parts.end(), "loops") == parts.end()) {
    parts.push_back("loops");
  }
  return parts;
}

// Explains a model, which is many kernels: lists them and the buffers between them.
int explain_model(const ExplainOptions& options) {
  if (!options.show.empty() || !options.pass.empty() || options.naive) {
    throw_user_error("of a model only its nodes are shown", {},
                     "leave --show, --pass and --naive out");
  }
  const Problem problem = model_problem(options.subject, dtype_of(options.dtype));
  const Target target = target_of(options.target, options.threads);
  const Network network(problem.outputs, target, current_auto_scheduler_options(),
                        parse_passes(options.passes));
  const std::vector<TaskKernels> kernels = model_kernels(options, problem, network);
  if (options.json) {
    std::cout << kernels_json(kernels, problem, target).dump(1) << "\n";
    return 0;
  }
  std::cout << problem.subject << "  for " << to_string(target) << ", " << flops_text(problem.flops)
            << ", " << bytes_text(problem.bytes) << ", " << network.nodes().size() << " nodes, "
            << network.tasks().size() << " kernels\n\n"
            << network.to_text() << kernels_text(kernels);
  if (!network.passes().empty()) std::cout << "\npasses over the graph:\n";
  for (const PassApplication& a : network.passes())
    std::cout << "  " << a.pass << ": " << a.text << "\n";
  if (!network.choices().empty())
    std::cout << "\nchoices that --passes can make the other way, and that tuning tries:\n";
  for (const NetworkChoice& c : network.choices()) {
    std::cout << "  " << (c.on ? "" : "-") << c.name << " (" << count_text(c.places, "place")
              << "): " << (c.on ? "" : "not so: ") << c.text << "\n";
  }
  return 0;
}

}  // namespace

const std::vector<std::string>& explain_parts() {
  static const std::vector<std::string> parts = {
      "dag",   "classes", "alternatives", "template", "space",     "schedule", "instructions",
      "loops", "llvm",    "asm",          "cuda",     "resources", "times"};
  return parts;
}

int run_explain(const ExplainOptions& options) {
  if (is_family(options.subject)) return explain_family(options);
  if (is_model(options.subject)) return explain_model(options);
  const std::vector<std::string> parts = parts_of(options);
  const DataType dtype = dtype_of(options.dtype);
  Target target = target_of(options.target, options.threads);
  const ScopedThreads threads(target.cores);
  AutoSchedulerOptions scheduler = current_auto_scheduler_options();
  if (!target.is_cuda()) scheduler.threads = target.cores;
  scheduler.allow_tf32 = options.allow_tf32;
  const AutoSchedulerOptionsScope scope(scheduler);

  Explanation explanation(options, dtype, target);
  std::vector<Part> made(parts.size());
  // Times are measured first, because they are those of a process that has not built anything.
  for (const bool times : {true, false}) {
    if (!times) explanation.check_pass();
    for (size_t i = 0; i < parts.size(); ++i) {
      if ((parts[i] == "times") == times) made[i] = explanation.make(parts[i]);
    }
  }

  const Problem& problem = explanation.problem();
  if (options.json) {
    Json j = Json::object({{"subject", problem.subject},
                           {"dtype", to_string(dtype)},
                           {"threads", target.cores},
                           {"target", to_string(target)},
                           {"flops", problem.flops},
                           {"bytes", problem.bytes}});
    for (size_t i = 0; i < parts.size(); ++i) j[parts[i]] = std::move(made[i].json);
    std::cout << j.dump(1) << "\n";
    return 0;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    // A single part is printed without a heading, as input for another program (llc, an assembler).
    if (parts.size() > 1) {
      if (i == 0) {
        std::cout << problem.subject << "  " << to_string(dtype) << ", for " << to_string(target)
                  << "\n";
      }
      std::cout << "\n== " << parts[i] << " ==\n";
    }
    std::cout << made[i].text;
    if (made[i].text.empty() || made[i].text.back() != '\n') std::cout << "\n";
  }
  return 0;
}

}  // namespace heddle::cli
