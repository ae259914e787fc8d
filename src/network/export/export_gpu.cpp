// Exports a network for a GPU as a library: a cubin for each task, and weights without preparation.
// The library prepares them on the GPU when it is opened, because the exporting machine may have no
// GPU.
#include <algorithm>
#include <map>
#include <set>

#include "driver/build_cuda.h"
#include "heddle/support/error.h"
#include "network/cut/horizontal.h"
#include "network/cut/task_schedules.h"
#include "network/export/export_parts.h"
#include "network/export/link_library.h"
#include "network/export/weights_file.h"
#include "runtime/exported/network.h"
#include "runtime/pool/for_each_task.h"
#include "support/file.h"

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
      : request_(request),
        scratch_(scratch),
        steps_(request.network, request.target(), request.variants) {}

  ExportedInterface write() {
    plan_.interface = interface_of(request_);
    const PlacedSteps placed = place_steps(request_, steps_.nodes().steps);
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
  /// A kernel of a task.
  struct Compiled {
    KernelCode code;
    std::vector<int64_t> sizes;  ///< for each size that it takes, its number in the network
  };

  /// Compiles all kernels of all tasks.
  void compile() {
    struct Job {
      size_t task, variant;
    };
    std::vector<Job> jobs;
    for (size_t t = 0; t < request_.variants.size(); ++t) {
      first_.push_back(static_cast<int>(jobs.size()));
      if (!steps_.needs(static_cast<int>(t))) continue;
      for (size_t v = 0; v < request_.variants[t].schedules.size(); ++v) jobs.push_back({t, v});
    }
    first_joined_ = static_cast<int>(jobs.size());
    compiled_.resize(jobs.size() + steps_.joined().size());
    for_each_task(compiled_.size(), [&](size_t j) {
      if (j >= jobs.size()) {
        const NetworkSteps::Program joined = steps_.program(j - jobs.size());
        compiled_[j].code =
            compile_cuda_code(joined.program, joined.args, joined.args.size(), steps_.gpu());
        return;
      }
      const auto& [task, variant] = jobs[j];
      const Schedule& schedule = request_.variants[task].schedules[variant];
      std::vector<Var> sizes;
      compiled_[j].code =
          compile_cuda_code(schedule, task_args(schedule),
                            {.name = "network_task" + std::to_string(task + variant)}, &sizes);
      for (const Var& size : sizes)
        compiled_[j].sizes.push_back(number_of(request_.network.sizes(), size));
    });
    for (size_t j = 0; j < compiled_.size(); ++j) {
      add_kernel(j < jobs.size() ? request_.network.tasks()[jobs[j].task].name
                                 : steps_.name(j - jobs.size()),
                 compiled_[j].code);
    }
  }

  void add_kernel(const std::string& name, const KernelCode& code) {
    ExportedGpuPlan::Kernel kernel{
        .name = name,
        .code_file = scratch_.file("code" + std::to_string(plan_.kernels.size())),
        .program = *code.cuda,
        .args = static_cast<int>(code.args.size()),
        .prepared_bytes = {}};
    HEDDLE_ICHECK(code.bound.empty(), "a task supplies no constants itself");
    for (const KernelArg& p : code.persistent) kernel.prepared_bytes.push_back(bytes_of(p));
    write_file_atomic(kernel.code_file, code.cuda->cubin);
    plan_.kernels.push_back(std::move(kernel));
  }

  void write_weights(const PlacedSteps& placed) {
    WeightsFile weights(scratch_.file("weights"));
    for (size_t n = 0; n < placed.places.size(); ++n) {
      const auto task = static_cast<size_t>(steps_.nodes().steps[n].task);
      const TaskVariants& made = request_.variants[task];
      const int j = steps_.joined_of(n);
      plan_.steps.push_back({{}, j < 0 ? made.tree : SizeTree()});
      for (int v = 0; v < (j < 0 ? static_cast<int>(made.schedules.size()) : 1); ++v) {
        ExportedGpuPlan::Variant variant{j < 0 ? first_[task] + v : first_joined_ + j,
                                         placed.places[n]};
        complete(variant, placed.constants[n], weights);
        plan_.steps.back().variants.push_back(std::move(variant));
      }
    }
    weights.finish();
    plan_.interface.weights_bytes = weights.bytes();
    plan_.interface.weights_hash = weights.hash();
  }

  /// Adds the places of weights and sizes. `constants`: those of the step.
  void complete(ExportedGpuPlan::Variant& variant, const std::map<size_t, NDArray>& constants,
                WeightsFile& weights) {
    const Compiled& compiled = compiled_[static_cast<size_t>(variant.kernel)];
    add_weights(variant, compiled.code, constants, weights);
    for (const int64_t size : compiled.sizes) variant.places.push_back({HEDDLE_SIZE, size});
  }

  void add_weights(ExportedGpuPlan::Variant& variant, const KernelCode& code,
                   const std::map<size_t, NDArray>& constants, WeightsFile& weights) {
    const std::set<int> read = buffers_of(code.cuda->launches);
    for (const auto& [position, array] : constants) {
      if (read.count(static_cast<int>(position)) == 0) continue;
      variant.places[position] = {HEDDLE_ARRAY, array_of(array, weights)};
    }
    if (code.persistent.empty()) return;
    const std::set<int> needed = buffers_of(code.cuda->prepare);
    std::vector<int> arrays(code.args.size(), -1);
    for (const auto& [position, array] : constants) {
      if (needed.count(static_cast<int>(position)) != 0)
        arrays[position] = array_of(array, weights);
    }
    const auto [known, is_new] = prepared_.try_emplace({variant.kernel, arrays}, num_prepared_);
    if (is_new) {
      plan_.preparations.push_back({variant.kernel, arrays});
      num_prepared_ += static_cast<int64_t>(code.persistent.size());
    }
    for (size_t p = 0; p < code.persistent.size(); ++p)
      variant.places.push_back({HEDDLE_PREPARED, known->second + static_cast<int64_t>(p)});
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
  std::vector<Compiled> compiled_;  ///< the kernels of all tasks, one after the other
  const NetworkSteps steps_;
  std::vector<int> first_;             ///< the first kernel of each task
  int first_joined_ = 0;               ///< the first kernel of tasks that share launches
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
