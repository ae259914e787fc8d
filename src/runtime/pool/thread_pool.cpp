#include "heddle/runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "heddle/support/error.h"
#include "runtime/machine/aligned_memory.h"
#include "runtime/machine/cpu_topology.h"
#include "runtime/pool/thread_pool_state.h"

namespace heddle {
namespace {

using Body = void (*)(std::int64_t, std::int64_t, void*);
using Clock = std::chrono::steady_clock;

// How long a thread spins before it parks: programs do a millisecond of other things between two
// kernels, and waking a worker takes 50 us and more. gomp's threads spin for 2 to 8 ms on the same
// machine. With more threads than cores, a spinning thread keeps the one that it waits for from
// running.
constexpr auto kSpin = std::chrono::milliseconds(4);
constexpr auto kSpinCrowded = std::chrono::microseconds(10);
// After this time a spinning thread yields its core now and then, because the thread that it waits
// for may be queued behind it when other processes hold the other cores. Gaps between the regions
// of kernels are shorter. Yielding at every turn took a third of the time in system calls and
// delayed its answer by a microsecond.
constexpr auto kSpinAlone = std::chrono::microseconds(20);
constexpr int kTurnsBetweenYields = 8;  // about 10 us
// The number of pauses for which the caller, after its own chunk, waits for an awake worker to
// begin. A job reaches the worker within a tenth of a microsecond.
constexpr int kGracePauses = 32;

constexpr int kMaxThreads = 1024;

thread_local bool inside_region = false;
thread_local int scoped_threads = 0;  // 0: no ScopedThreads on this thread
std::atomic<int> process_threads{0};  // 0: the default
std::atomic<bool> pin_threads{false};

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // as long as x86's pause; "yield" does nothing on most cores
#endif
}

/// Spins until the condition holds. Returns false if it did not hold within the time.
template <typename Condition>
bool spin_until(Condition condition, Clock::duration limit) {
  const Clock::time_point begin = Clock::now();
  int turn = 0;
  for (Clock::duration waited{}; waited < limit; waited = Clock::now() - begin) {
    if (waited > kSpinAlone && ++turn % kTurnsBetweenYields == 0) ::sched_yield();
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      pause_cpu();
    }
  }
  return condition();
}

struct Job {
  Body body = nullptr;
  void* context = nullptr;
  std::int64_t n = 0;
  int threads = 1;
};

/// The part of a job for one thread.
struct Chunk {
  Body body = nullptr;
  void* context = nullptr;
  std::int64_t begin = 0, end = 0;

  void run() const { body(begin, end, context); }
};

/// The first n % threads chunks are one longer than the others.
Chunk chunk_of(const Job& job, int index) {
  const std::int64_t share = job.n / job.threads, longer = job.n % job.threads;
  const std::int64_t begin = index * share + std::min<std::int64_t>(index, longer);
  return {job.body, job.context, begin, begin + share + (index < longer ? 1 : 0)};
}

// Each worker has a mailbox on a cache line of its own, which also holds its chunk. A region of two
// threads on a machine of sixty-four then disturbs one worker, and the others remain parked.
struct alignas(internal::kCacheLine) Mailbox {
  std::atomic<unsigned> ticket{0};  // counts the jobs given to this worker; it parks on this word
  std::atomic<unsigned> taken{0};   // the last job whose chunk a thread has begun
  std::atomic<unsigned> noticed{~0U};  // the last job that the worker saw; ~0 for a new worker
  std::atomic<bool> parked{false};
  std::atomic<bool> sent_away{false};  // forbidden to run on the core of the caller until it runs
  Chunk chunk;                         // unchanged until the thread that took it is done
};

struct Worker {
  Mailbox mail;
  std::thread thread = {};
  internal::ThreadPlace place = {};
  bool attentive = false;  // the worker was awake at the last call
  int away_from = -1;      // the core that it must not run on while it is sent away
};

class Pool {
 public:
  void run(const Job& wanted) {
    const std::lock_guard lock(mutex_);
    try {
      start_workers(wanted.threads - 1);
    } catch (const std::exception&) {
      // The system has no more threads or memory: the existing ones do the work. Nothing may be
      // thrown, because compiled code, which calls this, has no tables for exceptions.
    }
    Job job = wanted;
    job.threads = std::min(wanted.threads, static_cast<int>(workers_.size()) + 1);
    crowded_.store(job.threads > internal::cpu_topology().cores, std::memory_order_relaxed);
    pending_.store(job.threads - 1, std::memory_order_relaxed);
    for (int i = 1; i < job.threads; ++i) send(worker(i), chunk_of(job, i));

    inside_region = true;
    chunk_of(job, 0).run();
    // A chunk that has not begun by now belongs to a worker that is parked, or whose core another
    // process holds. Running it here takes no longer than waiting.
    for (int i = 1; i < job.threads && pending_.load(std::memory_order_acquire) != 0; ++i) {
      Mailbox& mail = worker(i).mail;
      if (!to_take_over(worker(i)) || !take(mail, mail.ticket.load(std::memory_order_relaxed))) {
        continue;
      }
      mail.chunk.run();
      pending_.fetch_sub(1, std::memory_order_relaxed);
    }
    inside_region = false;

    const auto done = [this] { return pending_.load(std::memory_order_acquire) == 0; };
    if (spin_until(done, spin_time())) return;
    // Sequentially consistent on both sides: either the last worker sees that the caller parks, or
    // the caller sees that the worker is done.
    caller_parked_.store(true);
    for (int left = pending_.load(); left != 0; left = pending_.load()) pending_.wait(left);
    caller_parked_.store(false);
  }

