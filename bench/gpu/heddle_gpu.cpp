// A C interface to subjects of the command line on a GPU, for side_by_side.py. Arrays come as
// DLPack tensors, and calls go to the caller's stream. Functions that can fail return null or -1,
// and heddle_gpu_error() then says why.
#include <dlpack/dlpack.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/dag/alternatives.h"
#include "heddle/driver/build.h"
#include "heddle/runtime/cuda.h"
#include "heddle/schedule/choice.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "subjects/gpu_peers.h"
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

/// A kernel of ours, or a peer with its ways to compute the subject.
struct Subject {
  cli::Problem problem;
  std::vector<Tensor> args;
  Kernel kernel;
  peers::CublasProduct peer;
  size_t way = 0;
  NDArray workspace;  // of a peer
  std::string dtype;  // what heddle_gpu_dtype() points to

  bool is_peer() const { return !peer.ways.empty(); }
  const Tensor& arg(int i) const { return args[static_cast<size_t>(i)]; }
};

struct Call {
  const Subject* subject;
  std::vector<NDArray> arrays;

  void run(void* stream) const {
    if (!subject->is_peer()) return subject->kernel.call(arrays);
    const bool taken = subject->peer.ways[subject->way]({.a = arrays[0].data(),
                                                         .b = arrays[1].data(),
                                                         .c = arrays[2].data(),
                                                         .workspace = subject->workspace.data(),
                                                         .stream = stream});
    if (!taken) throw_runtime_error("the library refuses");
  }
};

// Answers every rule that has one of its knobs, so that what the rule chooses besides goes with it.
class GivenKnobs : public ChoiceSource {
 public:
  // Such as "pairs=0,raster=4"; a kind by its number.
  explicit GivenKnobs(std::string knobs) : text_(std::move(knobs)) {
    std::istringstream list(text_);
    for (std::string item; std::getline(list, item, ',');) {
      const size_t sign = std::min(item.find('='), item.size());
      const std::string value = item.substr(std::min(sign + 1, item.size()));
      int64_t number = 0;
      const char* const end = value.data() + value.size();
      if (std::from_chars(value.data(), end, number).ptr != end || value.empty())
        throw_user_error("'" + item + "' is no knob and a number, such as raster=4");
      values_[item.substr(0, sign)] = number;
    }
  }

  std::string version() const override { return "given " + text_; }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    Choice answer("given");
    for (const auto& [knob, value] : values_) {
      if (!question.rule.has(knob)) continue;
      answer.set(knob, value);
      const std::lock_guard lock(mutex_);
      asked_.insert(knob);
    }
    if (answer.knobs().empty()) return {};
    return {answer};
  }
  // Throws where no rule has a knob of that name.
  void check_asked() const {
    for (const auto& [knob, value] : values_) {
      if (!asked_.contains(knob)) throw_user_error("there is no knob '" + knob + "'");
    }
  }

 private:
  std::string text_;
  std::map<std::string, int64_t> values_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> asked_;
};

// The static schedule with some knobs given.
Schedule with_knobs(const cli::Problem& p, const std::string& knobs,
                    const AutoSchedulerOptions& options) {
  const auto given = std::make_shared<GivenKnobs>(knobs);
  const std::shared_ptr<const ChoiceSource> before = install_choice_source(given);
  const std::shared_ptr<void> restore(nullptr, [&](void*) { install_choice_source(before); });
  Schedule schedule = create_schedule(p.outputs, Target::cuda(), options);
  given->check_asked();
  return schedule;
}

// The static schedule of another graph: `form` is a rule with its parameters, such as
// "winograd(tile=4)", of the last stage that it rewrites.
Schedule of_graph(const cli::Problem& p, const std::string& form,
                  const AutoSchedulerOptions& options) {
  AlternativePolicy any;
  any.max_error_growth = std::numeric_limits<double>::infinity();
  any.allow_approximate = true;
  const ComputeDag dag(p.outputs);
  std::string found;
  for (const Alternative& a : alternatives_of(dag, Target::cuda(), any)) {
    if (a.legal() && a.name.starts_with(form + "@")) found = a.name;
  }
  if (found.empty()) throw_user_error("'" + form + "' makes nothing of it");
  const Template t = make_template(apply_alternative(dag, found), Target::cuda(), options);
  return t.instantiate(t.default_config());
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
  constexpr std::string_view kGraph = "graph:";
  if (choice.starts_with(kGraph)) return of_graph(p, choice.substr(kGraph.size()), options);
  if (choice != "static") return with_knobs(p, choice, options);
  return create_schedule(p.outputs, Target::cuda(), options);
}

