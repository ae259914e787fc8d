// heddle deploy: tunes a model, exports it with what was found, and checks the library.
#include <dlfcn.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>

#include "commands.h"
#include "common/model_plan.h"
#include "common/output_file.h"
#include "common/run_sizes.h"
#include "common/tolerance.h"
#include "heddle/dag/instance.h"
#include "heddle/network/plan.h"
#include "heddle/quantize/precision.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/race/call_timer.h"
#include "network/run/output_difference.h"
#include "options/parse_line.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"
#include "tune/interrupt.h"

namespace heddle::cli {
namespace {

constexpr int kWrong = 1;

/// The files of the folder.
struct Files {
  Files(const std::string& folder, const std::string& model_file)
      : name(identifier_of(model_file)),
        plan(folder + "/" + name + ".heddle"),
        log(folder + "/" + name + ".jsonl"),
        library(folder + "/lib" + name + ".so"),
        report(folder + "/report.html") {}
  std::string name, plan, log, library, report;
};

/// An exported library, loaded into this process.
class Library {
 public:
  Library(const std::string& path, const std::string& name)
      : name_(name), handle_(::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW)) {
    if (!handle_) throw_runtime_error(std::string("the library cannot be loaded: ") + ::dlerror());
    network_ = function<void*(const char*)>("open")(nullptr);
    if (!network_) fail();
  }
  ~Library() {
    if (network_) function<void(void*)>("close")(network_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// `sizes` are those of the call, of which there are at most two.
  void run(const std::vector<int64_t>& sizes, const std::vector<const void*>& inputs,
           const std::vector<void*>& outputs) const {
    using Arrays = const void* const*;
    int failed = 0;
    if (sizes.empty()) {
      failed = function<int(void*, Arrays, void* const*)>("run")(network_, inputs.data(),
                                                                 outputs.data());
    } else if (sizes.size() == 1) {
      failed = function<int(void*, int64_t, Arrays, void* const*)>("run")(
          network_, sizes[0], inputs.data(), outputs.data());
    } else {
      failed = function<int(void*, int64_t, int64_t, Arrays, void* const*)>("run")(
          network_, sizes[0], sizes[1], inputs.data(), outputs.data());
    }
    if (failed != 0) fail();
  }

 private:
  template <class F>
  F* function(const char* what) const {
    void* found = ::dlsym(handle_, (name_ + "_" + what).c_str());
    HEDDLE_ICHECK(found, std::string("an exported library has no function ") + what);
    return reinterpret_cast<F*>(found);
  }
  [[noreturn]] void fail() const {
    throw_runtime_error(std::string("the library does not run: ") +
                        function<const char*()>("error")());
  }

  std::string name_;
  void* handle_;
  void* network_ = nullptr;
};

/// The sizes of `dims` in the order of the network's, in which a library takes them.
std::vector<int64_t> in_order(const std::vector<Var>& of_network, const std::vector<Dim>& dims,
                              const std::vector<int64_t>& sizes) {
  std::vector<int64_t> out;
  for (const Var& v : of_network) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i].variable().same_as(v)) out.push_back(sizes[i]);
    }
  }
  return out;
}

/// Where outputs differ by more than the tolerance; empty where they do not.
std::string beyond(double tolerance, std::span<const NDArray> got, std::span<const NDArray> want) {
  for (size_t o = 0; o < want.size(); ++o) {
    const double error = output_error(got[o], want[o]);
    if (!(error <= tolerance))
      return "output " + std::to_string(o) + ": the error " + Json(error).dump() +
             " is above the tolerance";
  }
  return "";
}

/// Copies the arrays of a call of --data, one that did not choose, over drawn ones.
void take_data(const std::vector<std::vector<NDArray>>& calls, std::span<const NDArray> arrays) {
  if (calls.size() < 2) return;
  for (size_t i = 0; i < calls[1].size(); ++i) NDArray(arrays[i]).copy_from(calls[1][i]);
}

