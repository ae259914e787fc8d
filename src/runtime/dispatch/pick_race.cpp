#include "runtime/dispatch/pick_race.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "runtime/kernel/finite_report.h"
#include "runtime/race/race.h"

namespace heddle {
namespace {

constexpr int kFewestRounds = 5;
constexpr int kMostRounds = 25;
// The least length of a sample. The resolution of the clock and, on a GPU, the launch demand it.
constexpr double kSampleSeconds = 30e-6;
constexpr double kGpuSampleSeconds = 300e-6;
constexpr int kMostCalls = 1000;
// A variant that is slower than the best by this factor in its second call takes no part in the
// rounds.
constexpr double kHopeless = 4;
// A kernel on a GPU that runs longer than this is taken to hang.
constexpr double kHangSeconds = 60;

// Fills an array with bytes that are unlikely results, so that elements that are never written are
// found.
void poison(const NDArray& a) {
  if (!a.device().is_cpu()) return a.fill(a.dtype().is_float() ? std::nan("") : 1);
  std::memset(a.data(),
              a.dtype() == boolean   ? 1
              : a.dtype().is_float() ? 0xff
                                     : 0xab,
              static_cast<size_t>(a.bytes()));
}

double largest(const NDArray& a) {
  double most = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double v = std::abs(a.get(i));
    if (std::isfinite(v)) most = std::max(most, v);
  }
  return most;
}

class Race {
 public:
  Race(std::span<const Racer> racers, std::span<const NDArray> arrays,
       std::span<const KernelArg> args, std::span<const AnswerTolerance> tolerances,
       const PickOptions& options)
      : racers_(racers),
        args_(args),
        tolerances_(tolerances),
        options_(options),
        given_(arrays.begin(), arrays.end()),
        runs_(racers.size()),
        first_(racers.size()),
        hopeless_(racers.size()) {
    for (const Racer& r : racers) {
      result_.times.push_back({r.name, {}, {}});
      in_place_ = in_place_ || r.reads_outputs;
    }
    for (const NDArray& a : given_) device_ = a.device().is_cuda() ? a.device() : device_;
  }

  RaceResult run() {
    if (!make_room()) return std::move(result_);
    for (size_t i = 0; i < racers_.size(); ++i) try_out(i);
    rounds();
    decide();
    return std::move(result_);
  }

 private:
  bool late() const { return timer_.elapsed_s() >= options_.seconds; }
  double left() const { return options_.seconds - timer_.elapsed_s(); }
  bool works(size_t i) const { return runs_[i] && result_.times[i].dropped.empty(); }
  bool enough_room() {
    if (result_.extra_bytes <= options_.extra_bytes) return true;
    result_.note = "not measured: that needs " + std::to_string(result_.extra_bytes) +
                   " bytes beyond the arguments, and PickOptions::extra_bytes is " +
                   std::to_string(options_.extra_bytes);
    return false;
  }

  // Makes scratch arrays for the outputs, and for results that the caller's arrays cannot hold.
  bool make_room() {
    int64_t written = 0;
    for (size_t i = 0; i < given_.size(); ++i) written += args_[i].output ? given_[i].bytes() : 0;
    result_.extra_bytes = in_place_ ? 2 * written : written;
    if (!enough_room()) return false;
    scratch_ = given_;
    answer_ = given_;
    for (size_t i = 0; i < given_.size(); ++i) {
      if (!args_[i].output) continue;
      scratch_[i] = NDArray::empty(given_[i].shape(), given_[i].dtype(), given_[i].device());
      if (in_place_) answer_[i] = given_[i].copy();
    }
    return true;
  }

  // Sets outputs to the values that the caller gave them.
  void restore(std::span<const NDArray> arrays) const {
    for (size_t i = 0; i < given_.size(); ++i) {
      if (args_[i].output) arrays[i].copy_from(given_[i]);
    }
  }

  // Compiles the variant, runs it twice and compares its result.
  void try_out(size_t i) {
    if (late()) {
      result_.note = "the time was up before all variants had run";
      return;
    }
    std::string& dropped = result_.times[i].dropped;
    try {
      runs_[i] = racers_[i].make();
      result_.extra_bytes += racers_[i].kept_bytes();
      if (reference_ >= 0 && !enough_room()) {
        runs_[i] = nullptr;
        return;
      }
      const std::vector<NDArray>& to = reference_ < 0 ? answer_ : scratch_;
      prepare_outputs(to);
      runs_[i](to);
      if (reference_ < 0) {
        wait();
        reference_ = static_cast<int>(i);
      } else {
        dropped = difference();
      }
      if (dropped.empty()) first_[i] = sample(i, 1);
    } catch (const NotFinite& e) {
      // Values that the call brings, or the declaration gives, are no fault of a variant.
      if (e.of_inputs || reference_ < 0) throw;
      dropped = e.message;
    } catch (const std::exception& e) {
      const auto* error = dynamic_cast<const Error*>(&e);
      dropped = error != nullptr ? error->message : e.what();
      error_ = std::current_exception();
    }
  }

  void prepare_outputs(std::span<const NDArray> to) const {
    if (in_place_) {
      if (to.data() != answer_.data()) restore(to);
      return;
    }
    for (size_t i = 0; i < given_.size(); ++i) {
      if (args_[i].output) poison(to[i]);
    }
  }

