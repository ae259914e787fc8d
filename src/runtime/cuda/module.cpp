#include "heddle/support/error.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {

struct Module::Impl {
  int device = 0;
  api::ModuleHandle handle = nullptr;
  std::string name;

  ~Impl() {
    DeviceState* d = find_device_state(device);
    if (d != nullptr && handle != nullptr && d->try_enter()) d->api->module_unload(handle);
  }
};

Module Module::load(std::string_view code, int device, const std::string& name) {
  DeviceState& d = device_state(device);
  d.enter();
  Module module;
  module.impl_ = std::make_shared<Impl>();
  module.impl_->device = device;
  module.impl_->name = name;
  // The driver reads PTX up to a terminating zero byte, which std::string provides.
  const std::string image(code);
  char log[4096] = {};
  int options[] = {api::kJitErrorLog, api::kJitErrorLogBytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  const api::Result result =
      d.api->module_load_data_ex(&module.impl_->handle, image.data(), 2, options, values);
  if (result == api::kNoBinaryForGpu) {
    throw_runtime_error("the code of '" + name + "' is for another GPU than " +
                            to_string(Device::cuda(device)) + " (" + d.info.name + ", sm_" +
                            std::to_string(10 * d.info.major + d.info.minor) + ")",
                        {}, "build it for Target::cuda()");
  }
  if (result != api::kSuccess) {
    d.fail(result,
           std::string("cuModuleLoadData") + (log[0] != '\0' ? " (" : "") + log +
               (log[0] != '\0' ? ")" : ""),
           &name);
  }
  return module;
}

Function Module::function(const std::string& name) const {
  if (!impl_) throw_runtime_error("this CUDA module was never loaded");
  DeviceState& d = device_state(impl_->device);
  d.enter();
  Function function;
  api::FunctionHandle handle = nullptr;
  const api::Result result = d.api->module_get_function(&handle, impl_->handle, name.c_str());
  if (result == api::kNotFound) {
    throw_runtime_error("there is no kernel '" + name + "' in the code of '" + impl_->name + "'",
                        {}, "declare it extern \"C\" __global__");
  }
  d.check(result, "cuModuleGetFunction", &name);
  function.handle_ = handle;
  function.name_ = intern(name);
  function.device_ = impl_->device;
  return function;
}

int Function::attribute(int which) const {
  DeviceState& d = device_state(device_);
  d.enter();
  int value = 0;
  d.check(d.api->func_get_attribute(&value, which, static_cast<api::FunctionHandle>(handle_)),
          "cuFuncGetAttribute", name_);
  return value;
}

int Function::registers() const { return attribute(api::kFunctionRegisters); }
int Function::static_smem() const { return attribute(api::kFunctionSharedBytes); }
int Function::local_bytes() const { return attribute(api::kFunctionLocalBytes); }
int Function::threads_per_block() const { return attribute(api::kFunctionMaxThreads); }

int Function::blocks_per_sm(int threads, int dynamic_smem) const {
  DeviceState& d = device_state(device_);
  d.enter();
  int blocks = 0;
  d.check(d.api->occupancy(&blocks, static_cast<api::FunctionHandle>(handle_), threads,
                           static_cast<std::size_t>(dynamic_smem)),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor", name_);
  return blocks;
}

void Function::launch(const Stream& stream, std::array<unsigned, 3> grid,
                      std::array<unsigned, 3> block, std::span<void* const> params,
                      unsigned dynamic_smem, unsigned cluster) const {
  DeviceState& d = device_state(device_);
  d.enter();
  Launcher launcher(d, static_cast<api::FunctionHandle>(handle_), name_, dynamic_smem, cluster,
                    false);
  launcher.launch(grid, block, const_cast<void**>(params.data()),
                  static_cast<api::StreamHandle>(stream.handle()));
}

}  // namespace heddle::cuda