  void set_pinning(bool on) {
    const std::lock_guard lock(mutex_);
    for (auto& worker : workers_) settle(*worker, on);
  }

  internal::WorkerCounts count() {
    const std::lock_guard lock(mutex_);
    internal::WorkerCounts counts;
    counts.workers = static_cast<int>(workers_.size());
    for (const auto& worker : workers_) counts.parked += worker->mail.parked.load() ? 1 : 0;
    return counts;
  }
  bool caller_is_parked() const { return caller_parked_.load(); }

  /// Ends the workers, so that the library that contains this code can be unloaded.
  void stop() {
    if (inside_region) return;  // exit() inside a region: waiting for it would never end
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    stopping_.store(true);
    for (auto& worker : workers_) send(*worker, {});
    for (auto& worker : workers_) worker->thread.join();
    workers_.clear();
  }

 private:
  Worker& worker(int index) { return *workers_[static_cast<std::size_t>(index - 1)]; }

  Clock::duration spin_time() const {
    return crowded_.load(std::memory_order_relaxed) ? Clock::duration(kSpinCrowded)
                                                    : Clock::duration(kSpin);
  }

  // By default the system wakes a parked worker on the core of the thread that wakes it. There it
  // waits for the next tick, 2 to 4 ms, against 50 us on another core. A new worker may be placed
  // there too and remain for up to 20 ms while the caller runs its chunks. A worker is therefore
  // woken, or called again when it was late, with that core forbidden. It removes the restriction
  // once it runs.
  static void forbid_core(Worker& worker, int core) {
    const std::vector<int>& cpus = worker.place.allowed;
    if (cpus.size() < 2 || pin_threads.load(std::memory_order_relaxed)) return;
    restrict_to(worker.thread, cpus, core);
  }
  static void restrict_to([[maybe_unused]] std::thread& thread,
                          [[maybe_unused]] std::span<const int> cpus,
                          [[maybe_unused]] int without = -1) {
#ifdef __linux__
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (int cpu : cpus) {
      if (cpu != without) CPU_SET(static_cast<std::size_t>(cpu), &mask);
    }
    // The call fails where the mask of the process has shrunk, which only costs speed.
    ::pthread_setaffinity_np(thread.native_handle(), sizeof mask, &mask);
#endif
  }
  static int this_core() {
#ifdef __linux__
    return ::sched_getcpu();
#else
    return -1;
#endif
  }

  static void send(Worker& worker, const Chunk& chunk) {
    Mailbox& mail = worker.mail;
    mail.chunk = chunk;
    const unsigned before = mail.ticket.fetch_add(1);  // also publishes the chunk
    const bool parked = mail.parked.load();
    // The worker may have noticed this job in the meantime.
    const unsigned noticed = mail.noticed.load(std::memory_order_relaxed);
    worker.attentive = !parked && (noticed == before || noticed == before + 1);
    if (worker.attentive) return;
    const int core = this_core();
    // Otherwise the worker was sent away before and has not run since.
    if (!mail.sent_away.load() || worker.away_from != core) {
      worker.away_from = core;
      // The order matters. A worker that runs in between lifts the restriction at its next job. In
      // the opposite order it would find nothing to lift and keep the restriction for ever.
      forbid_core(worker, core);
      mail.sent_away.store(true);
    }
    if (parked) mail.ticket.notify_one();
  }

  // Whether the worker has still not begun. A worker that was awake is given a short time.
  static bool to_take_over(const Worker& worker) {
    const Mailbox& mail = worker.mail;
    const unsigned ticket = mail.ticket.load(std::memory_order_relaxed);
    for (int i = worker.attentive ? kGracePauses : 0;; --i) {
      if (mail.taken.load(std::memory_order_relaxed) == ticket) return false;
      if (i == 0) return true;
      pause_cpu();
    }
  }

  /// Claims the worker's chunk of job `ticket`, once.
  static bool take(Mailbox& mail, unsigned ticket) {
    unsigned before = ticket - 1;
    return mail.taken.compare_exchange_strong(before, ticket, std::memory_order_acq_rel);
  }

  void start_workers(int count) {
    const internal::CpuTopology& topology = internal::cpu_topology();
    while (!stopped_ && static_cast<int>(workers_.size()) < count) {
      if (workers_.empty()) home_ = topology.node_of(this_core());
      auto made = std::make_unique<Worker>();
      Worker* worker = made.get();
      workers_.reserve(workers_.size() + 1);
      worker->place =
          internal::place_of_thread(topology, home_, static_cast<int>(workers_.size()) + 1);
      worker->thread = std::thread([this, worker] { work(*worker); });
      workers_.push_back(std::move(made));
      if (pin_threads.load() || topology.num_nodes() > 1) settle(*worker, pin_threads.load());
    }
  }

