// A C interface to subjects of the command line on this CPU, for side_by_side.py. Arrays are plain
// pointers to contiguous elements. Functions that can fail return null or -1, and
// heddle_cpu_error() then says why.
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"

namespace {

using namespace heddle;

thread_local std::string last_error;

struct Subject {
  Kernel kernel;
  std::string dtype;  // what heddle_cpu_dtype() points to
  std::vector<NDArray> arrays;
};

const KernelArg& arg_of(void* subject, int i) {
  return static_cast<Subject*>(subject)->kernel.args()[static_cast<size_t>(i)];
}

}  // namespace

extern "C" {

const char* heddle_cpu_error() { return last_error.c_str(); }

/// Compiles the static choice, or the best record's, of a subject such as "matmul:1024x1024x1024"
/// for this machine and sets the threads of the process.
void* heddle_cpu_open(const char* subject, const char* dtype, int threads) {
  try {
    set_num_threads(threads);
    auto s = std::make_unique<Subject>();
    const cli::Problem problem = cli::make_problem(subject, cli::dtype_of(dtype));
    const Target target = cli::target_of("llvm -mcpu=native", threads);
    s->kernel = build(create_schedule(problem.outputs, target), problem.args());
    return s.release();
  } catch (const std::exception& e) {
    last_error = e.what();
    return nullptr;
  }
}
void heddle_cpu_close(void* subject) { delete static_cast<Subject*>(subject); }

/// Arguments are inputs, then outputs.
int heddle_cpu_args(void* subject) {
  return static_cast<int>(static_cast<Subject*>(subject)->kernel.args().size());
}
int heddle_cpu_is_output(void* subject, int arg) { return arg_of(subject, arg).output ? 1 : 0; }
int heddle_cpu_rank(void* subject, int arg) {
  return static_cast<int>(arg_of(subject, arg).shape.size());
}
int64_t heddle_cpu_extent(void* subject, int arg, int dim) {
  return arg_of(subject, arg).shape[static_cast<size_t>(dim)];
}
/// The type of an argument: "f32", "bf16", "i8", ... The text is valid until the next call.
const char* heddle_cpu_dtype(void* subject, int arg) {
  auto* s = static_cast<Subject*>(subject);
  s->dtype = to_string(arg_of(subject, arg).dtype);
  return s->dtype.c_str();
}

/// Later calls use the memory at `pointers`, one for each argument, which the caller keeps.
int heddle_cpu_bind(void* subject, void* const* pointers) {
  auto* s = static_cast<Subject*>(subject);
  try {
    s->arrays.clear();
    for (size_t i = 0; i < s->kernel.args().size(); ++i) {
      const KernelArg& arg = s->kernel.args()[i];
      s->arrays.push_back(NDArray::wrap(pointers[i], arg.shape, arg.dtype));
    }
    return 0;
  } catch (const std::exception& e) {
    last_error = e.what();
    return -1;
  }
}

int heddle_cpu_call(void* subject) {
  const auto* s = static_cast<Subject*>(subject);
  try {
    s->kernel.call(s->arrays);
    return 0;
  } catch (const std::exception& e) {
    last_error = e.what();
    return -1;
  }
}

}  // extern "C"
