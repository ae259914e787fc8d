// Networks that update their inputs, and what the interpreter computes in their place.
#pragma once

#include <string>
#include <vector>

#include "network/network_testing.h"

namespace heddle::testing {

struct Drawn {
  std::vector<Tensor> outputs;
  std::vector<StateUpdate> updates;
};

/// Inputs, updated ones that nothing reads among them.
inline std::vector<Tensor> inputs_of(const Drawn& drawn) {
  std::vector<Tensor> all = drawn.outputs;
  for (const StateUpdate& u : drawn.updates) all.push_back(u.next);
  std::vector<Tensor> inputs = ComputeDag(all).placeholders();
  for (const StateUpdate& u : drawn.updates) {
    const bool known = std::any_of(inputs.begin(), inputs.end(),
                                   [&](const Tensor& t) { return t.same_as(u.state); });
    if (!known) inputs.push_back(u.state);
  }
  return inputs;
}

/// "" where three calls, with the `given` values of inputs and random ones of others, leave in outputs
/// and states what the interpreter computes.
inline std::string wrong_after_calls(const Drawn& drawn, const Network& network, double tolerance,
                                     const std::vector<TensorValue>& given = {}) {
  std::vector<Tensor> args = inputs_of(drawn), results = drawn.outputs;
  args.insert(args.end(), drawn.outputs.begin(), drawn.outputs.end());
  for (const StateUpdate& u : drawn.updates) results.push_back(u.next);
  const NetworkKernel run = network.build(args);
  const std::vector<NDArray> arrays = arrays_for(args);
  for (const TensorValue& v : given) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].same_as(v.tensor)) arrays[i].copy_from(v.value);
    }
  }
  const auto array_of = [&](const Tensor& t) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].same_as(t)) return arrays[i];
    }
    for (const StateUpdate& u : drawn.updates) {
      if (!u.next.same_as(t)) continue;
      for (size_t i = 0; i < args.size(); ++i) {
        if (args[i].same_as(u.state)) return arrays[i];
      }
    }
    return NDArray();
  };
  for (int call = 0; call < 3; ++call) {
    std::vector<TensorValue> before;
    for (const Tensor& t : ComputeDag(results).placeholders())
      before.push_back({t, array_of(t).copy()});
    const std::vector<NDArray> want = interpret(results, before);
    run.call(arrays);
    for (size_t r = 0; r < results.size(); ++r) {
      const NDArray got = array_of(results[r]);
      const Difference d = compare(got, want[r], tolerance, tolerance);
      if (!d.ok())
        return "call " + std::to_string(call) + ", " + results[r].name() + ": " + describe(d, got) +
               "\n" + network.to_text();
    }
  }
  return "";
}

}  // namespace heddle::testing
