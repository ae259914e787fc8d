// Lesson 6: tune a network.
//
// The network of lesson 3, which reads handwritten digits, this time not as one kernel: `Network`
// cuts it into tasks, each a convolution or a matrix product with what follows it, and `tune`
// spends the seconds it is given where they shorten the whole network most. What comes out is
// called like a kernel. It must compute what it did before: the same predictions, and the accuracy
// unchanged.
//
//   build/bin/tutorial_06_tune_a_network [seconds]      (8; or HEDDLE_TUTORIAL_SECONDS)
//   build/bin/tutorial_06_tune_a_network 30 cuda        on the GPU of this machine
#include <heddle/heddle.h>
#include <heddle/network/network.h>
#include <heddle/ops/ops.h>
#include <heddle/runtime/cuda.h>
#include <heddle/runtime/thread_pool.h>
#include <heddle/runtime/timer.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/budget.h"
#include "common/digits.h"
#include "common/expect.h"
#include "common/tensor_file.h"

using namespace heddle;
using namespace heddle::tutorials;

namespace {

// ---- the network -------------------------------------------------------------------------------

struct Digits {
  Tensor images, logits;
  std::vector<Tensor> weights;

  std::vector<Tensor> args() const {
    std::vector<Tensor> list{images};
    list.insert(list.end(), weights.begin(), weights.end());
    list.push_back(logits);
    return list;
  }
};

Digits declare_digits(const TensorFile& file) {
  Digits net;
  auto weight = [&](const std::string& name) {
    const std::vector<int64_t>& shape = file.at(name).shape;
    net.weights.push_back(constant_placeholder(Shape(shape.begin(), shape.end()), f32, name));
    return net.weights.back();
  };
  auto layer = [&](const std::string& name) {
    return std::pair{weight(name + ".weight"), weight(name + ".bias")};
  };
  const auto [filters1, bias1] = layer("conv1");
  const auto [filters2, bias2] = layer("conv2");
  const auto [dense1, dense_bias1] = layer("fc1");
  const auto [dense2, dense_bias2] = layer("fc2");
  net.images = placeholder({kBatch, 1, kSide, kSide}, f32, "images");
  Tensor x = ops::relu(ops::conv2d(net.images, filters1, {.padding = {1}}, bias1));
  x = ops::relu(ops::conv2d(x, filters2, {.padding = {1}}, bias2));
  x = ops::flatten(ops::max_pool(x, {.kernel = {2}}));
  x = ops::relu(ops::dense(x, dense1, dense_bias1));
  net.logits = ops::dense(x, dense2, dense_bias2);
  return net;
}

// ---- running it --------------------------------------------------------------------------------

// All of them timed turn by turn, so that a busy moment of the machine hits each; medians, in ms.
std::vector<double> race(const std::vector<const Classifier<NetworkKernel>*>& runners,
                         bool on_gpu) {
  std::vector<std::vector<double>> times(runners.size());
  const Timer whole;
  while (times[0].size() < 5 || (times[0].size() < 300 && whole.elapsed_s() < 2)) {
    for (size_t r = 0; r < runners.size(); ++r) {
      const Timer timer;
      runners[r]->run();
      if (on_gpu) cuda::synchronize();
      times[r].push_back(timer.elapsed_s() * 1e3);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& t : times) {
    std::nth_element(t.begin(), t.begin() + t.size() / 2, t.end());
    medians.push_back(t[t.size() / 2]);
  }
  return medians;
}

// A line now and then while it tunes.
void print_progress(const TuneProgress& p) {
  static double last = 0;
  if (p.static_seconds <= 0 || p.elapsed_seconds < last + 2) return;
  last = p.elapsed_seconds;
  std::printf("  %5.1f s  %4d trials   %8.1f us, static %.1f us\n", p.elapsed_seconds, p.trials,
              p.best_seconds * 1e6, p.static_seconds * 1e6);
  std::fflush(stdout);
}

int run(double seconds, const Target& target) {
  const char* moved = std::getenv("HEDDLE_TUTORIAL_DATA");  // the program runs on another machine
  const std::string folder = moved != nullptr ? moved : HEDDLE_TUTORIAL_DATA;
  const TensorFile weights = read_tensor_file(folder + "/digits_weights.bin");
  const TensorFile test = read_tensor_file(folder + "/digits_test.bin");
  const std::vector<float> pixels = test.at("images").f32();
  const std::vector<int32_t> labels = test.at("labels").i32();
  const std::vector<float> torch_logits = test.at("logits").f32();

  // ---- Cut -------------------------------------------------------------------------------------
  //
  // A node is a stage that needs memory of its own, with the element-wise stages around it. Nodes
  // that compute the same on other data would share a task: it is tuned once, for all of them.
  const Digits digits = declare_digits(weights);
  const Network network({digits.logits}, target);
  std::printf("the network in %zu nodes, %zu tasks:\n\n%s\n", network.nodes().size(),
              network.tasks().size(), network.to_text().c_str());

  // ---- Tune ------------------------------------------------------------------------------------
  //
  // Every task gets a round of trials; after that a round goes to the task where it promises to
  // save most, times how often the network calls it.
  TuneOptions options;
  options.target = target;
  options.budget = std::chrono::duration<double>(seconds);
  options.progress = print_progress;
  std::printf("tuning for %.0f s\n", seconds);
  const TuneReport report = tune(network, options);
  std::printf("\n%d trials in %.1f s\n", report.trials, report.elapsed_seconds);
  for (const TaskResult& task : report.tasks) {
    std::printf("  %-44s %8.1f us -> %8.1f us  %5d trials\n", task.name.c_str(),
                task.static_seconds * 1e6, task.best_seconds * 1e6, task.trials);
  }

  // ---- Build and compare -----------------------------------------------------------------------
  //
  // A kernel a task; buffers that are not needed at the same time share memory. On a GPU a call is
  // one CUDA graph of all the kernels, from the second call with the same arrays on.
  const Device device = target.is_cuda() ? Device::cuda() : Device::cpu();
  const NetworkKernel tuned_kernel = network.build(digits.args(), report);
  const Classifier naive(network.build(digits.args(), network.naive_schedules()), digits.weights,
                         weights, device);
  const Classifier fixed(network.build(digits.args(), network.static_schedules()), digits.weights,
                         weights, device);
  const Classifier tuned(tuned_kernel, digits.weights, weights, device);
  const char* names[] = {"naive", "static", "tuned"};
  const std::vector<const Classifier<NetworkKernel>*> all{&naive, &fixed, &tuned};
  std::vector<int> correct;
  std::vector<double> errors;
  for (const Classifier<NetworkKernel>* c : all) {
    const std::vector<float> logits = c->classify(pixels);
    correct.push_back(count_equal(largest_of_each_row(logits), labels));
    errors.push_back(worst_relative_error(logits, torch_logits));
  }
  const std::vector<double> ms = race(all, target.is_cuda());
  const std::string where =
      target.is_cuda() ? "on a " + target.gpu.name : std::to_string(num_threads()) + " threads";
  std::printf("\nper batch of %d, %s, medians\n", static_cast<int>(kBatch), where.c_str());
  for (size_t i = 0; i < all.size(); ++i) {
    std::printf("  %-8s %8.3f ms  %8.0f images/s  %5.1f x   accuracy %.2f %%\n", names[i], ms[i],
                kBatch / ms[i] * 1e3, ms[0] / ms[i],
                100.0 * correct[i] / static_cast<double>(labels.size()));
  }
  std::printf("buffers between the nodes: %.0f KiB\n",
              static_cast<double>(tuned_kernel.workspace_bytes()) / 1024);

  for (size_t i = 0; i < all.size(); ++i) {
    HEDDLE_EXPECT(correct[i] == correct[0], std::string(names[i]) + ": another accuracy");
    HEDDLE_EXPECT(errors[i] <= 1e-4, std::string(names[i]) + ": the logits differ from PyTorch's");
  }
  HEDDLE_EXPECT(correct[0] * 100 >= 97 * static_cast<int>(labels.size()), "the accuracy is low");
  for (const TaskResult& task : report.tasks) {
    HEDDLE_EXPECT(task.best_seconds <= task.static_seconds, task.name + ": slower than static");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string where = argc > 2 ? argv[2] : "cpu";
    if (where != "cpu" && where != "cuda") throw std::runtime_error("a place is cpu or cuda");
    if (where == "cuda" && !cuda::available()) {
      throw std::runtime_error("no GPU here: " + cuda::unavailable_reason());
    }
    return run(tuning_seconds(argc, argv, 8), where == "cuda" ? Target::cuda() : Target::host());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
