// Lesson 3: a whole network, on real images.
//
// A small convolutional network in the manner of LeNet reads handwritten digits: 8x8 grey images of
// the UCI collection that scikit-learn ships. It was trained with PyTorch (tools/train_digits), and
// its weights lie in tutorials/data together with 360 images it never saw, and with what PyTorch
// computes for them. Here we write the network in Heddle, build it into one kernel, classify the
// images in batches of 128, and check every number against PyTorch's, and against loops in C.
//
//   build/bin/tutorial_03_digits [folder of the data]
//
// The exit code is 0 only if the accuracy is at least 97 %, all predictions are PyTorch's, and the
// logits are within 1e-4 of PyTorch's.
#include <heddle/heddle.h>
#include <heddle/ops/ops.h>
#include <heddle/runtime/thread_pool.h>
#include <heddle/runtime/timer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "common/digits.h"
#include "common/expect.h"
#include "common/tensor_file.h"

using namespace heddle;
using namespace heddle::tutorials;

namespace {

// ---- the network -------------------------------------------------------------------------------

// A network is a declaration like any other: tensors that are computed from tensors. The operators
// of heddle::ops are no more than functions that write such declarations; each line below could be
// a `compute` with a lambda as in lesson 1, and `ops::relu` is exactly that inside.
//
// The weights are *constant* placeholders. What depends on them alone, such as the copy of a filter
// in the order in which the kernel reads it, is computed at the first call and kept.
struct Digits {
  Tensor images;
  std::vector<Tensor> weights;
  Tensor logits;

  std::vector<Tensor> args() const {
    std::vector<Tensor> list{images};
    list.insert(list.end(), weights.begin(), weights.end());
    list.push_back(logits);
    return list;
  }
};

Digits declare_network(const TensorFile& file) {
  Digits net;
  auto weight = [&](const std::string& name) {
    const NamedTensor& stored = file.at(name);
    net.weights.push_back(
        constant_placeholder(Shape(stored.shape.begin(), stored.shape.end()), f32, name));
    return net.weights.back();
  };
  net.images = placeholder({kBatch, 1, kSide, kSide}, f32, "images");

  Tensor filters1 = weight("conv1.weight"), bias1 = weight("conv1.bias");
  Tensor filters2 = weight("conv2.weight"), bias2 = weight("conv2.bias");
  Tensor dense1 = weight("fc1.weight"), dense_bias1 = weight("fc1.bias");
  Tensor dense2 = weight("fc2.weight"), dense_bias2 = weight("fc2.bias");

  Tensor x = ops::relu(ops::conv2d(net.images, filters1, {.padding = {1}}, bias1));  // 16 x 8 x 8
  x = ops::relu(ops::conv2d(x, filters2, {.padding = {1}}, bias2));                  // 32 x 8 x 8
  x = ops::max_pool(x, {.kernel = {2}});                                             // 32 x 4 x 4
  x = ops::flatten(x);                                                               // 512
  x = ops::relu(ops::dense(x, dense1, dense_bias1));                                 // 64
  net.logits = ops::dense(x, dense2, dense_bias2);                                   // 10
  return net;
}

// ---- the same network as loops in C ------------------------------------------------------------

// The filters are out x in x 3 x 3; a pixel outside of the image counts as 0.
void convolve_3x3_relu(const float* in, int channels_in, const float* filters, const float* bias,
                       int channels_out, float* out) {
  const int side = static_cast<int>(kSide);
  for (int o = 0; o < channels_out; ++o) {
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        float total = bias[o];
        for (int c = 0; c < channels_in; ++c) {
          for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
              const int v = y + r - 1, u = x + s - 1;
              if (v < 0 || v >= side || u < 0 || u >= side) continue;
              total +=
                  in[(c * side + v) * side + u] * filters[((o * channels_in + c) * 3 + r) * 3 + s];
            }
          }
        }
        out[(o * side + y) * side + x] = std::max(total, 0.0F);
      }
    }
  }
}

