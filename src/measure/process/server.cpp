#include "measure/process/server.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "heddle/support/error.h"
#include "heddle/support/rng.h"
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

bool WorkerServer::decided(const std::vector<Racer>& racers) const {
  return std::all_of(racers.begin(), racers.end(), [&](const Racer& r) {
    return static_cast<int>(r.seconds.size()) >= kFewestRounds &&
           median_interval(r.seconds).relative_width <= 0.25 * protocol_.relative_ci;
  });
}

// Runs one round. Returns {round: [[candidate, seconds]...]}, or {error, message, checked} where a
// candidate failed.
Json WorkerServer::round(std::vector<Racer>& racers, const std::vector<size_t>& order) {
  Json turns = Json::array();
  int candidate = -1;
  Json out = guarded([&] {
    for (const size_t i : order) {
      candidate = racers[i].candidate;
      status_.set(WorkerPhase::Run, candidate);
      racers[i].seconds.push_back(racers[i].turn());
      turns.push_back(Json::array({Json(candidate), Json(racers[i].seconds.back())}));
    }
    return Json::object();
  });
  if (out.contains("error")) {
    out["checked"] = Json(candidate);
  } else {
    out["round"] = std::move(turns);
  }
  return out;
}

void WorkerServer::run_rounds(std::vector<Racer> racers, const Json& request, const Timer& timer) {
  const double seconds = request.at("seconds").as_double();
  Rng rng(static_cast<uint64_t>(request.at("seed").as_int()));
  std::vector<size_t> order;
  while (!racers.empty()) {
    if (order.size() != racers.size()) {
      order.resize(racers.size());
      std::iota(order.begin(), order.end(), size_t{0});
    }
    rng.shuffle(order);
    Json message = round(racers, order);
    const bool failed = message.contains("checked");
    const auto candidate = static_cast<int>(failed ? message.at("checked").as_int() : -1);
    reply(std::move(message));
    if (failed) {
      std::erase_if(racers, [&](const Racer& r) { return r.candidate == candidate; });
    } else if (timer.elapsed_s() >= seconds || decided(racers)) {
      break;
    }
  }
  reply(Json::object({{"done", true}}));
}

}  // namespace heddle::measuring
