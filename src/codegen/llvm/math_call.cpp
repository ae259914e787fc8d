// Functions that math.cpp does not implement. They are calls of glibc's vector library libmvec by
// its names (_ZGVdN8v_sinf: AVX2, 8 lanes, one vector argument, sinf), or of libm lane by lane.
#include <dlfcn.h>

#include <string>

#include "codegen/llvm/math_library.h"
#include "codegen/llvm/ops.h"
#include "llvm/IR/Module.h"

namespace heddle::codegen {

using llvm::Value;

namespace {

struct VectorIsa {
  char letter;
  int bytes;
};

// The narrowest instruction set that takes `bytes` at once, or the widest that there is.
VectorIsa pick_isa(const Machine& machine, int bytes) {
  if (bytes > 32 && machine.avx512) return {'e', 64};
  if (bytes > 16 && machine.avx2) return {'d', 32};
  return {'b', 16};
}

// Declared as functions of their arguments only. Effects on errno and floating-point flags are
// ignored.
llvm::FunctionCallee declare_pure(llvm::Module& module, const std::string& name, llvm::Type* type,
                                  size_t arity) {
  llvm::SmallVector<llvm::Type*, 2> parameters(arity, type);
  llvm::FunctionCallee callee =
      module.getOrInsertFunction(name, llvm::FunctionType::get(type, parameters, false));
  auto* function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotAccessMemory();
  function->setDoesNotThrow();
  function->setWillReturn();
  return callee;
}

}  // namespace

void* libmvec() {
  // The library is loaded globally, so that the JIT finds its names among the symbols of the
  // process. It is never closed.
  static void* const handle = dlopen("libmvec.so.1", RTLD_NOW | RTLD_GLOBAL);
  return handle;
}

Value* Ops::math_call(const char* name, DataType type, llvm::ArrayRef<Value*> args) {
  llvm::Module& module = *b_.GetInsertBlock()->getModule();
  llvm::Type* element = element_type(b_.getContext(), type);
  const std::string scalar_name = std::string(name) + (type.bits == 32 ? "f" : "");
  if (type.is_scalar()) {
    return b_.CreateCall(declare_pure(module, scalar_name, element, args.size()), args);
  }
  const int width = padded_lanes(type);
  const int element_bytes = type.bits / 8;
  const VectorIsa isa = pick_isa(machine_, width * element_bytes);
  const int step = isa.bytes / element_bytes;
  const std::string vector_name = std::string("_ZGV") + isa.letter + "N" + std::to_string(step) +
                                  std::string(args.size(), 'v') + "_" + scalar_name;
  // The vector library of another machine is assumed to have the functions of this one.
  const bool have_vector = machine_.x86 && machine_.triple.isOSLinux() && libmvec() &&
                           dlsym(libmvec(), vector_name.c_str());
  Value* result = llvm::PoisonValue::get(args[0]->getType());
  llvm::SmallVector<Value*, 2> piece(args.size());
  if (!have_vector) {
    llvm::FunctionCallee callee = declare_pure(module, scalar_name, element, args.size());
    for (int lane = 0; lane < type.lanes; ++lane) {
      for (size_t i = 0; i < args.size(); ++i) piece[i] = lanes(args[i], lane, 1);
      result = insert_lanes(result, b_.CreateCall(callee, piece), lane, 1);
    }
    return result;
  }
  llvm::FunctionCallee callee =
      declare_pure(module, vector_name, with_lanes(element, step), args.size());
  for (int begin = 0; begin < type.lanes; begin += step) {
    const int count = std::min(step, type.lanes - begin);
    for (size_t i = 0; i < args.size(); ++i) piece[i] = lanes(args[i], begin, count, step);
    Value* part = b_.CreateCall(callee, piece);
    if (width == step) return part;
    result = width < step ? lanes(part, 0, width) : insert_lanes(result, part, begin, step);
  }
  return result;
}

}  // namespace heddle::codegen
