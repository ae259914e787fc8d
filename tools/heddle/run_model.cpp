// heddle run: runs an ONNX model on arrays from files, or on random ones. A model with a range of
// sizes is built once and runs at several of them.
#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <optional>

#include "commands.h"
#include "common/model_plan.h"
#include "common/output_file.h"
#include "common/run_sizes.h"
#include "heddle/dag/instance.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "network/race/call_timer.h"
#include "subjects/arguments.h"
#include "subjects/input_file.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"
#include "support/edit_distance.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

// "NAME=FILE", or "FILE" where the model has one input. `unread` are names that may be given, too.
std::map<std::string, std::string> files_by_name(const std::vector<std::string>& texts,
                                                 const std::vector<std::string>& names,
                                                 const std::string& what,
                                                 const std::vector<std::string>& unread = {}) {
  std::map<std::string, std::string> files;
  for (const std::string& text : texts) {
    const size_t sign = text.find('=');
    std::string name = sign == std::string::npos ? "" : text.substr(0, sign);
    if (sign == std::string::npos && names.size() == 1) name = names[0];
    const auto is_in = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    if (!is_in(names) && !is_in(unread)) {
      std::string hint = did_you_mean(name, names);
      if (!hint.empty()) hint += " ";
      throw_user_error("'" + text + "' names no " + what + " of the model", {},
                       hint + "write NAME=FILE.npy; the " + what + "s are " + join(names));
    }
    if (!files.emplace(name, sign == std::string::npos ? text : text.substr(sign + 1)).second)
      throw_user_error(what + " '" + name + "' is given twice");
  }
  return files;
}

std::string text_of(const std::string& name, const NDArray& array) {
  return name + " " + describe(array);
}

/// Arrays for one call.
struct Run {
  std::string sizes;  ///< "batch = 1, seq = 17"; empty for a model of constant extents
  std::vector<NDArray> inputs, outputs;
};

using Files = std::map<std::string, std::string>;

/// The arrays of the model's inputs, from files or random. `tensors`: the inputs at the sizes.
std::vector<NDArray> read_inputs(const OnnxModel& model, const std::vector<Tensor>& tensors,
                                 const Files& files, const Request& options) {
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    const std::string& name = model.input_names[i];
    const auto file = files.find(name);
    if (file == files.end()) {
      arrays.push_back(NDArray::random(t.extents(), t.dtype(), options.seed + i));
      std::cout << "input   " << text_of(name, arrays.back()) << ", random\n";
      continue;
    }
    NDArray array = NDArray::load(file->second);
    if (array.shape() != t.extents() || array.dtype() != t.dtype()) {
      const NDArray wanted = NDArray::empty(t.extents(), t.dtype());
      throw_user_error("'" + file->second + "' holds " + describe(array) + ", and input '" + name +
                       "' is " + describe(wanted));
    }
    std::cout << "input   " << text_of(name, array) << ", of " << file->second << "\n";
    arrays.push_back(std::move(array));
  }
  return arrays;
}

/// The size of `d` that the shape of an input's file gives.
std::optional<int64_t> size_in_files(const OnnxModel& model, const Files& files, const Dim& d) {
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const auto file = files.find(model.input_names[i]);
    if (file == files.end()) continue;
    const Extents shape = NDArray::load(file->second).shape();
    const Shape& declared = model.inputs[i].shape();
    for (size_t axis = 0; axis < declared.size() && shape.size() == declared.size(); ++axis) {
      const std::optional<ScaledSize> size = as_scaled_size(declared[axis]);
      if (size && size->size.same_as(d.variable()))
        return shape[axis] / size->factor * d.multiple();
    }
  }
  return std::nullopt;
}

/// The sizes of each call of a model over ranges: those of --sizes, or those of the files.
std::vector<std::vector<int64_t>> sizes_of_runs(const OnnxModel& model, const Files& files,
                                                const Request& options) {
  if (files.empty() || !options.sizes.empty()) return run_sizes(options.sizes, model.dims);
  std::vector<int64_t> sizes;
  for (const Dim& d : model.dims) {
    const std::optional<int64_t> size = size_in_files(model, files, d);
    if (!size)
      throw_user_error("no file of an input has the dimension '" + d.name() + "'", {},
                       "name the sizes of the run, with --sizes");
    sizes.push_back(*size);
  }
  return {sizes};
}

/// The arrays of a call at these sizes, which are none for a model of constant extents.
Run make_run(const OnnxModel& model, const std::vector<int64_t>& sizes, const Files& files,
             const Request& options) {
  std::vector<SizeValue> at;
  Run run;
  for (size_t i = 0; i < sizes.size(); ++i) {
    at.emplace_back(model.dims[i], sizes[i]);
    run.sizes += (i ? ", " : "") + model.dims[i].name() + " = " + std::to_string(sizes[i]);
  }
  if (!run.sizes.empty()) std::cout << "sizes   " << run.sizes << "\n";
  const Instance here = at_sizes(model.args(), at);
  run.inputs = read_inputs(model, here.of(model.inputs), files, options);
  for (const Tensor& t : here.of(model.outputs))
    run.outputs.push_back(NDArray::zeros(t.extents(), t.dtype()));
  return run;
}

