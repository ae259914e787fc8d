// Writes a network as a library: the code of its kernels, its weights, and the program that the
// runtime in the library reads. For a CPU weights are prepared now. For a GPU the library prepares
// them when it is opened, because the exporting machine may have no GPU.
#include <algorithm>
#include <map>
#include <set>

#include "codegen/code_features.h"
#include "heddle/support/error.h"
#include "network/cut/horizontal.h"
#include "network/export/compiled_kernel.h"
#include "network/export/export_parts.h"
#include "network/export/link_library.h"
#include "network/export/weights_file.h"
#include "runtime/pool/for_each_task.h"
#include "support/files/file.h"
#include "support/out_of_memory.h"

namespace heddle::network {
namespace {

int64_t bytes_of(const KernelArg& arg) {
  int64_t bytes = arg.dtype.bytes();
  for (const int64_t extent : arg.shape) bytes *= extent;
  return bytes;
}

/// Writes an export file by file into the scratch folder.
class Exporter {
 public:
  Exporter(const ExportRequest& request, const ExportScratch& scratch)
      : request_(request),
        scratch_(scratch),
        steps_(request.network, request.target(), request.variants),
        weights_(scratch.file("weights")) {}

  LibrarySource write() {
    library_ = interface_of(request_);
    if (!library_.for_gpu) program_.features = features();
    compile();
    const PlacedSteps placed =
        place_steps(request_, steps_.nodes().steps, steps_.nodes().loops, scratch_of_steps());
    program_.arena_bytes = placed.arena_bytes;
    program_.views = placed.views;
    program_.turns = placed.turns;
    program_.loops = placed.loops;
    for (size_t n = 0; n < placed.places.size(); ++n) add_step(n, placed);
    weights_.finish();
    program_.weights_bytes = weights_.bytes();
    program_.weights_hash = weights_.hash();
    link();
    write_file_atomic(scratch_.file("header"), header_text(library_));
    return std::move(library_);
  }

 private:
  using Constants = std::map<size_t, NDArray>;  // of a step, by position

  /// The features of the CPU that any kernel uses.
  std::vector<std::string> features() const {
    std::set<std::string> all;
    for (const Schedule& s : request_.schedules) {
      for (std::string& feature : codegen::code_features(s.target()))
        all.insert(std::move(feature));
    }
    return {all.begin(), all.end()};
  }

  /// Compiles the kernels of all tasks, then those that tasks share.
  void compile() {
    struct Job {
      size_t task, variant;
    };
    std::vector<Job> jobs;
    for (size_t t = 0; t < request_.variants.size(); ++t) {
      first_.push_back(jobs.size());
      if (!steps_.needs(static_cast<int>(t))) continue;
      for (size_t v = 0; v < request_.variants[t].schedules.size(); ++v) jobs.push_back({t, v});
    }
    first_joined_ = jobs.size();
    kernels_.resize(jobs.size() + steps_.joined_kernels());
    for_each_task(kernels_.size(), [&](size_t k) {
      const std::string file = scratch_.file("kernel" + std::to_string(k) + ".o");
      if (k >= jobs.size()) {
        kernels_[k] = compile_joined(steps_, k - jobs.size(), file);
        kernels_[k].name = steps_.name(k - jobs.size());
        return;
      }
      const auto [task, variant] = jobs[k];
      kernels_[k] =
          compile_kernel(request_.variants[task].schedules[variant], k, task + variant, file);
      kernels_[k].name = request_.network.tasks()[task].name;
    });
    for (const CompiledKernel& k : kernels_) {
      library_.code.push_back(library_.for_gpu ? k.file : k.entry);
      ExportedKernel& made = program_.kernels.emplace_back();
      made.name = k.name;
      made.args = static_cast<int>(k.read.size());
      if (!k.gpu) continue;
      made.gpu = k.gpu;
      made.constants = k.constants;
      for (const KernelArg& p : k.persistent) made.prepared_bytes.push_back(bytes_of(p));
    }
  }

  /// The first kernel of a step, and the number of them.
  std::pair<size_t, size_t> kernels_of(size_t step) const {
    const auto task = static_cast<size_t>(steps_.nodes().steps[step].task);
    if (const NetworkSteps::Joined* joined = steps_.joined_of(step))
      return {first_joined_ + joined->first, joined->sizes.combinations.size()};
    return {first_[task], request_.variants[task].schedules.size()};
  }

  /// The bytes of the workspaces of each step.
  std::vector<int64_t> scratch_of_steps() const {
    std::vector<int64_t> bytes(steps_.nodes().steps.size());
    for (size_t s = 0; s < bytes.size(); ++s) {
      const auto [first, count] = kernels_of(s);
      for (size_t k = first; k < first + count; ++k) {
        if (kernels_[k].gpu) bytes[s] = std::max(bytes[s], cuda::scratch_bytes(*kernels_[k].gpu));
      }
    }
    return bytes;
  }

