// What products in other types cost and gain, measured with networks that have them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/quantize/precision.h"
#include "network/race/timed_network.h"
#include "quantize/precision/operand_ranges.h"
#include "quantize/precision/operand_types.h"

namespace heddle::quantize {

using Types = std::map<std::string, OperandType>;

/// The calls that choose, and those that decide.
enum class Half : uint8_t { Chooses, Decides };

class PrecisionMeter {
 public:
  /// `network`: in f32.
  PrecisionMeter(const Network& network, std::vector<Tensor> args, const PrecisionOptions& options);

  /// A network with products of these types.
  struct Made {
    Network network;
    std::shared_ptr<network::TimedNetwork> runs;  ///< here, on this CPU where it is for another one
  };
  Made made(const Types& types) const;

  /// The products, those with the most arithmetic first.
  const std::vector<Candidate>& candidates() const { return candidates_; }
  /// The error of the outputs.
  double error(const Made& made, Half half) const;
  /// The hashes of the nodes of f32 in whose place the changes have others, in order.
  std::vector<uint64_t> replaced(const Made& made) const;
  /// The seconds of a call that the changes gain.
  double gain(const Made& made) const;
  /// A race of whole calls against f32, or two estimates.
  NetworkTimes race(const Made& made) const;

  bool measured() const { return here_ && !options_.time; }
  bool drawn() const { return options_.calls.empty(); }
  int calls() const { return static_cast<int>(calls_.size()); }

 private:
  Network runnable(const Network& network) const;
  std::vector<Tensor> args_for(const Network& network) const;
  void check_calls() const;
  void check_wanted() const;
  std::vector<std::string> names_of_results() const;
  void draw_calls();
  std::vector<NDArray> outputs(network::TimedNetwork& runs, size_t call) const;
  std::vector<Candidate> find_candidates() const;
  std::vector<GivenInput> given_inputs() const;
  std::vector<NDArray> states_after(const Tensor& state) const;
  double estimated_seconds() const;

  const PrecisionOptions& options_;
  const std::vector<Tensor> args_;
  const Target target_;
  const bool here_;                          ///< kernels for the target run on this machine
  std::vector<size_t> inputs_;               ///< the arguments that calls give
  std::vector<std::vector<NDArray>> calls_;  ///< of inputs_
  std::vector<NDArray> arrays_;              ///< of args_, which all networks share
  Made f32_;
  std::vector<std::vector<NDArray>> wanted_;  ///< the outputs of each call in f32
  std::vector<Candidate> candidates_;
};

}  // namespace heddle::quantize
