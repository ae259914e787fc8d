// Lesson 13: training.
//
// Lesson 3 read handwritten digits with weights that PyTorch had trained. Here the same network
// begins with random weights and learns from the 1437 images that lesson 3 does not have. The loss,
// its gradients and the update of every weight are declarations; together they are one network, and
// nobody writes a schedule. The weights are updated where they lie.
//
//   build/bin/tutorial_13_train_digits [folder of the data]
//
// The exit code is 0 only if at least 99 % of the 360 held-out images are read right.
#include <heddle/heddle.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include "common/digits.h"
#include "common/expect.h"
#include "common/tensor_file.h"

using namespace heddle;
using namespace heddle::tutorials;

namespace {

constexpr int64_t kRows = 64, kHeldOut = 360;
constexpr int kEpochs = 40;

// ---- the declarations --------------------------------------------------------------------------

// The weights are inputs as the images are: they change from step to step.
std::vector<Tensor> declare_weights() {
  const auto weight = [](std::vector<int64_t> shape, const char* name) {
    return placeholder(shape, f32, name);
  };
  return {weight({16, 1, 3, 3}, "conv1.weight"),  weight({16}, "conv1.bias"),
          weight({32, 16, 3, 3}, "conv2.weight"), weight({32}, "conv2.bias"),
          weight({64, 512}, "fc1.weight"),        weight({64}, "fc1.bias"),
          weight({10, 64}, "fc2.weight"),         weight({10}, "fc2.bias")};
}

Tensor network(const Tensor& images, const std::vector<Tensor>& w) {
  Tensor x = ops::relu(ops::conv2d(images, w[0], {.padding = {1}}, w[1]));
  x = ops::relu(ops::conv2d(x, w[2], {.padding = {1}}, w[3]));
  x = ops::flatten(ops::max_pool(x, {.kernel = {2}}));
  x = ops::relu(ops::dense(x, w[4], w[5]));
  return ops::dense(x, w[6], w[7]);
}

// A step takes images, labels, the weights and two states for each of them, gives the loss, and leaves
// the next weights and states in the place of those that it took. `gradient` returns declarations: the gradients of a convolution are
// convolutions, which the templates schedule as they schedule the forward pass.
struct Step {
  Tensor images = placeholder({kRows, 1, kSide, kSide}, f32, "images");
  Tensor labels = placeholder({kRows}, i32, "labels");
  Tensor number = placeholder({1}, f32, "step"), rate = placeholder({1}, f32, "rate");
  Tensor loss;
  std::vector<StateUpdate> updates;  ///< of weights, then of means, then of squares
};

Step declare_step(const std::vector<Tensor>& weights) {
  Step s;
  s.loss = ops::softmax_cross_entropy(network(s.images, weights), s.labels, 0.05);
  const std::vector<Tensor> d = gradient({s.loss}, weights);
  std::vector<StateUpdate> means, squares;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor& w = weights[i];
    const Tensor mean = placeholder(w.shape(), f32, w.name() + ".mean");
    const Tensor square = placeholder(w.shape(), f32, w.name() + ".square");
    const ops::Moments next = ops::adam(w, d[i], mean, square, s.number, s.rate, {.decay = 1e-2});
    s.updates.push_back({w, next.parameter});
    means.push_back({mean, next.mean});
    squares.push_back({square, next.square});
  }
  for (const auto* list : {&means, &squares})
    s.updates.insert(s.updates.end(), list->begin(), list->end());
  return s;
}

// ---- the arrays --------------------------------------------------------------------------------

// He et al. 2015 (arXiv:1502.01852): as wide as keeps the size of values from layer to layer.
std::vector<NDArray> first_weights(const std::vector<Tensor>& weights) {
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor& w = weights[i];
    const double inputs = static_cast<double>(w.size()) / static_cast<double>(w.extent(0));
    const double bound = w.rank() == 1 ? 0 : std::sqrt(6 / inputs);
    arrays.push_back(bound == 0 ? zeros_like(w)
                                : NDArray::random(w.extents(), f32, 40 + i, -bound, bound));
  }
  return arrays;
}

// An image is shown shifted by up to one pixel, so that the network learns shapes and not places.
void show_shifted(const uint8_t* image, int64_t dy, int64_t dx, float* to) {
  for (int64_t y = 0; y < kSide; ++y) {
    for (int64_t x = 0; x < kSide; ++x) {
      const int64_t v = y + dy, u = x + dx;
      const bool inside = v >= 0 && v < kSide && u >= 0 && u < kSide;
      to[y * kSide + x] = inside ? static_cast<float>(image[v * kSide + u]) / 16 : 0;
    }
  }
}