  void add_step(size_t n, const PlacedSteps& placed) {
    const NetworkSteps::Joined* joined = steps_.joined_of(n);
    ExportedStep step;
    const auto [first, count] = kernels_of(n);
    for (size_t v = 0; v < count; ++v) {
      ExportedVariant& made =
          step.variants.emplace_back(variant(first + v, placed.places[n], placed.constants[n]));
      if (placed.scratch[n].where != ProgramPlace::Nothing)
        made.places.push_back(placed.scratch[n]);
    }
    step.selector = joined
                        ? joined->sizes.tree
                        : request_.variants[static_cast<size_t>(steps_.nodes().steps[n].task)].tree;
    program_.steps.push_back(std::move(step));
  }

  /// Adds the places of weights and sizes.
  ExportedVariant variant(size_t k, std::vector<ProgramPlace> places, const Constants& constants) {
    const CompiledKernel& kernel = kernels_[k];
    const auto is_prepared = [&](size_t position) {
      const std::vector<int>& list = kernel.constants;
      return std::find(list.begin(), list.end(), static_cast<int>(position)) != list.end();
    };
    for (const auto& [position, array] : constants) {
      if (kernel.read[position] || (kernel.gpu && is_prepared(position)))
        places[position] = {ProgramPlace::Array, array_of(array)};
    }
    if (!kernel.gpu && !kernel.persistent.empty()) {
      const std::vector<ProgramPlace> prepared = prepared_of(k, constants);
      places.insert(places.end(), prepared.begin(), prepared.end());
    }
    const std::vector<Var>& all = request_.network.sizes();
    for (const Var& size : kernel.sizes) {
      const auto at = std::find_if(all.begin(), all.end(),
                                   [&](const Var& of_network) { return of_network.same_as(size); });
      HEDDLE_ICHECK(at != all.end(), "a task has sizes of its network");
      places.push_back({ProgramPlace::Size, at - all.begin()});
    }
    return {static_cast<int>(k), std::move(places)};
  }

  /// The buffers that the kernel prepares of these constants, for a CPU.
  const std::vector<ProgramPlace>& prepared_of(size_t k, const Constants& constants) {
    std::pair<std::string, std::vector<const void*>> key{kernels_[k].prepare_key, {}};
    for (const int position : kernels_[k].constants) {
      const auto at = constants.find(static_cast<size_t>(position));
      HEDDLE_ICHECK(at != constants.end(), "a constant of a step has no values");
      key.second.push_back(at->second.data());
    }
    const auto [known, is_new] = prepared_.try_emplace(std::move(key));
    if (is_new) known->second = prepare_now(kernels_[k], known->first.second);
    return known->second;
  }

  std::vector<ProgramPlace> prepare_now(const CompiledKernel& kernel,
                                        const std::vector<const void*>& constants) {
    std::vector<NDArray> made;
    std::vector<void*> pointers;
    for (const void* c : constants) pointers.push_back(const_cast<void*>(c));
    for (const KernelArg& arg : kernel.persistent) {
      // Zeros make elements that the preparation does not write (padding) equal in every export.
      made.push_back(NDArray::zeros(arg.shape, arg.dtype));
      pointers.push_back(made.back().data());
    }
    if (kernel.prepare.entries[0](pointers.data()) != 0)
      throw internal::OutOfMemory("out of memory while constants were prepared");
    std::vector<ProgramPlace> places;
    for (const NDArray& array : made) places.push_back({ProgramPlace::Array, add_array(array)});
    return places;
  }

  /// The number of the array. Each array is stored once.
  int64_t array_of(const NDArray& array) {
    const auto known = arrays_.find(array.data());
    if (known != arrays_.end()) return known->second;
    return arrays_[array.data()] = add_array(array);
  }

  int64_t add_array(const NDArray& array) {
    program_.arrays.push_back({weights_.add(array.data(), array.bytes()), array.bytes()});
    return std::ssize(program_.arrays) - 1;
  }

  void link() const {
    LinkInput link{.c_file = scratch_.file("library.c"), .exported_prefix = request_.name + "_"};
    for (const CompiledKernel& k : kernels_) {
      if (!k.gpu) link.objects.push_back(k.file);
    }
    write_file_atomic(link.c_file, source_text(library_));
    link_library(link, scratch_.path(), scratch_.file("library"));
  }

  const ExportRequest& request_;
  const ExportScratch& scratch_;
  const NetworkSteps steps_;
  WeightsFile weights_;
  LibrarySource library_;
  ExportedProgram& program_ = library_.program;
  std::vector<CompiledKernel> kernels_;    ///< of all tasks, then those that tasks share
  std::vector<size_t> first_;              ///< the first kernel of each task
  size_t first_joined_ = 0;                ///< the first kernel that tasks share
  std::map<const void*, int64_t> arrays_;  ///< by the address of the elements
  /// Where prepared buffers are, by what prepares them and the addresses of the constants.
  std::map<std::pair<std::string, std::vector<const void*>>, std::vector<ProgramPlace>> prepared_;
};

}  // namespace

LibrarySource write_library(const ExportRequest& request, const ExportScratch& scratch) {
  return Exporter(request, scratch).write();
}

}  // namespace heddle::network