std::vector<float> dense_in_c(const std::vector<float>& in, const std::vector<float>& weight,
                              const std::vector<float>& bias) {
  std::vector<float> out = bias;
  for (size_t o = 0; o < out.size(); ++o) {
    for (size_t i = 0; i < in.size(); ++i) out[o] += in[i] * weight[o * in.size() + i];
  }
  return out;
}

std::vector<float> network_in_c(const TensorFile& file, const float* image) {
  std::vector<float> first(16 * kPixels), second(32 * kPixels), pooled;
  convolve_3x3_relu(image, 1, file.at("conv1.weight").f32().data(),
                    file.at("conv1.bias").f32().data(), 16, first.data());
  convolve_3x3_relu(first.data(), 16, file.at("conv2.weight").f32().data(),
                    file.at("conv2.bias").f32().data(), 32, second.data());
  for (int64_t c = 0; c < 32; ++c) {
    for (int64_t y = 0; y < kSide; y += 2) {
      for (int64_t x = 0; x < kSide; x += 2) {
        const float* at = &second[static_cast<size_t>((c * kSide + y) * kSide + x)];
        pooled.push_back(std::max({at[0], at[1], at[kSide], at[kSide + 1]}));
      }
    }
  }
  std::vector<float> hidden =
      dense_in_c(pooled, file.at("fc1.weight").f32(), file.at("fc1.bias").f32());
  for (float& h : hidden) h = std::max(h, 0.0F);
  return dense_in_c(hidden, file.at("fc2.weight").f32(), file.at("fc2.bias").f32());
}

// ---- running it --------------------------------------------------------------------------------

// Two classifiers, timed turn by turn so that a busy moment of the machine hits both; medians.
struct Race {
  double naive_ms = 0, static_ms = 0;
};
Race race(const Classifier<Kernel>& naive, const Classifier<Kernel>& scheduled) {
  std::vector<double> naive_ms, static_ms;
  auto time_into = [](const Classifier<Kernel>& c, std::vector<double>* times) {
    const Timer timer;
    c.run();
    times->push_back(timer.elapsed_s() * 1e3);
  };
  const Timer whole;
  while (naive_ms.size() < 3 || (naive_ms.size() < 15 && whole.elapsed_s() < 3)) {
    time_into(naive, &naive_ms);
    for (int i = 0; i < 10; ++i) time_into(scheduled, &static_ms);
  }
  auto median = [](std::vector<double> v) {
    std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
    return v[v.size() / 2];
  };
  return {median(naive_ms), median(static_ms)};
}

// ---- pictures ----------------------------------------------------------------------------------

std::string line_of_picture(const float* image, int64_t y) {
  static const std::string shades = " .:-=+*#%@";
  std::string line;
  for (int64_t x = 0; x < kSide; ++x) {
    const float grey = std::clamp(image[y * kSide + x], 0.0F, 1.0F);
    line += std::string(2, shades[static_cast<size_t>(std::lround(grey * 9))]);
  }
  return line;
}

void print_pictures(const std::vector<float>& pixels, size_t left, size_t right,
                    const std::vector<int32_t>& predicted, const std::vector<int32_t>& labels) {
  for (int64_t y = 0; y < kSide; ++y) {
    std::printf("    |%s|      |%s|\n", line_of_picture(&pixels[left * kPixels], y).c_str(),
                line_of_picture(&pixels[right * kPixels], y).c_str());
  }
  auto caption = [&](size_t i) {
    return predicted[i] == labels[i] ? "read as " + std::to_string(predicted[i]) + ", which it is"
                                     : "read as " + std::to_string(predicted[i]) + ", but is a " +
                                           std::to_string(labels[i]);
  };
  std::printf("     %-22s  %s\n\n", caption(left).c_str(), caption(right).c_str());
}

