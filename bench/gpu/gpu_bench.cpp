// Times subjects of the command line on a GPU: the static schedule, and the best of a number of
// random configs of its template. It prints one line of JSON for each subject. Each subject runs in
// a process of its own, so that a failure does not affect the others.
//
//   gpu_bench --check matmul:1024x1024x1024 softmax:4096x4096
//   gpu_bench --dtype bf16 --random 60 matmul:4096x4096x4096
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "heddle/support/rng.h"
#include "subjects/subjects.h"

namespace heddle {
namespace {

struct Options {
  DataType dtype = f32;
  int random = 0;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  uint64_t seed = 1;
  bool check = false, source = false, allow_tf32 = false;
  std::vector<std::string> set;  // knob=value of the static config
  std::vector<std::string> subjects;
};

struct Candidate {
  Config config;
  Kernel kernel;
  std::string error;
  double us = 0;
};

std::vector<NDArray> on_gpu(const std::vector<NDArray>& arrays) {
  std::vector<NDArray> out;
  for (const NDArray& a : arrays) out.push_back(a.to_device(Device::cuda()));
  return out;
}

double time_us(const Kernel& kernel, const std::vector<NDArray>& args, bool quick) {
  cuda::TimingOptions o;
  o.samples = quick ? 3 : 20;
  o.deadline_s = 5;
  o.budget_s = quick ? 0.1 : 1;
  const cuda::Timing t = cuda::time_kernel(kernel, std::vector<NDArray>(args), o);
  if (!t.ok()) throw_runtime_error(t.message);
  return t.measurement.median_s * 1e6;
}

void compile(std::vector<Candidate>& list, const Template& t, const std::vector<Tensor>& args,
             const Options& o) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < list.size();) {
      try {
        list[i].kernel = build(t.instantiate(list[i].config), args);
      } catch (const std::exception& e) {
        list[i].error = e.what();
      }
    }
  };
  std::vector<std::thread> pool;
  for (int i = 0; i < o.threads; ++i) pool.emplace_back(work);
  for (std::thread& x : pool) x.join();
}

Config random_config(const Template& t, Rng& rng) {
  Config c = t.default_config();
  for (int tries = 0; tries < 2000; ++tries) {
    for (size_t k = 0; k < c.values.size(); ++k) {
      c.values[k] = rng.choose(t.knobs()[k].values);
    }
    if (t.why_invalid(c).empty()) return c;
  }
  return t.default_config();
}

// The static config, changed by --set, comes first, then random ones.
std::vector<Candidate> candidates_of(const Template& t, const Options& o) {
  Rng rng(o.seed);
  std::vector<Candidate> list(1);
  list[0].config = t.default_config();
  for (const std::string& s : o.set) {
    const size_t eq = s.find('=');
    const int knob = t.knob_index(s.substr(0, eq));
    if (knob < 0) throw_user_error("there is no knob '" + s.substr(0, eq) + "'");
    const std::optional<int64_t> value =
        t.knobs()[static_cast<size_t>(knob)].parse(s.substr(eq + 1));
    if (!value) throw_user_error("'" + s + "' names no value of the knob");
    list[0].config.values[static_cast<size_t>(knob)] = *value;
  }
  for (int i = 0; i < o.random; ++i) {
    Candidate c;
    c.config = random_config(t, rng);
    list.push_back(std::move(c));
  }
  return list;
}

// Times each candidate roughly. Prints to standard error why some have no time. Returns their
// number.
int time_all(std::vector<Candidate>& list, const std::vector<NDArray>& args,
             const std::string& subject) {
  int failed = 0;
  for (Candidate& c : list) {
    if (c.error.empty()) {
      try {
        c.us = time_us(c.kernel, args, true);
      } catch (const std::exception& e) {
        c.error = e.what();
        if (cuda::context_lost()) throw;
      }
    }
    failed += !c.error.empty();
    if (!c.error.empty()) std::cerr << subject << ": " << c.error.substr(0, 600) << "\n";
  }
  return failed;
}

// The fastest candidate. The five best and the first one are timed again with more samples.
const Candidate& best_of(std::vector<Candidate>& list, const std::vector<NDArray>& args) {
  std::vector<Candidate*> order;
  for (Candidate& c : list) {
    if (c.error.empty()) order.push_back(&c);
  }
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->us < b->us; });
  if (order.size() > 5) order.resize(5);
  for (Candidate* c : order) c->us = time_us(c->kernel, args, false);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->us < b->us; });
  list[0].us = time_us(list[0].kernel, args, false);
  return *order[0];
}

