// Two parts of a block that run at the same time. Each runs until it has to wait for the other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

namespace heddle::emu {

class Strands {
 public:
  /// Runs both to their ends, taking turns; `first` begins. Throws what one of them throws.
  void run(const std::function<void()>& first, const std::function<void()>& second);

  /// Called by a part that cannot continue; it lets the other part run. Returns false where neither
  /// can continue.
  bool give_way();
  /// Records that something happened for which the other part may wait.
  void note_progress() { ++progress_; }

 private:
  struct Ended {};  // thrown in the remaining part when the other one has failed
  void wait_for_turn(std::unique_lock<std::mutex>& lock, int mine);

  std::mutex mutex_;
  std::condition_variable changed_;
  int turn_ = 0;
  bool running_ = false, failed_ = false, done_[2] = {};
  std::uint64_t progress_ = 1,
                stuck_at_[2] = {};  // the progress at which a part could not continue
  std::exception_ptr error_;
};

}  // namespace heddle::emu
