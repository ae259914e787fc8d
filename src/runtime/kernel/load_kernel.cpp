#include "heddle/runtime/load_kernel.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "runtime/cuda/cuda_program.h"
#include "runtime/cuda/program_json.h"
#include "runtime/kernel/arg_json.h"
#include "runtime/machine/cpu_features.h"
#include "support/file.h"

namespace heddle {
namespace {

/// The constants that the kernel itself supplies, from the files next to its description.
std::vector<BoundConstant> constants_of(const Json& description, const std::string& stem) {
  std::vector<BoundConstant> constants;
  if (!description.contains("constants")) return constants;  // a description of an older Heddle
  for (const Json& j : description.at("constants").elements()) {
    const std::string file = stem + j.at("file").as_string();
    BoundConstant c{arg_from_json(j), NDArray::load(file)};
    if (c.array.dtype() != c.arg.dtype || c.array.shape() != c.arg.shape) {
      throw_runtime_error("constant '" + c.arg.name + "' is not what was exported: " + file +
                          " holds " + describe(c.array));
    }
    constants.push_back(std::move(c));
  }
  return constants;
}

void check_cpu(const Json& description) {
  std::vector<std::string> needed;
  for (const Json& feature : description.at("features").elements()) {
    needed.push_back(feature.as_string());
  }
  const std::vector<std::string> missing = internal::missing_features(needed);
  if (missing.empty()) return;
  std::string list;
  for (const std::string& feature : missing) list += (list.empty() ? "" : ", ") + feature;
  throw_runtime_error("kernel '" + description.at("name").as_string() + "' was compiled for '" +
                          description.at("target").as_string() + "', and this CPU lacks " + list,
                      {}, "export it for this CPU, or for an older one such as -mcpu=x86-64-v3");
}

KernelCode::Entry entry(void* library, const char* symbol, const std::string& path) {
  void* found = ::dlsym(library, symbol);
  if (found == nullptr) {
    throw_runtime_error(path + " has no function " + symbol, {},
                        "link it from the object that export_kernel wrote");
  }
  return reinterpret_cast<KernelCode::Entry>(found);
}

/// The opened library that belongs to a description.
struct Library {
  std::string path;
  std::shared_ptr<void> handle;
};

Library open_library(const std::string& stem) {
  // A name without a slash would be searched for in the system's folders.
  Library library{std::filesystem::absolute(stem + ".so").string(), nullptr};
  void* opened = ::dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    throw_runtime_error(std::string("cannot load an exported kernel: ") + ::dlerror(), {},
                        "link it with: c++ -shared -o " + stem + ".so " + stem + ".o");
  }
  library.handle = std::shared_ptr<void>(opened, [](void* handle) { ::dlclose(handle); });
  return library;
}

/// The functions of a kernel for a CPU.
void add_functions(KernelCode& code, const Library& library, const std::string& main,
                   const std::string& prepare) {
  code.code = library.handle;
  code.main = entry(library.handle.get(), main.c_str(), library.path);
  if (!prepare.empty()) code.prepare = entry(library.handle.get(), prepare.c_str(), library.path);
}

/// The code for a GPU. It is in a file next to the description, so nothing has to be linked.
std::shared_ptr<const cuda::Program> program_of(const Json& gpu, const std::string& stem) {
  auto program = std::make_shared<cuda::Program>(cuda::program_from_json(gpu));
  program->cubin = read_file(stem + gpu.get_string("file", ".cubin"));
  return program;
}

/// A kernel without its code. `described`: the whole description, or that of a variant.
KernelCode code_without_entry(const Json& described, const std::string& name,
                              std::vector<BoundConstant> constants) {
  KernelCode code;
  code.name = name;
  code.args = args_from_json(described.at("args"));
  code.bound = std::move(constants);
  code.persistent = args_from_json(described.at("persistent"));
  return code;
}

/// A variant of an exported multi-kernel. `library` is open already; a GPU has none.
KernelVariant variant_of(const Json& v, const std::string& name, const std::string& stem,
                         const Library& library, const std::vector<BoundConstant>& constants) {
  KernelCode code = code_without_entry(v, name, constants);
  if (const Json* gpu = v.find("gpu")) {
    code.cuda = program_of(*gpu, stem);
  } else {
    add_functions(code, library, v.at("main").as_string(), v.get_string("prepare", ""));
  }
  KernelVariant variant;
  variant.name = v.at("name").as_string();
  variant.args = code.args;
  variant.code = v.at("code").as_string();
  variant.compile = [kernel = Kernel(std::move(code))] { return kernel; };
  return variant;
}

}  // namespace

Kernel load_kernel(const std::string& stem) {
  const Json description = Json::parse(read_file(stem + ".json"), stem + ".json");
  KernelCode code = code_without_entry(description, description.at("name").as_string(),
                                       constants_of(description, stem));
  if (const Json* gpu = description.find("gpu")) {
    code.cuda = program_of(*gpu, stem);
  } else {
    check_cpu(description);
    add_functions(code, open_library(stem), "heddle_kernel_main",
                  description.at("prepares").as_bool() ? "heddle_kernel_prepare" : "");
  }
  return Kernel(std::move(code));
}

PickOptions exported_pick_options() {
  PickOptions options;
  options.measure = false;
  options.store = nullptr;
  return options;
}

MultiKernel load_multi_kernel(const std::string& stem, PickOptions options) {
  const Json description = Json::parse(read_file(stem + ".json"), stem + ".json");
  if (!description.contains("variants")) {
    throw_runtime_error(stem + ".json describes one kernel, and no variants", {},
                        "load it with load_kernel, or export it with export_multi");
  }
  const bool on_gpu = description.contains("gpu");
  if (!on_gpu) check_cpu(description);
  const Library library = on_gpu ? Library() : open_library(stem);
  MultiKernelFacts facts;
  facts.name = description.at("name").as_string();
  facts.target = description.at("target").as_string();
  facts.build = description.at("pick").at("build").as_string();
  for (const Json& t : description.at("tolerances").elements()) {
    facts.tolerances.push_back({t.at(0).as_double(), t.at(1).as_double(), t.at(2).as_double()});
  }
  const std::vector<BoundConstant> constants = constants_of(description, stem);
  std::vector<KernelVariant> variants;
  for (const Json& v : description.at("variants").elements()) {
    variants.push_back(variant_of(v, facts.name, stem, library, constants));
  }
  if (!options.measure && !options.choose) {
    options.choose = [picked = description.at("picked").as_string()](const PickQuery&) {
      return picked;
    };
  }
  return MultiKernel(std::move(facts), std::move(variants), std::move(options));
}

}  // namespace heddle
