// The network of the lessons, quantised: what it still recognises.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "../../tutorials/common/digits.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/quantize/quantize.h"
#include "source_dir.h"

namespace heddle {
namespace {

using tutorials::kClasses;
using tutorials::kPixels;
using tutorials::TensorFile;

/// The images of the training set, which the network is calibrated on.
NDArray training_images() {
  const TensorFile train =
      tutorials::read_tensor_file(source_dir() + "/tutorials/data/digits_train.bin");
  const std::vector<uint8_t> pixels = train.at("images").u8();
  const int64_t count = 256;
  NDArray images = NDArray::empty({count, 1, 8, 8}, f32);
  for (int64_t i = 0; i < images.size(); ++i)
    images.set(i, static_cast<float>(pixels[static_cast<size_t>(i)]) / 16);
  return images;
}

/// How many of the held-out images a model recognises.
int recognised(const std::string& path) {
  const TensorFile test =
      tutorials::read_tensor_file(source_dir() + "/tutorials/data/digits_test.bin");
  const std::vector<float> pixels = test.at("images").f32();
  const auto count = static_cast<int64_t>(test.at("labels").i32().size());
  const OnnxModel model = import_onnx(path, {.dims = {{"batch", count}}});
  const NDArray images = NDArray::from(pixels, {count, 1, 8, 8});
  const NDArray logits = NDArray::zeros({count, kClasses}, f32);
  Network(model.outputs).build(model.args()).call(model.arrays({images}, {logits}));
  const std::vector<float> all(logits.data<float>(), logits.data<float>() + logits.size());
  return tutorials::count_equal(tutorials::largest_of_each_row(all), test.at("labels").i32());
}

class Digits : public ::testing::TestWithParam<QuantizeOptions> {};

TEST_P(Digits, KeepTheirAccuracy) {
  const std::string path = source_dir() + "/tutorials/data/digits.onnx";
  const std::string written =
      ::testing::TempDir() + "digits_" + std::to_string(::getpid()) + ".onnx";
  const QuantizeReport report =
      quantize_onnx(path, {{"images", training_images()}}, written, GetParam());
  EXPECT_GE(recognised(written), std::ceil(0.99 * recognised(path)));
  ::unlink(written.c_str());

  EXPECT_EQ(report.samples, 256);
  EXPECT_GE(report.tensors.size(), 5U);
  EXPECT_LT(report.weight_bytes, report.weight_bytes_before / 3);
  for (const QuantizedTensor& t : report.tensors) {
    EXPECT_GT(t.own_snr, 25) << t.name;
    EXPECT_GT(t.snr, 20) << t.name;
  }
  ASSERT_EQ(report.outputs.size(), 1U);
  EXPECT_GT(report.outputs[0].snr, 25);
}

INSTANTIATE_TEST_SUITE_P(Options, Digits,
                         ::testing::Values(QuantizeOptions{},
                                           QuantizeOptions{.method = RangeMethod::Percentile},
                                           QuantizeOptions{.method = RangeMethod::Entropy},
                                           QuantizeOptions{.per_channel = false},
                                           QuantizeOptions{.activations = i8}));

}  // namespace
}  // namespace heddle