class Training {
 public:
  Training(const Step& step, const NetworkKernel& kernel, std::vector<NDArray> weights,
           TensorFile file)
      : kernel_(kernel),
        images_(zeros_like(step.images)),
        labels_(zeros_like(step.labels)),
        number_(zeros_like(step.number)),
        rate_(zeros_like(step.rate)),
        loss_(zeros_like(step.loss)),
        state_(std::move(weights)),
        pixels_(file.at("images").u8()),
        classes_(file.at("labels").u8()),
        order_(classes_.size()) {
    for (size_t i = state_.size(); i < step.updates.size(); ++i)
      state_.push_back(zeros_like(step.updates[i].state));
    std::iota(order_.begin(), order_.end(), size_t{0});
  }

  /// Shows every image once (but for a last part of a batch) and returns the mean loss.
  double epoch(int steps) {
    rng_.shuffle(order_);
    double total = 0;
    const size_t batches = order_.size() / kRows;
    for (size_t b = 0; b < batches; ++b) {
      fill(b * kRows);
      ++done_;
      number_.set(0, done_);
      // The rate falls along a half cosine.
      rate_.set(0, 2e-3 * (1 + std::cos(std::numbers::pi * done_ / (steps + 1.0))) / 2);
      call();
      total += loss_.get(0);
    }
    return total / static_cast<double>(batches);
  }

  const std::vector<NDArray>& state() const { return state_; }

 private:
  void fill(size_t first) {
    for (size_t i = 0; i < kRows; ++i) {
      const size_t row = order_[first + i];
      show_shifted(&pixels_[row * kPixels], rng_.uniform_int(-1, 1), rng_.uniform_int(-1, 1),
                   images_.data<float>() + i * kPixels);
      labels_.data<int32_t>()[i] = classes_[row];
    }
  }

  void call() {
    std::vector<NDArray> arrays{images_, labels_, number_, rate_};
    arrays.insert(arrays.end(), state_.begin(), state_.end());
    arrays.push_back(loss_);
    kernel_.call(arrays);
  }

  const NetworkKernel& kernel_;
  NDArray images_, labels_, number_, rate_, loss_;
  std::vector<NDArray> state_;
  std::vector<uint8_t> pixels_, classes_;
  std::vector<size_t> order_;
  Rng rng_{5};
  int done_ = 0;
};

// ---- running it --------------------------------------------------------------------------------

int held_out_hits(const Kernel& kernel, const std::vector<NDArray>& state, size_t weights,
                  const TensorFile& test) {
  std::vector<NDArray> arrays{NDArray::from(test.at("images").f32(), {kHeldOut, 1, kSide, kSide})};
  arrays.insert(arrays.end(), state.begin(), state.begin() + static_cast<std::ptrdiff_t>(weights));
  const NDArray logits = NDArray::zeros({kHeldOut, kClasses}, f32);
  arrays.push_back(logits);
  kernel.call(arrays);
  const float* first = logits.data<float>();
  return count_equal(largest_of_each_row({first, first + kHeldOut * kClasses}),
                     test.at("labels").i32());
}

int run(const std::string& folder) {
  const TensorFile test = read_tensor_file(folder + "/digits_test.bin");
  const std::vector<Tensor> weights = declare_weights();
  const Step step = declare_step(weights);

  std::vector<Tensor> args{step.images, step.labels, step.number, step.rate};
  for (const StateUpdate& update : step.updates) args.push_back(update.state);
  args.push_back(step.loss);
  const Timer building;
  const Network net({step.loss}, Target::host(), {}, {}, step.updates);
  const NetworkKernel kernel = net.build(args);
  const ComputeDag dag(net.outputs());
  std::printf("one step is %d stages in %d nodes, %.0f MFLOP; built in %.1f s\n", dag.size(),
              static_cast<int>(net.nodes().size()), dag.total_flops() / 1e6, building.elapsed_s());

  const Tensor images = placeholder({kHeldOut, 1, kSide, kSide}, f32, "images");
  const Tensor logits = network(images, weights);
  std::vector<Tensor> reading{images};
  reading.insert(reading.end(), weights.begin(), weights.end());
  reading.push_back(logits);
  const Kernel reader = build(create_schedule({logits}), reading, {.name = "reader"});

  Training training(step, kernel, first_weights(weights),
                    read_tensor_file(folder + "/digits_train.bin"));
  const int steps = kEpochs * (1437 / static_cast<int>(kRows));
  const Timer timer;
  double loss = 0;
  int hits = 0;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    loss = training.epoch(steps);
    if (epoch != 1 && epoch % 10 != 0) continue;
    hits = held_out_hits(reader, training.state(), weights.size(), test);
    std::printf("epoch %2d   loss %.4f   held-out images read right: %d of %d, %.2f %%\n", epoch,
                loss, hits, static_cast<int>(kHeldOut), 100.0 * hits / kHeldOut);
  }
  std::printf("%d steps in %.1f s, %.2f ms each\n", steps, timer.elapsed_s(),
              timer.elapsed_s() * 1e3 / steps);
  HEDDLE_EXPECT(hits >= 0.99 * kHeldOut, "fewer than 99 % of the held-out images are read right");
  HEDDLE_EXPECT(std::isfinite(loss) && loss < 0.6, "the loss did not fall");
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
