// Precision by bound: each product of a network in the fastest type with which its outputs stay
// within a tolerance.
//
//   Network net({logits});
//   PrecisionChoice choice = choose_precision(net, {image, logits}, {.tolerance = 1e-2});
//   std::cout << choice.to_string();
//   NetworkKernel run = net.with_passes(choice.options).build({image, logits});
//
// The products of f32 may be made of tf32, f16, bf16, f8e4m3 or bytes (PassOptions::types), where the
// target has an instruction for them. What each product alone costs in each type is measured: the
// error of the outputs on one half of the calls, and the time that a call gains. Products change
// their types in the order of gain for error, as far as the error on those calls allows. The other
// half of the calls decides: while the error there is above the tolerance, the last changes are
// undone. Where nothing is faster within the tolerance, all stays in f32.
//
// The error of an output is its largest absolute difference to the network in f32, over the largest
// absolute value of that network's output, in all calls; that of a network is the largest of its
// outputs. A value that is not finite where the one in f32 is, makes it infinite.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/support/json.h"

namespace heddle {

/// Options of choose_precision().
struct PrecisionOptions {
  double tolerance = 0.01;  ///< not negative
  /// For each call the arrays of its inputs, in the order of the arguments. Those at even places
  /// choose, the others decide. Empty: `drawn` calls on random inputs (NDArray::random).
  std::vector<std::vector<NDArray>> calls = {};
  int drawn = 8;
  uint64_t seed = 1;
  /// What is not measured by then stays in f32. The search itself takes a little longer.
  double seconds = 120;
  /// Of a network over dimensions: calls at other sizes, at least two. Those at even places widen the ranges
  /// of bytes.
  std::vector<std::vector<NDArray>> wider = {};
  /// The least and the largest value of the operand of bytes by product, as the stage of a graph, that count beside
  /// those on the calls. They follow from `wider`.
  std::map<int, std::pair<double, double>> ranges = {};
  /// Of a network over dimensions: its error where products have these types, by their names at its
  /// usual sizes, in place of that on random inputs at other sizes than those of the calls.
  std::function<double(const std::map<std::string, OperandType>& types)> elsewhere = {};
  /// The seconds of a call of a network, for tests. Empty: they are measured, or estimated for a
  /// target that does not run here.
  std::function<double(const Network&)> time = {};
};

/// What came of a product in a type.
enum class PrecisionVerdict : uint8_t {
  NoTime,       ///< it was not measured
  CannotBuild,  ///< the network with it does not compile
  NoGain,       ///< it is not faster
  TooInexact,   ///< the tolerance does not allow it, beside what gains more for its error
  Replaced,     ///< another type of this product was taken
  Taken,
};
const char* to_string(PrecisionVerdict verdict);

/// A product that was measured in a type, alone.
struct PrecisionTrial {
  std::string product;  ///< as in PassOptions::types
  OperandType type;
  double error = 0;  ///< of the network's outputs
  double gain = 0;   ///< seconds of a call; below 0: it is slower
  PrecisionVerdict verdict = PrecisionVerdict::NoTime;
};

/// Why all products stayed in f32; Some: they did not.
enum class PrecisionOutcome : uint8_t {
  Some,
  NoProducts,  ///< the network has none of f32
  NoTypes,     ///< the target has no instruction for products of shorter numbers
  NoTime,      ///< the time was over before anything was found
  NoGain,      ///< no product is faster in a shorter type
  TooInexact,  ///< no change stays within the tolerance
  NotFaster,   ///< the network with the changes was not proven to be faster
};

/// The result of choose_precision.
struct PrecisionChoice {
  PassOptions options;  ///< those of the network, with `types` and `tolerance`
  PrecisionOutcome outcome = PrecisionOutcome::NoProducts;
  double error = 0;  ///< on the calls that decide
  /// Seconds of a call in f32 and with the types: medians of calls in turns, or estimates.
  double f32_seconds = 0, seconds = 0;
  bool measured = false;  ///< they are no estimates
  bool drawn = false;     ///< the calls were on random inputs
  int calls = 0;          ///< half of them decide
  int products = 0;
  /// The error of all changes that gain, on the calls that choose; 0: not measured. Beside it what
  /// the errors of single products say if they add up, and if their squares do.
  double all_error = 0, all_linear = 0, all_squares = 0;
  std::vector<PrecisionTrial> trials = {};

  /// A table, and lines that say what was chosen and why.
  std::string to_string() const;
  Json to_json() const;
};

/// Chooses the types. `args` are those of Network::build: inputs and outputs in call order. A User
/// error for a tolerance that is negative or no number, for calls that do not fit the inputs or are
/// fewer than two, and where an output has no finite value in one. A network for a target that does
/// not run here is judged on this CPU, which computes with the same short numbers, and its times are
/// estimates. In a network over dimensions a product has one type at all sizes. It is chosen at the
/// sizes of the calls, which are those of the first one, or else at the usual sizes. On random inputs
/// at the least sizes, and at up to four times those, the outputs keep the tolerance too, or what
/// PrecisionOptions::elsewhere finds: products whose error is largest are left in f32 until they do. A call begins with
/// the states of its inputs, and what it leaves in them is an output; where the network does not run here, states are a User error.
PrecisionChoice choose_precision(const Network& network, const std::vector<Tensor>& args,
                                 const PrecisionOptions& options = {});

/// The network with the types of a choice, and what its plan has for that.
Network with_types(const Network& network, const PrecisionChoice& choice);

/// The calls of samples: an array for each input, by its name, whose first dimension counts the
/// samples, as quantize_onnx takes them. Samples behind the last whole call are left out. Dimensions
/// over a range have the extent of the samples, and the first one its least. A User
/// error for samples that do not fit the inputs, or of no whole call.
std::vector<std::vector<NDArray>> calls_of_samples(const std::map<std::string, NDArray>& samples,
                                                   const std::vector<std::string>& names,
                                                   const std::vector<Tensor>& inputs);

/// The error of an output: the largest absolute difference over the largest absolute value of
/// `want`. 0 where they are equal, infinite where a value is not finite and the other one differs.
double output_error(const NDArray& got, const NDArray& want);

}  // namespace heddle
