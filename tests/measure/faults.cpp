#include "measure/faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "heddle/support/json.h"

namespace heddle::testing {
namespace {

void commit(Fault fault, std::span<const NDArray> args) {
  switch (fault) {
    case Fault::None: return;
    case Fault::Segv: std::raise(SIGSEGV); return;
    case Fault::Abort: std::fputs("something is very wrong\n", stderr); std::abort();
    case Fault::Exit: ::_exit(3);
    case Fault::Throw: throw std::runtime_error("thrown in a worker");
    case Fault::Hang: hang();
    case Fault::Eat:  // until there is no more
      for (;;) {
        volatile char* block = new char[32 << 20];
        block[0] = 1;
      }
    case Fault::EatArrays:  // as a kernel's temporaries would
      for (std::vector<NDArray> all;;) all.push_back(NDArray::empty({64 << 20}, u8));
    case Fault::Wrong:
      if (!args.empty()) args.back().fill(0.125);
      return;
    case Fault::Unwritten:  // as if the first element had never been written
      if (!args.empty()) args.back().set(0, std::nan(""));
      return;
  }
}

void note(const std::string& journal, const std::string& phase, size_t candidate) {
  const std::string line =
      phase + " " + std::to_string(candidate) + " " + std::to_string(::getpid()) + "\n";
  const int fd = ::open(journal.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  [[maybe_unused]] const ssize_t written = ::write(fd, line.data(), line.size());
  ::close(fd);
}

measuring::WorkerHooks faulty(const std::string& argument) {
  const Json json = Json::parse(argument);
  std::vector<Plan> plans;
  for (const Json& j : json.at("plans").elements()) {
    plans.push_back({j.at(0).as_string(), static_cast<size_t>(j.at(1).as_int()),
                     static_cast<Fault>(j.at(2).as_int())});
  }
  measuring::WorkerHooks hooks;
  hooks.fault = [plans, journal = json.at("journal").as_string()](
                    const std::string& phase, size_t candidate, std::span<const NDArray> args) {
    if (!journal.empty()) note(journal, phase, candidate);
    for (const Plan& p : plans) {
      if (p.phase == phase && p.candidate == candidate) commit(p.fault, args);
    }
  };
  return hooks;
}

const TestWorker kFaulty("faulty", faulty);

}  // namespace

void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

std::vector<std::string> faulty_worker(const std::vector<Plan>& plans, const std::string& journal) {
  Json list = Json::array();
  for (const Plan& p : plans)
    list.push_back(Json::array({p.phase, p.candidate, static_cast<int>(p.fault)}));
  return test_worker("faulty",
                     Json::object({{"plans", std::move(list)}, {"journal", journal}}).dump());
}

std::vector<JournalLine> read_journal(const std::string& file) {
  std::ifstream in(file);
  std::vector<JournalLine> out;
  for (JournalLine line; in >> line.phase >> line.candidate >> line.process;) out.push_back(line);
  return out;
}

}  // namespace heddle::testing