int run(const std::string& folder) {
  const TensorFile weights = read_tensor_file(folder + "/digits_weights.bin");
  const TensorFile test = read_tensor_file(folder + "/digits_test.bin");
  const std::vector<float> pixels = test.at("images").f32();
  const std::vector<int32_t> labels = test.at("labels").i32();
  const std::vector<float> torch_logits = test.at("logits").f32();
  const std::vector<int32_t> torch_predictions = test.at("predictions").i32();
  const size_t count = labels.size();

  // Declaring is quick, and so is choosing a schedule: nothing is measured, the analytic rules of
  // the meta-templates choose from what is known of this machine. All the network's stages become
  // one kernel: biases and activations disappear into what reads them, sums are kept in registers,
  // and the weights are packed at the first call.
  const Digits net = declare_network(weights);
  Timer timer;
  const Schedule schedule = create_schedule({net.logits});
  const double schedule_ms = timer.elapsed_s() * 1e3;
  const auto [kernel, times] = build_timed(schedule, net.args(), {.name = "digits"});
  const Classifier scheduled(kernel, net.weights, weights);
  std::printf("%zu images that the network never saw, on %s\n\n", count,
              to_string(Target::host()).c_str());

  // Classify, and look at two: the first that is read right, and the first that is not.
  const std::vector<float> logits = scheduled.classify(pixels);
  const std::vector<int32_t> predicted = largest_of_each_row(logits);
  size_t right = 0, wrong = 0;
  while (right < count && predicted[right] != labels[right]) ++right;
  while (wrong < count && predicted[wrong] == labels[wrong]) ++wrong;
  if (wrong == count) wrong = count - 1;
  if (right < count) print_pictures(pixels, right, wrong, predicted, labels);

  // Is it right? Against the labels, against PyTorch, and against the loops above.
  const int correct = count_equal(predicted, labels);
  const double accuracy = 100.0 * correct / static_cast<double>(count);
  const int same = count_equal(predicted, torch_predictions);
  const double error = worst_relative_error(logits, torch_logits);
  std::vector<float> c_logits;
  for (size_t i = 0; i < count; i += 15) {  // a sample: they take their time
    const std::vector<float> row = network_in_c(weights, &pixels[i * kPixels]);
    c_logits.insert(c_logits.end(), row.begin(), row.end());
  }
  std::vector<float> sampled;
  for (size_t i = 0; i < count; i += 15) {
    sampled.insert(sampled.end(), logits.begin() + static_cast<int64_t>(i) * kClasses,
                   logits.begin() + static_cast<int64_t>(i + 1) * kClasses);
  }
  const double c_error = worst_relative_error(sampled, c_logits);
  std::printf("accuracy      %d of %zu, %.2f %%\n", correct, count, accuracy);
  std::printf("PyTorch       predicts the same for %d of %zu; its logits differ by %.1e at most\n",
              same, count, error);
  std::printf("loops in C    differ by %.1e at most\n\n", c_error);

  // The same declaration, with the schedule that takes it as it is written: the outer loops of each
  // stage fused and run in parallel, nothing else. It must compute the same, and takes longer.
  const Classifier naive(build(naive_schedule({net.logits}), net.args(), {.name = "digits"}),
                         net.weights, weights);
  const double naive_error = worst_relative_error(naive.classify(pixels), torch_logits);
  const Race result = race(naive, scheduled);
  std::printf("time per batch of %d, %d threads, medians\n", static_cast<int>(kBatch),
              num_threads());
  std::printf("  naive       %9.3f ms   %8.0f images/s\n", result.naive_ms,
              kBatch / result.naive_ms * 1e3);
  std::printf("  static      %9.3f ms   %8.0f images/s   %.1f times as fast\n", result.static_ms,
              kBatch / result.static_ms * 1e3, result.naive_ms / result.static_ms);
  std::printf("create_schedule took %.1f ms, build %.1f ms (of which lowering %.1f ms)\n",
              schedule_ms, times.total, times.lower);
  if (result.naive_ms < 10 * result.static_ms) {
    std::printf("note: 10 times is expected; is something else running on this machine?\n");
  }

  HEDDLE_EXPECT(accuracy >= 97, "the accuracy is too low");
  HEDDLE_EXPECT(same == static_cast<int>(count), "some predictions differ from PyTorch's");
  HEDDLE_EXPECT(error <= 1e-4, "the logits differ from PyTorch's");
  HEDDLE_EXPECT(c_error <= 1e-4, "the logits differ from those of the loops in C");
  HEDDLE_EXPECT(naive_error <= 1e-4, "the naive schedule's logits differ from PyTorch's");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : HEDDLE_TUTORIAL_DATA);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
