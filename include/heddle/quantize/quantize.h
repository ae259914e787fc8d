// Quantising ONNX models: f32 in, a model with 8-bit integers out.
//
//   QuantizeReport report = quantize_onnx("net.onnx", load_npz("data.npz"), "net_int8.onnx");
//   std::cout << report.to_string();
//
// The network runs on samples, which shows the range of each tensor between its nodes. The result
// is the same graph with pairs of QuantizeLinear and DequantizeLinear (QDQ) around its products,
// and with weights of i8. Heddle computes such products in integers, and ONNX Runtime reads the
// file too. A value x is stored as q = clamp(round(x / scale) + zero), and stands for
// (q - zero) * scale (Jacob et al., "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", 2018).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"

namespace heddle {

/// How the range of a tensor follows from its values on the samples. Values beyond the range become
/// its ends.
enum class RangeMethod : uint8_t {
  MinMax,      ///< from the least to the largest value
  Percentile,  ///< as far from 0 as this percentage of the values, by a histogram of 2048 bins
  /// The range whose distribution of 8 bits has the least Kullback-Leibler divergence from that of
  /// the values (Migacz, "8-bit Inference with TensorRT", 2017).
  Entropy,
};

/// Options of quantize_onnx().
struct QuantizeOptions {
  RangeMethod method = RangeMethod::MinMax;
  double percentile = 99.99;  ///< in (50, 100]
  /// A scale for each output channel of weights, in place of one for all.
  bool per_channel = true;
  /// The type of tensors between nodes: u8, with a zero point, or i8, whose zero point is 0.
  DataType activations = u8;
  /// Nodes that stay in f32, by their names in the file.
  std::vector<std::string> keep = {};
  /// Samples of one call, where the model leaves the first dimension of its inputs open.
  int64_t batch = 16;
};

/// A tensor of the network that is stored as bytes.
struct QuantizedTensor {
  std::string name, node;    ///< in the file; `node` computes it, as in "node 'conv1' (Conv)"
  double low = 0, high = 0;  ///< the range that the bytes cover before rounding
  double scale = 1;
  int64_t zero = 0;
  DataType dtype;
  /// Signal to noise on the samples, in dB: of f32 values that are rounded here alone, and of the
  /// quantised network up to here. Infinite where nothing differs.
  double own_snr = 0, snr = 0;
};

/// A product, or a node between products.
struct QuantizedNode {
  std::string node;      ///< "node 'conv1' (Conv)"
  std::string in_float;  ///< why it stays in f32; empty where it was quantised
};

/// An output of the network on the samples.
struct QuantizedOutput {
  std::string name;
  double snr = 0;             ///< in dB, against f32; infinite where nothing differs
  double largest = 0;         ///< the largest absolute difference
  double largest_of_f32 = 0;  ///< the largest absolute value in f32
};

/// What quantize_onnx() did, and what it costs.
struct QuantizeReport {
  std::vector<QuantizedTensor> tensors;  ///< in the order of the file
  std::vector<QuantizedNode> nodes;      ///< products, and what passes bytes on
  /// Other nodes, which stay in f32, by operator. Those that are computed with the product before
  /// them, such as a Relu, are not among them.
  std::map<std::string, int> other_nodes;
  std::vector<QuantizedOutput> outputs;
  int64_t samples = 0;
  int64_t weight_bytes = 0, weight_bytes_before = 0;  ///< of the weights that were quantised

  std::string to_string() const;  ///< tables
  Json to_json() const;
};

/// Quantises the model at `path` and writes it to `output`. `samples` has an array for each input,
/// by name, of the input's type and shape but for the first dimension: that is the number of samples,
/// and a multiple of the input's first dimension where the file fixes it. Throws a User error for
/// data that do not fit the model, for values that are not finite, for a model in which nothing can
/// be quantised, and for operator sets before 13 (10 with one scale for all channels).
QuantizeReport quantize_onnx(const std::string& path, const std::map<std::string, NDArray>& samples,
                             const std::string& output, const QuantizeOptions& options = {},
                             Where where = Where::current());

/// "minmax", "percentile" or "entropy"; other text is a User error.
RangeMethod range_method_of(const std::string& text);

}  // namespace heddle
