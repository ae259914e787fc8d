// Times the calls of a network on a GPU: CUDA graphs, by events.
#include <algorithm>
#include <cmath>

#include "heddle/runtime/cuda.h"
#include "heddle/support/error.h"
#include "network/race/call_timer.h"
#include "support/recent.h"

namespace heddle::network {
namespace {

// A sample is the mean of as many calls as take this long, because the launch of a graph and the
// resolution of an event have a weight in a single short one.
constexpr double kSampleSeconds = 1.5e-3;
constexpr double kMostLaunches = 50;
constexpr double kLeastSeconds = 1e-9;
// The graphs that are kept: those of all variants of a task, and some more.
constexpr size_t kMostGraphs = 24;
// A call that has not ended by then never will.
constexpr double kDeadline = 20;

class GraphTimer : public CallTimer {
 public:
  GraphTimer(const Args& args, const StateCopies& states) : args_(args), states_(states) {}

  CallTimes time(std::span<const StepCall> call) override {
    // Graphs run in a stream of their own, which waits for nothing.
    states_.restore();
    end_.record();
    wait();
    return {{}, seconds_of(graph_of(call))};
  }

 private:
  struct Known {
    std::vector<StepCall> call;
    cuda::Graph graph;
    int launches = 1;  ///< of a sample
  };

  const Known& graph_of(std::span<const StepCall> call) {
    const Known* known = known_.find([&](const Known& k) {
      return std::equal(k.call.begin(), k.call.end(), call.begin(), call.end());
    });
    return known ? *known : known_.add(captured(call));
  }

  Known captured(std::span<const StepCall> call) {
    const auto run = [&] { run_once(call, args_); };
    // The first call loads code and prepares constants, in the order of the default stream.
    run();
    end_.record();
    wait();
    Known known{{call.begin(), call.end()}, cuda::capture(run)};
    known.graph.upload(stream_);
    const double wanted = std::ceil(kSampleSeconds / seconds_of(known));
    known.launches = static_cast<int>(std::clamp(wanted, 1.0, kMostLaunches));
    return known;
  }

  /// The mean of some calls. One ahead of them keeps the GPU busy while the host fills the queue,
  /// and leaves the caches as these kernels leave them.
  double seconds_of(const Known& known) const {
    known.graph.launch(stream_);
    begin_.record(stream_);
    for (int i = 0; i < known.launches; ++i) known.graph.launch(stream_);
    end_.record(stream_);
    wait();
    return std::max(end_.seconds_since(begin_) / known.launches, kLeastSeconds);
  }

  void wait() const {
    if (end_.wait_for(kDeadline)) return;
    const std::string reason =
        "a call of the network did not end within " + std::to_string(int(kDeadline)) + " s";
    cuda::abandon(0, reason);
    throw_runtime_error(reason);
  }

  const Args& args_;
  const StateCopies& states_;
  const cuda::Stream stream_;
  const cuda::Event begin_, end_;
  Recent<Known> known_{kMostGraphs};
};

}  // namespace

std::unique_ptr<CallTimer> make_graph_timer(const CallTimer::Args& args,
                                            const StateCopies& states) {
  return std::make_unique<GraphTimer>(args, states);
}

}  // namespace heddle::network
