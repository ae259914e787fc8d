// The compilations of candidates by workers: what waits, what each worker does, and what came of it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "measure/messages/requests.h"
#include "measure/process/pool.h"

namespace heddle::measuring {

class CompileQueue {
 public:
  struct Job {
    Compile request;
    int deaths = 0;                         ///< of compilers, which it did not cause for certain
    size_t worker = 0;                      ///< that compiled it
    std::optional<WorkerSays> answer = {};  ///< Compiled or Failed

    const Failed* failed() const { return answer ? std::get_if<Failed>(&*answer) : nullptr; }
    const Compiled* compiled() const { return answer ? std::get_if<Compiled>(&*answer) : nullptr; }
    double seconds() const {
      return compiled() ? compiled()->seconds : failed() ? failed()->seconds : 0;
    }
    CodeOf code() const { return {request.steps, compiled()->code.value_or(Json())}; }
  };
  /// Workers that compile: [first, last).
  struct Workers {
    size_t first = 0, last = 0;
  };

  /// With `kept_in_worker`, what a worker compiled dies with it, and is compiled again.
  CompileQueue(WorkerPool& pool, bool kept_in_worker, double timeout_seconds)
      : pool_(pool),
        kept_in_worker_(kept_in_worker),
        timeout_(timeout_seconds),
        at_work_(pool.size()) {}

  /// Adds a job with a key above 0, unless there is one. It is done where its code is kept.
  Job& add(uint64_t key, Compile request);
  /// Keeps the code of a job for later ones of its key. There is room for some hundred.
  void keep(uint64_t key);
  void forget_kept() { kept_.clear(); }
  Job& at(uint64_t key) { return jobs_.at(key); }
  void erase(uint64_t key) { jobs_.erase(key); }
  /// Lets these jobs be compiled before all others.
  void put_first(std::span<const uint64_t> keys);

  /// Gives jobs to idle workers. Those that died are started again, and told `tasks` tasks.
  void feed(Workers workers, size_t tasks);
  /// Hears what a worker said about its job.
  void hear(const WorkerEvent& event);
  /// Waits for all of these jobs. Returns false when the clock expired.
  bool wait(std::span<const uint64_t> keys, Workers workers, size_t tasks, const TuneClock& clock);
  /// Ends the workers that are busy. Their jobs wait again.
  void stop();
  void clear();

  /// Seconds of all compilations, and of these, of the compiler for GPUs.
  double seconds() const { return seconds_; }
  double nvrtc() const { return nvrtc_; }

 private:
  WorkerPool& pool_;
  bool kept_in_worker_;
  double timeout_;
  std::map<uint64_t, Job> jobs_;
  std::deque<uint64_t> queue_;
  std::vector<uint64_t> at_work_;  ///< the job of each worker; 0: none
  std::map<uint64_t, Compiled> kept_;
  double seconds_ = 0, nvrtc_ = 0;
};

}  // namespace heddle::measuring
