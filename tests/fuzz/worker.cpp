// The messages to a worker, one on each line: the hello, tasks, and schedules of tasks.
#include "dag/declaration/declaration.h"
#include "fuzz/declarations.h"
#include "fuzz/fuzz_target.h"
#include "heddle/driver/build.h"
#include "heddle/schedule/options.h"
#include "heddle/support/error.h"
#include "measure/cuda/candidate.h"
#include "measure/message_samples.h"
#include "measure/messages/fleet.h"
#include "measure/process/task.h"

namespace heddle::fuzz {
namespace {

// The limit of elements, because the inputs of a task of any size would be allocated.
constexpr double kMostElements = 1 << 20;

void require_small(const measuring::TaskMessage& message) {
  const Declaration declaration = declaration_from_json(message.declaration);
  double elements = 0;
  for (const Tensor& tensor : declaration.args) {
    double count = 1;
    for (const int64_t extent : tensor.extents()) count *= static_cast<double>(extent);
    elements += count;
  }
  if (elements > kMostElements) throw_user_error("the inputs are too large for a fuzzer");
}

/// A worker that compiles nothing.
struct Worker {
  measuring::WorkerTasks tasks{-1};

  void on(const measuring::TaskMessage& message) {
    require_small(message);
    const std::string refused = tasks.answer(message).message.value_or("");
    HEDDLE_ICHECK(refused.find("internal error") == std::string::npos, refused);
    if (!refused.empty()) throw_user_error(refused);
  }
  void on(const measuring::Compile& message) {
    measuring::replay_schedule(tasks.at(message.task), message.steps);
  }
  void on(const measuring::Run& message) {
    if (message.code) measuring::kernel_code_from_json(message.code->code);
  }
  template <class Message>
  void on(const Message&) {}
};

/// Reads the message as whoever may get it. What was read is written, and read again.
template <class Messages, class Use>
bool read_as(const Json& message, Use use) {
  try {
    const Messages read = measuring::decode_any<Messages>(message);
    const Json written = std::visit([](const auto& m) { return encode(m); }, read);
    const Messages again = measuring::decode_any<Messages>(written);
    const Json rewritten = std::visit([](const auto& m) { return encode(m); }, again);
    HEDDLE_ICHECK(written == rewritten, "a message is another one on its way");
    std::visit(use, read);
    return true;
  } catch (const Error& e) {
    if (e.kind == ErrorKind::Internal) throw;
    return false;
  }
}

using ToWorkers =
    std::variant<measuring::TaskMessage, measuring::Compile, measuring::CompileNaive,
                 measuring::MakeReference, measuring::RunReference, measuring::Open, measuring::Run,
                 measuring::Enter, measuring::Turn, measuring::Rest, measuring::Forget>;
using FromNodes = std::variant<measuring::TrialResult, measuring::RoundEnd, measuring::Unable>;
using ToBridge =
    std::variant<measuring::CompileJob, measuring::MeasureTrials, measuring::Drop, measuring::End>;

measuring::TaskMessage task_of(int id, const Tensor& output) {
  const ComputeDag dag({output});
  const std::vector<Tensor> args = all_args(dag);
  const Target target = Target::parse("llvm -mcpu=skylake -threads=2");
  measuring::TaskMessage out{.task = id, .name = "sample", .target = to_string(target)};
  out.declaration = declaration_to_json(dag, args);
  out.static_choice = create_schedule({output}, target).to_json();
  out.options = to_json(AutoSchedulerOptions{.threads = 2});
  out.ranges.resize(args.size());
  out.ranges[0] = {-1, 1};
  return out;
}

}  // namespace

void read_worker_messages(std::string_view bytes) {
  Worker worker;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const Json message = with_right_checksums(Json::parse(bytes.substr(0, end)));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (measuring::codec::is<measuring::Hello>(message)) {
      measuring::hello_from(message);
      continue;
    }
    const auto nothing = [](const auto&) {};
    const bool taken =
        read_as<ToWorkers>(message, [&](const auto& m) { worker.on(m); }) ||
        read_as<measuring::WorkerSays>(message, nothing) || read_as<FromNodes>(message, nothing) ||
        read_as<std::variant<measuring::MeasureTrials>>(message, nothing) ||
        read_as<ToBridge>(message, nothing) || read_as<measuring::BridgeSays>(message, nothing);
    if (!taken) throw_user_error("nobody takes this message");
  }
}

std::vector<std::string> worker_seeds() {
  const std::string hello = encode(measuring::Hello{.memory_limit_bytes = int64_t{1} << 30}).dump();
  std::vector<std::string> seeds{hello};
  for (const auto& [name, tensor] : sample_declarations()) {
    const measuring::TaskMessage task = task_of(7, tensor);
    const measuring::Compile compile{.task = 7, .steps = task.static_choice};
    seeds.push_back(hello + "\n" + encode(task).dump() + "\n" + encode(compile).dump());
  }
  for (const Json& message : testing::sample_messages()) {
    // A schedule needs its task, and code of a candidate is more than a sample.
    const bool alone =
        message.contains("job") || !(measuring::codec::is<measuring::Compile>(message) ||
                                     measuring::codec::is<measuring::Run>(message));
    if (alone) seeds.push_back(message.dump());
  }
  return seeds;
}

}  // namespace heddle::fuzz