  // Empty where the scratch outputs equal those of the reference within the tolerance; otherwise
  // the difference in words.
  std::string difference() const {
    size_t output = 0;
    for (size_t i = 0; i < given_.size(); ++i) {
      if (!args_[i].output) continue;
      AnswerTolerance t = output < tolerances_.size() ? tolerances_[output] : AnswerTolerance{};
      ++output;
      if (!args_[i].dtype.is_float()) t = {0, 0, 0};
      const NDArray want = answer_[i].to_host(), got = scratch_[i].to_host();
      const double atol = t.atol + (t.of_largest > 0 ? t.of_largest * largest(want) : 0);
      if (allclose(got, want, t.rtol, atol)) continue;
      return "its answer '" + args_[i].name + "' differs from that of '" +
             racers_[static_cast<size_t>(reference_)].name +
             "': " + describe(compare(got, want, t.rtol, atol), got);
    }
    return "";
  }

  void wait() const {
    if (!device_.is_cuda()) return;
    const cuda::Event done(device_.index);
    done.record();
    wait(done, "a variant");
  }

  void wait(const cuda::Event& event, const std::string& name) const {
    if (event.wait_for(kHangSeconds)) return;
    const std::string reason = "'" + name + "' did not end within " +
                               std::to_string(static_cast<int>(kHangSeconds)) + " s";
    cuda::abandon(device_.index, reason);
    throw_runtime_error(reason);
  }

  // The time of one call in seconds, as the mean of `calls` calls.
  double sample(size_t i, int calls) {
    if (in_place_) restore(scratch_);
    const auto call = [&] {
      for (int c = 0; c < calls; ++c) runs_[i](scratch_);
    };
    double seconds = 0;
    if (options_.time_call) {
      seconds = options_.time_call(racers_[i].name, call);
    } else if (device_.is_cuda()) {
      const cuda::Event begin(device_.index), end(device_.index);
      begin.record();
      call();
      end.record();
      wait(end, racers_[i].name);
      seconds = end.seconds_since(begin);
    } else {
      const Timer timer;
      call();
      seconds = timer.elapsed_s();
    }
    return seconds / calls;
  }

  // Times all variants that still have a chance in rounds, in an order that changes.
  void rounds() {
    double best = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < racers_.size(); ++i) {
      if (works(i)) best = std::min(best, first_[i]);
    }
    for (size_t i = 0; i < racers_.size(); ++i) {
      if (!works(i)) continue;
      // Other programs may slow one call down, but hardly three.
      for (int again = 0; again < 2 && first_[i] > kHopeless * best && !late(); ++again) {
        first_[i] = std::min(first_[i], sample(i, 1));
      }
      if (first_[i] > kHopeless * best) {
        result_.times[i].seconds = {first_[i]};
        hopeless_[i] = true;
      }
    }
    std::vector<size_t> in_race = in_rounds();
    const double least = device_.is_cuda() ? kGpuSampleSeconds : kSampleSeconds;
    double round_seconds = 0;
    std::vector<int> calls(racers_.size(), 1);
    for (const size_t i : in_race) {
      if (!in_place_ && first_[i] > 0) {
        calls[i] = static_cast<int>(
            std::clamp(std::ceil(least / first_[i]), 1.0, static_cast<double>(kMostCalls)));
      }
      round_seconds += first_[i] * calls[i];
    }
    racing::Field field(in_race.size(), {.most_rounds = kMostRounds});
    rounds_ = racing::run(field, [&](size_t r) { return sample(in_race[r], calls[in_race[r]]); },
                          {.enough = [&](int) { return left() <= round_seconds; }});
    for (size_t r = 0; r < in_race.size(); ++r)
      result_.times[in_race[r]].seconds = field.seconds(r);
    // A variant without a rival, or without time for a round, keeps the time of its second call.
    for (const size_t i : in_race) {
      if (result_.times[i].seconds.empty()) result_.times[i].seconds = {first_[i]};
    }
  }

  // The variants that work and are not hopeless, in their order.
  std::vector<size_t> in_rounds() const {
    std::vector<size_t> in_race;
    for (size_t i = 0; i < racers_.size(); ++i) {
      if (works(i) && !hopeless_[i]) in_race.push_back(i);
    }
    return in_race;
  }

  // Decides the pick. The first variant that works and is not hopeless wins ties.
  void decide() {
    const std::vector<size_t> in_race = in_rounds();
    bool all = true;
    for (size_t i = 0; i < racers_.size(); ++i) {
      all = all && (works(i) || !result_.times[i].dropped.empty());
    }
    if (in_race.empty()) {
      if (error_) std::rethrow_exception(error_);
      return;
    }
    std::vector<std::vector<double>> seconds;
    for (const size_t i : in_race) seconds.push_back(result_.times[i].seconds);
    result_.winner = static_cast<int>(in_race[static_cast<size_t>(racing::winner_of(seconds))]);
    result_.complete = all && (in_race.size() == 1 || rounds_ >= kFewestRounds);
    if (!result_.complete && result_.note.empty()) {
      result_.note = "the time was up after " + std::to_string(rounds_) + " rounds";
    }
  }

  std::span<const Racer> racers_;
  std::span<const KernelArg> args_;
  std::span<const AnswerTolerance> tolerances_;
  const PickOptions& options_;
  std::vector<NDArray> given_, scratch_, answer_;
  std::vector<std::function<void(std::span<const NDArray>)>> runs_;
  std::vector<double> first_;   ///< seconds of the second call of each variant
  std::vector<bool> hopeless_;  ///< far slower than another variant
  Device device_ = Device::cpu();
  bool in_place_ = false;
  int reference_ = -1;
  int rounds_ = 0;
  std::exception_ptr error_;
  RaceResult result_;
  Timer timer_;
};

}  // namespace

RaceResult race_variants(std::span<const Racer> racers, std::span<const NDArray> arrays,
                         std::span<const KernelArg> args,
                         std::span<const AnswerTolerance> tolerances, const PickOptions& options) {
  return Race(racers, arrays, args, tolerances, options).run();
}

}  // namespace heddle
