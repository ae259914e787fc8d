// An encoder of a transformer as exporters write it, quantised by us and as a file that came with its
// QuantizeLinear and DequantizeLinear (QDQ): what its kernels compute against the interpreter and f32, f16 or bf16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/quantize/precision.h"
#include "heddle/quantize/quantize.h"
#include "network/emulated_network.h"
#include "quantize/encoder_file.h"

namespace heddle::testing {
namespace {

struct Results {
  NDArray kernels, interpreted;
  int64_t integer_products = 0;
};

/// The nodes of a network that reduce, as the stages of each: those whose reductions `counts` accepts.
int64_t reductions(const Network& network, FunctionRef<bool(const Operation&)> counts) {
  int64_t found = 0;
  for (const NetworkNode& n : network.nodes()) {
    const ComputeDag& dag = network.tasks()[static_cast<size_t>(n.task)].tmpl.dag().direct();
    for (int s = 0; s < dag.size(); ++s) {
      const Operation& op = dag.stage(s);
      if (op.is_reduction() && !dag.info(s).precomputable && counts(op)) ++found;
    }
  }
  return found;
}

bool sums_bytes(const Operation& op) { return op.output(0).dtype() == i32; }

Results results(const std::string& path, const std::map<std::string, NDArray>& inputs,
                DataType type = f32) {
  const OnnxModel model = import_onnx(path, {.dims = {{"batch", kBatch}}, .precision = type});
  std::vector<NDArray> given;
  std::vector<TensorValue> values;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    given.push_back(inputs.at(model.input_names[i]));
    values.push_back({model.inputs[i], given.back()});
  }
  Results r{NDArray::zeros({kBatch, kSequence, kWidth}, f32), interpret(model.outputs, values)[0]};
  r.integer_products = reductions(
      Network(model.outputs, Target::host(), {}, parse_passes("-join_products")), sums_bytes);
  Network(model.outputs).build(model.args()).call(model.arrays(given, {r.kernels}));
  return r;
}

// Sums in another order round some bytes to their neighbours, one step of 1/255 of a range.
constexpr double kOfNeighbours = 0.02;

class QuantizedEncoder : public ::testing::TestWithParam<QuantizeOptions> {
 protected:
  const ModelFolder folder_{"encoder"};
  const std::map<std::string, NDArray> given_ = samples(kBatch, 77);
};

TEST_P(QuantizedEncoder, ComputesWhatTheFileSaysAndAboutWhatF32Does) {
  const std::string path = folder_.write("model.onnx", model_bytes(Encoder(false).run())),
                    written = (folder_.path() / "bytes.onnx").string();
  QuantizeOptions options = GetParam();
  options.batch = kBatch;
  const QuantizeReport report = quantize_onnx(path, samples(32, 5), written, options);
  const Results f32_results = results(path, given_), bytes = results(written, given_);
  EXPECT_EQ(f32_results.integer_products, 0);
  EXPECT_EQ(bytes.integer_products, kProducts) << report.to_string();
  EXPECT_LE(output_error(f32_results.kernels, f32_results.interpreted), 1e-5);
  EXPECT_LE(output_error(bytes.kernels, bytes.interpreted), kOfNeighbours);
  EXPECT_LE(output_error(bytes.kernels, f32_results.kernels), 0.1) << report.to_string();
  EXPECT_GT(output_error(bytes.kernels, f32_results.kernels), 0) << "nothing is of bytes";
}

INSTANTIATE_TEST_SUITE_P(Options, QuantizedEncoder,
                         ::testing::Values(QuantizeOptions{}, QuantizeOptions{.activations = i8},
                                           QuantizeOptions{.per_channel = false}));

TEST(EncoderOfBytes, ComputesWhatTheFileSays) {
  const ModelFolder folder("encoder_qdq");
  const Results r =
      results(folder.write("qdq.onnx", model_bytes(Encoder(true).run())), samples(kBatch, 77));
  EXPECT_EQ(r.integer_products, kProducts);
  EXPECT_LE(output_error(r.kernels, r.interpreted), kOfNeighbours);
}

// What stays float has the narrower type; the products are those of bytes, on CPUs and on GPUs.
TEST(EncoderOfBytes, IsOfBytesBetweenNarrowNumbersToo) {
  const ModelFolder folder("encoder_narrow");
  const std::string path = folder.write("qdq.onnx", model_bytes(Encoder(true).run()));
  const NDArray wide = results(path, samples(kBatch, 77)).interpreted;
  for (const DataType type : {f16, bf16}) {
    SCOPED_TRACE(to_string(type));
    const Results r = results(path, samples(kBatch, 77), type);
    EXPECT_EQ(r.integer_products, kProducts);
    EXPECT_LE(output_error(r.kernels, r.interpreted), type == f16 ? kOfNeighbours : 0.05);
    EXPECT_LE(output_error(r.kernels, wide), type == f16 ? kOfNeighbours : 0.05);
  }
}

TEST(EncoderOfBytes, OnAGpuHasTheNodesOfOneInF16) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const ModelFolder folder("encoder_gpu");
  const std::string path = folder.write("qdq.onnx", model_bytes(Encoder(true).run()));
  const Target gpu = Target::parse("cuda -gpu=h200");
  const std::map<std::string, NDArray> given = samples(kBatch, 77);
  const NDArray want = results(path, given).interpreted;
  const OnnxModel model = import_onnx(path, {.dims = {{"batch", kBatch}}, .precision = f16});
  const Network network(model.outputs, gpu);
  EXPECT_EQ(reductions(network, sums_bytes), kProducts);
  // Each norm sums twice, in one node; the sum of a residual reads its results.
  EXPECT_EQ(reductions(network,
                       [](const Operation& op) {
                         return op.output(0).extents() == Extents{kBatch, kSequence};
                       }),
            2 * (2 * kLayers + 1))
      << network.to_text();
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  emulate_network(driver, network, gpu);
  const NDArray got = NDArray::zeros(want.shape(), f32);
  std::vector<NDArray> inputs;
  for (const std::string& name : model.input_names) inputs.push_back(given.at(name));
  network.build(model.args()).call(model.arrays(inputs, {got}));
  EXPECT_LE(output_error(got, want), kOfNeighbours);
}

}  // namespace
}  // namespace heddle::testing