// Whether `choice` names a peer. Throws where that has nothing for the subject.
bool take_peer(Subject& s, const std::string& choice, bool tf32) {
  const std::vector<std::string> names = cli::gpu_peer_names();
  if (std::ranges::find(names, choice) == names.end()) return false;
  s.peer = cli::gpu_peer(s.problem, choice, tf32);
  if (!s.is_peer()) throw_runtime_error(choice + ": " + s.peer.error);
  s.workspace = NDArray::empty({peers::kCublasWorkspace}, i8, Device::cuda());
  return true;
}

}  // namespace

extern "C" {

const char* heddle_gpu_error() { return last_error.c_str(); }

/// Compiles a subject such as "softmax:4096x4096" for the first GPU. `dtype` is that of the
/// operands, or "tf32": f32 whose products are rounded to tf32. `choice` is "static"; "tuned",
/// which is an error where no record applies; "declared", the static choice without rewrites of the
/// graph; "graph:winograd(tile=4)", that of another graph; the name of a peer on GPUs, such as
/// "cublaslt"; or knobs, such as "pairs=0,raster=4",
/// around which the rules choose the others. A kind is given by its number.
void* heddle_gpu_open(const char* subject, const char* dtype, const char* choice) {
  return guarded(
      [&]() -> void* {
        auto s = std::make_unique<Subject>();
        AutoSchedulerOptions options = current_auto_scheduler_options();
        options.allow_tf32 = std::string_view(dtype) == "tf32";
        const AutoSchedulerOptionsScope scope(options);
        s->problem = cli::make_problem(subject, cli::dtype_of(options.allow_tf32 ? "f32" : dtype));
        s->args = s->problem.args();
        if (take_peer(*s, choice, options.allow_tf32)) return s.release();
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
  return static_cast<int>(static_cast<Subject*>(subject)->args.size());
}
int heddle_gpu_rank(void* subject, int arg) {
  return static_cast<int>(static_cast<Subject*>(subject)->arg(arg).extents().size());
}
int64_t heddle_gpu_extent(void* subject, int arg, int dim) {
  return static_cast<Subject*>(subject)->arg(arg).extents()[static_cast<size_t>(dim)];
}
/// The type of an argument: "f32", "bf16", "i64", ... The text is valid until the next call.
const char* heddle_gpu_dtype(void* subject, int arg) {
  auto* s = static_cast<Subject*>(subject);
  s->dtype = to_string(s->arg(arg).dtype());
  return s->dtype.c_str();
}

/// The number of ways that a peer has: the algorithms of its search, its favourite first. Ours has
/// one.
int heddle_gpu_ways(void* subject) {
  const auto* s = static_cast<Subject*>(subject);
  return s->is_peer() ? static_cast<int>(s->peer.ways.size()) : 1;
}
/// Later calls compute in this way.
void heddle_gpu_take(void* subject, int way) {
  static_cast<Subject*>(subject)->way = static_cast<size_t>(way);
}
/// The version of a peer, such as "13.1.0"; empty for a kernel.
const char* heddle_gpu_version(void* subject) {
  return static_cast<Subject*>(subject)->peer.version.c_str();
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
  return new Call{static_cast<Subject*>(subject), std::move(arrays)};
}
void heddle_gpu_unbind(void* call) { delete static_cast<Call*>(call); }

/// Puts the kernel's launches on `stream` (a CUstream), which may be capturing.
int heddle_gpu_call(void* call, void* stream) {
  return guarded(
      [&] {
        const auto* c = static_cast<Call*>(call);
        const cuda::StreamScope scope(cuda::Stream::wrap(stream));
        c->run(stream);
        return 0;
      },
      -1);
}

}  // extern "C"
