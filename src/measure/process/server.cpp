#include "measure/process/server.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "heddle/support/error.h"
#include "measure/process/output_bound.h"
#include "measure/task/timing.h"

namespace heddle::measuring {
namespace {

constexpr int kFewestRounds = 6;  // with fewer rounds the interval of a median is the whole range

}  // namespace

Json failure(MeasureError error, const std::string& message) {
  return Json::object({{"error", static_cast<int64_t>(error)}, {"message", message}});
}

TaskArrays make_arrays(const MeasuredTask& of) {
  TaskArrays out;
  out.args = of.inputs;
  for (size_t i = 0; i < out.args.size(); ++i) {
    const Tensor& t = of.task.args[i];
    if (is_output(t)) out.args[i] = NDArray::empty(t.extents(), t.dtype());
  }
  for (const Tensor& t : of.task.tmpl.dag().outputs()) {
    for (size_t i = 0; i < out.args.size(); ++i) {
      if (of.task.args[i].same_as(t)) out.outputs.push_back(out.args[i]);
    }
  }
  return out;
}

bool WorkerServer::send(Json message) {
  message["id"] = Json(status_.request.load());  // tells late answers from that to the last request
  return channel_.send(message);
}

void WorkerServer::reply(Json message) {
  status_.set(WorkerPhase::Idle, -1);
  if (!send(std::move(message))) ::_exit(0);
}

void WorkerServer::forget_noise() {
  if (::ftruncate(1, 0) == 0) ::lseek(1, 0, SEEK_SET);
}

void WorkerServer::fault(const char* phase, int candidate, std::span<const NDArray> args) {
  if (hooks_.fault) hooks_.fault(phase, static_cast<size_t>(candidate), args);
}

Json WorkerServer::with_schedule(const Json& request,
                                 const std::function<Json(const ReplayedSchedule&)>& use) {
  const auto candidate = static_cast<int>(request.at("candidate").as_int());
  status_.set(WorkerPhase::Compile, candidate);
  if (candidate >= 0)
    fault("compile", candidate);  // faults are not injected into the static choice
  std::optional<ReplayedSchedule> replayed;
  try {
    replayed = replay_schedule(task_of(request), request.at("steps"));
  } catch (const Error& e) {
    return failure(MeasureError::Invalid, e.what());
  }
  return use(*replayed);
}

Json WorkerServer::store_reference(const MeasuredTask& of, const TaskArrays& arrays,
                                   const Kernel& kernel) {
  kernel.call(arrays.args);
  const OutputBounds bounds = bound_outputs(of.task, arrays.args, arrays.outputs);
  of.reference->store(arrays.outputs, bounds.allowed);
  Json out = Json::object();
  if (!bounds.problem.empty()) out["problem"] = Json(bounds.problem);
  return out;
}

std::string WorkerServer::difference(const MeasuredTask& of, const std::vector<NDArray>& outputs,
                                     bool all, int candidate) const {
  if (!protocol_.check_output || !of.reference->ready()) return "";
  return of.reference->difference(outputs, all, static_cast<uint64_t>(candidate));
}

bool WorkerServer::narrow(const racing::Field& field) const {
  const std::vector<size_t> racing = field.racing();
  return std::all_of(racing.begin(), racing.end(), [&](size_t i) {
    return median_interval(field.seconds(i)).relative_width <= 0.25 * protocol_.relative_ci;
  });
}

void WorkerServer::run_rounds(std::vector<Racer> racers, const Json& request, const Timer& timer) {
  const double seconds = request.at("seconds").as_double();
  racing::Field field(racers.size(), {.fewest_racing = 1,
                                      .seed = static_cast<uint64_t>(request.at("seed").as_int())});
  Json turns = Json::array();
  const auto turn = [&](size_t i) {
    const int candidate = racers[i].candidate;
    Json out = guarded([&] {
      status_.set(WorkerPhase::Run, candidate);
      const double taken = racers[i].turn();
      turns.push_back(Json::array({Json(candidate), Json(taken)}));
      return Json(taken);
    });
    if (out.is_number()) return out.as_double();
    out["checked"] = Json(candidate);
    reply(std::move(out));
    return racing::kFailed;
  };
  const auto decided = [&](int rounds) {
    reply(Json::object({{"round", std::exchange(turns, Json::array())}}));
    return timer.elapsed_s() >= seconds || (rounds >= kFewestRounds && narrow(field));
  };
  racing::run(field, turn, {.decided = decided});
  reply(Json::object({{"done", true}}));
}

}  // namespace heddle::measuring
