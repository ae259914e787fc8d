// Exports a network for a GPU as a library: a cubin for each task, and weights without preparation.
// The library prepares them on the GPU when it is opened, because the exporting machine may have no
// GPU.
#include <algorithm>
#include <map>
#include <set>

#include "driver/build_cuda.h"
#include "heddle/support/error.h"
#include "heddle/support/file.h"
#include "network/export_parts.h"
#include "network/link_library.h"
#include "network/task_schedules.h"
#include "network/weights_file.h"
#include "runtime/exported_network.h"
#include "runtime/for_each_task.h"

namespace heddle::network {
namespace {

int64_t bytes_of(const KernelArg& arg) {
  int64_t bytes = arg.dtype.bytes();
  for (const int64_t extent : arg.shape) bytes *= extent;
  return bytes;
}

/// Writes an export file by file into the scratch folder.
class GpuExporter {
 public:
  GpuExporter(const ExportRequest& request, const ExportScratch& scratch)
      : request_(request), scratch_(scratch) {}

  ExportedInterface write() {
    plan_.interface = interface_of(request_);
    PlacedSteps placed = place_steps(request_);
    compile();
    write_weights(placed);
    plan_.interface.arena_bytes = placed.arena_bytes;
    plan_.interface.steps = static_cast<int>(plan_.steps.size());
    LinkInput link;
    link.c_file = scratch_.file("tables.c");
    link.exported_prefix = request_.name + "_";
    write_file_atomic(link.c_file, tables_text(plan_));
    link_library(link, scratch_.path(), scratch_.file("library"));
    write_file_atomic(scratch_.file("header"), header_text(plan_.interface, true));
    return plan_.interface;
  }

 private:
  void compile() {
    codes_.resize(request_.schedules.size());
    for_each_task(codes_.size(), [&](size_t t) {
      const Schedule& schedule = request_.schedules[t];
      codes_[t] = compile_cuda_code(schedule, task_args(schedule),
                                    {.name = "network_task" + std::to_string(t)});
    });
    for (size_t t = 0; t < codes_.size(); ++t) {
      const KernelCode& code = codes_[t];
      ExportedGpuPlan::Kernel kernel{.name = request_.network.tasks()[t].name,
                                     .code_file = scratch_.file("task" + std::to_string(t)),
                                     .program = *code.cuda,
                                     .args = static_cast<int>(code.args.size()),
                                     .prepared_bytes = {}};
      HEDDLE_ICHECK(code.bound.empty(), "a task supplies no constants itself");
      for (const KernelArg& p : code.persistent) kernel.prepared_bytes.push_back(bytes_of(p));
      write_file_atomic(kernel.code_file, code.cuda->cubin);
      plan_.kernels.push_back(std::move(kernel));
    }
  }

  void write_weights(PlacedSteps& placed) {
    WeightsFile weights(scratch_.file("weights"));
    for (size_t n = 0; n < placed.places.size(); ++n) {
      const int task = request_.network.nodes()[n].task;
      plan_.steps.push_back({task, std::move(placed.places[n])});
      add_weights(plan_.steps.back(), placed.constants[n], weights);
    }
    weights.finish();
    plan_.interface.weights_bytes = weights.bytes();
    plan_.interface.weights_hash = weights.hash();
  }

  void add_weights(ExportedGpuPlan::Step& step, const std::map<size_t, NDArray>& constants,
                   WeightsFile& weights) {
    const KernelCode& code = codes_[static_cast<size_t>(step.kernel)];
    const std::set<int> read = buffers_of(code.cuda->launches);
    for (const auto& [position, array] : constants) {
      if (read.count(static_cast<int>(position)) == 0) continue;
      step.places[position] = {HEDDLE_ARRAY, array_of(array, weights)};
    }
    if (code.persistent.empty()) return;
    const std::set<int> needed = buffers_of(code.cuda->prepare);
    std::vector<int> arrays(code.args.size(), -1);
    for (const auto& [position, array] : constants) {
      if (needed.count(static_cast<int>(position)) != 0)
        arrays[position] = array_of(array, weights);
    }
    const auto [known, is_new] = prepared_.try_emplace({step.kernel, arrays}, num_prepared_);
    if (is_new) {
      plan_.preparations.push_back({step.kernel, arrays});
      num_prepared_ += static_cast<int64_t>(code.persistent.size());
    }
    for (size_t p = 0; p < code.persistent.size(); ++p)
      step.places.push_back({HEDDLE_PREPARED, known->second + static_cast<int64_t>(p)});
  }

  static std::set<int> buffers_of(const std::vector<cuda::Launch>& launches) {
    std::set<int> all;
    for (const cuda::Launch& launch : launches) {
      all.insert(launch.buffers.begin(), launch.buffers.end());
      for (const cuda::TensorMap& map : launch.maps) all.insert(map.buffer);
    }
    return all;
  }

  /// The number of the array. Each array is stored once.
  int array_of(const NDArray& array, WeightsFile& weights) {
    const auto [known, is_new] =
        arrays_.try_emplace(array.data(), static_cast<int>(plan_.arrays.size()));
    if (is_new) plan_.arrays.push_back({weights.add(array.data(), array.bytes()), array.bytes()});
    return known->second;
  }

  const ExportRequest& request_;
  const ExportScratch& scratch_;
  ExportedGpuPlan plan_;
  std::vector<KernelCode> codes_;
  std::map<const void*, int> arrays_;  ///< keyed by the address of the elements
  std::map<std::pair<int, std::vector<int>>, int64_t>
      prepared_;              ///< the first prepared buffer, keyed by kernel and constants
  int64_t num_prepared_ = 0;  ///< number of prepared buffers
};

}  // namespace

ExportedInterface write_for_gpu(const ExportRequest& request, const ExportScratch& scratch) {
  return GpuExporter(request, scratch).write();
}

}  // namespace heddle::network
