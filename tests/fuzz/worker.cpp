// The messages to a worker, one on each line: the hello, tasks, and schedules of tasks.
#include "dag/declaration/declaration.h"
#include "fuzz/declarations.h"
#include "fuzz/fuzz_target.h"
#include "heddle/driver/build.h"
#include "heddle/schedule/options.h"
#include "heddle/support/error.h"
#include "measure/cuda/candidate.h"
#include "measure/process/protocol.h"
#include "measure/process/task.h"

namespace heddle::fuzz {
namespace {

// The limit of elements, because the inputs of a task of any size would be allocated.
constexpr double kMostElements = 1 << 20;

void require_small(const Json& message) {
  const Declaration declaration = declaration_from_json(message.at("declaration"));
  double elements = 0;
  for (const Tensor& tensor : declaration.args) {
    double count = 1;
    for (const int64_t extent : tensor.extents()) count *= static_cast<double>(extent);
    elements += count;
  }
  if (elements > kMostElements) throw_user_error("the inputs are too large for a fuzzer");
}

void answer(measuring::WorkerTasks& tasks, const Json& message) {
  const std::string what = message.get_string("do", "");
  if (what == "hello") {
    measuring::hello_from_json(message);
  } else if (what == "task") {
    require_small(message);
    const Json answered = tasks.answer(message);
    const std::string refused = answered.get_string("message", "");
    HEDDLE_ICHECK(refused.find("internal error") == std::string::npos, refused);
    if (!refused.empty()) throw_user_error(refused);
  } else if (what == "compile") {
    measuring::replay_schedule(tasks.at(message.at("task").as_int()), message.at("steps"));
  } else if (what == "run") {
    measuring::kernel_code_from_json(message.at("code"));
  } else {
    throw_user_error("a worker knows no '" + what + "'");
  }
}

Json task_of(int id, const Tensor& output) {
  const ComputeDag dag({output});
  const std::vector<Tensor> args = all_args(dag);
  const Target target = Target::parse("llvm -mcpu=skylake -threads=2");
  Json out = Json::object({{"do", "task"}, {"task", id}, {"name", "sample"}});
  out["target"] = Json(to_string(target));
  out["declaration"] = declaration_to_json(dag, args);
  out["alternatives"] = Json::array();
  out["default"] = create_schedule({output}, target).to_json();
  out["options"] = to_json(AutoSchedulerOptions{.threads = 2});
  Json ranges = Json::array();
  for (size_t i = 0; i < args.size(); ++i) {
    ranges.push_back(i == 0 ? Json::array({Json(-1.0), Json(1.0)}) : Json());
  }
  out["ranges"] = std::move(ranges);
  return out;
}

}  // namespace

void read_worker_messages(std::string_view bytes) {
  measuring::WorkerTasks tasks(-1);
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    answer(tasks, with_right_checksums(Json::parse(bytes.substr(0, end))));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
}

std::vector<std::string> worker_seeds() {
  const Json hello =
      measuring::to_json(measuring::WorkerHello{.memory_limit_bytes = int64_t{1} << 30});
  std::vector<std::string> seeds{hello.dump()};
  for (const auto& [name, tensor] : sample_declarations()) {
    const Json task = task_of(7, tensor);
    const Json compile = Json::object(
        {{"do", "compile"}, {"task", 7}, {"candidate", 0}, {"steps", task.at("default")}});
    seeds.push_back(hello.dump() + "\n" + task.dump() + "\n" + compile.dump());
  }
  return seeds;
}

}  // namespace heddle::fuzz
