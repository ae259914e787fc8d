// Networks for a CPU that export_network wrote.
#include <memory>
#include <string>
#include <vector>

#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/workspace.h"
#include "heddle/support/error.h"
#include "runtime/exported/errors.h"
#include "runtime/exported/network.h"
#include "runtime/exported/weights.h"
#include "runtime/machine/cpu_features.h"
#include "runtime/program/places.h"
#include "runtime/program/views.h"
#include "support/stack_array.h"

namespace heddle {
namespace {

class CpuNetwork final : public heddle_network {
 public:
  CpuNetwork(ExportedProgram p, const heddle_code* code, const std::string& weights)
      : heddle_network(std::move(p)), code_(code), mapped_(weights, program) {
    for (const ExportedArray& a : program.arrays) arrays_.push_back(mapped_.at(a.at));
  }

  void run(std::span<const int64_t> sizes, const void* const* inputs, void* const* outputs,
           Device /*device*/) override {
    mapped_.check_length();
    check_views(program.name, program.args, program.views, sizes);
    StackArray<void*, 32> arguments(program.args.size());
    for (size_t i = 0; i < program.args.size(); ++i)
      arguments[i] = program.args[i].output ? *outputs++ : const_cast<void*>(*inputs++);
    Arena arena = program.arena_bytes > 0 ? arenas_.take([&] { return new_arena(); }) : nullptr;
    StackArray<void*, 32> views(program.views.size());
    for (size_t i = 0; i < program.views.size(); ++i)
      views[i] = program.views[i].address(arguments[program.views[i].argument], sizes);
    CallAddresses addresses{.arguments = arguments.span(),
                            .views = views.span(),
                            .arena = arena.get(),
                            .arrays = arrays_,
                            .sizes = sizes,
                            .turns = program.turns};
    run_steps(program.loops, program.steps.size(), addresses, [&](size_t s) {
      const ExportedVariant& v = program.steps[s].variants[program.steps[s].selector.at(sizes)];
      StackArray<void*, 32> parameters(v.places.size());
      addresses.fill(v.places, parameters.data());
      if (code_[v.kernel].entry(parameters.data()) == 0) return;
      throw_runtime_error("out of memory for the temporaries of '" +
                          program.kernels[static_cast<size_t>(v.kernel)].name + "' of '" +
                          program.name + "'");
    });
    if (arena) arenas_.give_back(std::move(arena));
  }

 private:
  struct Free {
    void operator()(char* block) const { heddle_workspace_free(block); }
  };
  using Arena = std::unique_ptr<char, Free>;

  Arena new_arena() const {
    Arena arena(static_cast<char*>(heddle_workspace_alloc(program.arena_bytes)));
    if (!arena) throw_runtime_error("out of memory for what passes between steps");
    return arena;
  }

  const heddle_code* code_;
  ExportedWeights mapped_;
  std::vector<void*> arrays_;
  Pool<Arena> arenas_;
};

}  // namespace
}  // namespace heddle

extern "C" {

heddle_network* heddle_network_open(const heddle_library* library,
                                    const char* weights) HEDDLE_NOEXCEPT {
  return heddle::open_exported(
      library, weights, [&](heddle::ExportedProgram program, const std::string& path) {
        heddle::internal::require_features("'" + program.name + "'", program.target,
                                           program.features);
        return std::make_shared<heddle::CpuNetwork>(std::move(program), library->code, path);
      });
}

int heddle_network_set_threads(int count) HEDDLE_NOEXCEPT {
  return heddle::succeeds([&] { heddle::set_num_threads(count); }) ? 0 : 1;
}
}