// The largest difference from the results of the CPU, relative to 1 + |value|, over about a million
// elements of each output. `host` has the arrays of a call on the CPU.
double largest_error(const cli::Problem& p, const std::vector<const Kernel*>& kernels,
                     const std::vector<NDArray>& host, const std::vector<NDArray>& args) {
  const Kernel cpu = build(create_schedule(p.outputs), p.args());
  cpu.call(host);
  double worst = 0;
  for (const Kernel* k : kernels) {
    k->call(args);
    for (size_t i = p.inputs.size(); i < args.size(); ++i) {
      const NDArray got = args[i].to_host();
      for (int64_t e = 0; e < got.size(); e += 1 + got.size() / 1000003) {
        const double want = host[i].get(e);
        worst = std::max(worst, std::abs(got.get(e) - want) / (1 + std::abs(want)));
        if (!(got.get(e) == got.get(e)) && want == want) worst = 1e30;
      }
    }
  }
  return worst;
}

Json run(const std::string& subject, const Options& o) {
  const cli::Problem p = cli::make_problem(subject, o.dtype);
  AutoSchedulerOptions scheduler = current_auto_scheduler_options();
  scheduler.allow_tf32 = o.allow_tf32;
  const Template t = make_template(ComputeDag(p.outputs), Target::cuda(), scheduler);
  std::vector<Candidate> list = candidates_of(t, o);
  compile(list, t, p.args(), o);
  if (!list[0].error.empty()) throw_runtime_error("static: " + list[0].error);
  if (o.source) std::cerr << list[0].kernel.source("cuda");

  std::vector<NDArray> host = p.make_inputs();
  for (const NDArray& a : p.make_outputs()) host.push_back(a);
  const std::vector<NDArray> args = on_gpu(host);
  const int failed = time_all(list, args, subject);
  const Candidate& best = best_of(list, args);
  const double us = std::min(best.us, list[0].us);
  Json out = Json::object();
  out["subject"] = subject;
  out["dtype"] = to_string(o.dtype);
  out["template"] = t.name();
  out["static_us"] = list[0].us;
  out["best_us"] = us;
  out["tflops"] = p.flops / us * 1e-6;
  out["gbs"] = static_cast<double>(p.bytes) / us * 1e-3;
  out["tried"] = static_cast<double>(list.size());
  out["failed"] = static_cast<double>(failed);
  out["static"] = t.config_to_json(list[0].config);
  out["best"] = t.config_to_json(best.us < list[0].us ? best.config : list[0].config);
  if (o.check) out["error"] = largest_error(p, {&list[0].kernel, &best.kernel}, host, args);
  return out;
}

int main_(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    auto value = [&]() -> std::string {
      if (++i >= argc) throw_user_error(a + " needs a value");
      return argv[i];
    };
    if (a == "--dtype") {
      const std::string name = value();
      const std::optional<DataType> type = parse_dtype(name);
      if (!type) throw_user_error("no such type: " + name);
      o.dtype = *type;
    } else if (a == "--random") {
      o.random = std::stoi(value());
    } else if (a == "--threads") {
      o.threads = std::stoi(value());
    } else if (a == "--seed") {
      o.seed = std::stoull(value());
    } else if (a == "--set") {
      o.set.push_back(value());
    } else if (a == "--check") {
      o.check = true;
    } else if (a == "--allow-tf32") {
      o.allow_tf32 = true;
    } else if (a == "--source") {
      o.source = true;
    } else if (a.rfind("--", 0) == 0) {
      throw_user_error("no such option: " + a, {},
                       "gpu_bench [--dtype T] [--random N] [--threads N] [--seed N] [--set K=V] "
                       "[--check] [--source] [--allow-tf32] SUBJECT...");
    } else {
      o.subjects.push_back(a);
    }
  }
  int failures = 0;
  for (const std::string& s : o.subjects) {
    std::cout.flush();
    const pid_t child = fork();
    if (child == 0) {
      int status = 0;
      try {
        std::cout << run(s, o).dump() << std::endl;
      } catch (const std::exception& e) {
        std::cerr << s << ": " << e.what() << std::endl;
        status = 1;
      }
      std::_Exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    failures += status != 0;
    if (status != 0) std::cout << "{\"subject\": \"" << s << "\", \"failed\": true}" << std::endl;
  }
  return failures != 0;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  try {
    return heddle::main_(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
