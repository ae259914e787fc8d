// heddle run: runs an ONNX model on arrays from files, or on random ones.
#include <algorithm>
#include <iostream>
#include <limits>
#include <map>

#include "commands.h"
#include "common/output_file.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/edit_distance.h"
#include "heddle/support/error.h"
#include "heddle/support/table.h"
#include "subjects/arguments.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"

namespace heddle::cli {
namespace {

// "NAME=FILE", or "FILE" where the model has one input.
std::map<std::string, std::string> files_by_name(const std::vector<std::string>& texts,
                                                 const std::vector<std::string>& names,
                                                 const std::string& what) {
  std::map<std::string, std::string> files;
  for (const std::string& text : texts) {
    const size_t sign = text.find('=');
    std::string name = sign == std::string::npos ? "" : text.substr(0, sign);
    if (sign == std::string::npos && names.size() == 1) name = names[0];
    if (std::find(names.begin(), names.end(), name) == names.end()) {
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

// The arrays of the model's inputs, from files or random.
std::vector<NDArray> read_inputs(const OnnxModel& model, const RunOptions& options) {
  const auto files = files_by_name(options.inputs, model.input_names, "input");
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const Tensor& t = model.inputs[i];
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

std::vector<NDArray> empty_outputs(const OnnxModel& model) {
  std::vector<NDArray> arrays;
  for (const Tensor& t : model.outputs) arrays.push_back(NDArray::zeros(t.extents(), t.dtype()));
  return arrays;
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

}  // namespace

int run_model(const RunOptions& options) {
  const Target target = target_of(options.target, options.threads);
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not run on this machine");
  const ScopedThreads threads(target.cores);
  AutoSchedulerOptions scheduler = current_auto_scheduler_options();
  if (!target.is_cuda()) scheduler.threads = target.cores;
  const AutoSchedulerOptionsScope scope(scheduler);

  const Timer importing;
  OnnxOptions onnx{.batch = options.batch, .precision = dtype_of(options.precision)};
  set_dims(onnx, options.dims);
  refuse_ranges(onnx);
  const OnnxModel model = import_onnx(options.model, onnx);
  const double import_s = importing.elapsed_s();
  const auto output_files = files_by_name(options.outputs, model.output_names, "output");
  for (const auto& [name, path] : output_files) check_writable(path);
  const std::vector<NDArray> inputs = read_inputs(model, options), outputs = empty_outputs(model);

  const Timer building;
  const Network network(model.outputs, target, current_auto_scheduler_options(),
                        parse_passes(options.passes));
  const NetworkKernel kernel = network.build(model.args());
  const double build_s = building.elapsed_s();
  const std::vector<NDArray> arrays = model.arrays(inputs, outputs);
  const Timer first;
  kernel.call(arrays);
  const double first_s = first.elapsed_s();

  for (size_t o = 0; o < outputs.size(); ++o) {
    std::cout << "output  " << text_of(model.output_names[o], outputs[o]) << ": "
              << summary(outputs[o]);
    const auto file = output_files.find(model.output_names[o]);
    if (file != output_files.end()) {
      outputs[o].save(file->second);
      std::cout << ", in " << file->second;
    }
    std::cout << "\n";
  }
  std::cout << "import " << format_time(import_s) << ", compile " << format_time(build_s) << " ("
            << network.nodes().size() << " nodes, " << network.tasks().size() << " kernels"
            << kept_text(kernel.build_report()) << "), first call " << format_time(first_s) << "\n";
  if (options.seconds > 0) {
    const Measurement m = measure([&] { kernel.call(arrays); }, options.seconds);
    std::cout << "a call  " << format_time(m.median_s) << " (median of " << m.samples_s.size()
              << ", least " << format_time(m.min_s) << "), " << to_string(target) << ", "
              << target.cores << (target.cores == 1 ? " thread\n" : " threads\n");
  }
  return 0;
}

}  // namespace heddle::cli
