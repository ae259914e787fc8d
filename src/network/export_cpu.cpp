// Exports a network for a CPU as a library: an object file for each task, and weights in prepared
// form.
#include <map>
#include <set>

#include "driver/program_args.h"
#include "heddle/codegen/llvm.h"
#include "heddle/driver/build.h"
#include "heddle/support/error.h"
#include "heddle/support/file.h"
#include "network/export_parts.h"
#include "network/for_each_task.h"
#include "network/link_library.h"
#include "network/task_schedules.h"
#include "network/weights_file.h"
#include "runtime/exported_network.h"
#include "target/cpu_table.h"

namespace heddle::network {
namespace {

/// A task as object code, and the part of it that runs now: the preparation of its constants.
struct CompiledTask {
  std::string entry;
  std::vector<bool> read;  ///< for each argument, whether the step reads or writes it
  std::vector<int> constants;
  std::vector<KernelArg> persistent;
  CompiledModule prepare;  ///< without entries there is nothing to prepare
};

CompiledTask compile_one(const Schedule& schedule, size_t task, const std::string& object) {
  const std::vector<Tensor> args = task_args(schedule);
  LoweredProgram program =
      lower_for_build(schedule, args, {.name = "heddle_task" + std::to_string(task)});
  CompiledTask result;
  result.entry = program.main.name;
  const std::set<const BufferNode*> used = touched_buffers(program.main.body);
  for (size_t i = 0; i < args.size(); ++i)
    result.read.push_back(used.count(program.main.args[i].get()) != 0);
  result.constants = program.constant_args;
  result.persistent = persistent_args(program);
  write_file_atomic(object, emit_llvm({program.main}, schedule.target(), "o"));
  // The preparation runs on this machine, whatever CPU the network is for.
  if (program.prepare.body) result.prepare = compile_llvm({program.prepare}, Target::host());
  return result;
}

/// Writes an export file by file into the scratch folder.
class CpuExporter {
 public:
  CpuExporter(const ExportRequest& request, const ExportScratch& scratch)
      : request_(request), scratch_(scratch) {}

  ExportedInterface write() {
    plan_.interface = interface_of(request_);
    plan_.features = internal::features_of(request_.target());
    place();
    LinkInput link;
    tasks_.resize(request_.schedules.size());
    for (size_t t = 0; t < tasks_.size(); ++t)
      link.objects.push_back(scratch_.file("task" + std::to_string(t) + ".o"));
    for_each_task(tasks_.size(), [&](size_t t) {
      tasks_[t] = compile_one(request_.schedules[t], t, link.objects[t]);
    });
    write_weights();
    link.c_file = scratch_.file("tables.c");
    link.exported_prefix = request_.name + "_";
    write_file_atomic(link.c_file, tables_text(plan_));
    link_library(link, scratch_.path(), scratch_.file("library"));
    write_file_atomic(scratch_.file("header"), header_text(plan_.interface, false));
    return plan_.interface;
  }

 private:
  void place() {
    PlacedSteps placed = place_steps(request_);
    plan_.interface.arena_bytes = placed.arena_bytes;
    plan_.interface.steps = static_cast<int>(placed.places.size());
    for (size_t n = 0; n < placed.places.size(); ++n) {
      const auto task = static_cast<size_t>(request_.network.nodes()[n].task);
      plan_.steps.push_back({request_.network.tasks()[task].name, "", std::move(placed.places[n])});
    }
    constants_ = std::move(placed.constants);
  }

  void write_weights() {
    WeightsFile weights(scratch_.file("weights"));
    for (size_t n = 0; n < plan_.steps.size(); ++n) {
      plan_.steps[n].entry = tasks_[static_cast<size_t>(request_.network.nodes()[n].task)].entry;
      add_weights(n, constants_[n], weights);
    }
    weights.finish();
    plan_.interface.weights_bytes = weights.bytes();
    plan_.interface.weights_hash = weights.hash();
  }

  void add_weights(size_t step, const std::map<size_t, NDArray>& bound, WeightsFile& weights) {
    const auto task = static_cast<size_t>(request_.network.nodes()[step].task);
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
  std::vector<CompiledTask> tasks_;
  std::vector<std::map<size_t, NDArray>> constants_;  ///< for each step, constants by position
  std::map<const void*, int64_t> raw_;  ///< unprepared weights, by the address of their elements
  std::map<std::pair<size_t, std::vector<const void*>>, std::vector<int64_t>> prepared_;
};

}  // namespace

ExportedInterface write_for_cpu(const ExportRequest& request, const ExportScratch& scratch) {
  return CpuExporter(request, scratch).write();
}

}  // namespace heddle::network
