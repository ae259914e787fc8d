// Random networks, each from one seed: run node by node they compute what the interpreter does, and
// what the declaration as a single naive kernel does. HEDDLE_PROPERTY_COUNT and
// HEDDLE_PROPERTY_SEED as in tests/property.

#include "environment.h"
#include "heddle/support/rng.h"
#include "network/network_testing.h"
#include "selftest/random_program.h"
#include "selftest/random_schedule.h"

namespace heddle::testing {
using namespace selftest;
namespace {

// Layers stacked on whatever tensors are there: chains, branches that meet again, shared weights,
// and outputs anywhere.
class NetworkDrawer {
 public:
  explicit NetworkDrawer(Rng& rng) : rng_(rng) {}

  std::vector<Tensor> run() {
    const int64_t batch = pick(1, 5), width = one_of({3, 4, 8, 9, 16});
    if (rng_.chance(0.4)) {
      layers_.push_back(placeholder({batch, pick(1, 5), 6, 6}, f32, "image"));
      for (int64_t n = pick(1, 4); n > 0; --n) layers_.push_back(image_layer(any()));
      layers_.erase(layers_.begin(), layers_.end() - 1);
      layers_[0] = ops::flatten(layers_[0]);
    } else {
      layers_.push_back(placeholder({batch, width}, f32, "x"));
    }
    for (int64_t n = pick(1, 7); n > 0; --n) layers_.push_back(layer(any()));
    std::vector<Tensor> outputs;
    if (layers_.back().op()->is_placeholder()) layers_.back() = ops::relu(layers_.back());
    outputs.push_back(layers_.back());
    for (size_t i = 1; i + 1 < layers_.size(); ++i) {
      const Tensor& t = layers_[i];
      if (rng_.chance(0.15) && !t.op()->is_placeholder() && !t.same_as(outputs[0])) {
        outputs.push_back(t);
      }
    }
    rng_.shuffle(outputs);
    return outputs;
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  int64_t one_of(const std::vector<int64_t>& values) { return rng_.choose(values); }
  // Mostly the last, so that networks are deep.
  Tensor any() { return rng_.chance(0.7) ? layers_.back() : rng_.choose(layers_); }

  Tensor image_layer(const Tensor& x) {
    const int64_t c = x.extent(1);
    switch (pick(0, 4)) {
      case 0: return ops::relu(conv_norm(x, pick(1, 6)));
      case 1: return residual_block(x);
      case 2: return ops::conv2d(x, weights({pick(1, 6), c, 1, 1}));
      case 3: return x.extent(2) >= 4 ? ops::max_pool(x, {.kernel = {2}}) : ops::sigmoid(x);
      default:
        return ops::relu(
            ops::conv2d(x, weights({c, c, 3, 3}), {.padding = {1}}, weights({c}, "bias")));
    }
  }

  // Matrices (batch, width).
  Tensor layer(const Tensor& x) {
    const int64_t width = x.extent(1);
    switch (pick(0, 11)) {
      case 0: return ops::relu(dense_layer(x, width));
      case 1: return dense_layer(x, one_of({1, 5, 8, 16}));
      case 2: return ops::softmax(x);
      case 3: return ops::layer_norm(x, weights({width}), weights({width}));
      case 4: return meet(x, any());
      case 5: {  // one weight, used twice
        Tensor w = weights({width, width}, "shared");
        return ops::matmul(ops::tanh(ops::matmul(x, w)), w);
      }
      case 6: return ops::mul(x, ops::sigmoid(x));
      case 7: return ops::matmul(ops::matmul(x, ops::transpose(x, {1, 0})), x);
      case 8: {  // weights that are folded first
        Tensor w = weights({width, width}, "w");
        Tensor folded =
            compute({width, width}, [&](Axis i, Axis j) { return exp(w(j, i)) * 0.1f; }, "folded");
        return ops::matmul(x, folded);
      }
      case 9: return both_states(x);
      case 10: return stacked(x);
      default: return ops::sub(x, ops::mean(x, {1}, true));
    }
  }

  // The results of one stage, as a step of an LSTM has them, of which others may read either.
  Tensor both_states(const Tensor& x) {
    const Tensor y = rng_.chance(0.5) ? ops::relu(dense_layer(x, x.extent(1))) : x;
    const std::vector<Tensor> states = compute_all(
        {x.extent(0), x.extent(1)},
        [&](Axis i, Axis j) {
          const Expr cell = tanh(y(i, j)) * x(i, j);
          return std::vector<Expr>{cell * 0.5f + y(i, j), cell};
        },
        "states");
    layers_.push_back(states[0]);
    return states[1];
  }

  // Tensors of one shape behind each other, read as a whole.
  Tensor stacked(const Tensor& x) {
    std::vector<Tensor> parts{x};
    for (int64_t n = pick(0, 3); n > 0; --n) {
      const Tensor& part = rng_.choose(layers_);
      if (part.extents() == x.extents()) parts.push_back(part);
    }
    rng_.shuffle(parts);
    const Tensor all = ops::relu(ops::stack(parts, static_cast<int>(pick(0, 1))));
    return ops::sum(all, {all.extent(0) == x.extent(0) ? 1 : 0});
  }

  Tensor meet(const Tensor& x, const Tensor& y) {
    if (x.extent(0) == y.extent(0) && x.extent(1) == y.extent(1)) return ops::add(x, y);
    if (x.extent(0) == y.extent(0)) return ops::concat({x, y}, 1);
    return ops::add(x, weights(x.shape(), "other"));
  }

  Rng& rng_;
  std::vector<Tensor> layers_;
};

// Values grow and cancel along a deep network: the tolerance is that of the largest value.
std::string differs(const NDArray& got, const NDArray& want) {
  double largest = 1;
  for (int64_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(want.get(i)));
  const Difference d = compare(got, want, 1e-3, 1e-4 * largest);
  return d.ok() ? "" : describe(d, got);
}

TEST(RandomNetworks, ComputeWhatTheInterpreterAndASingleNaiveKernelDo) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 25),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  int64_t nodes = 0, tasks = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const std::vector<Tensor> outputs = NetworkDrawer(rng).run();
    const std::vector<Tensor> args = args_of(outputs);
    SCOPED_TRACE("HEDDLE_PROPERTY_SEED=" + std::to_string(seed));
    const Network net(outputs);
    nodes += static_cast<int64_t>(net.nodes().size());
    tasks += static_cast<int64_t>(net.tasks().size());
    const std::vector<NDArray> arrays = arrays_for(args, static_cast<uint64_t>(seed));
    const std::vector<NDArray> naive = arrays_for(args, static_cast<uint64_t>(seed));
    // The rules' choice, and any other that a tuner may come back with.
    std::vector<Schedule> schedules = net.static_schedules();
    if (seed % 2 == 0) {
      for (size_t t = 0; t < schedules.size(); ++t) {
        const Template& tmpl = net.tasks()[t].tmpl;
        schedules[t] = tmpl.instantiate(random_config(tmpl, rng));
      }
    }
    net.build(args, schedules).call(arrays);
    build(naive_schedule(outputs), args).call(naive);
    std::vector<TensorValue> inputs;
    for (size_t i = 0; i + outputs.size() < args.size(); ++i)
      inputs.push_back({args[i], arrays[i]});
    const std::vector<NDArray> want = interpret(outputs, inputs);
    for (size_t o = 0; o < outputs.size(); ++o) {
      const size_t at = args.size() - outputs.size() + o;
      EXPECT_EQ(differs(arrays[at], want[o]), "") << "output " << o << "\n" << net.to_text();
      EXPECT_EQ(differs(arrays[at], naive[at]), "") << "output " << o << ", naive kernel";
    }
    if (HasFailure()) break;  // the first seed is enough
  }
  RecordProperty("nodes", static_cast<int>(nodes));
  EXPECT_GT(nodes, count) << "networks of one node each show little";
  EXPECT_LT(tasks, nodes) << "no two nodes shared a task";
}

// The declarations of tests/property, cut where their groups end.
TEST(RandomNetworks, OfRandomProgramsComputeWhatTheInterpreterDoes) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 25),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t seed = first; seed < first + count; ++seed) {
    Rng rng(static_cast<uint64_t>(seed) + 5000);
    const RandomProgram p = random_program(rng);
    SCOPED_TRACE("HEDDLE_PROPERTY_SEED=" + std::to_string(seed) + " " + p.text);
    const std::vector<NDArray> inputs = random_inputs(p, static_cast<uint64_t>(seed));
    std::vector<NDArray> arrays = inputs;
    std::vector<TensorValue> values;
    for (size_t i = 0; i < inputs.size(); ++i) values.push_back({p.inputs[i], inputs[i]});
    for (const Tensor& t : p.outputs) arrays.push_back(NDArray::full(t.extents(), t.dtype(), 77));
    Network(p.outputs).build(p.args()).call(arrays);
    const std::vector<NDArray> want = interpret(p.outputs, values);
    for (size_t o = 0; o < want.size(); ++o) {
      EXPECT_EQ(compare(want[o], arrays[inputs.size() + o], p.reduce_length), "") << "output " << o;
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace heddle::testing
