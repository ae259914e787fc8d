#include "codegen/emulator/strands.h"

#include <thread>

namespace heddle::emu {

void Strands::wait_for_turn(std::unique_lock<std::mutex>& lock, int mine) {
  changed_.wait(lock, [&] { return turn_ == mine; });
  if (failed_) throw Ended();
}

void Strands::run(const std::function<void()>& first, const std::function<void()>& second) {
  turn_ = 0;
  running_ = true;
  failed_ = done_[0] = done_[1] = false;
  stuck_at_[0] = stuck_at_[1] = 0;
  error_ = nullptr;
  const auto part = [&](int mine, const std::function<void()>& body) {
    try {
      {
        std::unique_lock lock(mutex_);
        wait_for_turn(lock, mine);
      }
      body();
    } catch (const Ended&) {
    } catch (...) {
      error_ = std::current_exception();
      failed_ = true;
    }
    const std::lock_guard lock(mutex_);
    done_[mine] = true;
    turn_ = 1 - mine;
    changed_.notify_all();
  };
  std::thread other([&] { part(0, first); });
  part(1, second);
  other.join();
  running_ = false;
  if (error_) std::rethrow_exception(error_);
}

bool Strands::give_way() {
  if (!running_) return false;
  std::unique_lock lock(mutex_);
  const int mine = turn_, theirs = 1 - mine;
  stuck_at_[mine] = progress_;
  if (done_[theirs] || stuck_at_[theirs] == progress_) return false;
  turn_ = theirs;
  changed_.notify_all();
  wait_for_turn(lock, mine);
  return true;
}

}  // namespace heddle::emu