/// Calls of the library and of naive kernels of the graph as declared, on equal inputs: random ones,
/// or of the data. Returns where they differ; empty where they do not.
std::string difference(const Request& o, const OnnxModel& model, const Target& target,
                       const Files& files) {
  const PassOptions passes = parse_passes(load_plan(files.plan).passes);
  const Network reference(model.outputs, target, current_auto_scheduler_options(),
                          parse_passes("none"), model.updates);
  const NetworkKernel naive = reference.build(model.args(), reference.naive_schedules());
  const Library library(files.library, files.name);
  std::vector<std::vector<int64_t>> runs = {{}};
  if (!model.dims.empty()) runs = run_sizes({}, model.dims);
  for (const std::vector<int64_t>& sizes : runs) {
    std::vector<SizeValue> at;
    std::string text;
    for (size_t i = 0; i < sizes.size(); ++i) {
      at.emplace_back(model.dims[i], sizes[i]);
      text += model.dims[i].name() + " = " + std::to_string(sizes[i]) + ", ";
    }
    const std::vector<Tensor> args = at_sizes(model.args(), at).outputs;
    const std::vector<NDArray> want = network::random_arrays(args);
    take_data(calls_of_data(o, reference), want);
    const std::vector<NDArray> got = network::host_copies(want);
    naive.call(want);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (size_t i = 0; i < args.size(); ++i) {
      if (i < model.inputs.size()) {
        inputs.push_back(got[i].data());
      } else {
        outputs.push_back(got[i].data());
      }
    }
    library.run(in_order(reference.sizes(), model.dims, sizes), inputs, outputs);
    const auto results = [&](const std::vector<NDArray>& arrays) {
      return network::results_of(naive, model.args(), arrays);
    };
    const std::string wrong =
        passes.types.empty()
            ? network::output_difference(reference.outputs(), results(got), results(want))
            : beyond(passes.tolerance, results(got), results(want));
    if (!wrong.empty()) return text + wrong;
  }
  return "";
}

int tune(const Request& o, const Files& files) {
  Request request = request_for("tune");
  request.dtype = o.dtype;
  request.threads = o.threads;
  request.target = o.target;
  request.subjects = {o.subject};
  request.budget = o.budget;
  request.until = o.until;
  request.log = files.log;
  request.output = files.plan;
  request.plan_of_others = true;
  request.tolerance = o.tolerance;
  request.data = o.data;
  request.types_json = o.types_json;
  return run_tune(request);
}

int export_plan(const Request& o, const Files& files) {
  Request options = request_for("export");
  options.subject = o.subject;
  options.dtype = o.dtype;
  options.threads = o.threads;
  options.target = o.target;
  options.plan = files.plan;
  options.output = o.output;
  return run_export(options);
}

}  // namespace

int run_deploy(const Request& o) {
  if (!is_model(o.subject))
    throw_user_error("'" + o.subject + "' is no ONNX file", {},
                     "name one that ends in .onnx, such as net.onnx:batch=1");
  const Target target = target_of(o.target, o.threads);
  const Files files(o.output, model_path(o.subject));
  std::error_code error;
  std::filesystem::create_directories(o.output, error);
  check_writable(files.library);
  const int tuned = tune(o, files);
  if (tuned == kInterrupted) return tuned;
  if (const int status = export_plan(o, files); status != 0) return status;
  Request report = request_for("report");
  report.logs = {files.log};
  report.output = files.report;
  run_report(report);
  if (!target.runs_here()) {
    std::cout << "the library was not checked: it does not run on this machine\n";
    return tuned;
  }
  const ScopedThreads threads(network::race_threads(target));
  const std::string wrong =
      difference(o, import_subject(o.subject, dtype_of(o.dtype)), target, files);
  if (!wrong.empty()) {
    std::cerr << "error: the library computes something else than the model: " << wrong << "\n";
    return kWrong;
  }
  std::cout << "the library was checked: it computes what naive schedules of the model compute\n";
  return tuned;
}

}  // namespace heddle::cli
