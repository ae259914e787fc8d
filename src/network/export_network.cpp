#include "heddle/network/export_network.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "driver/program_args.h"
#include "heddle/codegen/llvm.h"
#include "heddle/driver/build.h"
#include "heddle/support/error.h"
#include "heddle/support/file.h"
#include "network/check_network.h"
#include "network/exported_plan.h"
#include "network/link_library.h"
#include "network/step_plan.h"
#include "network/task_schedules.h"
#include "network/weights_file.h"
#include "runtime/exported_network.h"
#include "target/cpu_table.h"

namespace heddle {
namespace network {
namespace {

bool is_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || c == '_' || (c >= '0' && c <= '9');
  });
}

/// A folder for what is made on the way, removed at the end.
class Scratch {
 public:
  explicit Scratch(const std::string& folder) {
    std::string pattern = folder + "/.heddle-export-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr)
      throw_runtime_error("cannot write in the folder '" + folder + "'");
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A task as object code, and what of it runs now: the preparation of its constants.
struct CompiledTask {
  std::string entry;
  std::vector<bool> read;  ///< of its arguments: does the step read or write them?
  std::vector<int> constants;
  std::vector<KernelArg> persistent;
  CompiledModule prepare;  ///< no entries: nothing to prepare
};

/// Which buffers a function touches.
std::set<const BufferNode*> touched(const Stmt& body) {
  std::set<const BufferNode*> all;
  visit(
      body,
      [&](const Stmt& s) {
        if (const Store* store = s.as<Store>()) all.insert(store->buffer.get());
        if (const Prefetch* fetch = s.as<Prefetch>()) all.insert(fetch->buffer.get());
      },
      [&](const Expr& e) {
        if (const Load* load = e.as<Load>()) all.insert(load->buffer.get());
      });
  return all;
}

CompiledTask compile_task(const Schedule& schedule, size_t task, const std::string& object) {
  const std::vector<Tensor> args = task_args(schedule);
  LoweredProgram program =
      lower_for_build(schedule, args, {.name = "heddle_task" + std::to_string(task)});
  CompiledTask result;
  result.entry = program.main.name;
  const std::set<const BufferNode*> used = touched(program.main.body);
  for (size_t i = 0; i < args.size(); ++i)
    result.read.push_back(used.count(program.main.args[i].get()) != 0);
  result.constants = program.constant_args;
  result.persistent = persistent_args(program);
  write_file_atomic(object, emit_llvm({program.main}, schedule.target(), "o"));
  // The preparation runs here and now, whatever CPU the network is for.
  if (program.prepare.body) result.prepare = compile_llvm({program.prepare}, Target::host());
  return result;
}

/// Writes an export file by file into the scratch folder.
class Exporter {
 public:
  Exporter(const Network& network, std::vector<Tensor> args, const ExportNetworkOptions& options)
      : network_(network), args_(std::move(args)), options_(options) {}

  ExportedNetwork write(const std::string& folder) {
    const std::vector<Schedule> schedules = chosen_schedules();
    check(schedules);
    std::error_code error;
    std::filesystem::create_directories(folder, error);  // where that fails, Scratch says so
    const Scratch scratch(folder);
    LinkInput link;
    for (size_t t = 0; t < schedules.size(); ++t) {
      link.objects.push_back(scratch.file("task" + std::to_string(t) + ".o"));
      tasks_.push_back(compile_task(schedules[t], t, link.objects.back()));
    }
    describe_network(schedules[0].target());
    WeightsFile weights(scratch.file("weights"));
    plan_weights(weights);
    weights.finish();
    plan_.weights_bytes = weights.bytes();
    plan_.weights_hash = weights.hash();
    link.c_file = scratch.file("tables.c");
    link.exported_prefix = plan_.name + "_";
    write_file_atomic(link.c_file, tables_text(plan_));
    link_library(link, scratch.path(), scratch.file("library"));
    write_file_atomic(scratch.file("header"), header_text(plan_));
    return move_to(folder, scratch);
  }

 private:
  std::vector<Schedule> chosen_schedules() const {
    return options_.schedules.empty() ? static_schedules(network_.tasks()) : options_.schedules;
  }

  void check(const std::vector<Schedule>& schedules) const {
    if (!is_identifier(options_.name)) {
      throw_user_error(
          "'" + options_.name + "' cannot be the name of an exported network", {},
          "its functions are named after it: a letter, then letters, digits and underscores");
    }
    check_tensors(ComputeDag(network_.outputs()), args_);
    check_schedules(network_.tasks(), schedules);
    const Target& target = schedules[0].target();
    if (target.is_cuda()) {
      throw_user_error("a network for '" + to_string(target) + "' cannot be exported", {},
                       "export it for a CPU");
    }
    if (!target.triple.empty() && target.triple.find(host_architecture()) != 0) {
      throw_user_error("a network for '" + to_string(target) + "' cannot be linked on this machine",
                       {}, "export it on a machine of that architecture");
    }
  }

  static std::string host_architecture() {
#if defined(__aarch64__)
    return "aarch64";
#else
    return "x86_64";
#endif
  }

  void describe_network(const Target& target) {
    plan_.name = options_.name;
    plan_.target = to_string(target);
    plan_.features = internal::features_of(target);
    for (const Tensor& t : args_) {
      KernelArg arg{.name = t.name(), .dtype = t.dtype(), .shape = t.extents()};
      arg.output = !t.op()->is_placeholder();
      (arg.output ? plan_.outputs : plan_.inputs).push_back(std::move(arg));
    }
  }

  /// The position among inputs, then outputs, of the argument `a`.
  int64_t tensor_of(size_t a) const {
    const auto is_output = [](const Tensor& t) { return !t.op()->is_placeholder(); };
    const auto before =
        std::count_if(args_.begin(), args_.begin() + static_cast<long>(a), is_output);
    return is_output(args_[a]) ? static_cast<int64_t>(plan_.inputs.size()) + before
                               : static_cast<int64_t>(a) - before;
  }

  /// The places of each step's parameters: arguments, arena, weights as they are, weights as they
  /// are prepared.
  void plan_weights(WeightsFile& weights) {
    std::vector<Tensor> tensors = args_;
    const std::vector<Tensor> constants = constants_of();
    tensors.insert(tensors.end(), constants.begin(), constants.end());
    const StepPlan plan = plan_steps(network_.nodes(), tensors, args_.size());
    plan_.arena_bytes = plan.arena_bytes;
    for (size_t n = 0; n < network_.nodes().size(); ++n) {
      const int task = network_.nodes()[n].task;
      plan_.steps.push_back({network_.tasks()[task].name, tasks_[task].entry, {}});
      plan_.steps.back().places.resize(plan.step_args[n], {HEDDLE_NOTHING, 0});
    }
    for (const StepPlan::Binding& b : plan.bindings)
      plan_.steps[b.step].places[b.position] = {HEDDLE_ARGUMENT, tensor_of(b.array)};
    for (const StepPlan::Between& b : plan.between)
      plan_.steps[b.step].places[b.position] = {HEDDLE_ARENA, b.offset};
    std::vector<std::map<size_t, NDArray>> bound(plan_.steps.size());
    for (const StepPlan::Binding& b : plan.bound)
      bound[b.step].emplace(b.position, *constants[b.array].op()->data());
    for (size_t n = 0; n < plan_.steps.size(); ++n) add_weights(n, bound[n], weights);
  }

  std::vector<Tensor> constants_of() const {
    std::vector<Tensor> constants;
    for (const NetworkNode& node : network_.nodes()) {
      for (const Tensor& t : node.inputs) {
        if (!t.op()->is_placeholder() || position_of(args_, t) >= 0) continue;
        if (position_of(constants, t) >= 0) continue;
        constants.push_back(t);
      }
    }
    for (const Tensor& t : args_) {
      if (!t.op()->is_constant()) continue;
      throw_user_error(
          "'" + t.name() + "' is a constant, and an exported network brings those along",
          t.op()->where(), "declare it with constant(array), and leave it out of the arguments");
    }
    return constants;
  }

  void add_weights(size_t step, const std::map<size_t, NDArray>& bound, WeightsFile& weights) {
    const auto task = static_cast<size_t>(network_.nodes()[step].task);
    const CompiledTask& compiled = tasks_[task];
    std::vector<ExportedPlace>& places = plan_.steps[step].places;
    for (const auto& [position, array] : bound) {
      if (!compiled.read[position]) continue;
      const auto [known, is_new] = raw_.try_emplace(array.data(), 0);
      if (is_new) known->second = weights.add(array.data(), array.bytes());
      places[position] = {HEDDLE_WEIGHTS, known->second};
    }
    std::pair<size_t, std::vector<const void*>> key{task, {}};
    for (const int position : compiled.constants) {
      const auto at = bound.find(static_cast<size_t>(position));
      HEDDLE_ICHECK(at != bound.end(), "a constant of a step has no values");
      key.second.push_back(at->second.data());
    }
    auto [known, is_new] = prepared_.try_emplace(std::move(key));
    if (is_new) known->second = prepare(compiled, known->first.second, weights);
    for (const int64_t at : known->second) places.push_back({HEDDLE_WEIGHTS, at});
  }

  static std::vector<int64_t> prepare(const CompiledTask& task,
                                      const std::vector<const void*>& constants,
                                      WeightsFile& weights) {
    if (task.prepare.entries.empty()) return {};
    std::vector<NDArray> made;
    std::vector<void*> pointers;
    for (const void* c : constants) pointers.push_back(const_cast<void*>(c));
    for (const KernelArg& arg : task.persistent) {
      // Elements that the preparation does not write (padding) are the same in every export.
      made.push_back(NDArray::zeros(arg.shape, arg.dtype));
      pointers.push_back(made.back().data());
    }
    if (task.prepare.entries[0](pointers.data()) != 0)
      throw_runtime_error("out of memory while constants were prepared");
    std::vector<int64_t> places;
    for (const NDArray& array : made) places.push_back(weights.add(array.data(), array.bytes()));
    return places;
  }

  ExportedNetwork move_to(const std::string& folder, const Scratch& scratch) const {
    ExportedNetwork out;
    out.library = folder + "/lib" + plan_.name + ".so";
    out.header = folder + "/" + plan_.name + ".h";
    out.weights = folder + "/" + plan_.name + ".weights";
    std::filesystem::rename(scratch.file("weights"), out.weights);
    std::filesystem::rename(scratch.file("header"), out.header);
    std::filesystem::rename(scratch.file("library"), out.library);
    out.library_bytes = static_cast<int64_t>(std::filesystem::file_size(out.library));
    out.weights_bytes = plan_.weights_bytes;
    out.arena_bytes = plan_.arena_bytes;
    out.steps = static_cast<int>(plan_.steps.size());
    return out;
  }

  const Network& network_;
  std::vector<Tensor> args_;
  const ExportNetworkOptions& options_;
  ExportedPlan plan_;
  std::vector<CompiledTask> tasks_;
  std::map<const void*, int64_t> raw_;  ///< weights as they are, by their elements
  std::map<std::pair<size_t, std::vector<const void*>>, std::vector<int64_t>> prepared_;
};

}  // namespace
}  // namespace network

ExportedNetwork export_network(const Network& network, const std::vector<Tensor>& args,
                               const std::string& folder, const ExportNetworkOptions& options) {
  return network::Exporter(network, args, options).write(folder);
}

}  // namespace heddle
