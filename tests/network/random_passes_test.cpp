// Random networks of the kind that passes rewrite: each pass alone, and all together, leave what
// the interpreter computes as it was; so does the network that is cut and compiled after them.
// HEDDLE_PROPERTY_COUNT and HEDDLE_PROPERTY_SEED as in tests/property.
#include <map>

#include "environment.h"
#include "heddle/support/rng.h"
#include "network/network_testing.h"
#include "network/passes/graph_pass.h"

namespace heddle::testing {
namespace {

/// This machine with vectors of `lanes` elements of f32, so that few channels are a vector.
Target with_lanes(int lanes) {
  Target target = Target::host();
  target.vector_bytes = 4 * lanes;
  return target;
}
constexpr int kLanes = 4;

class Drawer {
 public:
  explicit Drawer(Rng& rng) : rng_(rng) {}

  std::vector<Tensor> run() {
    std::vector<Tensor> outputs{rng_.chance(0.5) ? sequence() : images()};
    // Inner results, which passes must not take away from the caller.
    for (const Tensor& t : inner_) {
      if (rng_.chance(0.1) && !t.same_as(outputs[0]) && !t.op()->is_placeholder())
        outputs.push_back(t);
    }
    return outputs;
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  Tensor keep(Tensor t) {
    inner_.push_back(t);
    return t;
  }

  // (batch, rows, width), as in a transformer.
  Tensor sequence() {
    Tensor x = placeholder({pick(1, 2), pick(2, 5), rng_.choose<int64_t>({4, 8, 16})}, f32, "x");
    for (int64_t n = pick(1, 3); n > 0; --n) {
      switch (pick(0, 4)) {
        case 0: x = keep(as_matrix(x)); break;
        case 1: x = keep(attention(x)); break;
        case 2: x = keep(there_and_back(x)); break;
        case 3: x = keep(parts_of_one(x)); break;
        default: x = keep(ops::layer_norm(x, weights({x.extent(2)}), weights({x.extent(2)})));
      }
    }
    if (rng_.chance(0.2)) x = ops::add(x, product_of_bytes(x.extents()));
    return x.op()->is_placeholder() ? ops::relu(x) : x;
  }

  // Bytes of an input times bytes of weights, both dequantised; the input may be transposed and
  // rounded again before.
  Tensor product_of_bytes(const std::vector<int64_t>& extents) {
    const auto real = [](const Tensor& bytes, int64_t point, float scale) {
      return ops::elementwise("dequantize", {bytes}, [=](const std::vector<Expr>& v) {
        return cast(f32, cast(i32, v[0]) - Expr(point)) * Expr(scale);
      });
    };
    const int64_t depth = pick(2, 9), point = pick(1, 255);
    const Tensor w = constant_placeholder({depth, extents[2]}, i8, "weights");
    if (rng_.chance(0.5)) {
      const Tensor x = placeholder({extents[0], extents[1], depth}, u8, "bytes");
      return ops::matmul(real(x, point, 0.02F), real(w, 0, 0.01F));
    }
    const Tensor x = placeholder({extents[1], extents[0], depth}, u8, "bytes");
    const Tensor moved = ops::transpose(real(x, point, 0.02F), {1, 0, 2});
    const Tensor y = ops::elementwise("quantize", {moved}, [=](const std::vector<Expr>& v) {
      const Expr steps = round(v[0] / Expr(0.02F)) + Expr(static_cast<float>(point));
      return cast(u8, min(max(steps, Expr(0.0F)), Expr(255.0F)));
    });
    return ops::matmul(real(y, point, 0.02F), real(w, 0, 0.01F));
  }

  Tensor linear(const Tensor& x, int64_t columns, bool bias) {
    Tensor y = ops::matmul(x, weights({x.extent(-1), columns}));
    return bias ? ops::add(y, weights({columns}, "bias")) : y;
  }

  // A product of a matrix, between changes of shape, and a residual.
  Tensor as_matrix(const Tensor& x) {
    const int64_t b = x.extent(0), s = x.extent(1), n = x.extent(2);
    Tensor y = linear(ops::reshape(x, {b * s, n}), n, rng_.chance(0.6));
    if (rng_.chance(0.3)) y = ops::mul(y, Expr(0.5f));
    if (rng_.chance(0.3)) y = keep(y);
    y = ops::reshape(y, {b, s, n});
    if (rng_.chance(0.4)) y = ops::tanh(y);
    return ops::add(y, x);
  }

  Tensor heads(const Tensor& y, int64_t count) {
    return ops::transpose(ops::reshape(y, {y.extent(0), y.extent(1), count, y.extent(2) / count}),
                          {0, 2, 1, 3});
  }

  // With a row of which everything is masked, which becomes zero.
  Tensor guarded_softmax(const Tensor& scores) {
    const int64_t row = pick(0, scores.extent(2) - 1);
    const Tensor masked = compute(
        scores.shape(),
        [&](Axis b, Axis h, Axis i, Axis j) {
          return scores(b, h, i, j) + select(Expr(i) == Expr(row), lowest_value(f32), Expr(0.0f));
        },
        "masked");
    const Tensor p = ops::softmax(masked, -1);
    if (rng_.chance(0.1)) keep(p);
    return ops::where(ops::isnan(p), ops::full(p.shape(), 0), p);
  }

  // Products of one input, which may differ in what follows, then softmax and a projection.
  Tensor attention(const Tensor& x) {
    const int64_t n = x.extent(2), count = rng_.choose<int64_t>({1, 2, 4});
    const bool bias = rng_.chance(0.7);
    Tensor q = linear(x, n, bias), k = linear(x, n, bias),
           v = linear(x, n, rng_.chance(0.9) == bias);
    if (rng_.chance(0.3)) q = ops::mul(q, Expr(0.25f));
    if (rng_.chance(0.2)) keep(v);
    q = heads(q, count);
    k = heads(k, count);
    if (rng_.chance(0.3)) q = ops::mul(q, Expr(0.7f));
    if (rng_.chance(0.3)) k = ops::mul(k, Expr(0.7f));
    const Tensor scores = ops::matmul(q, k, false, true);
    const Tensor shares = rng_.chance(0.3) ? guarded_softmax(scores) : ops::softmax(scores, -1);
    Tensor y = ops::transpose(ops::matmul(shares, heads(v, count)), {0, 2, 1, 3});
    y = linear(ops::reshape(y, x.extents()), n, true);
    return ops::add(x, y);
  }

  Tensor there_and_back(const Tensor& x) {
    Tensor y = ops::transpose(x, {1, 0, 2});
    if (rng_.chance(0.5)) y = ops::relu(y);
    if (rng_.chance(0.5)) y = linear(y, x.extent(2), true);
    return ops::add(ops::transpose(y, {1, 0, 2}), x);
  }

  // A wide product, and its parts by an index that nothing computes.
  Tensor parts_of_one(const Tensor& x) {
    const int64_t n = x.extent(2);
    const Tensor wide = ops::reshape(linear(x, 3 * n, true), {x.extent(0), x.extent(1), 3, n});
    Tensor sum = x;
    for (int64_t p = 0; p < 3; ++p) {
      const Tensor index =
          compute(Shape{}, [&](const std::vector<Axis>&) { return Expr(p); }, "index");
      const Tensor part = compute(
          x.shape(),
          [&](Axis b, Axis s, Axis c) {
            return wide(b, s, max(Expr(int64_t{0}), min(Expr(int64_t{2}), index.at({}))), c);
          },
          "part");
      sum = p == 1 ? ops::mul(sum, part) : ops::add(sum, part);
    }
    return sum;
  }

  // (batch, channels, 4, 4), as in an image network.
  Tensor images() {
    whole_vectors_ = rng_.chance(0.5);
    Tensor x = placeholder({pick(1, 4) == 1 ? 2 : 1, pick(1, 4), 4, 4}, f32, "image");
    for (int64_t n = pick(1, 3); n > 0; --n) {
      switch (pick(0, 7)) {
        case 0: x = keep(ops::relu(conv_norm(x, channels(4)))); break;
        case 1: x = keep(dense_block(x)); break;
        case 2: x = keep(branches(x)); break;
        case 3: x = keep(channel_by_channel(x)); break;
        case 4: x = keep(scaled_by_its_means(x)); break;
        case 5:
        case 6: x = keep(inverted_residual(x)); break;
        default: x = keep(residual_block(x));
      }
    }
    return x;
  }

  // Whole vectors of channels in some networks, with an exception now and then.
  int64_t channels(int64_t most) {
    if (whole_vectors_ && rng_.chance(0.9)) return kLanes * pick(1, 3);
    return pick(1, most);
  }

  Tensor channel_by_channel(const Tensor& x) {
    const Tensor y = conv(x, channels(3));
    switch (pick(0, 7)) {
      case 0: return ops::max_pool(y, {.kernel = {3}, .stride = {1}, .padding = {1}});
      case 1: return ops::avg_pool(y, {.kernel = {3}, .stride = {1}, .padding = {1}});
      case 2: {
        const int64_t groups = y.extent(1) % kLanes == 0 ? kLanes : 1;
        return ops::conv2d(y, weights({2 * kLanes, y.extent(1) / groups, 3, 3}),
                           {.padding = {1}, .groups = groups});
      }
      case 3:
      case 6: {  // windows with a dilation as large as the image, or nearly so
        const int64_t by = pick(3, 5);
        return ops::conv2d(y, weights({channels(3), y.extent(1), 3, 3}),
                           {.padding = {by}, .dilation = {by}});
      }
      case 4:
      case 7: {  // group normalisation, by a flat axis
        const int64_t groups = y.extent(1) % kLanes == 0 ? kLanes : 1;
        const Tensor flat = ops::reshape(y, {y.extent(0), groups, y.size() / y.extent(0) / groups});
        return ops::reshape(ops::instance_norm(flat), y.extents());
      }
      default:
        return ops::relu(
            ops::depthwise_conv2d(y, weights({y.extent(1), 1, 3, 3}), {.padding = {1}}));
    }
  }

  Tensor scaled_by_its_means(const Tensor& x) {
    const Tensor y = conv(x, channels(3));
    const Tensor mean = ops::global_avg_pool(y);
    return ops::mul(y, ops::sigmoid(ops::conv2d(mean, weights({y.extent(1), y.extent(1), 1, 1}))));
  }

  Tensor conv(const Tensor& x, int64_t channels) {
    const int64_t r = rng_.choose<int64_t>({1, 3});
    Tensor y = ops::conv2d(x, weights({channels, x.extent(1), r, r}), {.padding = {r / 2}},
                           rng_.chance(0.5) ? weights({channels}, "bias") : Tensor());
    return rng_.chance(0.5) ? ops::relu(y) : y;
  }

  Tensor activation(const Tensor& x) {
    return rng_.chance(0.5) ? ops::clip(x, 0, 6) : ops::silu(x);
  }

  // A depthwise convolution between two of one pixel, and the residual.
  Tensor inverted_residual(const Tensor& x) {
    const int64_t wide = pick(8, 20), c = rng_.chance(0.7) ? x.extent(1) : pick(1, 12);
    Tensor y = activation(ops::conv2d(x, weights({wide, x.extent(1), 1, 1}), {}));
    if (rng_.chance(0.1)) y = keep(y);
    const int64_t r = rng_.choose<int64_t>({3, 5});
    y = activation(ops::depthwise_conv2d(y, weights({wide, 1, r, r}), {.padding = {r / 2}}));
    y = ops::conv2d(y, weights({c, wide, 1, 1}), {}, weights({c}, "bias"));
    return c == x.extent(1) ? ops::add(y, x) : y;
  }

  // Every layer reads all before it.
  Tensor dense_block(const Tensor& x) {
    std::vector<Tensor> layers{conv(x, channels(3))};
    for (int64_t n = pick(1, 3); n > 0; --n) {
      const Tensor all = layers.size() == 1 ? layers[0] : ops::concat(layers, 1);
      layers.push_back(conv(rng_.chance(0.5) ? ops::relu(all) : all, channels(3)));
    }
    return ops::concat(layers, 1);
  }

  Tensor branches(const Tensor& x) {
    std::vector<Tensor> parts{conv(x, channels(3)), conv(x, channels(3))};
    if (rng_.chance(0.3)) parts.push_back(x);
    if (rng_.chance(0.2)) parts.push_back(parts[0]);
    if (rng_.chance(0.3)) parts[1] = ops::concat({parts[0], conv(x, 2)}, 1);
    const Tensor all = ops::concat(parts, 1);
    return rng_.chance(0.5) ? ops::relu(all) : all;
  }

  Rng& rng_;
  bool whole_vectors_ = false;
  std::vector<Tensor> inner_;
};

PassOptions only(const PassDescription& pass) {
  PassOptions options = parse_passes("none");
  options.*pass.enabled = true;
  return options;
}

// Values grow along a deep network: the tolerance is that of the largest value.
std::string differs(const NDArray& got, const NDArray& want) {
  double largest = 1;
  for (int64_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(want.get(i)));
  const Difference d = compare(got, want, 1e-3, 1e-4 * largest);
  return d.ok() ? "" : describe(d, got);
}

TEST(RandomPasses, EachLeavesWhatTheInterpreterComputes) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 150),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  std::map<std::string, int> applied;
  const Target gpu = Target::parse("cuda -arch=sm_90");
  for (int64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("HEDDLE_PROPERTY_COUNT=1 HEDDLE_PROPERTY_SEED=" + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    const std::vector<Tensor> outputs = Drawer(rng).run();
    const std::vector<Tensor> args = args_of(outputs);
    const std::vector<NDArray> arrays = arrays_for(args, static_cast<uint64_t>(seed));
    std::vector<TensorValue> inputs;
    for (size_t i = 0; i + outputs.size() < args.size(); ++i)
      inputs.push_back({args[i], arrays[i]});
    const std::vector<NDArray> want = interpret(outputs, inputs);
    const Target cpu = with_lanes(kLanes);
    std::vector<std::pair<PassOptions, Target>> all{{PassOptions(), cpu}, {PassOptions(), gpu}};
    for (const PassDescription& pass : network_passes()) all.push_back({only(pass), cpu});
    PassOptions transposed;
    transposed.choices["transpose_weights@*"] = true;
    all.push_back({transposed, gpu});
    const ComputeDag declared(outputs);
    for (const auto& [options, target] : all) {
      std::vector<PassApplication> log;
      network::ChoiceList choices(options);
      const ComputeDag dag = network::run_passes(declared, target, options, choices, log);
      for (const PassApplication& a : log) ++applied[a.pass];
      if (log.empty()) continue;
      std::vector<TensorValue> read;
      for (const Tensor& t : dag.placeholders()) {
        for (const TensorValue& v : inputs) {
          if (v.tensor.same_as(t)) read.push_back(v);
        }
      }
      const std::vector<NDArray> got = interpret(dag.outputs(), read);
      for (size_t o = 0; o < want.size(); ++o) {
        EXPECT_EQ(differs(got[o], want[o]), "") << "--passes " << to_string(options) << "\n"
                                                << declared.to_text() << dag.to_text();
      }
    }
  }
  if (count < 100) return;  // a reproducer
  for (const PassDescription& pass : network_passes()) {
    // They leave the graph as it is; precision does where no types are named (precision_pass_test).
    if (pass.name == "precision" || pass.name == "concat_in_place" ||
        pass.name == "slices_in_place" || pass.name == "horizontal")
      continue;
    EXPECT_GT(applied[pass.name], 5) << pass.name << " was hardly tried";
  }
}

// A choice may do away with another one.
Network changed(const Network& network, PassOptions options) {
  while (true) {
    try {
      return network.with_passes(options);
    } catch (const Error& e) {
      if (e.kind != ErrorKind::User || options.choices.empty()) throw;
      options.choices.erase(std::prev(options.choices.end()));
    }
  }
}

TEST(RandomPasses, NetworksComputeWhatTheInterpreterDoes) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 30),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1000);
  int placed = 0;
  std::map<std::string, int> chosen;
  for (int64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("HEDDLE_PROPERTY_COUNT=1 HEDDLE_PROPERTY_SEED=" + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    const std::vector<Tensor> outputs = Drawer(rng).run();
    const std::vector<Tensor> args = args_of(outputs);
    std::vector<NDArray> arrays = arrays_for(args, static_cast<uint64_t>(seed));
    std::vector<TensorValue> inputs;
    for (size_t i = 0; i + outputs.size() < args.size(); ++i)
      inputs.push_back({args[i], arrays[i]});
    const std::vector<NDArray> want = interpret(outputs, inputs);
    // Concats of channels are written in place where channels are outermost.
    Network network(outputs, with_lanes(kLanes), {},
                    parse_passes(seed % 2 == 0 ? "" : "-channels_last"));
    // Choices are made the other way at random.
    PassOptions options = network.pass_options();
    for (const NetworkChoice& c : network.choices()) {
      if (!rng.chance(0.4)) continue;
      options.choices[c.name] = !c.on;
      ++chosen[c.name.substr(0, c.name.find('@'))];
    }
    SCOPED_TRACE("--passes " + to_string(options));
    network = changed(network, options);
    placed += static_cast<int>(network.places().size());
    const NetworkKernel kernel = network.build(args);
    for (int time = 0; time < 2; ++time) {
      kernel.call(arrays);
      for (size_t o = 0; o < want.size(); ++o) {
        NDArray& got = arrays[inputs.size() + o];
        EXPECT_EQ(differs(got, want[o]), "") << "output " << o << "\n" << network.to_text();
        got.fill(77);
      }
    }
  }
  if (count < 30) return;  // a reproducer
  EXPECT_GT(placed, 5) << "hardly any concat was written in place";
  for (const char* kind : {"join_products", "channels_last", "store", "fuse"})
    EXPECT_GT(chosen[kind], 0) << kind << " was never chosen";
}

}  // namespace
}  // namespace heddle::testing
