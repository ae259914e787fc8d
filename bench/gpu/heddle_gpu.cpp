// A C interface to subjects of the command line on a GPU, for side_by_side.py. Arrays come as
// DLPack tensors, and calls go to the caller's stream. Functions that can fail return null or -1,
// and heddle_gpu_error() then says why.
#include <dlpack/dlpack.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/runtime/cuda.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"

namespace {

using namespace heddle;

thread_local std::string last_error;

template <class F>
auto guarded(F body, decltype(body()) failure) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& e) {
    last_error = e.what();
    return failure;
  }
}

struct Subject {
  cli::Problem problem;
  Kernel kernel;
  std::string dtype;  // what heddle_gpu_dtype() points to
};

struct Call {
  Kernel kernel;
  std::vector<NDArray> arrays;
};

// The static schedule but for some knobs: "pairs=0,raster=4".
Schedule with_knobs(const cli::Problem& p, const std::string& knobs) {
  const Template t = make_template(ComputeDag(p.outputs), Target::cuda());
  Config config = t.default_config();
  std::istringstream list(knobs);
  for (std::string item; std::getline(list, item, ',');) {
    const size_t sign = item.find('=');
    const int knob = t.knob_index(item.substr(0, sign));
    if (knob < 0) throw_user_error("there is no knob '" + item.substr(0, sign) + "'");
    config.values.at(static_cast<size_t>(knob)) = std::stoll(item.substr(sign + 1));
  }
  return t.instantiate(config);
}

std::optional<Schedule> schedule_of(const cli::Problem& p, const std::string& choice) {
  if (choice == "tuned") return recorded_schedule(p.outputs, Target::cuda());
  AutoSchedulerOptions options = current_auto_scheduler_options();
  options.use_records = false;
  const AutoSchedulerOptionsScope scope(options);
  if (choice == "declared") {
    options.use_alternatives = false;
    return create_schedule(p.outputs, Target::cuda(), options);
  }
  if (choice != "static") return with_knobs(p, choice);
  return create_schedule(p.outputs, Target::cuda(), options);
}

}  // namespace

extern "C" {

const char* heddle_gpu_error() { return last_error.c_str(); }

/// Compiles a subject such as "softmax:4096x4096" for the first GPU. `dtype` is that of the
/// operands, or "tf32": f32 whose products are rounded to tf32. `choice` is "static"; "tuned",
/// which is an error where no record applies; "declared", the static choice without rewrites of the
/// graph; or knobs that replace those of that choice, such as "pairs=0,raster=4".
void* heddle_gpu_open(const char* subject, const char* dtype, const char* choice) {
  return guarded(
      [&]() -> void* {
        auto s = std::make_unique<Subject>();
        AutoSchedulerOptions options = current_auto_scheduler_options();
        options.allow_tf32 = std::string_view(dtype) == "tf32";
        const AutoSchedulerOptionsScope scope(options);
        s->problem = cli::make_problem(subject, cli::dtype_of(options.allow_tf32 ? "f32" : dtype));
        const std::optional<Schedule> schedule = schedule_of(s->problem, choice);
        if (!schedule) {
          last_error = "no record applies";
          return nullptr;
        }
        s->kernel = build(*schedule, s->problem.args());
        return s.release();
      },
      nullptr);
}
void heddle_gpu_close(void* subject) { delete static_cast<Subject*>(subject); }

/// The number of inputs. Arguments of a call are inputs, then outputs.
int heddle_gpu_inputs(void* subject) {
  return static_cast<int>(static_cast<Subject*>(subject)->problem.inputs.size());
}
int heddle_gpu_args(void* subject) {
  return static_cast<int>(static_cast<Subject*>(subject)->kernel.args().size());
}
int heddle_gpu_rank(void* subject, int arg) {
  return static_cast<int>(
      static_cast<Subject*>(subject)->kernel.args()[static_cast<size_t>(arg)].shape.size());
}
int64_t heddle_gpu_extent(void* subject, int arg, int dim) {
  return static_cast<Subject*>(subject)
      ->kernel.args()[static_cast<size_t>(arg)]
      .shape[static_cast<size_t>(dim)];
}
/// The type of an argument: "f32", "bf16", "i64", ... The text is valid until the next call.
const char* heddle_gpu_dtype(void* subject, int arg) {
  auto* s = static_cast<Subject*>(subject);
  s->dtype = to_string(s->kernel.args()[static_cast<size_t>(arg)].dtype);
  return s->dtype.c_str();
}

/// Makes a call with these arrays. It takes them over on success and on failure.
void* heddle_gpu_bind(void* subject, DLManagedTensor** tensors, int count) {
  std::vector<NDArray> arrays;
  for (int i = 0; i < count; ++i) {
    try {
      arrays.push_back(NDArray::from_dlpack(tensors[i]));
    } catch (const std::exception& e) {
      last_error = e.what();
      for (int rest = i; rest < count; ++rest) tensors[rest]->deleter(tensors[rest]);
      return nullptr;
    }
  }
  return new Call{static_cast<Subject*>(subject)->kernel, std::move(arrays)};
}
void heddle_gpu_unbind(void* call) { delete static_cast<Call*>(call); }

/// Puts the kernel's launches on `stream` (a CUstream), which may be capturing.
int heddle_gpu_call(void* call, void* stream) {
  return guarded(
      [&] {
        const auto* c = static_cast<Call*>(call);
        const cuda::StreamScope scope(cuda::Stream::wrap(stream));
        c->kernel.call(c->arrays);
        return 0;
      },
      -1);
}

}  // extern "C"
