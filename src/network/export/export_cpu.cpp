// Exports a network for a CPU as a library: an object file for each task, and weights in prepared
// form.
#include <algorithm>
#include <map>
#include <set>

#include "codegen/code_features.h"
#include "codegen/llvm/jit/object_cache.h"
#include "driver/program_args.h"
#include "heddle/codegen/llvm.h"
#include "heddle/driver/build.h"
#include "heddle/support/error.h"
#include "network/cut/task_schedules.h"
#include "network/export/export_parts.h"
#include "network/export/link_library.h"
#include "network/export/weights_file.h"
#include "runtime/exported/network.h"
#include "runtime/pool/for_each_task.h"
#include "support/file.h"

namespace heddle::network {
namespace {

/// A kernel of a task as object code, and the part of it that runs now: the preparation of its
/// constants.
struct CompiledTask {
  std::string entry;
  std::vector<bool> read;  ///< for each argument, whether the step reads or writes it
  std::vector<int> constants;
  std::vector<KernelArg> persistent;
  std::vector<int64_t> sizes;  ///< for each size that it takes, its number in the network
  CompiledModule prepare;      ///< without entries there is nothing to prepare
  std::string prepare_key;     ///< kernels of equal keys prepare equal weights
};

/// The key of a preparation and the arrays that it makes; `name`, which is unique, where the code
/// has no key.
std::string key_of(const LoweredFunction& prepare, const std::vector<KernelArg>& made,
                   const std::string& name) {
  const std::string code = codegen::object_key({prepare}, Target::host(), 2);
  std::string key = code.empty() ? name : code;
  for (const KernelArg& arg : made) {
    key += " " + to_string(arg.dtype);
    for (const int64_t extent : arg.shape) key += "," + std::to_string(extent);
  }
  return key;
}

CompiledTask compile_one(const Schedule& schedule, const std::vector<Var>& sizes,
                         const std::string& name, const std::string& object) {
  const std::vector<Tensor> args = task_args(schedule);
  LoweredProgram program = lower_for_build(schedule, args, {.name = name});
  CompiledTask result;
  for (const Var& size : program.main.sizes) result.sizes.push_back(number_of(sizes, size));
  result.entry = program.main.name;
  const std::set<const BufferNode*> used = touched_buffers(program.main.body);
  for (size_t i = 0; i < args.size(); ++i)
    result.read.push_back(used.count(program.main.args[i].get()) != 0);
  result.constants = program.constant_args;
  result.persistent = persistent_args(program);
  write_file_atomic(object, emit_llvm({program.main}, schedule.target(), "o"));
  // The preparation runs on this machine, whatever CPU the network is for.
  if (program.prepare.body) {
    result.prepare = compile_llvm({program.prepare}, Target::host());
    result.prepare_key = key_of(program.prepare, result.persistent, name);
  }
  return result;
}

/// Writes an export file by file into the scratch folder.
class CpuExporter {
 public:
  CpuExporter(const ExportRequest& request, const ExportScratch& scratch)
      : request_(request), scratch_(scratch) {}

  ExportedInterface write() {
    plan_.interface = interface_of(request_);
    plan_.features = features();
    place();
    LinkInput link;
    link.objects = compile();
    write_weights();
    link.c_file = scratch_.file("tables.c");
    link.exported_prefix = request_.name + "_";
    write_file_atomic(link.c_file, tables_text(plan_));
    link_library(link, scratch_.path(), scratch_.file("library"));
    write_file_atomic(scratch_.file("header"), header_text(plan_.interface, false));
    return plan_.interface;
  }

 private:
  /// The features of the CPU that any kernel uses.
  std::vector<std::string> features() const {
    std::set<std::string> all;
    for (const Schedule& s : request_.schedules) {
      for (std::string& feature : codegen::code_features(s.target()))
        all.insert(std::move(feature));
    }
    return {all.begin(), all.end()};
  }

  /// Compiles all kernels of all tasks. Returns the paths of their objects.
  std::vector<std::string> compile() {
    struct Job {
      size_t task, variant;
      std::string name, object;
    };
    std::vector<Job> jobs;
    tasks_.resize(request_.variants.size());
    for (size_t t = 0; t < tasks_.size(); ++t) {
      tasks_[t].resize(request_.variants[t].schedules.size());
      for (size_t v = 0; v < tasks_[t].size(); ++v) {
        const std::string number = std::to_string(t) + (v > 0 ? "_" + std::to_string(v) : "");
        jobs.push_back({t, v, "heddle_task" + number, scratch_.file("task" + number + ".o")});
      }
    }
    for_each_task(jobs.size(), [&](size_t j) {
      const auto& [task, variant, name, object] = jobs[j];
      tasks_[task][variant] = compile_one(request_.variants[task].schedules[variant],
                                          request_.network.sizes(), name, object);
    });
    std::vector<std::string> objects;
    for (const Job& job : jobs) objects.push_back(job.object);
    return objects;
  }

