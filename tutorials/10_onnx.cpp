// Lesson 10: a network from an ONNX file.
//
// Lesson 3 wrote its network in Heddle. Most networks come as files instead: PyTorch and others
// write ONNX. Here the network of lesson 3 comes from tutorials/data/digits.onnx, 1.3 KB of nodes
// whose weights are external data: parts of digits_weights.bin, which is mapped into memory, not
// read. The file leaves the number of images open; we choose it.
//
// What we get is a declaration like that of lesson 3, so everything else stays the same: `Network`
// cuts it into tasks and fuses, `tune` finds better schedules, kernels are built for CPUs and GPUs.
//
//   build/bin/tutorial_10_onnx [folder of the data]
//
// The exit code is 0 only if all predictions are PyTorch's, its logits within 1e-4, and mistakes
// are explained.
#include <heddle/heddle.h>
#include <heddle/network/network.h>
#include <heddle/onnx/import.h>
#include <heddle/runtime/timer.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "common/digits.h"
#include "common/expect.h"
#include "common/tensor_file.h"

using namespace heddle;
using namespace heddle::tutorials;

namespace {

std::string names(const std::vector<std::string>& all, const std::vector<Tensor>& tensors) {
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    text += (i ? ", " : "") + all[i] + " " + to_string(tensors[i].dtype()) + "[";
    for (int d = 0; d < tensors[i].rank(); ++d)
      text += (d ? ", " : "") + std::to_string(tensors[i].extent(d));
    text += "]";
  }
  return text;
}

// What is wrong with a file or a call is said in words, with the file and the node.
std::string mistake(const std::string& path) {
  try {
    import_onnx(path);
  } catch (const Error& error) {
    return error.message + "\n  help: " + error.help;
  }
  return "";
}

int run(const std::string& folder) {
  if (!onnx_available()) {
    std::printf(
        "this build has no ONNX import (libprotobuf-dev, protobuf-compiler, libonnx-dev)\n");
    return 0;
  }
  const std::string path = folder + "/digits.onnx";

  // The file says ["batch", 1, 8, 8]: without an extent for "batch" there is no declaration.
  const std::string without_batch = mistake(path);
  std::printf("without dims: %s\n\n", without_batch.c_str());
  HEDDLE_EXPECT(without_batch.find("--dims batch=1") != std::string::npos,
                "the message does not say what to do");

  Timer timer;
  const OnnxModel model = import_onnx(path, {.dims = {{"batch", kBatch}}});
  std::printf("imported in %.1f ms: %s -> %s, %zu constants\n\n", timer.elapsed_s() * 1e3,
              names(model.input_names, model.inputs).c_str(),
              names(model.output_names, model.outputs).c_str(), model.constants.size());

  // A network of tasks: what the DAG fuses is one node.
  const Network network(model.outputs);
  std::printf("%s\n", network.to_text().c_str());
  timer = Timer();
  const NetworkKernel kernel = network.build(model.args());
  std::printf("compiled in %.0f ms\n\n", timer.elapsed_s() * 1e3);

  // Arrays in the order of model.args(): inputs, outputs. The kernel has the file's constants.
  const TensorFile test = read_tensor_file(folder + "/digits_test.bin");
  const std::vector<float> pixels = test.at("images").f32();
  const auto count = static_cast<int64_t>(test.at("labels").i32().size());
  const NDArray images = NDArray::zeros(model.inputs[0].extents(), f32);
  const NDArray logits = NDArray::zeros(model.outputs[0].extents(), f32);
  const std::vector<NDArray> arrays = model.arrays({images}, {logits});
  std::vector<float> all;
  for (int64_t begin = 0; begin < count; begin += kBatch) {
    const int64_t used = std::min(kBatch, count - begin);
    std::copy_n(pixels.begin() + begin * kPixels, used * kPixels, images.data<float>());
    kernel.call(arrays);
    all.insert(all.end(), logits.data<float>(), logits.data<float>() + used * kClasses);
  }

  const std::vector<int32_t> predicted = largest_of_each_row(all);
  const int correct = count_equal(predicted, test.at("labels").i32());
  const int same = count_equal(predicted, test.at("predictions").i32());
  const double error = worst_relative_error(all, test.at("logits").f32());
  std::printf("accuracy  %d of %ld\n", correct, static_cast<long>(count));
  std::printf("PyTorch   predicts the same for %d; its logits differ by %.1e at most\n", same,
              error);
  HEDDLE_EXPECT(same == static_cast<int>(count), "some predictions differ from PyTorch's");
  HEDDLE_EXPECT(error <= 1e-4, "the logits differ from PyTorch's");
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
