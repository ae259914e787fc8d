#include "runtime/exported_network.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/workspace.h"
#include "heddle/support/error.h"
#include "runtime/cpu_features.h"
#include "runtime/exported_errors.h"
#include "runtime/exported_weights.h"

namespace heddle {
namespace {

void check_tables(const heddle_network_tables& t) {
  check_exported_version(t.name, t.version);
  const std::vector<std::string> missing =
      internal::missing_features({t.features, t.features + t.num_features});
  if (missing.empty()) return;
  std::string list;
  for (const std::string& feature : missing) list += (list.empty() ? "" : ", ") + feature;
  throw_runtime_error(std::string("'") + t.name + "' was compiled for '" + t.target +
                      "', and this CPU lacks " + list);
}

}  // namespace
}  // namespace heddle

struct heddle_network {
  heddle_network(const heddle_network_tables& t, const std::string& weights)
      : tables(t), mapped(weights, t.name, {t.weights_bytes, t.weights_hash}) {
    for (int32_t s = 0; s < t.num_steps; ++s) {
      first.push_back(num_parameters);
      for (int32_t p = 0; p < t.steps[s].num_places; ++p) {
        const heddle_place& place = t.steps[s].places[p];
        if (place.where == HEDDLE_ARGUMENT) arguments.push_back({num_parameters + p, place.at});
      }
      num_parameters += static_cast<size_t>(t.steps[s].num_places);
    }
  }

  /// The memory of one call.
  struct Frame {
    explicit Frame(const heddle_network& n) : parameters(n.num_parameters) {
      if (n.tables.arena_bytes > 0) {
        arena.reset(static_cast<char*>(heddle_workspace_alloc(n.tables.arena_bytes)));
        if (!arena) heddle::throw_runtime_error("out of memory for what passes between steps");
      }
      for (int32_t s = 0; s < n.tables.num_steps; ++s) {
        for (int32_t p = 0; p < n.tables.steps[s].num_places; ++p) {
          const heddle_place& place = n.tables.steps[s].places[p];
          void*& to = parameters[n.first[s] + static_cast<size_t>(p)];
          if (place.where == HEDDLE_ARENA) to = arena.get() + place.at;
          if (place.where == HEDDLE_WEIGHTS) to = n.mapped.at(place.at);
        }
      }
    }
    struct Free {
      void operator()(char* block) const { heddle_workspace_free(block); }
    };
    std::unique_ptr<char, Free> arena;
    std::vector<void*> parameters;  ///< the parameters of all steps, one after the other
  };
  struct Argument {
    size_t parameter;
    int64_t tensor;  ///< the number of an input, or of an output after all inputs
  };

  void run(const void* const* inputs, void* const* outputs) {
    heddle::check_exported_arrays(
        tables.name, {tables.tensors, tables.num_inputs, tables.num_outputs}, inputs, outputs);
    const auto address = [&](int64_t tensor) {
      return tensor < tables.num_inputs ? const_cast<void*>(inputs[tensor])
                                        : outputs[tensor - tables.num_inputs];
    };
    std::unique_ptr<Frame> frame = take_frame();
    for (const Argument& a : arguments) frame->parameters[a.parameter] = address(a.tensor);
    for (int32_t s = 0; s < tables.num_steps; ++s) {
      if (tables.steps[s].entry(frame->parameters.data() + first[s]) == 0) continue;
      heddle::throw_runtime_error(std::string("out of memory for the temporaries of '") +
                                  tables.steps[s].name + "' of '" + tables.name + "'");
    }
    const std::lock_guard lock(mutex);
    free.push_back(std::move(frame));
  }

  std::unique_ptr<Frame> take_frame() {
    {
      const std::lock_guard lock(mutex);
      if (!free.empty()) {
        std::unique_ptr<Frame> frame = std::move(free.back());
        free.pop_back();
        return frame;
      }
    }
    return std::make_unique<Frame>(*this);
  }

  const heddle_network_tables& tables;
  heddle::ExportedWeights mapped;
  std::vector<size_t> first;  ///< the first parameter of each step
  size_t num_parameters = 0;
  std::vector<Argument> arguments;
  std::mutex mutex;
  std::vector<std::unique_ptr<Frame>> free;  ///< as many as there were concurrent calls
};

extern "C" {

heddle_network* heddle_network_open(const heddle_network_tables* tables, const char* weights) {
  heddle_network* network = nullptr;
  heddle::succeeds([&] {
    heddle::check_tables(*tables);
    network = new heddle_network(*tables, weights);
  });
  return network;
}

int heddle_network_run(heddle_network* network, const void* const* inputs, void* const* outputs) {
  return heddle::succeeds([&] {
    if (network == nullptr) heddle::throw_runtime_error("the network is a null pointer");
    network->run(inputs, outputs);
  })
             ? 0
             : 1;
}

void heddle_network_close(heddle_network* network) { delete network; }

void heddle_network_set_threads(int count) { heddle::set_num_threads(count); }
}