  void work(Worker& self) {
    inside_region = true;  // this thread is now inside a region
    Mailbox& mail = self.mail;
    for (unsigned seen = 0;;) {
      const auto called = [&] { return mail.ticket.load(std::memory_order_acquire) != seen; };
      if (!spin_until(called, spin_time())) {
        mail.parked.store(true);
        while (mail.ticket.load() == seen) mail.ticket.wait(seen);
        mail.parked.store(false);
      }
      if (mail.sent_away.load(std::memory_order_relaxed) && mail.sent_away.exchange(false)) {
        forbid_core(self, -1);
      }
      if (stopping_.load(std::memory_order_relaxed)) return;
      seen = mail.ticket.load(std::memory_order_acquire);
      const bool mine = take(mail, seen);
      mail.noticed.store(seen, std::memory_order_relaxed);
      if (!mine) continue;  // the caller ran it, perhaps for several jobs
      mail.chunk.run();
      if (pending_.fetch_sub(1) == 1 && caller_parked_.load()) pending_.notify_one();
    }
  }

  /// Restricts a worker to its core, or to the cores of its node.
  static void settle(Worker& worker, bool on_its_core) {
    const internal::ThreadPlace& place = worker.place;
    if (place.allowed.empty()) return;
    restrict_to(worker.thread, on_its_core ? std::span(&place.cpu, 1) : std::span(place.allowed));
  }

  std::mutex mutex_;  // held during a region, so that callers take turns
  std::vector<std::unique_ptr<Worker>> workers_;
  int home_ = 0;  // the node of the thread that called first
  bool stopped_ = false;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> crowded_{false};
  alignas(internal::kCacheLine) std::atomic<int> pending_{0};
  std::atomic<bool> caller_parked_{false};
};

// Never deleted: host threads may still call while the process exits.
std::atomic<Pool*> the_pool{nullptr};

struct StopAtExit {
  ~StopAtExit() {
    if (Pool* pool = the_pool.load()) pool->stop();
  }
};

Pool& pool() {
  if (Pool* existing = the_pool.load(std::memory_order_acquire)) return *existing;
  static std::mutex mutex;
  static const bool watches_fork = [] {
    // fork() copies only the calling thread, and perhaps a locked mutex. The child starts with a
    // new pool and leaves the copy of its parent's pool alone.
    return ::pthread_atfork(nullptr, nullptr, [] {
             the_pool.store(nullptr);
             inside_region = false;
           }) == 0;
  }();
  (void)watches_fork;
  static const StopAtExit stop_at_exit;
  const std::lock_guard lock(mutex);
  if (the_pool.load() == nullptr) the_pool.store(new Pool);
  return *the_pool.load();
}

int checked_threads(int n) {
  if (n < 1 || n > kMaxThreads) {
    throw_user_error("cannot use " + std::to_string(n) + " threads", {},
                     "ask for 1.." + std::to_string(kMaxThreads));
  }
  return n;
}

}  // namespace

int default_num_threads() { return internal::cpu_topology().cores; }

int num_threads() {
  if (scoped_threads != 0) return scoped_threads;
  const int n = process_threads.load(std::memory_order_relaxed);
  return n != 0 ? n : default_num_threads();
}

void set_num_threads(int n) { process_threads.store(n == 0 ? 0 : checked_threads(n)); }

void set_thread_pinning(bool on) {
  pin_threads.store(on);
  pool().set_pinning(on);
}

bool thread_pinning() { return pin_threads.load(); }

internal::WorkerCounts internal::count_workers() { return pool().count(); }
bool internal::caller_is_parked() { return pool().caller_is_parked(); }

ScopedThreads::ScopedThreads(int n) : outer_(scoped_threads) {
  scoped_threads = checked_threads(n);
}
ScopedThreads::~ScopedThreads() { scoped_threads = outer_; }

void parallel_for(std::int64_t n, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  struct Context {
    FunctionRef<void(std::int64_t, std::int64_t)> body;
    std::atomic<bool> failed{false};
    std::exception_ptr error = nullptr;
  } context{body};
  const Body guarded = [](std::int64_t begin, std::int64_t end, void* pointer) {
    auto& context = *static_cast<Context*>(pointer);
    try {
      context.body(begin, end);
    } catch (...) {
      if (!context.failed.exchange(true)) context.error = std::current_exception();
    }
  };
  heddle_parallel_for(guarded, &context, n);
  if (context.error) std::rethrow_exception(context.error);
}

}  // namespace heddle

int heddle_parallel_for(void (*body)(std::int64_t, std::int64_t, void*), void* context,
                        std::int64_t n) {
  if (n <= 0) return 0;
  const auto threads = static_cast<int>(std::min<std::int64_t>(n, heddle::num_threads()));
  if (threads == 1 || heddle::inside_region) {
    body(0, n, context);
  } else {
    heddle::pool().run({body, context, n, threads});
  }
  return 0;
}