  void place() {
    PlacedSteps placed = place_steps(request_, request_.network.nodes());
    plan_.interface.arena_bytes = placed.arena_bytes;
    plan_.interface.steps = static_cast<int>(placed.places.size());
    for (size_t n = 0; n < placed.places.size(); ++n) {
      const auto task = static_cast<size_t>(request_.network.nodes()[n].task);
      const TaskVariants& made = request_.variants[task];
      ExportedStep step{request_.network.tasks()[task].name, {}, made.tree};
      step.variants.resize(made.schedules.size(), {"", placed.places[n]});
      plan_.steps.push_back(std::move(step));
    }
    constants_ = std::move(placed.constants);
  }

  void write_weights() {
    WeightsFile weights(scratch_.file("weights"));
    for (size_t n = 0; n < plan_.steps.size(); ++n) {
      const auto task = static_cast<size_t>(request_.network.nodes()[n].task);
      for (size_t v = 0; v < plan_.steps[n].variants.size(); ++v)
        complete(plan_.steps[n].variants[v], tasks_[task][v], constants_[n], weights);
    }
    weights.finish();
    plan_.interface.weights_bytes = weights.bytes();
    plan_.interface.weights_hash = weights.hash();
  }

  /// Adds the function, and the places of weights and sizes. `bound`: the constants of the step.
  void complete(ExportedVariant& variant, const CompiledTask& compiled,
                const std::map<size_t, NDArray>& bound, WeightsFile& weights) {
    variant.entry = compiled.entry;
    std::vector<ExportedPlace>& places = variant.places;
    for (const auto& [position, array] : bound) {
      if (!compiled.read[position]) continue;
      const auto [known, is_new] = raw_.try_emplace(array.data(), 0);
      if (is_new) known->second = weights.add(array.data(), array.bytes());
      places[position] = {HEDDLE_WEIGHTS, known->second};
    }
    std::pair<std::string, std::vector<const void*>> key{compiled.prepare_key, {}};
    for (const int position : compiled.constants) {
      const auto at = bound.find(static_cast<size_t>(position));
      HEDDLE_ICHECK(at != bound.end(), "a constant of a step has no values");
      key.second.push_back(at->second.data());
    }
    auto [known, is_new] = prepared_.try_emplace(std::move(key));
    if (is_new) known->second = prepare(compiled, known->first.second, weights);
    for (const int64_t at : known->second) places.push_back({HEDDLE_WEIGHTS, at});
    for (const int64_t size : compiled.sizes) places.push_back({HEDDLE_SIZE, size});
  }

  static std::vector<int64_t> prepare(const CompiledTask& task,
                                      const std::vector<const void*>& constants,
                                      WeightsFile& weights) {
    if (task.prepare.entries.empty()) return {};
    std::vector<NDArray> made;
    std::vector<void*> pointers;
    for (const void* c : constants) pointers.push_back(const_cast<void*>(c));
    for (const KernelArg& arg : task.persistent) {
      // Zeros make elements that the preparation does not write (padding) equal in every export.
      made.push_back(NDArray::zeros(arg.shape, arg.dtype));
      pointers.push_back(made.back().data());
    }
    if (task.prepare.entries[0](pointers.data()) != 0)
      throw_runtime_error("out of memory while constants were prepared");
    std::vector<int64_t> places;
    for (const NDArray& array : made) places.push_back(weights.add(array.data(), array.bytes()));
    return places;
  }

  const ExportRequest& request_;
  const ExportScratch& scratch_;
  ExportedPlan plan_;
  std::vector<std::vector<CompiledTask>> tasks_;      ///< the kernels of each task
  std::vector<std::map<size_t, NDArray>> constants_;  ///< for each step, constants by position
  std::map<const void*, int64_t> raw_;  ///< unprepared weights, by the address of their elements
  /// Where prepared weights are, by what prepares them and the addresses of the constants.
  std::map<std::pair<std::string, std::vector<const void*>>, std::vector<int64_t>> prepared_;
};

}  // namespace

ExportedInterface write_for_cpu(const ExportRequest& request, const ExportScratch& scratch) {
  return CpuExporter(request, scratch).write();
}

}  // namespace heddle::network