std::vector<Run> make_runs(const OnnxModel& model, const Request& options) {
  const Files files = files_by_name(options.inputs, model.input_names, "input", model.unread);
  for (const auto& [name, path] : files) check_file(path);
  for (const std::string& name : model.unread) {
    if (files.count(name)) std::cout << "input   " << name << ": no output depends on it\n";
  }
  if (model.dims.empty()) {
    if (!options.sizes.empty())
      throw_user_error("--sizes is for a model with a range, and no dimension has one", {},
                       "give one a range, such as --dims batch=1..8");
    return {make_run(model, {}, files, options)};
  }
  std::vector<Run> runs;
  for (const std::vector<int64_t>& sizes : sizes_of_runs(model, files, options))
    runs.push_back(make_run(model, sizes, files, options));
  if (runs.size() > 1 && !options.outputs.empty())
    throw_user_error(
        "--output writes one file, and " + std::to_string(runs.size()) + " sizes are run", {},
        "name one size, such as --sizes 17");
  return runs;
}

// "-0.31 .. 4.2, mean 0.01": shows at a glance whether the result is plausible.
std::string summary(const NDArray& array) {
  double low = std::numeric_limits<double>::infinity(), high = -low, total = 0;
  for (int64_t i = 0; i < array.size(); ++i) {
    const double value = array.get(i);
    low = std::min(low, value);
    high = std::max(high, value);
    total += value;
  }
  char text[96];
  std::snprintf(text, sizeof text, "%.4g .. %.4g, mean %.4g", low, high,
                total / static_cast<double>(std::max<int64_t>(1, array.size())));
  return text;
}

// ", 28 of them kept on the disk": the kernels that the build did not have to compile.
std::string kept_text(const NetworkBuildReport& report) {
  std::string text;
  if (report.from_disk > 0)
    text += ", " + std::to_string(report.from_disk) + " of them kept on the disk";
  if (report.damaged > 0)
    text += ", " + std::to_string(report.damaged) + " compiled again: their files were damaged";
  return text;
}

/// "settled conv2d f32[1,8,8,64]: rule (12 us, plan 15 us), measured".
void print_picks(const std::vector<PickRow>& picks, size_t nodes) {
  std::cout << "unsure  " << picks.size() << " of " << nodes << " nodes\n";
  for (const PickRow& row : picks) {
    const bool open = row.reason == PickReason::Static;
    std::cout << (open ? "open    " : "settled ") << row.kernel << ": " << row.picked;
    for (const VariantTimes& v : row.variants) {
      if (!v.seconds.empty()) std::cout << ", " << v.name << " " << format_time(v.median());
    }
    std::cout << (open ? ", not settled within these calls"
                       : std::string(", ") + to_string(row.reason))
              << "\n";
  }
}

/// Makes the call, prints and writes what it computes, and times it.
void call(const OnnxModel& model, const NetworkKernel& kernel, const Run& run,
          const Files& output_files, const Request& options, const Target& target) {
  const std::vector<NDArray> arrays = model.arrays(run.inputs, run.outputs);
  const Timer first;
  kernel.call(arrays);
  const double first_s = first.elapsed_s();
  if (!run.sizes.empty()) std::cout << "sizes   " << run.sizes << "\n";
  for (size_t o = 0; o < run.outputs.size(); ++o) {
    std::cout << "output  " << text_of(model.output_names[o], run.outputs[o]) << ": "
              << summary(run.outputs[o]);
    const auto file = output_files.find(model.output_names[o]);
    if (file != output_files.end()) {
      run.outputs[o].save(file->second);
      std::cout << ", in " << file->second;
    }
    std::cout << "\n";
  }
  std::cout << "a call  ";
  if (options.seconds > 0) {
    const Measurement m = measure([&] { kernel.call(arrays); }, options.seconds);
    std::cout << format_time(m.median_s) << " (median of " << m.samples_s.size() << ", least "
              << format_time(m.min_s) << "), " << to_string(target) << ", " << target.cores
              << (target.cores == 1 ? " thread" : " threads") << "; ";
  }
  std::cout << "first call " << format_time(first_s) << "\n";
}

}  // namespace

int run_model(const Request& options) {
  if (!is_model(options.subject))
    throw_user_error("'" + options.subject + "' is no model", {},
                     "name a file that ends in .onnx, such as net.onnx:batch=1; `heddle bench` "
                     "times kernels");
  const Target target = target_of(options.target, options.threads);
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not run on this machine");
  const ScopedThreads threads(network::race_threads(target));
  AutoSchedulerOptions scheduler = current_auto_scheduler_options();
  if (!target.is_cuda()) scheduler.threads = target.cores;
  const AutoSchedulerOptionsScope scope(scheduler);

  const Timer importing;
  const OnnxModel model = import_subject(options.subject, dtype_of(options.dtype), options.batch);
  const double import_s = importing.elapsed_s();
  const auto output_files = files_by_name(options.outputs, model.output_names, "output");
  for (const auto& [name, path] : output_files) check_writable(path);
  const std::vector<Run> runs = make_runs(model, options);

  const Timer building;
  const Network network = model_network(options, model.outputs, target, model.updates);
  const NetworkKernel kernel =
      options.settle ? network.build_settling(model.args()) : network.build(model.args());
  const double build_s = building.elapsed_s();
  std::cout << "import " << format_time(import_s) << ", compile " << format_time(build_s) << " ("
            << network.nodes().size() << " nodes, " << kernel.build_report().kernels << " kernels"
            << kept_text(kernel.build_report()) << ")\n";
  for (const Run& run : runs) call(model, kernel, run, output_files, options, target);
  if (options.settle) print_picks(kernel.picks(), network.nodes().size());
  return 0;
}

}  // namespace heddle::cli
