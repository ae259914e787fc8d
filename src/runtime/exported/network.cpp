#include "runtime/exported/network.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/workspace.h"
#include "heddle/support/error.h"
#include "runtime/exported/errors.h"
#include "runtime/exported/open_networks.h"
#include "runtime/exported/sizes.h"
#include "runtime/exported/weights.h"
#include "runtime/machine/cpu_features.h"

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
      : tables(t),
        tensors(t.name, t.tensors, t.num_inputs, t.num_outputs),
        mapped(weights, t.name, {t.weights_bytes, t.weights_hash, t.check_weights != 0}) {
    for (int32_t s = 0; s < t.num_steps; ++s) {
      first.emplace_back();
      for (int32_t v = 0; v < t.steps[s].num_variants; ++v) add(t.steps[s].variants[v]);
    }
  }

  void add(const heddle_variant& variant) {
    first.back().push_back(num_parameters);
    for (int32_t p = 0; p < variant.num_places; ++p) {
      const heddle_place& place = variant.places[p];
      const Changing parameter{num_parameters + static_cast<size_t>(p), place.at};
      if (place.where == HEDDLE_ARGUMENT) arguments.push_back(parameter);
      if (place.where == HEDDLE_SIZE) sizes.push_back(parameter);
    }
    num_parameters += static_cast<size_t>(variant.num_places);
  }

  /// The memory of one call.
  struct Frame {
    explicit Frame(const heddle_network& n) : parameters(n.num_parameters) {
      if (n.tables.arena_bytes > 0) {
        arena.reset(static_cast<char*>(heddle_workspace_alloc(n.tables.arena_bytes)));
        if (!arena) heddle::throw_runtime_error("out of memory for what passes between steps");
      }
      size_t parameter = 0;
      for (int32_t s = 0; s < n.tables.num_steps; ++s) {
        const heddle_step& step = n.tables.steps[s];
        for (int32_t v = 0; v < step.num_variants; ++v) {
          for (int32_t p = 0; p < step.variants[v].num_places; ++p)
            set(n, step.variants[v].places[p], parameters[parameter++]);
        }
      }
    }
    void set(const heddle_network& n, const heddle_place& place, void*& to) const {
      if (place.where == HEDDLE_ARENA) to = arena.get() + place.at;
      if (place.where == HEDDLE_WEIGHTS) to = n.mapped.at(place.at);
    }
    struct Free {
      void operator()(char* block) const { heddle_workspace_free(block); }
    };
    std::unique_ptr<char, Free> arena;
    std::vector<void*> parameters;  ///< the parameters of all steps, one after the other
  };
  /// A parameter that each call sets.
  struct Changing {
    size_t parameter;
    int64_t at;  ///< the number of a size, of an input, or of an output after all inputs
  };

  void run(const int64_t* given, const void* const* inputs, void* const* outputs) {
    const std::vector<int64_t> values =
        heddle::checked_sizes(tables.name, tables.sizes, tables.num_sizes, given);
    tensors.check(inputs, outputs);
    mapped.check_length();
    const auto address = [&](int64_t tensor) {
      return tensor < tables.num_inputs ? const_cast<void*>(inputs[tensor])
                                        : outputs[tensor - tables.num_inputs];
    };
    std::unique_ptr<Frame> frame = take_frame();
    for (const Changing& a : arguments) frame->parameters[a.parameter] = address(a.at);
    for (const Changing& s : sizes)
      frame->parameters[s.parameter] = reinterpret_cast<void*>(values[static_cast<size_t>(s.at)]);
    for (int32_t s = 0; s < tables.num_steps; ++s) {
      const heddle_step& step = tables.steps[s];
      const int32_t v = heddle::exported_variant(step.questions, step.num_variants, values);
      void** parameters = frame->parameters.data() + first[static_cast<size_t>(s)][v];
      if (step.variants[v].entry(parameters) == 0) continue;
      heddle::throw_runtime_error(std::string("out of memory for the temporaries of '") +
                                  step.name + "' of '" + tables.name + "'");
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
  heddle::ExportedTensors tensors;
  heddle::ExportedWeights mapped;
  std::vector<std::vector<size_t>> first;  ///< the first parameter of each variant of each step
  size_t num_parameters = 0;
  std::vector<Changing> arguments, sizes;
  std::mutex mutex;
  std::vector<std::unique_ptr<Frame>> free;  ///< as many as there were concurrent calls
};

namespace {

// Never destroyed, because threads may still call while the process ends.
auto& open_networks = *new heddle::OpenNetworks<heddle_network>();

}  // namespace

extern "C" {

heddle_network* heddle_network_open(const heddle_network_tables* tables,
                                    const char* weights) HEDDLE_NOEXCEPT {
  heddle_network* network = nullptr;
  heddle::succeeds([&] {
    heddle::check_tables(*tables);
    network = open_networks.add(std::make_shared<heddle_network>(
        *tables, heddle::weights_path(tables, tables->name, weights)));
  });
  return network;
}

int heddle_network_run(heddle_network* network, const int64_t* sizes, const void* const* inputs,
                       void* const* outputs) HEDDLE_NOEXCEPT {
  const bool done =
      heddle::succeeds([&] { open_networks.find(network)->run(sizes, inputs, outputs); });
  return done ? 0 : 1;
}

void heddle_network_close(heddle_network* network) HEDDLE_NOEXCEPT { open_networks.close(network); }

int heddle_network_set_threads(int count) HEDDLE_NOEXCEPT {
  return heddle::succeeds([&] { heddle::set_num_threads(count); }) ? 0 : 1;
}
}
