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
#include "support/files/file.h"

namespace heddle {
namespace {

/// The constants that the kernel itself supplies, from the files next to its description.
std::vector<BoundConstant> constants_of(const Json& description, const std::string& stem) {
  std::vector<BoundConstant> constants;
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

KernelCode::Entry entry(void* library, const char* symbol, const std::string& path) {
  void* found = ::dlsym(library, symbol);
  if (found == nullptr) {
    throw_runtime_error(path + " has no function " + symbol, {},
                        "link it from the object that export_kernel wrote");
  }
  return reinterpret_cast<KernelCode::Entry>(found);
}

/// The library of the code for a CPU.
std::shared_ptr<void> open_library(const std::string& stem) {
  // A name without a slash would be searched for in the system's folders.
  const std::string path = std::filesystem::absolute(stem + ".so").string();
  void* opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    throw_runtime_error(std::string("cannot load an exported kernel: ") + ::dlerror(), {},
                        "link it with: c++ -shared -o " + stem + ".so " + stem + ".o");
  }
  return {opened, [](void* handle) { ::dlclose(handle); }};
}

/// What export_kernel and export_multi wrote.
class Exported {
 public:
  explicit Exported(const std::string& stem)
      : stem_(stem), json_(Json::parse(read_file(stem + ".json"), stem + ".json")) {
    for (const Json& s : json_.at("sizes").elements())
      sizes_.push_back({s.at("name").as_string(), s.at("lo").as_int(), s.at("hi").as_int()});
    constants_ = constants_of(json_, stem);
    // The code for a GPU is in files next to the description, so nothing has to be linked.
    if (!json_.contains("features")) return;
    std::vector<std::string> features;
    for (const Json& f : json_.at("features").elements()) features.push_back(f.as_string());
    internal::require_features("kernel '" + json_.at("name").as_string() + "'",
                               json_.at("target").as_string(), features);
    library_ = open_library(stem);
  }

  const Json& json() const { return json_; }
  std::string picked() const { return json_.at("picked").as_string(); }

  Kernel kernel(const Json& variant) const {
    KernelCode code;
    code.name = json_.at("name").as_string();
    code.args = args_from_json(variant.at("args"));
    code.bound = constants_;
    code.persistent = args_from_json(variant.at("persistent"));
    code.sizes = sizes_;
    if (const Json* gpu = variant.find("gpu")) {
      auto program = std::make_shared<cuda::Program>(cuda::program_from_json(*gpu));
      program->cubin = read_file(stem_ + variant.at("file").as_string());
      code.cuda = std::move(program);
    } else {
      if (!library_) throw_runtime_error(stem_ + ".json names no features of a CPU, and no GPU");
      code.code = library_;
      code.main = entry(library_.get(), variant.at("main").as_string().c_str(), stem_ + ".so");
      if (const Json* prepare = variant.find("prepare"))
        code.prepare = entry(library_.get(), prepare->as_string().c_str(), stem_ + ".so");
    }
    return Kernel(std::move(code));
  }

 private:
  const std::string stem_;
  const Json json_;
  std::vector<KernelSize> sizes_;
  std::vector<BoundConstant> constants_;
  std::shared_ptr<void> library_;
};

}  // namespace

Kernel load_kernel(const std::string& stem) {
  const Exported exported(stem);
  for (const Json& v : exported.json().at("variants").elements()) {
    if (v.at("name").as_string() == exported.picked()) return exported.kernel(v);
  }
  throw_runtime_error(stem + ".json has no variant '" + exported.picked() + "', its pick");
}

PickOptions exported_pick_options() {
  PickOptions options;
  options.measure = false;
  options.store = nullptr;
  return options;
}

MultiKernel load_multi_kernel(const std::string& stem, PickOptions options) {
  const Exported exported(stem);
  const Json& json = exported.json();
  MultiKernelFacts facts;
  facts.name = json.at("name").as_string();
  facts.target = json.at("target").as_string();
  facts.on_gpu = !json.contains("features");
  if (const Json* pick = json.find("pick")) {
    facts.build = pick->at("build").as_string();
    for (const Json& t : json.at("tolerances").elements())
      facts.tolerances.push_back({t.at(0).as_double(), t.at(1).as_double(), t.at(2).as_double()});
  }
  std::vector<KernelVariant> variants;
  for (const Json& v : json.at("variants").elements()) {
    const Kernel kernel = exported.kernel(v);
    variants.push_back({.name = v.at("name").as_string(),
                        .args = kernel.args(),
                        .compile = [kernel] { return kernel; },
                        .code = v.at("code").as_string()});
  }
  if (!options.measure && !options.choose)
    options.choose = [picked = exported.picked()](const PickQuery&) { return picked; };
  return {std::move(facts), std::move(variants), std::move(options)};
}

}  // namespace heddle
